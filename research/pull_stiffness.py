"""How firmly does a pull to the best reachable state hold the policy's action, in each direction of action space?

    python research/pull_stiffness.py stacq/walker2d-medium-v0 MODELS

A squared distance of next states is, close to the best one, a quadratic form in the action: J'J / S with J = df/da, the
Jacobian of the forward ensemble. Its eigenvalues are what the pull charges for a unit of action in the softest to
the stiffest direction. A pull in actions charges the same in all: alpha times `action_pull`.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from stacq import load
from stacq.core.types import Floats, Ints
from stacq.dynamics.models import Dynamics, Models, forward_mean

ROWS = 3_000
START = 10  # steps of an episode that count as its start


def jacobians(models: Models, s: jax.Array, a: jax.Array) -> jax.Array:
    """df/da of the ensemble's mean at every row, [N, S, A]; states normalised."""
    found: jax.Array = jax.vmap(jax.jacfwd(lambda s, a: forward_mean(models, s, a), argnums=1))(s, a)
    return found


def eigenvalues(dynamics: Dynamics, observations: Floats, actions: Floats) -> Floats:
    """Of J'J / S at every row, smallest first, [N, A]."""
    s, a = jnp.asarray(dynamics.normaliser.apply(observations)), jnp.asarray(actions)
    slopes = np.asarray(jax.jit(jacobians)(dynamics.models, s, a), np.float64)
    found: Floats = np.linalg.eigvalsh(np.einsum("nsa,nsb->nab", slopes, slopes) / slopes.shape[1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("models", help="directory that `stacq dynamics fit` made")
    chosen = parser.parse_args()
    dataset, dynamics = load(chosen.dataset), Dynamics.load(chosen.models)
    rng = np.random.default_rng(0)
    into = np.concatenate([np.arange(length) for length in dataset.lengths])
    known = dataset.successor_known
    places: dict[str, Ints] = {
        "anywhere": np.flatnonzero(known),
        f"first {START} steps": np.flatnonzero(known & (into < START)),
    }
    for place, rows in places.items():
        picked = rng.choice(rows, min(ROWS, len(rows)), replace=False)
        found = eigenvalues(dynamics, dataset.observations[picked], dataset.actions[picked])
        medians = ", ".join(f"{value:.2g}" for value in np.median(found, axis=0))
        ratio = np.median(found[:, -1] / found[:, 0])
        print(f"{chosen.dataset}, {place}: {medians}; stiffest over softest {ratio:,.0f}")


if __name__ == "__main__":
    main()

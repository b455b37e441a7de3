"""How far does the bfloat16 of a GPU move the predictions of a frozen forward ensemble? Measured on a CPU.

    python experiments/frozen_precision.py stacq/hopper-medium-v0 MODELS

Everything in standard deviations of the data's steps, root mean square over rows and dimensions.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from stacq import load
from stacq.algos.world import make_world
from stacq.dynamics.models import Dynamics
from stacq.nn.mlp import each_member, frozen_for

ROWS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("models", help="directory that `stacq dynamics fit` made")
    chosen = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    dataset, dynamics = load(chosen.dataset), Dynamics.load(chosen.models)
    world = make_world(dataset, dynamics.normaliser, dynamics)
    assert world.ensemble is not None
    rows = np.random.default_rng(0).choice(np.flatnonzero(dataset.successor_known), ROWS, replace=False)
    here = world.rows.split(world.rows.table[rows])
    inputs = jnp.concatenate([here.s, here.a], axis=-1)
    whole, half = (
        each_member(frozen_for(backend, world.ensemble), inputs).astype(jnp.float32).mean(axis=0)
        for backend in ("cpu", "gpu")
    )
    step = (here.s_next - here.s).std(axis=0)
    moved, wrong = (np.asarray(error / step) for error in (half - whole, here.s + whole - here.s_next))
    print(
        f"{chosen.dataset}: bfloat16 {rms(moved):.4f}, at most {np.abs(moved).max():.3f}; models err {rms(wrong):.4f}"
    )


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


if __name__ == "__main__":
    main()

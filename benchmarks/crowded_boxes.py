"""Memory of the reachable sets where every state lies in every box: what is rejected, and what is accepted.

python benchmarks/crowded_boxes.py --rows 9000
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

import jax.numpy as jnp
import numpy as np

from stacq import Conventions, Dataset, Normaliser, from_arrays
from stacq.dynamics.models import Dynamics, Models
from stacq.nn.mlp import MLP
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig

STEP = 0.1  # per unit of action


def crowd(rows: int) -> Dataset:
    """Episodes of a hundred steps that all stay within a fifth of a step."""
    rng = np.random.default_rng(0)
    s, s_next = rng.uniform(-0.2, 0.2, (2, rows, 2)).astype(np.float32) * np.float32(STEP)
    ends = np.arange(rows) % 100 == 99
    ends[-1] = True
    nothing = np.zeros(rows, dtype=bool)
    named = Conventions(name="crowd")
    actions = (s_next - s) / np.float32(STEP)
    return from_arrays(s, actions, np.zeros(rows), nothing, timeouts=ends, next_observations=s_next, conventions=named)


def point(off: float) -> Dynamics:
    """s' = s + STEP a + off and a = (s' - s) / STEP: they agree where `off` is 0. relu(x) - relu(-x) is x."""
    eye, both = jnp.eye(2), jnp.concatenate([jnp.eye(4), -jnp.eye(4)], axis=1)

    def linear(matrix: object) -> MLP:
        layer = jnp.asarray(matrix)
        return MLP((both[None], jnp.concatenate([layer, -layer])[None]), (jnp.zeros((1, 8)), jnp.zeros((1, 2))))

    forward, inverse = jnp.concatenate([0 * eye, STEP * eye]), jnp.concatenate([-eye / STEP, eye / STEP])
    models = Models(linear(forward), linear(inverse), jnp.full(2, off), jnp.ones(2))
    one = np.ones(2, np.float32)
    return Dynamics(models, Normaliser.identity(2), -one, one, {}, {})


def peak() -> float:
    """Of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(rows: int, off: float) -> None:
    data, before, began = crowd(rows), peak(), time.perf_counter()
    sets = reachable_sets(data, point(off), ReachConfig())
    told = f"{sets.facts['candidates']:,} candidates, {sets.pairs:,} accepted"
    print(f"{told}: {peak() - before:.2f} GB more, {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=9_000)
    parser.add_argument("--off", type=float, help="measure this one, in this process")
    chosen = parser.parse_args()
    if chosen.off is not None:
        return measure(chosen.rows, chosen.off)
    for off in (0.05, 0.0):
        with tempfile.TemporaryDirectory() as home:
            words = [sys.executable, __file__, "--rows", str(chosen.rows), "--off", str(off)]
            subprocess.run(words, check=True, env={**os.environ, "STACQ_HOME": home})


if __name__ == "__main__":
    main()

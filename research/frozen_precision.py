"""How far does bfloat16 move the predictions of a frozen forward ensemble, as a GPU and as a CPU use it?

    python research/frozen_precision.py stacq/hopper-medium-v0 MODELS

Everything in standard deviations of the data's steps, root mean square over rows and dimensions. Measured on a CPU,
with or without instructions for bfloat16.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from stacq import load
from stacq.algos.world import folded, make_world
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
    rows = np.random.default_rng(0).choice(np.flatnonzero(dataset.successor_known), ROWS, replace=False)
    here = world.rows.split(world.rows.table[rows])
    inputs = jnp.concatenate([here.s, here.a], axis=-1)
    ensemble, step = folded(dynamics), (here.s_next - here.s).std(axis=0)
    whole = each_member(ensemble, inputs).mean(axis=0)
    print(f"{chosen.dataset}: models err {rms((here.s + whole - here.s_next) / step):.4f}")
    for backend in ("cpu", "gpu"):
        rounded = each_member(frozen_for(backend, ensemble, "bfloat16"), inputs).astype(jnp.float32).mean(axis=0)
        moved = (rounded - whole) / step
        print(f"  bfloat16 on a {backend.upper()} {rms(moved):.4f}, at most {np.abs(moved).max():.3f}")


def rms(values: jax.Array) -> float:
    return float(jnp.sqrt((values**2).mean()))


if __name__ == "__main__":
    main()

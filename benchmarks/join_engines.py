"""The box join's two engines on the same data: are their arrays equal, and how long does each take?

    python benchmarks/join_engines.py
    python benchmarks/join_engines.py --dataset stacq/walker2d-medium-v0 --dynamics MODELS

With a dataset and its models: the boxes of its first rows, of one step from each state. The GPU engine is plain JAX and
runs on whatever backend is there; only on a GPU do its seconds mean anything. The first query of each size compiles and
is not counted. Ends with 1 if any array differs.
"""

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from reach_procedure import actions_of, rows_of
from stacq import Dataset, load
from stacq.core.types import Float32s, Ints
from stacq.dynamics.models import Dynamics
from stacq.reach.config import Engine
from stacq.reach.join import BoxIndex, typical_widths
from stacq.reach.options import ACTIONS

DIMS = 17
CELL = 0.05  # side of the grid that boundary data lie on
Problem = tuple[Float32s, Float32s, Float32s]  # points, low, high
Join = tuple[Ints, Ints]


def around(points: Float32s, widths: Float32s, rng: np.random.Generator) -> Problem:
    """A box about every point, off its centre."""
    low = (points - widths * rng.uniform(0.1, 0.9, points.shape)).astype(np.float32)
    return points, low, np.maximum(points, (low + widths).astype(np.float32))


def uniform(n: int, rng: np.random.Generator) -> Problem:
    """A few hits in each box: seven dimensions decide, the others are nearly as wide as the data."""
    side = min(1.0, (5 / n) ** (1 / 7))
    widths = np.where(np.arange(DIMS) < 7, side, 1.5).astype(np.float32)
    return around(rng.random((n, DIMS), dtype=np.float32), widths, rng)


def clustered(n: int, rng: np.random.Generator) -> Problem:
    """Tight groups of a thousand; boxes as wide as their group in most dimensions."""
    centres = rng.standard_normal((-(-n // 1000), 1, DIMS))
    points = (centres + 0.01 * rng.standard_normal((len(centres), 1000, DIMS))).reshape(-1, DIMS)[:n]
    return around(points.astype(np.float32), np.geomspace(0.01, 1, DIMS).astype(np.float32), rng)


def duplicated(n: int, rng: np.random.Generator) -> Problem:
    """Every point nine times in no order; a third of the boxes have no width at all."""
    points, low, high = uniform(-(-n // 9), rng)
    order = rng.permutation(9 * len(points))[:n]
    points, low, high = (np.repeat(x, 9, axis=0)[order] for x in (points, low, high))
    low[::3] = high[::3] = points[::3]
    return points, low, high


def boundary(n: int, rng: np.random.Generator) -> Problem:
    """Points and faces on one grid, so that faces touch points; some end one float before, some hold nothing."""
    levels = (np.arange(8) * np.float32(CELL)).astype(np.float32)
    place = rng.integers(0, 8, (n, DIMS))
    reach = np.where(np.arange(DIMS) < 4, 0, 5)
    low, high = levels[np.maximum(place - reach, 0)], levels[np.minimum(place + reach, 7)]
    high = np.where(rng.random(high.shape) < 0.01, np.nextafter(high, np.float32(-np.inf)), high)
    low = np.where(rng.random(low.shape) < 0.01, np.nextafter(low, np.float32(np.inf)), low)
    low[::50, 0], high[::50, 0] = -np.inf, np.inf
    low[1::50, 1], high[1::50, 1] = 1, -1
    return levels[place], low, high


def real(n: int, dataset: Dataset, dynamics: Dynamics) -> Problem:
    """The next states of the first rows, and the ranges of one step from their states, as on a CPU."""
    case = rows_of(dataset, dynamics, n, actions_of(dynamics, ACTIONS["corners"], "corners"))
    return case.s_next[case.known], case.low, case.high


KINDS: dict[str, Callable[[int, np.random.Generator], Problem]] = {
    "random": uniform,
    "clustered": clustered,
    "duplicated": duplicated,
    "boundary": boundary,
}


def joined(case: Problem, engine: Engine) -> tuple[Join, float]:
    """The arrays, and the seconds of a query; the tree is the same for both engines."""
    points, low, high = case
    index = BoxIndex(points, widths=typical_widths(low, high), engine=engine)
    index.query(low, high)
    start = time.perf_counter()
    found = index.query(low, high)
    return found, time.perf_counter() - start


def difference(one: Join, other: Join) -> str:
    """'equal', or where the arrays part."""
    for name, a, b in zip(("indptr", "indices"), one, other, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{name}: {a.dtype} {a.shape} and {b.dtype} {b.shape}; {_rows(one, other)}"
        if not np.array_equal(a, b):
            return f"{name}: {np.count_nonzero(a != b)} of {len(a)} differ; {_rows(one, other)}"
    return "equal"


def _rows(one: Join, other: Join) -> str:
    """The first box whose contents differ, with what only one engine found in it."""
    for i in range(min(len(one[0]), len(other[0])) - 1):
        ours, theirs = (set(indices[indptr[i] : indptr[i + 1]].tolist()) for indptr, indices in (one, other))
        if ours != theirs:
            return f"box {i}: only cpu {sorted(ours - theirs)[:5]}, only gpu {sorted(theirs - ours)[:5]}"
    return "the boxes hold the same points in another order"


def main() -> None:
    parser = argparse.ArgumentParser(description="The box join's two engines on the same data.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[33, 5_000, 50_000, 200_000])
    parser.add_argument("--dataset", help="take its boxes instead of made ones; needs --dynamics")
    parser.add_argument("--dynamics", type=Path, help="models that were fitted to it")
    chosen = parser.parse_args()
    if chosen.dataset and not chosen.dynamics:
        parser.error("--dataset needs --dynamics")
    print(f"python {platform.python_version()}, numpy {np.__version__}, jax {jax.__version__}, {jax.devices()[0]}")
    print(f"{'data':>10} {'points':>8} {'pairs':>10} {'cpu s':>7} {'gpu s':>7}")
    equal = True
    kinds = KINDS
    if chosen.dataset:
        dataset, dynamics = load(chosen.dataset), Dynamics.load(chosen.dynamics)
        kinds = {"real": lambda n, _: real(min(n, len(dataset)), dataset, dynamics)}
    for name, kind in kinds.items():
        for n in chosen.sizes:
            case = kind(n, np.random.default_rng(n))
            cpu, cpu_seconds = joined(case, "cpu")
            gpu, gpu_seconds = joined(case, "gpu")
            said = difference(cpu, gpu)
            equal &= said == "equal"
            numbers = f"{n:>8,} {len(cpu[1]):>10,} {cpu_seconds:>7.3f} {gpu_seconds:>7.3f}"
            print(f"{name:>10} {numbers}  {said}", flush=True)
    print("all equal" if equal else "NOT EQUAL")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()

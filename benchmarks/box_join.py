"""Seconds of the exact box join on states like those of a walking robot, beside an R-tree and on a GPU if there is one.

    python benchmarks/box_join.py

Boxes are thin in position-like dimensions and wide in velocity-like ones. The ratio to the R-tree (points
inserted one by one, then one query per box) comes from runs in turn, each side's best; the first call compiles
and is not counted.
"""

import platform
import time
from collections.abc import Callable
from importlib.util import find_spec

import jax
import numpy as np

from stacq.core.types import Float32s, Ints
from stacq.reach.config import Engine
from stacq.reach.join import BoxIndex, box_join, typical_widths

DIMS, POSITIONS = 17, 8
EPISODE, HARMONICS, MOODS = 1000, 3, 2
ROUNDS = 2
Problem = tuple[Float32s, Float32s, Float32s]  # points, low, high


def states(n: int) -> Float32s:
    """Episodes of a noisy periodic gait: a phase, two slowly wandering moods, noise mostly on velocities."""
    rng = np.random.default_rng(0)
    episodes = -(-n // EPISODE)
    amplitude = rng.standard_normal((2 * HARMONICS, DIMS)) / np.repeat(np.arange(1, HARMONICS + 1), 2)[:, None]
    lean = 0.03 * rng.standard_normal((MOODS, DIMS))
    speed = 0.3 + 0.03 * rng.standard_normal((episodes, EPISODE))
    phase = rng.uniform(0, 2 * np.pi, (episodes, 1)) + speed.cumsum(axis=1)
    wander = 0.02 * rng.standard_normal((episodes, EPISODE, MOODS))
    mood = rng.standard_normal((episodes, 1, MOODS)) + wander.cumsum(axis=1)
    waves = np.stack([f(k * phase) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)], axis=2)
    x = waves @ amplitude + mood @ lean
    x += np.where(np.arange(DIMS) < POSITIONS, 0.005, 0.15) * rng.standard_normal(x.shape)
    x = x.reshape(-1, DIMS)[:n]
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0), dtype=np.float32)


def problem(n: int) -> Problem:
    """Each box holds its own point, somewhere off its centre."""
    points, rng = states(n), np.random.default_rng(1)
    typical = np.append(np.geomspace(0.01, 0.1, POSITIONS), np.linspace(1, 3, DIMS - POSITIONS))
    widths = typical * rng.lognormal(0, 0.5, (n, 1))
    low = (points - widths * rng.uniform(0.1, 0.9, points.shape)).astype(np.float32)
    return points, low, np.maximum(points, (low + widths).astype(np.float32))


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def row(n: int, engine: Engine) -> None:
    points, low, high = problem(n)
    start = time.perf_counter()
    tree = BoxIndex(points, widths=typical_widths(low, high), engine=engine)
    built = time.perf_counter()
    indptr, _ = tree.query(low, high)
    done = time.perf_counter()
    hits = np.diff(indptr)
    print(
        f"{engine:>6} {n:>9,} {built - start:>9.2f} {done - built:>9.2f} {done - start:>9.2f} "
        f"{hits.mean():>8.2f} {hits.max():>8,}",
        flush=True,
    )


def table(engine: Engine) -> None:
    box_join(*problem(2000), engine=engine)
    for n in (50_000, 200_000, 1_000_000):
        if engine == "gpu":
            box_join(*problem(n), engine=engine)  # compiles for this number of points
        row(n, engine)


def rtree_join(points: Float32s, low: Float32s, high: Float32s) -> Ints:
    """The number of hits of each box."""
    from rtree import index

    tree = index.Index(properties=index.Property(dimension=points.shape[1]), interleaved=True)
    for i, point in enumerate(points.astype(np.float64)):
        tree.insert(i, np.concatenate([point, point]))
    faces = np.concatenate([low, high], axis=1).astype(np.float64)
    return np.array([sum(1 for _ in tree.intersection(box)) for box in faces])


def against_rtree(n: int) -> None:
    case = problem(n)
    indptr, _ = box_join(*case)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(lambda: box_join(*case)))
        theirs.append(seconds(lambda: np.testing.assert_array_equal(rtree_join(*case), np.diff(indptr))))
    print(
        f"rtree at {n:,}: {min(theirs):.1f} s, cpu engine {min(ours):.3f} s: {min(theirs) / min(ours):.0f} times faster"
    )


def main() -> None:
    print(f"python {platform.python_version()}, numpy {np.__version__}, jax {jax.__version__}, {platform.machine()}")
    print(f"{'engine':>6} {'states':>9} {'build s':>9} {'query s':>9} {'sum s':>9} {'hits':>8} {'most':>8}")
    table("cpu")
    if jax.default_backend() == "gpu":
        table("gpu")
    if find_spec("rtree"):
        against_rtree(50_000)


if __name__ == "__main__":
    main()

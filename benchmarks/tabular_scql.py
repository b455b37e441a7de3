"""Speed and scale of tabular SCQL: one large maze, plain Python loops, and the cost of an edge at two sizes.

    python benchmarks/tabular_scql.py

Ratios come from one run, each side the best of several interleaved repetitions, because machines are busy.
"""

import platform
import resource
import time
from collections.abc import Callable

import numpy as np

from stacq.tabular import (
    NOWHERE,
    Dataset,
    Table,
    greedy,
    logged,
    lowest_return,
    next_states,
    scql,
    synchronous,
)
from stacq.tabular.maze import grid_mdp
from stacq.tabular.mdp import MDP, BoolArray, FloatArray, IntArray
from stacq.tabular.solve import initial, values

WALLS = 0.33
SIDE, DATA_STATES, DEEPEST = 1000, 500_000, 1500
REPEATS = 5


def random_maze(side: int, walls: float, seed: int) -> tuple[MDP, BoolArray]:
    """Random walls, the goal in the top left corner with some space around it; also the free cells [S]."""
    free = np.random.default_rng(seed).random((side, side)) >= walls
    free[:3, :3] = True
    goal = np.zeros_like(free)
    goal[0, 0] = True
    return grid_mdp(free, goal), free.ravel()


def distances(inside: BoolArray) -> IntArray:
    """Breadth-first search from the corner of a square grid, on coordinates alone; NOWHERE where it fails."""
    side = round(len(inside) ** 0.5)
    width = side + 2
    unseen = np.pad(inside.reshape(side, side), 1).ravel()
    distance = np.full(len(unseen), NOWHERE)
    frontier, steps = np.array([width + 1]), 0
    while len(frontier):
        distance[frontier] = steps
        unseen[frontier] = False
        around = (frontier[:, None] + np.array([-1, 1, -width, width])).ravel()
        frontier, steps = np.unique(around[unseen[around]]), steps + 1
    return distance.reshape(width, width)[1:-1, 1:-1].ravel()


def one_random_step_each(mdp: MDP, inside: BoolArray, seed: int) -> Dataset:
    """Each state inside is left once, by a random move that stays inside, or into the goal if it can."""
    kept = mdp.available & inside[:, None] & inside[mdp.next_state]
    score = np.where(kept, np.random.default_rng(seed).random(kept.shape), -1.0)
    score = np.where(kept & mdp.final[mdp.next_state], 1.0, score)
    state = np.flatnonzero(kept.any(axis=1))
    return logged(mdp, state, score[state].argmax(axis=1))


def large_maze() -> None:
    mdp, free = random_maze(SIDE, WALLS, seed=0)
    everywhere = distances(free)
    nearest = np.argsort(np.where(everywhere == NOWHERE, mdp.n_states, everywhere), kind="stable")[:DATA_STATES]
    inside = np.zeros(mdp.n_states, dtype=np.bool_)
    inside[nearest] = True
    data = one_random_step_each(mdp, inside, seed=1)
    distance = distances(data.states(mdp.n_states))

    start = time.perf_counter()
    table = scql(mdp, data)
    built = time.perf_counter() - start
    found = synchronous(table, q0=lowest_return(mdp), tolerance=1e-6)
    seconds = time.perf_counter() - start

    choice = greedy(table, found.q)
    moving = np.flatnonzero(data.states(mdp.n_states) & ~mdp.final)
    right = distance[next_states(table.pairs, choice)[moving]] == distance[moving] - 1
    edges = int(table.allowed.sum())
    print(
        f"maze {SIDE} x {SIDE}: {int(data.states(mdp.n_states).sum()):,} data states, {edges:,} edges, "
        f"deepest {distance.max()} steps (at most {DEEPEST})"
    )
    report("converged: sweeps, last change", f"{found.sweeps}, {found.change:.1e}", found.change < 1e-6)
    report("seconds in all (table, sweeps)", f"{seconds:.2f} ({built:.2f}, {seconds - built:.2f})", seconds < 15)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report("peak memory of the process, GiB", f"{memory:.2f}", memory < 2e9 / 2**30)
    report("greedy steps that breadth-first search agrees with", f"{right.mean():.2%}", bool(right.all()))


def loops(table: Table, q0: float, sweeps: int) -> Callable[[], list[float]]:
    """The same synchronous update in plain Python, on lists because they are faster than arrays there."""
    kept = table.allowed
    source, target = table.pairs.source[kept], table.pairs.target[kept].tolist()
    reward, discount = table.pairs.reward[kept].tolist(), table.pairs.discount[kept].tolist()
    rows = np.flatnonzero(np.bincount(source, minlength=table.pairs.n_states)).tolist()
    indptr = np.searchsorted(source, [*rows, table.pairs.n_states]).tolist()
    q: list[float] = initial(table, q0)[kept].tolist()
    v: list[float] = values(table, initial(table, q0), q0).tolist()

    def run() -> list[float]:
        entries, old = q.copy(), v.copy()
        for _ in range(sweeps):
            change, new = 0.0, old.copy()
            for row, state in enumerate(rows):
                best = -float("inf")
                for e in range(indptr[row], indptr[row + 1]):
                    value = reward[e] + discount[e] * old[target[e]]
                    difference = abs(value - entries[e])
                    if difference > change:
                        change = difference
                    entries[e] = value
                    if value > best:
                        best = value
                new[state] = best
            old = new
        return old

    return run


def table_of(side: int) -> tuple[Table, float]:
    """A maze in which every connected cell is in the data."""
    mdp, free = random_maze(side, 0.1, seed=2)
    inside = distances(free) != NOWHERE
    return scql(mdp, one_random_step_each(mdp, inside, seed=3)), lowest_return(mdp)


def best_seconds(*runs: Callable[[], object]) -> list[float]:
    """The fastest of several repetitions of each, taken in turns so that a busy moment hits all."""
    times = np.full((REPEATS, len(runs)), np.inf)
    for repeat in range(REPEATS):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            times[repeat, i] = time.perf_counter() - start
    return [float(seconds) for seconds in times.min(axis=0)]


def against_loops(side: int = 100, sweeps: int = 300) -> None:
    """Both sides make the same sweeps; the library's time includes setting up, that of the loops does not."""
    table, q0 = table_of(side)
    slow = loops(table, q0, sweeps)

    def fast() -> FloatArray:
        return synchronous(table, q0=q0, tolerance=0.0, sweeps=sweeps).v

    np.testing.assert_array_equal(fast(), slow())
    slow_seconds, fast_seconds = best_seconds(slow, fast)
    work = int(table.allowed.sum()) * sweeps
    print(f"maze {side} x {side}: {sweeps} sweeps, {work:,} edge updates; values equal bit for bit")
    report("plain Python, ns per edge", f"{slow_seconds / work * 1e9:.1f}", True)
    report("this library, ns per edge", f"{fast_seconds / work * 1e9:.2f}", True)
    report("times faster", f"{slow_seconds / fast_seconds:.0f}", slow_seconds >= 100 * fast_seconds)


def per_edge(sides: tuple[int, int] = (177, 556), updates: int = 100_000_000) -> None:
    """Nanoseconds per edge and sweep, setting up included."""
    runs, sizes = [], []
    for side in sides:
        table, q0 = table_of(side)
        edges = int(table.allowed.sum())
        sizes.append((edges, updates // edges))
        runs.append(lambda t=table, q=q0, n=updates // edges: synchronous(t, q0=q, tolerance=0.0, sweeps=n))
    seconds = best_seconds(*runs)
    cost = [s / (edges * sweeps) * 1e9 for s, (edges, sweeps) in zip(seconds, sizes, strict=True)]
    print("cost of an edge")
    for (edges, _), nanoseconds in zip(sizes, cost, strict=True):
        report(f"ns per edge at {edges:,} edges", f"{nanoseconds:.2f}", True)
    report("ratio", f"{cost[1] / cost[0]:.2f}", cost[1] <= 2 * cost[0])


def report(what: str, value: str, met: bool) -> None:
    print(f"  {what:<52} {value:>20}  {'ok' if met else 'NOT MET'}")


if __name__ == "__main__":
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    synchronous(table_of(10)[0], q0=-10.0)  # compiles
    large_maze()
    against_loops()
    per_edge()

"""Random graphs, a jittered grid, and the update once more as a plain loop over single numbers."""

import math
from typing import NamedTuple

import numpy as np

from stacq.core.types import Float64s, Ints
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.graph.neighbours import NONE
from stacq.graph.solve import Problem
from stacq.tabular import mdp as tabular

MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


def random_problem(seed: int, temperature: float = 0.5, rows: int = 30, others: int = 4) -> Problem:
    """Every row has itself and some others, a few of them missing; some rows end the task."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, rows, (rows, others))
    columns[rng.random(columns.shape) < 0.2] = NONE
    follow = rng.integers(0, rows, rows)
    follow[rng.random(rows) < 0.1] = NONE
    costs = rng.exponential(1.0, (rows, others + 1))
    costs[:, 0] = 0.0
    table = np.concatenate([np.arange(rows)[:, None], columns], axis=1)
    return Problem(table, follow, rng.normal(size=table.shape), costs, 0.9, temperature)


def update_by_loops(problem: Problem, value: list[float], i: int) -> float:
    """The new value of one row, term by term as the docstring of `Problem` writes it."""
    gains, costs, t = problem.gains.tolist(), problem.costs.tolist(), problem.temperature
    found, free = list[float](), list[float]()
    for column, j in enumerate(problem.rows[i].tolist()):
        if j == NONE or math.isinf(costs[i][column]):
            continue
        after = int(problem.follow[j])
        future = 0.0 if after == NONE else problem.discount * value[after]
        found.append(gains[i][column] + future - costs[i][column])
        free.append(-costs[i][column])
    if t == 0:
        return max(found)
    return t * math.log(sum(math.exp(q / t) for q in found)) - t * math.log(sum(math.exp(c / t) for c in free))


def values_by_loops(problem: Problem, sweeps: int = 400) -> Float64s:
    """All rows at once, from zero, many times."""
    value = [0.0] * len(problem.rows)
    for _ in range(sweeps):
        value = [update_by_loops(problem, value, i) for i in range(len(value))]
    return np.array(value)


class Grid(NamedTuple):
    """Walks on a grid whose logged positions are a little off the middles of their cells."""

    dataset: Dataset
    cells: Ints  # [N] the cell of every row
    mdp: tabular.MDP
    logs: tabular.Dataset


def jittered_grid(width: int = 4, jitter: float = 0.01, copies: int = 6, seed: int = 0) -> Grid:
    """Every move from every cell is logged `copies` times, each as an episode of one step; the last cell ends it."""
    rng = np.random.default_rng(seed)
    goal, count = width * width - 1, width * width
    next_state = np.full((count, len(MOVES)), tabular.NOWHERE)
    for cell in range(count):
        for number, (dx, dy) in enumerate(MOVES):
            x, y = cell % width + dx, cell // width + dy
            if 0 <= x < width and 0 <= y < width and cell != goal:
                next_state[cell, number] = x + width * y
    final = np.arange(count) == goal
    reward = np.where(next_state == goal, 10.0, -1.0)
    source, move = (np.tile(each, copies) for each in np.nonzero(next_state != tabular.NOWHERE))
    target = next_state[source, move]
    middles = np.stack([np.arange(count) % width, np.arange(count) // width], axis=1).astype(np.float64)
    s, s_next = (middles[each] + rng.uniform(-jitter, jitter, (len(each), 2)) for each in (source, target))
    dataset = from_arrays(
        s.astype(np.float32),
        np.array(MOVES, np.float32)[move],
        reward[source, move].astype(np.float32),
        target == goal,
        timeouts=target != goal,
        next_observations=s_next.astype(np.float32),
        conventions=Conventions(action_low=-1.0, action_high=1.0, name="grid"),
    )
    mdp = tabular.MDP(next_state, reward, final, 0.9)
    return Grid(dataset, source, mdp, tabular.logged(mdp, source, move))


def walks(seed: int = 0, episodes: int = 6, length: int = 12, known: bool = True) -> Dataset:
    """Random walks in the plane towards a reward; the first ends the task, the others are stopped."""
    rng = np.random.default_rng(seed)
    paths = np.cumsum(rng.normal(0, 0.3, (episodes, length + 1, 2)), axis=1).astype(np.float32)
    s, s_next = paths[:, :-1].reshape(-1, 2), paths[:, 1:].reshape(-1, 2)
    last = np.tile(np.arange(length) == length - 1, episodes)
    first = np.arange(episodes * length) < length
    return from_arrays(
        s,
        np.clip(s_next - s, -1, 1),
        -np.abs(s_next).sum(axis=1).astype(np.float32),
        last & first,
        timeouts=last & ~first,
        next_observations=s_next if known else None,
        conventions=Conventions(action_low=-1.0, action_high=1.0, name="walks"),
    )

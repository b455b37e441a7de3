"""The nearest rows of a state: exact below a size, approximate above it, with the recall measured."""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from stacq.core.types import Bools, Float64s, Floats, Ints
from stacq.core.workers import available_cores

EXACT_ROWS = 200_000  # up to here the exact search of the tree takes seconds, or a minute in 17 dimensions
SLACK = 0.5  # above it, a found row may be farther than a row that was missed by this share
SAMPLE = 500  # states behind the measured recall
NONE = -1  # in the place of a row that does not exist


class Tree(NamedTuple):
    """Rows that can be found, by their states."""

    tree: "cKDTree"
    names: Ints  # the rows behind the points of the tree
    slack: float  # 0 where the search is exact


class Near(NamedTuple):
    """The nearest rows of some states, the nearest first."""

    rows: Ints  # [M, K]; NONE where there are fewer
    distance: Float64s  # [M, K], root mean square over dimensions; infinite where there is no row
    recall: float  # share of the true nearest rows that were found; 1 where the search is exact


def tree_of(states: Floats, allowed: Bools, exact_rows: int = EXACT_ROWS) -> Tree:
    """The allowed rows."""
    names = np.flatnonzero(allowed)
    return Tree(cKDTree(scaled(states[names])), names, 0.0 if len(names) <= exact_rows else SLACK)


def scaled(states: Floats) -> Float64s:
    """So that Euclidean distances are root mean squares over dimensions."""
    found: Float64s = states.astype(np.float64) / np.sqrt(states.shape[1])
    return found


def nearest(tree: Tree, states: Floats, own: Ints, count: int) -> Near:
    """The `count` nearest rows of every state, without the row `own` that the state belongs to."""
    rows, distance = _others(tree, states, own, count, tree.slack)
    if tree.slack == 0:
        return Near(rows, distance, 1.0)
    chosen = np.random.default_rng(0).choice(len(own), min(SAMPLE, len(own)), replace=False)
    true, _ = _others(tree, states[chosen], own[chosen], count, 0.0)
    return Near(rows, distance, recall_of(rows[chosen], true))


def _others(tree: Tree, states: Floats, own: Ints, count: int, slack: float) -> tuple[Ints, Float64s]:
    """One more is asked for. Where copies of a state hide the own row, the farthest is left out instead."""
    if not len(tree.names) or not len(states):
        return np.full((len(states), count), NONE), np.full((len(states), count), np.inf)
    columns, cores = np.arange(1, count + 2), available_cores()
    found: tuple[Any, Any] = tree.tree.query(scaled(states), columns, eps=slack, workers=cores)
    distance, at = found
    rows = np.where(np.isfinite(distance), tree.names[np.minimum(at, len(tree.names) - 1)], NONE)
    mine = rows == own[:, None]
    mine[~mine.any(axis=1), -1] = True
    kept = ~mine
    return rows[kept].reshape(-1, count), np.asarray(distance[kept].reshape(-1, count), np.float64)


def recall_of(found: Ints, true: Ints) -> float:
    """The share of the true nearest rows that were found."""
    hits = sum(len(np.intersect1d(a[a != NONE], b[b != NONE])) for a, b in zip(found, true, strict=True))
    return float(hits / max((true != NONE).sum(), 1))

"""Rows of a dataset as a graph: which rows lend their action to a row, and where each row leads."""

from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Bools, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.graph.neighbours import EXACT_ROWS, NONE, nearest, tree_of
from stacq.graph.usual import Steps


class Edges(NamedTuple):
    """Column 0 is the row itself, at distance 0; the others lend their action, the nearest first."""

    rows: Ints  # [N, K + 1]; NONE where there is no such row
    distance: Float64s  # [N, K + 1]; infinite where there is no such row
    follow: Ints  # [N] the row whose state a row leads to; NONE where the task ended
    joined: Bools  # [N] whether `follow` is the row nearest to the successor, and not the next row of the episode
    recall: float


def steps_of(dataset: Dataset) -> Steps:
    """Rows with normalised states and actions in [-1, 1]."""
    normaliser = Normaliser.fit(dataset.observations)
    s, s_next = normaliser.apply(dataset.observations), normaliser.apply(dataset.next_observations)
    s_next = np.where(dataset.successor_known[:, None], s_next, s)
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    return Steps(
        s=s,
        s_next=s_next,
        a=(dataset.actions - low) / (high - low) * 2 - 1,
        r=dataset.rewards.astype(np.float64),
        over=dataset.terminals,
        known=dataset.successor_known | dataset.terminals,
    )


def edges_of(dataset: Dataset, steps: Steps, neighbours: int, exact_rows: int = EXACT_ROWS) -> Edges:
    """The own row and the nearest others; a row whose future is unknown lends to nobody.

    An episode that was only stopped leads on to the row nearest to its last successor, or to its last state where
    that successor is unknown. A task that ended leads nowhere.
    """
    if not steps.known.any():
        raise InputError(
            "no row has a known successor or ends the task",
            where=dataset.name or "dataset",
            expected="rows to learn from",
            fix="store next_observations, or keep whole episodes together",
        )
    rows = np.arange(len(dataset))
    tree = tree_of(steps.s, steps.known, exact_rows)
    near = nearest(tree, steps.s, rows, neighbours)
    stopped = dataset.last_rows[~dataset.terminals[dataset.last_rows]]
    follow = rows + 1
    follow[dataset.last_rows] = NONE
    follow[stopped] = nearest(tree, steps.s_next[stopped], stopped, 1).rows[:, 0]
    joined = np.zeros(len(dataset), dtype=np.bool_)
    joined[stopped] = follow[stopped] != NONE
    return Edges(
        np.concatenate([rows[:, None], near.rows], axis=1),
        np.concatenate([np.zeros((len(rows), 1)), near.distance], axis=1),
        follow,
        joined,
        near.recall,
    )

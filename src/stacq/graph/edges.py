"""Rows of a dataset as a graph: which rows lend their action to a row, and where each row leads."""

from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Bools, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.graph.neighbours import EXACT_ROWS, NONE, Tree, nearest, tree_of
from stacq.graph.usual import Steps


class Edges(NamedTuple):
    """Column 0 is the row itself, at distance 0; where the others lead the row can be led too, the surest first."""

    rows: Ints  # [N, K + 1]; NONE where there is no such row
    distance: Float64s  # [N, K + 1], how far off one may arrive; infinite where there is no such row
    unit: float  # of distances: what a price is the price of
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

    One who does here what was done there arrives about as far off as the two states are apart. The unit is the median.
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
    follow, joined = led_on(dataset, steps, tree)
    distance = np.concatenate([np.zeros((len(rows), 1)), near.distance], axis=1)
    table = np.concatenate([rows[:, None], near.rows], axis=1)
    return Edges(table, distance, median_distance(table, distance), follow, joined, near.recall)


def led_on(dataset: Dataset, steps: Steps, tree: Tree) -> tuple[Ints, Bools]:
    """The row that every row leads to, and whether it was found by nearness.

    An episode that was only stopped leads on to the row nearest to its last successor, or to its last state where
    that successor is unknown. A task that ended leads nowhere.
    """
    stopped = dataset.last_rows[~dataset.terminals[dataset.last_rows]]
    follow = np.arange(len(dataset)) + 1
    follow[dataset.last_rows] = NONE
    follow[stopped] = nearest(tree, steps.s_next[stopped], stopped, 1).rows[:, 0]
    joined = np.zeros(len(dataset), dtype=np.bool_)
    joined[stopped] = follow[stopped] != NONE
    return follow, joined


def median_distance(rows: Ints, distance: Float64s) -> float:
    """Of the rows beside the own one; 0 where there are none."""
    lent = distance[:, 1:][rows[:, 1:] != NONE]
    return float(np.median(lent)) if len(lent) else 0.0


def median_step(steps: Steps) -> float:
    """How far a step of the data leads, as the median of root mean squares."""
    length = np.sqrt(np.mean((steps.s_next - steps.s) ** 2, axis=1, dtype=np.float64))
    return float(np.median(length[steps.known]))

"""Edges by models: the states of the data that one action can reach, and how surely."""

import numpy as np

from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s, Float64s, Ints, Rows
from stacq.data.dataset import Dataset
from stacq.graph.edges import Edges, led_on, median_step
from stacq.graph.neighbours import NONE, tree_of
from stacq.graph.usual import Steps
from stacq.reach.reachable import Reachable
from stacq.reach.sets import others


def reachable_edges(
    dataset: Dataset, steps: Steps, reachable: Reachable, most: int, seed: int
) -> tuple[Edges, Float32s]:
    """For row i the rows j of its reachable set, and the actions that lead to s'_j, [N, K + 1, A] in [-1, 1].

    d_ij = root mean square of f(s_i, a_ij) - s'_j: how far off the action arrives, by the same models. The unit is a
    step of the data, for what the models know exactly is free. Of more than `most` states as many are left out by lot.
    """
    anchors, rows = others(reachable.sets)
    entries = some_of_each(anchors, most, seed)
    distance = missed(dataset, reachable, anchors[entries], rows[entries], entries)
    order = np.lexsort((distance, anchors[entries]))
    entries, distance = entries[order], distance[order]
    i, column = anchors[entries], 1 + place_within(anchors[entries])
    shape = len(dataset), int(column.max(initial=0)) + 1
    table, away = np.full(shape, NONE), np.full(shape, np.inf)
    led = np.zeros((*shape, steps.a.shape[1]), np.float32)
    table[:, 0], away[:, 0], led[:, 0] = np.arange(len(dataset)), 0.0, steps.a
    low, high = dataset.action_low, dataset.action_high
    table[i, column], away[i, column] = rows[entries], distance
    led[i, column] = (reachable.actions[entries] - low) / (high - low) * 2 - 1
    follow, joined = led_on(dataset, steps, tree_of(steps.s, steps.known))
    return Edges(table, away, median_step(steps), follow, joined, 1.0), led


def missed(dataset: Dataset, reachable: Reachable, anchors: Rows, rows: Rows, entries: Ints) -> Float64s:
    """How far from s'_j the models arrive from s_i by the action that leads there, in normalised dimensions."""
    arrived = reachable.dynamics.predict(dataset.observations[anchors], reachable.actions[entries])
    scale = Normaliser.fit(dataset.observations).scale
    off = (arrived - dataset.next_observations[rows]) / scale
    found: Float64s = np.sqrt(np.mean(off.astype(np.float64) ** 2, axis=1))
    return found


def some_of_each(anchors: Rows, most: int, seed: int) -> Ints:
    """The places of all entries, or of `most` of an anchor drawn by lot; anchors are sorted."""
    lot = np.random.default_rng(seed).random(len(anchors))
    order = np.lexsort((lot, anchors))
    found: Ints = np.sort(order[place_within(anchors) < most])
    return found


def place_within(anchors: Rows) -> Ints:
    """How many entries of the same anchor stand before each; anchors are sorted."""
    found: Ints = np.arange(len(anchors)) - np.searchsorted(anchors, anchors)
    return found

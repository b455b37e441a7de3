"""Reachable sets whose members are the loans of the graph, each at its price: for critics that learn on priced pairs.

No dynamics model decides here. A state s'_j is in the set of row i if row j is near row i, and it costs as much as the
graph charges for what row i cannot repeat exactly.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.artefacts import cache_directory
from stacq.core.errors import InputError
from stacq.core.files import alone, check_writable
from stacq.core.staging import sweep
from stacq.core.types import Float32s
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.edges import Edges, edges_of, steps_of
from stacq.graph.made import FORMAT, made_graph
from stacq.graph.neighbours import NONE
from stacq.graph.usual import usual
from stacq.reach.sets import KIND, ReachableSets, others

Say = Callable[[str], None]
LOANS = GraphConfig(seed=1)  # what is carried over, at the price that can be believed: the graph of `soft`


def priced_at(dataset: Dataset) -> Path:
    """Where the priced sets of a dataset lie in the cache, present or not."""
    options = {"criterion": "priced", "format": FORMAT, **asdict(LOANS)}
    return cache_directory(KIND, options, {"dataset": dataset.fingerprint})


def priced_sets(dataset: Dataset, say: Say = lambda text: None) -> ReachableSets:
    """The loans of the graph as sets, from the cache if they were made before."""
    directory = priced_at(dataset)
    sweep(directory.parent)
    check_writable(directory)
    with alone(directory, lambda: say("another process is finding these sets: waiting for it")):
        if not directory.exists():
            facts = made_graph(dataset, LOANS, say).facts
            slope, price = (_number(facts, name) for name in ("slope", "usual_price"))
            edges = edges_of(dataset, steps_of(dataset), LOANS.neighbours)
            sets = loans(dataset, edges, slope, price)
            sets.check(dataset)
            sets.save(directory)
    return ReachableSets.load(directory, dataset)


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    """A price that the graph states; none if it has no end."""
    found = facts.get(name, "")
    if found is None or (isinstance(found, float | int) and math.isfinite(found) and found >= 0):
        return found
    raise InputError(
        f"{name} is {found!r:.80}",
        where="the graph in the cache",
        expected="a number from 0",
        fix="delete the graphs in the cache; they are made again",
    )


def loans(dataset: Dataset, edges: Edges, slope: float | None, usual_price: float | None) -> ReachableSets:
    """The rows j that lend to every row i, with c_ij = slope d_ij; without a slope the own rows alone."""
    there = (edges.rows != NONE) & dataset.successor_known[np.maximum(edges.rows, 0)]
    if slope is None:
        there[:, 1:] = False
    order = np.argsort(np.where(there, edges.rows, len(dataset)), axis=1, kind="stable")
    rows, distance, there = (np.take_along_axis(each, order, axis=1) for each in (edges.rows, edges.distance, there))
    return ReachableSets(
        indptr=np.concatenate([[0], np.cumsum(there.sum(axis=1))]),
        indices=rows[there].astype(np.int32),
        config={"criterion": "priced", "neighbours": edges.rows.shape[1] - 1, "price": usual_price},
        parents={"dataset": dataset.fingerprint},
        facts={},
        prices=((slope or 0.0) * distance[there]).astype(np.float32),
    )


def lent_actions(dataset: Dataset, sets: ReachableSets) -> Float32s:
    """a_j + m(s_i) - m(s_j) for every entry that is no own successor, within the bounds, [M, A]; m is the usual action.

    What the variant `soft` of Graph SCQL does at row i to get what row j got.
    """
    anchors, rows = others(sets)
    steps = steps_of(dataset)
    mean = usual(steps, LOANS.discount, LOANS.features, LOANS.seed).action
    lent = np.clip(steps.a[rows] + mean[anchors] - mean[rows], -1, 1)
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    found: Float32s = ((lent + 1) / 2 * (high - low) + low).astype(np.float32)
    return found

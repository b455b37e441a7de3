"""Where a trajectory may leave its own: for every row the stitch that is likely enough and promises most.

Inside an episode the state after row j is the state of row j + 1. So the place of a trajectory is always a row of the
data, and which stitch is best there depends on that row alone: it is found once for all rows, in blocks.
"""

from typing import NamedTuple

import jax
import numpy as np
from scipy.spatial import cKDTree

from stacq.core.types import Float64s, Floats, Ints
from stacq.core.workers import available_cores
from stacq.data.dataset import Dataset
from stacq.nn.mlp import MLP
from stacq.stitch.forward import log_densities, moments

BLOCK = 1024  # anchors at a time
PAIRS = 262_144  # pairs of anchor and candidate at a time


class Candidates(NamedTuple):
    """Pairs of rows: from the state of the anchor to the successor of another row."""

    anchor: Ints  # [P]
    row: Ints  # [P]


class Neighbours:
    """Rows whose state or successor is near, among those with a known successor."""

    def __init__(self, dataset: Dataset, radius: float) -> None:
        self.rows = np.flatnonzero(dataset.successor_known)
        self.radius = radius
        self.states = cKDTree(dataset.observations[self.rows].astype(np.float64))
        self.successors = cKDTree(dataset.next_observations[self.rows].astype(np.float64))

    def of(self, dataset: Dataset, anchors: Ints) -> Candidates:
        """Rows j with |s_j - s_i| <= radius or |s'_j - s'_i| <= radius, of every anchor i; some of them twice."""
        lists: list[list[int]] = []
        trees = ((self.states, dataset.observations), (self.successors, dataset.next_observations))
        for tree, points in trees:
            lists += list(tree.query_ball_point(points[anchors], self.radius, workers=available_cores()))  # type: ignore[arg-type]
        counts = np.array([len(each) for each in lists], dtype=np.int64)
        flat = np.concatenate([np.asarray(each, dtype=np.int64) for each in lists])
        return Candidates(np.repeat(np.tile(anchors, 2), counts), self.rows[flat])


def usual_radius(dataset: Dataset) -> float:
    """Half the median length of a step of the data, for tasks without a published radius."""
    known = dataset.successor_known
    steps = dataset.next_observations[known].astype(np.float64) - dataset.observations[known]
    return 0.5 * float(np.median(np.linalg.norm(steps, axis=1)))


def best_jumps(dataset: Dataset, elites: MLP, values: Floats, radius: float, *, between_only: bool = False) -> Ints:
    """For every row the row whose successor is gone to: its own number where no stitch is better, [N].

    `values` are those of successors, min_j V_j(s').
    """
    neighbours = Neighbours(dataset, radius)
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    best = np.arange(len(dataset))
    for first in range(0, len(neighbours.rows), BLOCK):
        anchors = neighbours.rows[first : first + BLOCK]
        near = neighbours.of(dataset, anchors)
        better = of_more_value(between(near, episode) if between_only else near, values)
        if len(better.row):
            chosen = most_valuable(likely(better, dataset, elites, anchors), values)
            best[chosen.anchor] = chosen.row
    return best


def between(pairs: Candidates, episode: Ints) -> Candidates:
    """Those of two episodes."""
    keep = episode[pairs.anchor] != episode[pairs.row]
    return Candidates(pairs.anchor[keep], pairs.row[keep])


def of_more_value(pairs: Candidates, values: Floats) -> Candidates:
    """V(s'_j) > V(s'_i); the others could not be chosen whatever their likelihood."""
    keep = values[pairs.row] > values[pairs.anchor]
    return Candidates(pairs.anchor[keep], pairs.row[keep])


def likely(pairs: Candidates, dataset: Dataset, elites: MLP, anchors: Ints) -> Candidates:
    """min over the elites of p(s'_j | s_i) > mean over the elites of p(s'_i | s_i), in logarithms."""
    place = np.searchsorted(anchors, pairs.anchor)
    mean, log_deviation = _moments_of(elites, dataset.observations[anchors])  # [E, B, S]
    own = dataset.next_observations[anchors].astype(np.float64)
    bar = np.logaddexp.reduce(log_densities(mean, log_deviation, own), axis=0) - np.log(len(mean))
    keep = np.zeros(len(pairs.row), dtype=np.bool_)
    for first in range(0, len(place), PAIRS):
        part = slice(first, first + PAIRS)
        there, at = dataset.next_observations[pairs.row[part]].astype(np.float64), place[part]
        least = np.min([log_densities(m[at], d[at], there) for m, d in zip(mean, log_deviation, strict=True)], axis=0)
        keep[part] = least > bar[at]
    return Candidates(pairs.anchor[keep], pairs.row[keep])


def most_valuable(pairs: Candidates, values: Floats) -> Candidates:
    """Of every anchor that has any the candidate of the greatest V(s'_j); of equal ones the first row."""
    order = np.lexsort((pairs.row, -values[pairs.row], pairs.anchor))
    anchor, row = pairs.anchor[order], pairs.row[order]
    first = np.ones(len(anchor), dtype=np.bool_)
    first[1:] = anchor[1:] != anchor[:-1]
    return Candidates(anchor[first], row[first])


def _moments_of(elites: MLP, s: Floats) -> tuple[Float64s, Float64s]:
    """[E, B, S] each, from blocks of one length."""
    filled = np.pad(s.astype(np.float32), ((0, BLOCK - len(s)), (0, 0)))
    mean, log_deviation = _moments(elites, filled)
    return tuple(np.asarray(each, np.float64)[:, : len(s)] for each in (mean, log_deviation))  # type: ignore[return-value]


@jax.jit
def _moments(elites: MLP, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    found: tuple[jax.Array, jax.Array] = jax.vmap(moments, in_axes=(0, None))(elites, s)
    return found

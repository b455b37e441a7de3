"""Whether near states are near: how far the nearest state of another episode is, in steps of the data."""

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from stacq.core.normaliser import Normaliser
from stacq.core.types import Ints
from stacq.data.dataset import Dataset

ASKED = 200  # states whose neighbours are looked for
MOST = 100_000  # states among which they are looked for
LOOKED_AT = 20  # nearest states of a state, of which the first of another episode counts


def nearness(dataset: Dataset) -> float:
    """Median distance to the nearest state of another episode over the median length of a step; NaN if unknown.

    Below 1, what was done there can be done here, or nearly so. With more than 100,000 rows whole episodes are left
    out, so the true number is smaller. A state whose nearest ones are all of its own episode counts with the farthest
    of them, which is too near rather than too far.
    """
    episodes = _some_episodes(dataset)
    rows = np.flatnonzero(np.repeat(np.isin(np.arange(dataset.episodes), episodes), dataset.lengths))
    known = rows[dataset.successor_known[rows]]
    if len(episodes) < 2 or not len(known):
        return float("nan")
    normaliser = Normaliser.fit(dataset.observations)
    states, asked = normaliser.apply(dataset.observations[rows]).astype(np.float64), _spread_over(len(rows))
    if not np.isfinite(states).all():
        return float("nan")
    number = np.repeat(np.arange(len(episodes)), dataset.lengths[episodes])
    columns = np.arange(1, min(LOOKED_AT, len(rows)) + 1)
    found: tuple[Any, Any] = cKDTree(states).query(states[asked], columns)
    distance, at = found
    at = np.minimum(at, len(rows) - 1)
    other = number[at] != number[asked][:, None]
    other[:, -1] |= ~other.any(axis=1)
    near = distance[np.arange(len(asked)), other.argmax(axis=1)]
    sample = known[_spread_over(len(known))]
    move = normaliser.apply(dataset.next_observations[sample]) - normaliser.apply(dataset.observations[sample])
    step = float(np.median(np.linalg.norm(move.astype(np.float64), axis=1)))
    return float(np.median(near)) / step if step > 0 else float("nan")


def _some_episodes(dataset: Dataset) -> Ints:
    """All, or so many spread evenly that they hold no more than MOST rows; one at least."""
    if len(dataset) <= MOST:
        return np.arange(dataset.episodes)
    count = max(2, dataset.episodes * MOST // len(dataset))
    return np.unique(np.linspace(0, dataset.episodes - 1, min(count, dataset.episodes)).astype(np.int64))


def _spread_over(rows: int) -> Ints:
    return np.unique(np.linspace(0, rows - 1, min(ASKED, rows)).astype(np.int64))

"""Two plain questions: does the policy act as somebody in the data did, and does it stay where somebody was?"""

from typing import NamedTuple

import numpy as np

from stacq.core.types import Float32s, Float64s, Ints

QUERIES = 1_000  # rows that are asked about
REFERENCES = 50_000  # rows that they are compared with, at most
ORDINARY = 0.99  # quantile of the data's own distances beyond which a pair or a state is far


class Support(NamedTuple):
    """Rows to ask about, rows to compare with, and how far the data lies from itself."""

    asked: Ints  # [Q]
    held: Ints  # [K]
    border: float  # distances above it are far
    scale: Float32s  # [X] of the coordinates


def nearest(asked: Float32s, held: Float32s, asked_in: Ints, held_in: Ints) -> Float64s:
    """Distance of each point to the nearest of another episode, [Q]; root mean square over coordinates."""
    squares = (held**2).sum(axis=1)
    found = np.empty(len(asked))
    for first in range(0, len(asked), 128):
        block = slice(first, first + 128)
        away = (asked[block] ** 2).sum(axis=1)[:, None] + squares - 2 * asked[block] @ held.T
        away[asked_in[block][:, None] == held_in] = np.inf
        found[block] = away.min(axis=1)
    away_from: Float64s = np.sqrt(np.maximum(found, 0) / asked.shape[1])
    return away_from


def support_of(points: Float32s, episode: Ints, seed: int = 0) -> Support:
    """The border is where all but one in a hundred of the data's own points lie within, [N, X]."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(len(points))[:QUERIES]
    held = rng.permutation(len(points))[:REFERENCES]
    deviation = points[held].std(axis=0)
    scale = np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
    own = nearest(points[asked] / scale, points[held] / scale, episode[asked], episode[held])
    return Support(asked, held, float(np.quantile(own[np.isfinite(own)], ORDINARY)), scale)


def far_share(support: Support, points: Float32s, data: Float32s, episode: Ints) -> float:
    """Share of `points`, one for each row that is asked about, that lie beyond the border."""
    away = nearest(
        points / support.scale, data[support.held] / support.scale, episode[support.asked], episode[support.held]
    )
    return float((away > support.border).mean())

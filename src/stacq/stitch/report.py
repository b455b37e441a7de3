"""What an iteration did: how many stitches, between which episodes, and what it did to the returns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stacq.core.types import Bools, Floats
from stacq.data.dataset import Dataset
from stacq.stitch.paths import Paths

MOST_LINKS = 50  # that are listed


@dataclass(frozen=True)
class StitchReport:
    """Numbers of one iteration; episodes are those of the data that it began with."""

    iteration: int
    episodes: int
    accepted: int  # episodes that were replaced
    rows: int  # after it
    stitches: int  # in accepted episodes
    across: int  # of these, from one episode to another
    links: tuple[tuple[int, int, int], ...]  # (from episode, to episode, stitches), the most frequent first
    return_before: float  # mean over all episodes
    return_after: float
    best_before: float
    best_after: float
    returns_before: tuple[float, ...]  # of the accepted episodes
    returns_after: tuple[float, ...]  # of these, with rewards of the model at stitches

    def to_json(self) -> Mapping[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """One line."""
        return (
            f"stitching {self.iteration}: {self.stitches:,} stitches ({self.across:,} between episodes) in "
            f"{self.accepted:,} of {self.episodes:,} episodes, mean return {self.return_before:.1f} -> "
            f"{self.return_after:.1f}"
        )


def report_of(iteration: int, before: Dataset, paths: Paths, after: Floats, keep: Bools, rows: int) -> StitchReport:
    """`after` are the returns of the new trajectories, kept or not."""
    kept = np.repeat(keep, np.diff(paths.offsets)) & paths.stitched
    episode = np.repeat(np.arange(before.episodes), before.lengths)
    pairs = np.stack([episode[paths.row[kept]], episode[paths.to[kept]]], axis=1)
    links, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_LINKS]
    returns = np.where(keep, after, before.returns)
    return StitchReport(
        iteration=iteration,
        episodes=before.episodes,
        accepted=int(keep.sum()),
        rows=rows,
        stitches=int(kept.sum()),
        across=int((pairs[:, 0] != pairs[:, 1]).sum()),
        links=tuple((int(links[at, 0]), int(links[at, 1]), int(counts[at])) for at in order),
        return_before=float(before.returns.mean()),
        return_after=float(returns.mean()),
        best_before=float(before.returns.max()),
        best_after=float(returns.max()),
        returns_before=tuple(before.returns[keep].tolist()),
        returns_after=tuple(after[keep].tolist()),
    )

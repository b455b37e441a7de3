"""What the reachable sets join: the numbers a person wants before training on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stacq.data.dataset import Dataset
from stacq.reach.sets import ReachableSets
from stacq.types import Ints

LOW_RECALL = 0.9


@dataclass(frozen=True)
class Stitching:
    """How far the sets go beyond the data's own steps."""

    rows: int
    pairs: int
    largest: int
    size_histogram: tuple[tuple[int, int], ...]  # (set size, number of anchors), sizes ascending
    more_than_own: float  # share of anchors with another state than their own successor
    across_episodes: float  # share of anchors with a state of another episode
    components_before: int  # of the graph of episodes, each its own
    components_after: int  # with episodes joined where one's state reaches the other's
    recall: float | None  # share of true successors that pass the test itself
    known: Mapping[str, Any]  # what that was measured on, and the dimension that fails most; see criterion.KnownPairs
    criterion: str

    @property
    def extra(self) -> float:
        """States per anchor beyond its own successor."""
        return self.pairs / self.rows - 1.0

    def warnings(self) -> tuple[str, ...]:
        """What the numbers mean for training, if it is bad."""
        found = []
        if self.recall is not None and self.recall < LOW_RECALL:
            found.append(self._low_recall(self.recall))
        if self.more_than_own == 0:
            found.append("no state reaches anything but its own successor: nothing can be stitched")
        return tuple(found)

    def _low_recall(self, recall: float) -> str:
        where = f" (dimension {self.known['worst_dimension']} fails most often)" if self.known else ""
        told = f"only {recall:.0%} of the true successors pass the test{where}: the models are too coarse for "
        if self.criterion == "calibrated":
            return f"{told}it, so train them longer or on more data, or ask for a higher recall"
        return (
            f"{told}this epsilon, so use `--criterion calibrated`, train them longer or on more data, or raise epsilon"
        )


def stitching(sets: ReachableSets, dataset: Dataset) -> Stitching:
    """Sizes, links between episodes, and the components of the graph of episodes before and after."""
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    anchors = sets.anchors
    other = anchors != sets.indices
    across = episode[anchors] != episode[sets.indices]
    sizes = Counter(sets.sizes.tolist())
    known = sets.facts.get("known_pairs", {})
    return Stitching(
        rows=len(sets),
        pairs=sets.pairs,
        largest=int(sets.sizes.max()),
        size_histogram=tuple(sorted(sizes.items())),
        more_than_own=len(np.unique(anchors[other])) / len(sets),
        across_episodes=len(np.unique(anchors[across])) / len(sets),
        components_before=dataset.episodes,
        components_after=_components(episode[anchors[across]], episode[sets.indices[across]], dataset.episodes),
        recall=known["recall"] if known else _own_recall(sets.facts),
        known=known,
        criterion=sets.config.get("criterion", "paper"),
    )


def _own_recall(facts: Mapping[str, Any]) -> float | None:
    """Of all rows, those that the models were fitted to included."""
    return facts["own_accepted"] / facts["anchors_with_own"] if facts.get("anchors_with_own") else None


def _components(left: Ints, right: Ints, count: int) -> int:
    """Connected components of `count` nodes under undirected edges: every node takes the least label around it."""
    edges = np.unique(np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1), axis=0)
    label = np.arange(count)
    while True:
        before = label.copy()
        least = np.minimum(label[edges[:, 0]], label[edges[:, 1]])
        np.minimum.at(label, edges[:, 0], least)
        np.minimum.at(label, edges[:, 1], least)
        label = label[label]
        if np.array_equal(before, label):
            return len(np.unique(label))

"""What the reachable sets join: the numbers a person wants before training on them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stacq.core.types import Rows
from stacq.data.dataset import Dataset
from stacq.reach.criterion import LOW_RECALL
from stacq.reach.sets import ReachableSets, extra_sizes

EXAMPLES = 4
EXAMPLES_AMONG = 1_000  # links that they are chosen from


class Stitch(NamedTuple):
    """From a state of one episode to what another saw next; steps count from 0 in each."""

    episode: int
    step: int
    other_episode: int
    other_step: int


@dataclass(frozen=True)
class Stitching:
    """How far the sets go beyond the data's own steps."""

    rows: int
    pairs: int
    largest: int
    size_histogram: tuple[tuple[int, int], ...]  # (set size, number of anchors), sizes ascending
    extra: float  # states per anchor beyond its own successor
    more_than_own: int  # anchors with another state than their own successor
    across_episodes: int  # anchors with a state of another episode
    components_before: int  # of the graph of episodes, each its own
    components_after: int  # with episodes joined where one's state reaches the other's
    recall: float | None  # share of true successors that pass the test itself
    known: Mapping[str, Any]  # what that was measured on, and the dimension that fails most; see criterion.KnownPairs
    criterion: str
    examples: tuple[Stitch, ...] = ()

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
        problem = f"only {recall:.0%} of the true successors pass the test{where}: the models are too coarse for "
        if self.criterion == "calibrated":
            return f"{problem}it, so train them longer or on more data"
        return (
            f"{problem}this epsilon, so use `--criterion calibrated`, or fit them longer "
            "(`--dynamics-preset default`) or to more data"
        )


def stitching(sets: ReachableSets, dataset: Dataset) -> Stitching:
    """Sizes, links between episodes, and the components of the graph of episodes before and after."""
    episode = np.repeat(np.arange(dataset.episodes, dtype=np.int32), dataset.lengths)
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
        extra=float(extra_sizes(sets).mean()),
        more_than_own=_different(anchors[other], len(sets)),
        across_episodes=_different(anchors[across], len(sets)),
        components_before=dataset.episodes,
        components_after=_components(episode[anchors[across]], episode[sets.indices[across]], dataset.episodes),
        recall=known["recall"] if known else _own_recall(sets.facts),
        known=known,
        criterion=sets.config.get("criterion", "paper"),
        examples=_examples(dataset, anchors[across], sets.indices[across], episode),
    )


def _different(rows: Rows, count: int) -> int:
    """How many of `count` rows are among these."""
    seen = np.zeros(count, dtype=np.bool_)
    seen[rows] = True
    return int(seen.sum())


def _examples(dataset: Dataset, anchors: Rows, rows: Rows, episode: Rows, *, seed: int = 0) -> tuple[Stitch, ...]:
    """A few links between episodes, each from another one as far as there are so many."""
    order = np.random.default_rng(seed).choice(len(anchors), min(len(anchors), EXAMPLES_AMONG), replace=False)
    _, first = np.unique(episode[anchors[order]], return_index=True)
    first.sort()
    rest = np.setdiff1d(np.arange(len(order)), first)
    picked = order[np.concatenate([first, rest])[:EXAMPLES]]
    places = [(int(episode[row]), int(row - dataset.episode_offsets[episode[row]])) for row in anchors[picked]]
    others = [(int(episode[row]), int(row - dataset.episode_offsets[episode[row]])) for row in rows[picked]]
    return tuple(Stitch(*here, *there) for here, there in zip(places, others, strict=True))


def _own_recall(facts: Mapping[str, Any]) -> float | None:
    """Of all rows, those that the models were fitted to included."""
    return facts["own_accepted"] / facts["anchors_with_own"] if facts.get("anchors_with_own") else None


def _components(left: Rows, right: Rows, count: int) -> int:
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

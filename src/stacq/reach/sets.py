"""Which states of the data can be reached in one step from each state of the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.artefacts import check_parent, damaged, read_artefact, write_artefact
from stacq.core.errors import InputError
from stacq.core.outside import has_shape
from stacq.core.types import Array, Bools, Float32s, Ints, Rows
from stacq.data.dataset import Dataset

KIND = "reach"
RECALL = {"own_accepted": int, "anchors_with_own": int}  # types of the facts that reports read
KNOWN_PAIRS = {"rows": int, "held_out": bool, "recall": float, "worst_dimension": int}


@dataclass(frozen=True, eq=False)
class ReachableSets:
    """For anchor row i, the rows j whose next state s'_j is reachable from s_i, as flat indices and offsets.

    Always true: indices are rows with a known successor, sorted and unique within a set, and i is in its own
    set if its successor is known. `check` verifies it against a dataset.
    """

    indptr: Ints  # [N + 1]
    indices: Rows  # [M]
    config: Mapping[str, Any]  # every option behind the sets
    parents: Mapping[str, str]  # hashes of the dataset and of the dynamics
    facts: Mapping[str, Any]  # what was counted while they were made
    prices: Float32s | None = None  # [M] in rewards, 0 for own successors; none where every pair is free

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Ints:
        """Number of reachable states of each anchor, [N]."""
        return np.diff(self.indptr)

    def of(self, row: int) -> Rows:
        """The rows whose next states are reachable from the state of `row`."""
        return self.indices[self.indptr[row] : self.indptr[row + 1]]

    @property
    def anchors(self) -> Rows:
        """The anchor of every entry of `indices`, [M]."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    @property
    def pairs(self) -> int:
        return len(self.indices)

    def check(self, dataset: Dataset) -> None:
        """Raise unless every promise holds for that dataset."""
        problem = _broken_promise(self, dataset)
        if problem:
            raise InputError(
                f"these reachable sets do not fit the dataset: {problem}",
                where=dataset.name or "dataset",
                expected="sets made for this dataset",
                fix="make them again",
            )

    def save(self, directory: Path | str) -> None:
        arrays: dict[str, Array] = {"indptr": self.indptr, "indices": self.indices.astype(np.int32, copy=False)}
        if self.prices is not None:
            arrays["prices"] = self.prices
        manifest = {"options": dict(self.config), "facts": dict(self.facts)}
        write_artefact(Path(directory), KIND, arrays, manifest, self.parents)

    @staticmethod
    def load(directory: Path | str, dataset: Dataset | None = None) -> "ReachableSets":
        """Read what `save` wrote; given the dataset, refuse sets that were made from another one."""
        artefact = read_artefact(Path(directory), KIND)
        if dataset is not None:
            check_parent(artefact, "dataset", dataset.fingerprint, dataset.name or "the dataset")
        options, facts = artefact.config.get("options"), artefact.config.get("facts")
        if not (isinstance(options, dict) and isinstance(facts, dict) and _sensible(options, facts)):
            raise damaged(artefact.directory, "its manifest has no sensible 'options' and 'facts' of the sets")
        sets = ReachableSets(
            indptr=artefact.array("indptr", np.int64, (None,)),
            indices=artefact.array("indices", np.int32, (None,)),
            config=options,
            parents=artefact.parents,
            facts=facts,
            prices=artefact.array("prices", np.float32, (None,)) if "prices" in artefact.arrays else None,
        )
        if problem := _broken_form(sets):
            raise damaged(artefact.directory, problem)
        return sets


def _sensible(options: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a manifest has what reports read, of the types they expect; sets of one's own may have no facts."""
    known = facts.get("known_pairs", {})
    return (
        isinstance(options.get("criterion", ""), str)
        and (known == {} or has_shape(known, KNOWN_PAIRS))
        and ("anchors_with_own" not in facts or has_shape(facts, RECALL))
    )


def _broken_form(sets: ReachableSets) -> str:
    """What can be checked without the dataset."""
    indptr, indices = sets.indptr, sets.indices
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        return "the offsets are not offsets"
    if len(indices) and not (indices.min() >= 0 and indices.max() < len(sets)):
        return "indices outside the data"
    if sets.prices is not None and (len(sets.prices) != len(indices) or (sets.prices < 0).any()):
        return "the prices are not one for each pair, from 0"
    return ""


def _broken_promise(sets: ReachableSets, dataset: Dataset) -> str:
    indices = sets.indices
    if len(sets) != len(dataset):
        return f"{len(sets):,} sets for {len(dataset):,} rows"
    if problem := _broken_form(sets):
        return problem
    if not dataset.successor_known[indices].all():
        return "rows without a known successor"
    first = np.zeros(len(indices), dtype=np.bool_)
    first[sets.indptr[:-1][sets.sizes > 0]] = True
    if not (np.diff(indices, prepend=-1) > 0)[~first].all():
        return "unsorted or repeated indices"
    if not own_present(sets)[dataset.successor_known].all():
        return "a state's own successor is missing from its set"
    if sets.prices is not None and sets.prices[sets.anchors == indices].any():
        return "own successors with a price"
    return ""


def own_present(sets: ReachableSets) -> Bools:
    """Whether each row is in its own set, [N]."""
    present = np.zeros(len(sets), dtype=np.bool_)
    anchors = sets.anchors
    present[anchors[anchors == sets.indices]] = True
    return present


def others(sets: ReachableSets) -> tuple[Rows, Rows]:
    """Anchor and row of every entry that is not an own successor, each [M]."""
    anchors = sets.anchors
    other = anchors != sets.indices
    return anchors[other], sets.indices[other]


def extra_sizes(sets: ReachableSets) -> Ints:
    """Number of reachable states of each anchor, its own successor not counted, [N]."""
    return sets.sizes - own_present(sets)

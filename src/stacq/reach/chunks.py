"""Reachable sets of a chunk of anchors: ranges, the join of boxes, and the test of each pair (appendices B and C)."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.files import write_json
from stacq.core.outside import has_shape, json_object
from stacq.core.progress import Update
from stacq.core.reading import read_text
from stacq.core.types import Bools, Float32s, Ints, Rows
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.reach.config import Engine, ReachConfig
from stacq.reach.criterion import (
    Blocks,
    Candidates,
    Criterion,
    Device,
    calibrated,
    calibrated_from,
    device_of,
    judged,
    padded,
    to_facts,
)
from stacq.reach.join import BoxIndex, typical_widths
from stacq.reach.ranges import box_sizes, range_actions, ranges, widened
from stacq.reach.sets import KNOWN_PAIRS

CHUNK = 16_384  # anchors whose work is kept or lost together

CROWD = 4_000_000  # pairs in boxes that are held at a time, each some 40 bytes

KNOWN_ROWS = 2_000  # known pairs behind the recall, and as many others behind a calibration

CALIBRATED = {  # what a kept test holds
    "trust": [float],
    "worst_dimension": int,
    **dict.fromkeys(("epsilon", "threshold", "recall", "bound"), float),
}

STATES = {"cpu": 256, "gpu": 1_024}  # anchors per call of the ranges

TELL_BLOCKS = 4  # such calls between two words of progress

BLOCKS = {"cpu": Blocks(2_048, 2_048), "gpu": Blocks(131_072, 16_384)}


class Chunk(NamedTuple):
    """Sets of consecutive anchors, and what was counted on the way."""

    counts: Ints  # states per anchor
    rows: Rows  # their dataset rows, anchor after anchor
    facts: Ints  # in the order of FACTS


class Tested(NamedTuple):
    """Pairs that are in the sets, and the first three of FACTS."""

    anchors: Rows  # [M]
    rows: Rows  # [M]
    facts: tuple[int, int, int]


FACTS = ("candidates", "accepted", "own_accepted", "anchors_with_own", "capped")


class ChunkMaker:
    """The models and states on the device, the index of candidates, and the clock."""

    def __init__(
        self,
        dataset: Dataset,
        dynamics: Dynamics,
        config: ReachConfig,
        engine: Engine,
        seconds: dict[str, float],
        progress: Update,
    ) -> None:
        self.config, self.engine, self.seconds, self.progress = config, engine, seconds, progress
        self.rows, self.length = len(dataset), CHUNK
        self.known = dataset.successor_known
        self.s = dynamics.normaliser.apply(dataset.observations)
        self.s_next = dynamics.normaliser.apply(dataset.next_observations)
        self.candidates = np.flatnonzero(self.known)
        kind = "cpu" if jax.default_backend() == "cpu" else "gpu"
        self.states = STATES[kind]
        self.device: Device = device_of(dynamics, config.clip, BLOCKS[kind])
        low, high = dynamics.action_low, dynamics.action_high
        assert config.estimator != "auto" and config.actions is not None
        self.actions = jnp.asarray(range_actions(low, high, config.actions, config.estimator, config.seed))
        self.criterion = Criterion(config.norm, config.epsilon)
        self.index: BoxIndex | None = None

    def prepare(self, path: Path, held_out: Ints | None) -> Mapping[str, Any]:
        """The test, calibrated if asked, and its result for known pairs.

        An earlier run's is taken over from `path`: all chunks must be tested alike. Where it cannot be read, neither
        can they be trusted.
        """
        try:
            facts: Mapping[str, Any] = json_object(read_text(path))
            self._check_test(facts)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            rmtree(path.parent, ignore_errors=True)
            self.progress(0, phase="known pairs")
            facts = self._timed("known pairs", self._known, held_out)
            write_json(path, facts)
        if self.config.criterion == "calibrated":
            self.criterion = calibrated_from(facts)
        return facts

    def _check_test(self, facts: Mapping[str, Any]) -> None:
        """A ValueError unless it is a test as `to_facts` writes it, for states of this size."""
        found, known = facts.get("calibration", {}), facts.get("known_pairs", {})
        wanted = CALIBRATED if self.config.criterion == "calibrated" else {}
        if not has_shape(found, wanted) or found.keys() != wanted.keys():
            raise ValueError("no test")
        if known != {} and not has_shape(known, KNOWN_PAIRS):
            raise ValueError("no recall")
        if wanted and len(found["trust"]) != self.s.shape[1]:
            raise ValueError("a test for states of another size")

    def _known(self, held_out: Ints | None) -> Mapping[str, Any]:
        """Calibrate on some of the known pairs, judge on others: on its own pairs a calibration looks too good."""
        calibrating = self.config.criterion == "calibrated"
        rows = np.random.default_rng(self.config.seed).permutation(self.candidates if held_out is None else held_out)
        rows = rows[: KNOWN_ROWS * (1 + calibrating)]
        if not len(rows):
            return {}
        criterion, half = self.criterion, len(rows) // 2 if calibrating else 0
        if calibrating:
            pairs = self._own_pairs(np.sort(rows[half:]))
            criterion = calibrated(self.device, pairs, recall=self.config.recall, epsilon=self.config.epsilon)
        pairs = self._own_pairs(np.sort(rows[:half] if half else rows))
        return to_facts(criterion, judged(criterion, self.device, pairs, held_out is not None))

    def _own_pairs(self, rows: Ints) -> Candidates:
        sizes = box_sizes(*self._boxes(rows))
        return Candidates(self.s, self.s_next, rows, sizes, np.arange(len(rows)), rows)

    def make(self, start: int) -> Chunk:
        anchors = np.arange(start, min(start + self.length, self.rows))
        share = self._share_of_ranges()
        low, high = self._timed("ranges", self._boxes, anchors, share)
        counts = self._timed("join", self._candidates(low, high).count, low, high)
        found = []
        for part in manageable(counts, CROWD):
            found.append(self._tested(anchors[part], low[part], high[part]))
            done = int(len(anchors) * share + part.stop * (1 - share))
            self.progress(start + done, phase="join and agreement")
        return _chunk(anchors, self.known, found, self.config)

    def _tested(self, anchors: Ints, low: Float32s, high: Float32s) -> Tested:
        """The pairs inside the boxes of some anchors, without those that were rejected."""
        indptr, hits = self._timed("join", self._candidates(low, high).query, low, high)
        place, rows = np.repeat(np.arange(len(anchors)), np.diff(indptr)), self.candidates[hits]
        del hits
        pairs = Candidates(self.s, self.s_next, anchors, box_sizes(low, high), place, rows)
        accepted = self._timed("agreement", self.criterion.accepts, self.device, pairs)
        own = anchors[place] == rows
        keep = accepted | own
        facts = (len(own), int(accepted.sum()), int((accepted & own).sum()))
        return Tested(anchors[place[keep]].astype(np.int32), rows[keep].astype(np.int32), facts)

    def _share_of_ranges(self) -> float:
        """Of the time of a chunk, as far as it is known."""
        spent = [self.seconds.get(phase, 0.0) for phase in ("ranges", "join", "agreement")]
        return spent[0] / sum(spent) if spent[1] else 0.5

    def _timed(self, phase: str, function: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        result = function(*arguments)
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started
        return result

    def _boxes(self, anchors: Ints, share: float | None = None) -> tuple[Float32s, Float32s]:
        """Widened ranges. With their share of a chunk's time, progress is reported."""
        parts = []
        for block in _blocks(self.s[anchors], self.states):
            parts.append(ranges(self.device.models, jnp.asarray(block), self.actions))
            done = min(len(parts) * self.states, len(anchors))
            if share is not None and len(parts) % TELL_BLOCKS == 0:
                parts[-1][0].block_until_ready()
                self.progress(int(anchors[0]) + int(done * share), phase="ranges")
        low, high = (np.concatenate([np.asarray(part[side]) for part in parts])[: len(anchors)] for side in (0, 1))
        return widened(low, high, self.s_next[anchors], self.known[anchors])

    def _candidates(self, low: Float32s, high: Float32s) -> BoxIndex:
        """The index of all candidates, made for boxes like the first ones."""
        if self.index is None:
            self.index = BoxIndex(self.s_next[self.candidates], widths=typical_widths(low, high), engine=self.engine)
        return self.index


def manageable(counts: Ints, most: int) -> Iterator[slice]:
    """Consecutive parts whose counts add up to `most` at the most; what is more by itself is a part of its own."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(first, last)
        first = last


def _blocks(values: Float32s, count: int) -> Iterator[Float32s]:
    """Pieces of `count` rows; the last is filled up by repeating a row."""
    for first in range(0, len(values), count):
        yield padded(values[first : first + count], count)


def _chunk(anchors: Ints, known: Bools, tested: list[Tested], config: ReachConfig) -> Chunk:
    """Accepted pairs plus every own successor, sorted; capped if asked."""
    i: Rows = np.concatenate([each.anchors for each in tested])
    j: Rows = np.concatenate([each.rows for each in tested])
    capped = 0
    if config.cap is not None:
        i, j, capped = _capped(i, j, config.cap, config.seed)
    counts = np.bincount(i - anchors[0], minlength=len(anchors))
    facts = (*np.sum([each.facts for each in tested], axis=0), int(known[anchors].sum()), capped)
    return Chunk(counts.astype(np.int64), j, np.array(facts, dtype=np.int64))


def _capped(i: Rows, j: Rows, cap: int, seed: int) -> tuple[Rows, Rows, int]:
    """At most `cap` states per anchor: the own successor first, then a seeded choice."""
    rng = np.random.default_rng([seed, int(i[0]) if len(i) else 0])
    rank = np.where(i == j, -1.0, rng.random(len(i)))
    order = np.lexsort((rank, i))
    place = np.arange(len(i)) - np.searchsorted(i, i[order], side="left")
    kept = np.sort(order[place < cap])
    return i[kept], j[kept], len(i) - len(kept)

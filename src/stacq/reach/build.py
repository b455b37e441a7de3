"""From dataset and dynamics to reachable sets, in chunks that survive a kill (appendices B and C)."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.artefacts import cache_directory, end_work, kept_arrays, work_of
from stacq.core.errors import InputError, check_choice, check_seed, check_whole
from stacq.core.files import alone, write_json
from stacq.core.outside import has_shape, json_object
from stacq.core.progress import Update
from stacq.core.reading import read_text
from stacq.core.staging import sweep
from stacq.core.types import Array, Bools, Float32s, Ints, Rows
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.reach.config import RECALL, CriterionName, Engine, Estimator, Norm, ReachConfig
from stacq.reach.criterion import (
    KEPT,
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
from stacq.reach.sets import KIND, KNOWN_PAIRS, ReachableSets

OPTIONS = "options of the reachable sets"
CHOICES = {
    "criterion": get_args(CriterionName),
    "norm": get_args(Norm),
    "estimator": ("auto", *get_args(Estimator)),
}
ACTIONS: dict[Estimator, int] = {"random": 1000, "corners": 64}  # the latter a tenth of the arithmetic
PAPER = ReachConfig(estimator="random", actions=ACTIONS["random"])

MOST_ACTIONS = 100_000  # behind a range: hundreds of times what the paper takes
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


def resolved(config: ReachConfig) -> ReachConfig:
    """The options as they will be used on this machine, refused if they make no sense."""
    for name, choices in CHOICES.items():
        check_choice(name, getattr(config, name), choices, where=OPTIONS)
    estimator = config.estimator
    if estimator == "auto":
        estimator = "corners" if jax.default_backend() == "cpu" else "random"
    actions = ACTIONS[estimator] if config.actions is None else config.actions
    _check_numbers(config, actions, least=1 if estimator == "random" else 0)
    if config.criterion == "calibrated":
        config = replace(_checked(config), clip=True)
    elif config.recall != RECALL:
        fix = "choose the calibrated criterion, or leave it out"
        raise InputError("a recall was asked for", where="the paper's criterion", expected="an epsilon alone", fix=fix)
    return replace(config, estimator=estimator, actions=actions)


def kept_at(dataset: Dataset, dynamics: Dynamics, config: ReachConfig) -> Path:
    """Where the sets of these inputs and options lie in the cache, present or not."""
    return cache_directory(KIND, asdict(resolved(config)), _parents(dataset, dynamics))


def check_dynamics(dataset: Dataset, dynamics: Dynamics) -> None:
    """Models of other sizes, or of actions with other bounds, say nothing about this data."""
    found = (len(dynamics.normaliser.mean), len(dynamics.action_low))
    if found != (dataset.observation_size, dataset.action_size):
        raise InputError(
            f"these dynamics are for observations of {found[0]} and actions of {found[1]} numbers",
            where=dataset.name or "dataset",
            expected=f"{dataset.observation_size} and {dataset.action_size}, the sizes of the data",
            fix="fit dynamics to this dataset: `stacq dynamics fit`",
        )
    of_data = (dataset.action_low, dataset.action_high)
    of_models = (dynamics.action_low, dynamics.action_high)
    slack = 1e-3 * (dataset.action_high - dataset.action_low)
    if any((np.abs(ours - theirs) > slack).any() for ours, theirs in zip(of_models, of_data, strict=True)):
        low, high = (bound.tolist() for bound in of_models)
        raise InputError(
            f"these dynamics are for actions from {low} to {high}",
            where=dataset.name or "dataset",
            expected="the bounds of the data, {} to {}".format(*(bound.tolist() for bound in of_data)),
            fix="state the same bounds for both, or fit dynamics to this dataset",
        )


def _parents(dataset: Dataset, dynamics: Dynamics) -> dict[str, str]:
    return {"dataset": dataset.fingerprint, "dynamics": dynamics.fingerprint}


def _check_numbers(config: ReachConfig, actions: int, least: int) -> None:
    if not (np.isfinite(config.epsilon) and config.epsilon >= 0):
        raise InputError(
            f"epsilon is {config.epsilon}", where=OPTIONS, expected="a finite number from 0", fix="try 0.1"
        )
    bounds = f"at least {least} and at most {MOST_ACTIONS:,} of them" + " (the corners may do alone)" * (least == 0)
    check_whole(
        f"actions is {actions}", actions, least, MOST_ACTIONS, where=OPTIONS, expected=bounds, fix="leave it out"
    )
    if config.cap is not None:
        most, fix = np.iinfo(np.int32).max, "leave it out for no cap"
        check_whole(f"cap is {config.cap}", config.cap, 1, most, where=OPTIONS, fix=fix)
    check_seed(config.seed, where=OPTIONS)


def _checked(config: ReachConfig) -> ReachConfig:
    where = "the calibrated criterion"
    if config.norm != "linf":
        fix = "leave the norm as it is, or use the paper's criterion"
        raise InputError(f"norm is {config.norm}", where=where, expected="linf, which it is defined for", fix=fix)
    if not 0 < config.recall <= KEPT:
        raise InputError(f"recall is {config.recall}", where=where, expected=f"a share above 0 and up to {KEPT}")
    return config


def reachable_sets(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig = ReachConfig(),
    *,
    engine: Engine = "cpu",
    progress: Update | None = None,
    log: Callable[[str], None] | None = None,
) -> ReachableSets:
    """The reachable sets of every row, from the cache if they were made before with the same inputs.

    Chunks of anchors are written as they are finished: the same call after a kill goes on from there and
    yields the same sets.
    """
    asked, config, say = config, resolved(config), log or silent
    check_dynamics(dataset, dynamics)
    parents = _parents(dataset, dynamics)
    held_out = _held_out(dynamics, dataset, parents["dataset"])
    if config.criterion == "calibrated" and held_out is None:
        raise _not_calibrated(dataset, dynamics, parents["dataset"])
    fitted_to = dynamics.parents.get("dataset", parents["dataset"])
    if fitted_to != parents["dataset"]:
        hashes = f"{fitted_to[:12]}; this one is {parents['dataset'][:12]}"
        say(f"note: the dynamics were fitted to another dataset, {hashes}")
    directory = kept_at(dataset, dynamics, asked)
    sweep(directory.parent)
    if not directory.exists():
        with alone(directory, lambda: say("another process is finding these sets: waiting for it")):
            if not directory.exists():
                say(_ranges_text(asked, config))
                return _found(dataset, dynamics, config, engine, held_out, directory, progress or _unseen, say)
    end_work(directory)
    say("found before, with the same data, models and options")
    return ReachableSets.load(directory)


def _found(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig,
    engine: Engine,
    held_out: Ints | None,
    directory: Path,
    progress: Update,
    say: Callable[[str], None],
) -> ReachableSets:
    """Sets that are not in the cache yet, from chunk to chunk, and then saved there."""
    work = work_of(directory, CHUNK)
    seconds: dict[str, float] = {}
    maker = _Maker(dataset, dynamics, config, engine, seconds, progress)
    test = maker.prepare(work / "test.json", held_out)
    if "calibration" in test:
        say("calibrated on held-out rows: threshold {threshold:.2f}, recall {recall:.1%}".format(**test["calibration"]))
    chunks = [_kept(work, start, maker) for start in range(0, len(dataset), CHUNK)]
    facts = dict(zip(FACTS, np.sum([chunk.facts for chunk in chunks], axis=0).tolist(), strict=True))
    counts = np.concatenate([chunk.counts for chunk in chunks])
    sets = ReachableSets(
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        indices=np.concatenate([chunk.rows for chunk in chunks]),
        config=asdict(config),
        parents=_parents(dataset, dynamics),
        facts={**facts, **test},
    )
    sets.check(dataset)
    sets.save(directory)
    end_work(directory)
    say(", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items()))
    return sets


def silent(_: str) -> None:
    pass


def _unseen(done: int, total: int | None = None, *, kept: bool = False, phase: str = "") -> None:
    pass


def _ranges_text(asked: ReachConfig, config: ReachConfig) -> str:
    """Where the ranges come from, and if that was not asked for, why."""
    if config.estimator == "random":
        return f"ranges from {config.actions:,} uniform actions"
    text = f"ranges from the corners of the action box and {config.actions:,} uniform actions"
    if asked.estimator == "auto":
        text += f", for want of a GPU; the paper's {ACTIONS['random']:,} (--estimator random) take many times as long"
    return text


def _held_out(dynamics: Dynamics, dataset: Dataset, fingerprint: str) -> Ints | None:
    """Rows that no member of the dynamics saw, if that is known of any."""
    rows = dynamics.held_out
    if dynamics.parents.get("dataset") != fingerprint or not len(rows):
        return None
    if rows.max() >= len(dataset) or not dataset.successor_known[rows].all():
        raise InputError(
            f"these dynamics say that they held out row {rows.max():,}, or rows without a known successor",
            where=dataset.name or "dataset",
            expected=f"rows of the {len(dataset):,} whose successor is known",
            fix="fit them again with `stacq dynamics fit`",
        )
    return rows


def _not_calibrated(dataset: Dataset, dynamics: Dynamics, fingerprint: str) -> InputError:
    another = dynamics.parents.get("dataset") != fingerprint
    return InputError(
        "these dynamics " + ("were fitted to another dataset" if another else "do not say which rows they held out"),
        where=dataset.name or "dataset",
        expected="dynamics with held-out rows of this dataset, to calibrate the criterion on",
        fix="fit them again with `stacq dynamics fit`, or use the paper's criterion",
    )


def _kept(work: Path, start: int, maker: "_Maker") -> Chunk:
    """A chunk that an earlier run left, else made and left there."""
    made = False

    def make() -> Mapping[str, Array]:
        nonlocal made
        made = True
        return maker.make(start)._asdict()

    chunk = Chunk(**kept_arrays(work / f"{start:09d}.npz", make))
    maker.progress(min(start + CHUNK, maker.rows), kept=not made)
    return chunk


class _Maker:
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
        self.rows = len(dataset)
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
        """The test, calibrated if asked, and how known pairs fare in it.

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
        anchors = np.arange(start, min(start + CHUNK, self.rows))
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
        """Widened ranges; given their share of a chunk's time, progress is told."""
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

"""From dataset and dynamics to reachable sets, in chunks that survive a kill (appendices B and C)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.artefacts import cache_directory
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics, Models
from stacq.files import content_hash, replacing
from stacq.reach.agreement import Norm, distance
from stacq.reach.join import BoxIndex, Engine, typical_widths
from stacq.reach.ranges import Estimator, range_actions, ranges, widened
from stacq.reach.sets import KIND, ReachableSets
from stacq.types import Array, Bools, Float32s, Ints


@dataclass(frozen=True)
class ReachConfig:
    """What counts as reachable; frozen in the manifest, and part of the cache key."""

    epsilon: float = 0.1  # largest disagreement of the models, in units of one step's range
    norm: Norm = "linf"
    estimator: Estimator | Literal["auto"] = "auto"  # of the ranges; "auto" spends a CPU's time more sparingly
    actions: int = 1000  # uniform actions behind every range
    clip: bool = False  # inverse actions into the action bounds before they are tried
    cap: int | None = None  # most states per set; a seeded choice that keeps the own successor
    seed: int = 42


PAPER = ReachConfig(estimator="random")
SPARING = {"estimator": "corners", "actions": 64}  # a tenth of the arithmetic; see docs/reachability.md

CHUNK = 16_384  # anchors whose work is kept or lost together


class Sizes(NamedTuple):
    """How much is computed at a time: a GPU wants large blocks, a CPU small ones."""

    states: int  # anchors per call of the ranges
    pairs: int  # pairs per call of the agreement test


SIZES = {"cpu": Sizes(256, 8_192), "gpu": Sizes(1_024, 131_072)}


class Chunk(NamedTuple):
    """Sets of consecutive anchors, and what was counted on the way."""

    counts: Ints  # states per anchor
    rows: Ints  # their dataset rows, anchor after anchor
    facts: Ints  # in the order of FACTS


FACTS = ("candidates", "accepted", "own_accepted", "anchors_with_own", "capped")


def resolved(config: ReachConfig) -> ReachConfig:
    """The options as they will be used on this machine."""
    if config.estimator != "auto":
        return config
    if jax.default_backend() == "cpu":
        return replace(config, **SPARING)  # type: ignore[arg-type]
    return replace(config, estimator="random")


def reachable_sets(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig = ReachConfig(),
    *,
    engine: Engine = "cpu",
    progress: Callable[[int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> ReachableSets:
    """The reachable sets of every row, from the cache if they were made before with the same inputs.

    Chunks of anchors are written as they are finished: the same call after a kill goes on from there and
    yields the same sets.
    """
    config = resolved(config)
    parents = {"dataset": dataset.fingerprint, "dynamics": content_hash(dynamics.arrays())}
    if dynamics.parents.get("dataset") not in (None, parents["dataset"]):
        (log or _silent)("note: the dynamics were fitted to another dataset")
    directory = cache_directory(KIND, asdict(config), parents)
    if directory.exists():
        return ReachableSets.load(directory)
    if log:
        log(f"ranges from {config.actions} uniform actions" + (" and the corners" * (config.estimator == "corners")))
    work = directory.with_name(f".partial-{directory.name}")
    seconds: dict[str, float] = {}
    maker = _Maker(dataset, dynamics, config, engine, seconds)
    chunks = [_kept(work, start, maker, progress) for start in range(0, len(dataset), CHUNK)]
    facts = dict(zip(FACTS, np.sum([chunk.facts for chunk in chunks], axis=0).tolist(), strict=True))
    counts = np.concatenate([chunk.counts for chunk in chunks])
    sets = ReachableSets(
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        indices=np.concatenate([chunk.rows for chunk in chunks]),
        config=asdict(config),
        parents=parents,
        facts=facts,
    )
    sets.check(dataset)
    sets.save(directory)
    rmtree(work, ignore_errors=True)
    if log:
        log(", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items()))
    return sets


def _silent(_: str) -> None:
    pass


def _kept(work: Path, start: int, maker: "_Maker", progress: Callable[[int], None] | None) -> Chunk:
    """A chunk from the disk if an earlier run left it whole, else made and left there."""
    path = work / f"{start:09d}.npz"
    chunk = _read(path)
    if chunk is None:
        chunk = maker.make(start)
        with replacing(path) as temporary, open(temporary, "wb") as handle:
            np.savez(handle, **chunk._asdict())
    if progress:
        progress(min(start + CHUNK, maker.rows))
    return chunk


def _read(path: Path) -> Chunk | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return Chunk(archive["counts"], archive["rows"], archive["facts"])


class _Maker:
    """The models and states on the device, the index of candidates, and the clock."""

    def __init__(
        self, dataset: Dataset, dynamics: Dynamics, config: ReachConfig, engine: Engine, seconds: dict[str, float]
    ) -> None:
        self.config, self.engine, self.seconds = config, engine, seconds
        self.rows = len(dataset)
        self.known = dataset.successor_known
        self.s = dynamics.normaliser.apply(dataset.observations)
        self.s_next = dynamics.normaliser.apply(dataset.next_observations)
        self.candidates = np.flatnonzero(self.known)
        self.models: Models = dynamics.models
        low, high = dynamics.action_low, dynamics.action_high
        assert config.estimator != "auto"
        self.actions = jnp.asarray(range_actions(low, high, config.actions, config.estimator, config.seed))
        wide = np.full_like(low, np.inf)
        self.bounds = tuple(jnp.asarray(bound) for bound in ((low, high) if config.clip else (-wide, wide)))
        self.sizes = SIZES["cpu" if jax.default_backend() == "cpu" else "gpu"]
        self.index: BoxIndex | None = None

    def make(self, start: int) -> Chunk:
        anchors = np.arange(start, min(start + CHUNK, self.rows))
        low, high = self._timed("ranges", self._boxes, anchors)
        indptr, hits = self._timed("join", self._inside, low, high)
        pairs = np.repeat(anchors, np.diff(indptr)), self.candidates[hits]
        distances = self._timed("agreement", self._distances, *pairs, high - low, start)
        return _chunk(anchors, self.known, *pairs, distances <= self.config.epsilon, self.config)

    def _timed(self, phase: str, function: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        result = function(*arguments)
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started
        return result

    def _boxes(self, anchors: Ints) -> tuple[Float32s, Float32s]:
        parts = [
            ranges(self.models, jnp.asarray(block), self.actions)
            for block in _blocks(self.s[anchors], self.sizes.states)
        ]
        low, high = (np.concatenate([np.asarray(part[side]) for part in parts])[: len(anchors)] for side in (0, 1))
        return widened(low, high, self.s_next[anchors], self.known[anchors])

    def _inside(self, low: Float32s, high: Float32s) -> tuple[Ints, Ints]:
        if self.index is None:
            self.index = BoxIndex(self.s_next[self.candidates], widths=typical_widths(low, high), engine=self.engine)
        return self.index.query(low, high)

    def _distances(self, anchors: Ints, rows: Ints, sizes: Float32s, start: int) -> Float32s:
        """Disagreement of every pair, in blocks of one shape, so that one compiled program serves all."""
        count = self.sizes.pairs
        found = []
        for first in range(0, len(rows), count):
            i, j = (_padded(part[first : first + count], count) for part in (anchors, rows))
            blocks = (self.s[i], self.s_next[j], sizes[i - start])
            found.append(np.asarray(distance(self.models, *map(jnp.asarray, blocks), *self.bounds, self.config.norm)))
        return np.concatenate([np.empty(0, dtype=np.float32), *found])[: len(rows)]


def _blocks(values: Float32s, count: int) -> Iterator[Float32s]:
    """Pieces of `count` rows; the last is filled up by repeating a row."""
    for first in range(0, len(values), count):
        yield _padded(values[first : first + count], count)


def _padded(values: Array, count: int) -> Array:
    missing = count - len(values)
    return np.concatenate([values, np.repeat(values[:1], missing, axis=0)]) if missing else values


def _chunk(anchors: Ints, known: Bools, i: Ints, j: Ints, accepted: Bools, config: ReachConfig) -> Chunk:
    """Accepted pairs plus every own successor, sorted; capped if asked."""
    own = i == j
    has_own = known[anchors]
    keep = accepted | own
    i, j = i[keep], j[keep]
    capped = 0
    if config.cap is not None:
        i, j, capped = _capped(i, j, config.cap, config.seed)
    counts = np.bincount(i - anchors[0], minlength=len(anchors))
    facts = (len(own), int(accepted.sum()), int((accepted & own).sum()), int(has_own.sum()), capped)
    return Chunk(counts.astype(np.int64), j, np.array(facts, dtype=np.int64))


def _capped(i: Ints, j: Ints, cap: int, seed: int) -> tuple[Ints, Ints, int]:
    """At most `cap` states per anchor: the own successor first, then a seeded choice."""
    rng = np.random.default_rng([seed, int(i[0]) if len(i) else 0])
    rank = np.where(i == j, -1.0, rng.random(len(i)))
    order = np.lexsort((rank, i))
    place = np.arange(len(i)) - np.searchsorted(i, i[order], side="left")
    kept = np.sort(order[place < cap])
    return i[kept], j[kept], len(i) - len(kept)

"""What a person wants to know about a dataset before training on it: numbers, and what they warn of."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from stacq.core.types import Float64s, Floats, Ints
from stacq.data.concerns import concerns
from stacq.data.dataset import Dataset
from stacq.data.nearness import nearness
from stacq.data.registry import task_of
from stacq.data.tasks import Task, normalised_score
from stacq.data.tours import Tour, tour_of

BLOCK = 8192  # rows at a time: what fits the cache
SAMPLE = 100_000  # rows behind percentiles and shapes; their ranks are then right to 0.1 % or so
EPISODE_BINS = 34
DIMENSION_BINS = 12
AT_BOUND = 1e-3  # of the range: an action this close to a bound is saturated
SHRINK = 2.0**-64  # a power of two loses no digit, and sums of numbers so scaled cannot overflow
LARGEST = 1e300  # differences and sums of numbers up to here still fit a double


@dataclass(frozen=True)
class Spread:
    """Where the values of one quantity lie."""

    low: float
    q1: float
    median: float
    mean: float
    q3: float
    high: float


@dataclass(frozen=True)
class Histogram:
    """Counts in bins of equal width from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """One dimension of the observations or actions.

    Extremes, mean and deviation are over all rows, percentiles and shape over `Summary.sampled_rows`.
    The shape spans the declared bounds of an action, the percentiles of an observation (rows outside
    them fall into the outermost bins).
    """

    low: float
    p1: float
    mean: float
    std: float
    p99: float
    high: float
    shape: tuple[int, ...]

    @property
    def constant(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True)
class Summary:
    """What is known of a dataset: small enough to print, and independent of its arrays."""

    name: str
    env_id: str | None
    task: str | None  # key of the D4RL task behind the scores
    rows: int
    episodes: int
    returns: Spread
    scores: Spread | None  # the same as D4RL's normalised scores, where the task is known
    lengths: Spread
    rewards: Spread
    return_histogram: Histogram
    length_histogram: Histogram
    terminals: int
    timeouts: int
    cut_episodes: int
    unknown_successors: int
    observations: tuple[Column, ...]
    actions: tuple[Column, ...]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    saturation: tuple[float, ...]  # share of rows at a bound, per action dimension
    duplicates: int  # rows whose observation equals that of an earlier row, exactly
    sampled_rows: int
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    nearness: float = float("nan")  # distance of the nearest other episode, in steps
    tour: Tour | None = None  # where the data is of walks through one of D4RL's mazes
    warnings: tuple[str, ...] = ()

    @property
    def saturated(self) -> float:
        """Share of all action entries that lie at a bound."""
        return float(np.mean(self.saturation))


def summarise(dataset: Dataset) -> Summary:
    """Everything `stacq data inspect` shows; about a second for two million rows of 17 dimensions."""
    task = task_of(dataset.name) or task_of(dataset.env_id or "")
    rows = sample_rows(len(dataset))
    # Numbers near the end of the floating range pass the border: they may overflow here, but not complain.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        returns = _tame(dataset.returns)
        summary = Summary(
            name=dataset.name,
            env_id=dataset.env_id,
            task=task.key if task else None,
            rows=len(dataset),
            episodes=dataset.episodes,
            returns=spread(returns),
            scores=_scores(spread(returns), task) if task else None,
            lengths=spread(dataset.lengths),
            rewards=spread(dataset.rewards),
            return_histogram=histogram(returns, EPISODE_BINS),
            length_histogram=histogram(dataset.lengths, EPISODE_BINS),
            terminals=int(dataset.terminals.sum()),
            timeouts=int(dataset.timeouts.sum()),
            cut_episodes=int(dataset.cut.sum()),
            unknown_successors=int((~dataset.successor_known).sum()),
            observations=_columns(dataset.observations, rows),
            actions=_columns(dataset.actions, rows, dataset.action_low, dataset.action_high),
            action_low=tuple(dataset.action_low.tolist()),
            action_high=tuple(dataset.action_high.tolist()),
            saturation=tuple(saturation(dataset.actions, dataset.action_low, dataset.action_high).tolist()),
            duplicates=count_duplicates(dataset.observations),
            sampled_rows=len(rows),
            observation_names=dataset.observation_names,
            action_names=dataset.action_names,
            nearness=nearness(dataset),
            tour=tour_of(dataset),
        )
        return replace(summary, warnings=(*concerns(summary, dataset, returns), *dataset.notes))


def sample_rows(rows: int, most: int = SAMPLE) -> Ints:
    """At most `most` rows, spread evenly: one from each of as many equal stretches.

    Which one is drawn, with a fixed seed: a regular stride could beat with the period of a gait.
    """
    if rows <= most:
        return np.arange(rows, dtype=np.int64)
    draw = np.random.default_rng(0).random(most)
    return ((np.arange(most) + draw) * (rows / most)).astype(np.int64).clip(max=rows - 1)


def spread(values: Floats | Ints) -> Spread:
    values = _tame(values)
    low, q1, median, q3, high = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return Spread(low, q1, median, float(values.mean().clip(low, high)), q3, high)


def histogram(values: Floats | Ints, bins: int, low: float | None = None, high: float | None = None) -> Histogram:
    """Counts between two limits, by default the extremes; values beyond them count in the outermost bins.

    Unlike NumPy's, it accepts every range; where all values are equal, they stand in the middle bin.
    """
    values = _tame(values)
    low = float(values.min()) if low is None else low
    high = float(values.max()) if high is None else high
    width = high - low
    place = (values - low) / width if width > 0 else np.full(len(values), 0.5)
    index = np.clip(place * bins, 0, bins - 1).astype(np.int64)
    return Histogram(low, high, tuple(np.bincount(index, minlength=bins).tolist()))


def saturation(actions: Floats, low: Floats, high: Floats) -> Float64s:
    """Share of rows within a thousandth of the range of either bound, per dimension, [A]."""
    margin = AT_BOUND * (high - low)
    at_low, at_high = (low + margin)[:, None], (high - margin)[:, None]
    counts = sum(((block <= at_low) | (block >= at_high)).sum(axis=1) for block in _blocks(actions))
    return np.asarray(counts / len(actions), dtype=np.float64)


def count_duplicates(observations: Floats) -> int:
    """Rows whose observation occurs in an earlier row, exactly.

    Rows are sorted by a 64-bit key. Equal rows have equal keys, so only neighbours with equal keys are
    candidates, and those are compared in full; should different rows ever share a key, the rows
    concerned are sorted by their values instead. The count is thus exact, whatever the keys.
    """
    keys = _row_keys(observations)
    order = np.argsort(keys, kind="stable")
    repeats = keys[order[1:]] == keys[order[:-1]]  # [N - 1]
    places = np.flatnonzero(repeats)
    if _all_equal(observations, order[places], order[places + 1]):
        return len(places)
    grouped = np.append(repeats, False) | np.append(False, repeats)
    rows = observations[order[grouped]]
    return len(rows) - len(np.unique(rows, axis=0))


def _row_keys(observations: Floats) -> Ints:
    """One number per row, equal for equal rows: each entry's bits are mixed, then summed with odd weights.

    Without mixing, round numbers (grid positions: many zero bits) would often share a key.
    """
    size = observations.shape[1]
    weights = np.random.default_rng(0).integers(0, 2**64, size, dtype=np.uint64) | np.uint64(1)
    kind = np.uint32 if observations.dtype == np.float32 else np.uint64
    keys = np.empty(len(observations), dtype=np.uint64)
    for start in range(0, len(observations), BLOCK):
        entries = observations[start : start + BLOCK] + 0.0  # -0.0 becomes 0.0, to which it is equal
        bits = np.ascontiguousarray(entries).view(kind).astype(np.uint64)
        bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        keys[start : start + BLOCK] = (bits ^ (bits >> np.uint64(29))) @ weights
    return keys.view(np.int64)


def _all_equal(observations: Floats, left: Ints, right: Ints) -> bool:
    blocks = (slice(start, start + BLOCK) for start in range(0, len(left), BLOCK))
    return all(np.array_equal(observations[left[block]], observations[right[block]]) for block in blocks)


def _columns(values: Floats, rows: Ints, low: Floats | None = None, high: Floats | None = None) -> tuple[Column, ...]:
    sample = np.ascontiguousarray(_tame(values[rows]).T)  # [D, R]
    p1, p99 = np.quantile(sample, (0.01, 0.99), axis=1)
    left, right = (p1 if low is None else low), (p99 if high is None else high)
    shapes = [histogram(*each).counts for each in zip(sample, repeat(DIMENSION_BINS), left, right, strict=False)]
    least, mean, std, most = _moments(values)
    numbers = np.column_stack([least, p1, mean, std, p99, most]).tolist()
    return tuple(
        Column(least, p1, mean, std, p99, most, shape)
        for (least, p1, mean, std, p99, most), shape in zip(numbers, shapes, strict=True)
    )


def _moments(values: Floats) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    """Least, mean, standard deviation and greatest of each column, [D] each, in double precision.

    The mean is kept within the extremes, so that a constant column has deviation zero, not rounding.
    """
    low: Float64s = np.asarray(np.min([block.min(axis=1) for block in _blocks(values)], axis=0))
    high: Float64s = np.asarray(np.max([block.max(axis=1) for block in _blocks(values)], axis=0))
    total = np.sum([(block * SHRINK).sum(axis=1) for block in _blocks(values)], axis=0)
    mean = (total / len(values) / SHRINK).clip(low, high)
    square = np.sum([((block - mean[:, None]) ** 2).sum(axis=1) for block in _blocks(values)], axis=0)
    return low, mean, np.sqrt(square / len(values)), high


def _blocks(values: Floats) -> Iterator[Float64s]:
    """A tall array piece by piece, turned to [D, rows]: reducing contiguous rows is several times faster."""
    for start in range(0, len(values), BLOCK):
        yield np.ascontiguousarray(values[start : start + BLOCK].T, dtype=np.float64)


def _tame(values: Floats | Ints) -> Float64s:
    """Doubles whose differences are finite; a sum that overflowed becomes the largest such number."""
    return np.nan_to_num(values.astype(np.float64)).clip(-LARGEST, LARGEST)


def _scores(returns: Spread, task: Task) -> Spread:
    return Spread(*(normalised_score(task, value) for value in vars(returns).values()))

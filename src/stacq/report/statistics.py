"""What a handful of seeds says about an algorithm, and how sure one can be of it.

Scores come as one array [runs, tasks] per algorithm, or as {task: runs} where tasks have different numbers of
runs. Every task weighs the same, however many runs it has. Bootstrap intervals resample runs within each task:
they tell how a repetition with other seeds would turn out on these tasks, not on others. With few runs they are
too short: in simulations on four tasks they held the truth 94 times in 100 with twenty runs per task, 92 with ten,
88 with five and 82 with three. Student's intervals of a single task hold it 95 times from two normal runs on. Where
a task has a single run nothing is known about its spread, and the bounds are NaN.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.types import Float64s
from stacq.report.scores import Runs, Scores, check_pairs, checked_scores, finite, matched, task_slices, vector

ROUNDING = 1e-9


LEVEL = 0.95
RESAMPLES = 10_000
EXPERT = 100.0  # D4RL's normalised score of an expert
BLOCK = 4_000_000  # numbers of a bootstrap in memory at once


class Estimate(NamedTuple):
    """A number and its 95 percent interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Aggregates:
    """One algorithm over all tasks, in four ways."""

    interquartile_mean: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of runs above each threshold, with a band that holds at each threshold by itself."""

    thresholds: Float64s  # [K]
    share: Float64s  # [K]
    low: Float64s  # [K]
    high: Float64s  # [K]


class Description(NamedTuple):
    """A cell of a plain table; spread and bounds are NaN for a single run."""

    runs: int
    mean: float
    std: float  # of a sample: divided by runs - 1
    low: float
    high: float


Statistic = Callable[..., Float64s]
"""From counts [B, N], how often each of B resamples holds each run, to numbers [B, K]; one array per algorithm."""


def interquartile_mean(scores: Scores) -> float:
    """The mean of the middle half of all runs: no outlier moves it, and it wastes less than the median.

    A run is left out if it lies wholly in the lowest or the highest quarter, as in rliable.
    """
    runs = checked_scores(scores)
    return float(_interquartile_means(runs, runs.once)[0])


def mean(scores: Scores) -> float:
    """The mean over tasks of the mean over runs."""
    runs = checked_scores(scores)
    return float(_task_means(runs, runs.values, runs.once).mean())


def median(scores: Scores) -> float:
    """The median over tasks of the mean over runs."""
    runs = checked_scores(scores)
    return float(np.median(_task_means(runs, runs.values, runs.once)))


def optimality_gap(scores: Scores, target: float = EXPERT) -> float:
    """By how much runs miss the target on average, where what exceeds it earns nothing."""
    runs = checked_scores(scores)
    return float(_gaps(runs, finite(target, "target"), runs.once)[0])


def aggregates(scores: Scores, target: float = EXPERT, *, resamples: int = RESAMPLES, seed: int = 0) -> Aggregates:
    """Interquartile mean, mean, median and optimality gap, with stratified bootstrap intervals."""
    runs = checked_scores(scores)
    statistic = partial(_all_aggregates, runs, finite(target, "target"))
    return Aggregates(*_estimates(statistic, (runs,), resamples, seed))


def performance_profile(scores: Scores, thresholds: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Profile:
    """The share of runs that score above each threshold: the whole distribution, where a mean is one number."""
    runs, levels = checked_scores(scores), vector(thresholds, "thresholds")
    above = (runs.values[:, None] > levels) * runs.weights[:, None]  # [N, K]

    def shares(counts: Float64s) -> Float64s:
        return counts @ above

    low, high = _interval(shares, (runs,), resamples, seed)
    return Profile(levels, shares(runs.once)[0], low, high)


def probability_of_improvement(x: Scores, y: Scores, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """How likely a run of x beats a run of y on the same task, averaged over tasks; a tie counts one half.

    Tasks of mappings are matched by name, those of arrays by place.
    """
    first, second = checked_scores(x, "x"), checked_scores(y, "y")
    second = matched(first, second)
    return _estimates(partial(_wins, first, second), (first, second), resamples, seed)[0]


def describe(values: ArrayLike) -> Description:
    """Mean, sample standard deviation and Student's interval of the mean, of the runs on one task."""
    runs = vector(values, "values")
    value, count = float(runs.mean()), len(runs)
    if count < 2:
        return Description(count, value, math.nan, math.nan, math.nan)
    std = float(runs.std(ddof=1))
    margin = student_quantile(count - 1) * std / math.sqrt(count)
    return Description(count, value, std, value - margin, value + margin)


def is_pair(values: ArrayLike) -> bool:
    """Whether these are two finite runs. Student's interval of two is nine standard deviations to either side of their
    mean and tells less than the two numbers, so they are shown instead."""
    runs = np.asarray(values, dtype=np.float64)
    return runs.shape == (2,) and bool(np.isfinite(runs).all())


def difference(x: ArrayLike, y: ArrayLike, *, paired: bool = False) -> Estimate:
    """The mean of x minus that of y, with Welch's interval, or Student's for runs paired in order.

    Runs are paired where both share more than the number of a seed, such as the data or the dynamics they used.
    """
    first, second = vector(x, "x"), vector(y, "y")
    if paired:
        check_pairs(len(first), len(second))
        _, value, _, low, high = describe(first - second)
        return Estimate(value, low, high)
    value = float(first.mean() - second.mean())
    margin = _welch_margin(first, second)
    return Estimate(value, value - margin, value + margin)


def _welch_margin(x: Float64s, y: Float64s) -> float:
    if min(len(x), len(y)) < 2:
        return math.nan
    squares = [float(runs.var(ddof=1)) / len(runs) for runs in (x, y)]  # of the standard errors
    total = sum(squares)
    if total == 0:
        return 0.0
    shares = [square / total for square in squares]
    degrees = 1 / sum(share**2 / (len(runs) - 1) for share, runs in zip(shares, (x, y), strict=True))
    return student_quantile(degrees) * math.sqrt(total)


@lru_cache(maxsize=256)
def student_quantile(degrees: float) -> float:
    """The t beyond which, to both sides, lie 5 percent of Student's distribution; degrees of freedom from 1 on.

    With t = sqrt(degrees) tan(angle) the density is a power of the cosine, smooth and falling: Newton's method
    climbs from angle 0 to the quantile without overshooting.
    """
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    nodes, weights = _quadrature()
    angle, step = 0.0, 1.0
    while step > 1e-14 * angle:
        mass = scale * angle * float(weights @ np.cos(angle * nodes) ** (degrees - 1))
        step = (LEVEL / 2 - mass) / (scale * math.cos(angle) ** (degrees - 1))
        angle += step
    return math.sqrt(degrees) * math.tan(angle)


@cache
def _quadrature() -> tuple[Float64s, Float64s]:
    """Gauss and Legendre's nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    return (nodes + 1) / 2, weights / 2


def _task_means(runs: Runs, values: Float64s, counts: Float64s) -> Float64s:
    """[B, T]"""
    return np.add.reduceat(counts * values, runs.starts, axis=1) / runs.sizes


def _interquartile_means(runs: Runs, counts: Float64s) -> Float64s:
    """[B]. In the order of scores, the copies of a run that lie wholly in an outer quarter are left out."""
    order = np.argsort(runs.values)
    values, weights, copies = runs.values[order], runs.weights[order], counts[:, order]
    mass = copies * weights
    end = np.cumsum(mass, axis=1)
    lowest = np.clip(np.floor((0.25 - end + mass) / weights + ROUNDING), 0, copies)
    highest = np.clip(np.floor((end - 0.75) / weights + ROUNDING), 0, copies)
    kept = (copies - lowest - highest) * weights
    return np.asarray(kept @ values / kept.sum(axis=1))


def _gaps(runs: Runs, target: float, counts: Float64s) -> Float64s:
    return np.asarray(target - _task_means(runs, np.minimum(runs.values, target), counts).mean(axis=1))


def _all_aggregates(runs: Runs, target: float, counts: Float64s) -> Float64s:
    means = _task_means(runs, runs.values, counts)
    middle, gaps = _interquartile_means(runs, counts), _gaps(runs, target, counts)
    return np.column_stack([middle, means.mean(axis=1), np.median(means, axis=1), gaps])


def _wins(x: Runs, y: Runs, x_counts: Float64s, y_counts: Float64s) -> Float64s:
    """[B, 1]"""
    shares = np.zeros(len(x_counts))
    for i, j, cells in zip(task_slices(x), task_slices(y), x.sizes * y.sizes, strict=True):
        won = x_counts[:, i] @ _beats(x.values[i], y.values[j])  # [B, runs of y]
        shares += (won * y_counts[:, j]).sum(axis=1) / cells
    return shares[:, None] / len(x.sizes)


def _beats(x: Float64s, y: Float64s) -> Float64s:
    return 0.5 * ((x[:, None] > y).astype(np.float64) + (x[:, None] >= y))


def _estimates(statistic: Statistic, sides: tuple[Runs, ...], resamples: int, seed: int) -> list[Estimate]:
    low, high = _interval(statistic, sides, resamples, seed)
    values = statistic(*(runs.once for runs in sides))[0]
    return [Estimate(*map(float, each)) for each in zip(values, low, high, strict=True)]


def _interval(statistic: Statistic, sides: tuple[Runs, ...], resamples: int, seed: int) -> tuple[Float64s, Float64s]:
    """Percentiles of the statistic, each [K], over resamples of every side."""
    _check_bootstrap(resamples, seed)
    if min(runs.sizes.min() for runs in sides) < 2:
        unknown = np.full(statistic(*(runs.once for runs in sides)).shape[1], np.nan)
        return unknown, unknown
    found = np.concatenate([statistic(*counts) for counts in _resampled(sides, resamples, seed)])
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def _resampled(sides: tuple[Runs, ...], resamples: int, seed: int) -> Iterator[list[Float64s]]:
    """Counts of every side, in blocks of resamples; task t of side s draws from (seed, s, t) alone."""
    streams = [[np.random.default_rng([seed, s, t]) for t in range(len(runs.sizes))] for s, runs in enumerate(sides)]
    block = max(1, BLOCK // sum(len(runs.values) for runs in sides))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        yield [_counts(runs, rngs, count) for runs, rngs in zip(sides, streams, strict=True)]


def _counts(runs: Runs, rngs: list[np.random.Generator], resamples: int) -> Float64s:
    """[resamples, N]: how often each run was drawn, with replacement, from the runs of its task."""
    tasks = zip(rngs, runs.sizes, strict=True)
    return np.hstack([rng.multinomial(size, np.full(size, 1 / size), resamples) for rng, size in tasks]).astype(float)


def _check_bootstrap(resamples: int, seed: int) -> None:
    if resamples < 1:
        raise InputError(f"{resamples} resamples", expected="at least one", fix=f"use {RESAMPLES}")
    if seed < 0:
        raise InputError(f"seed {seed}", expected="a seed of 0 or more", fix="use seed 0")

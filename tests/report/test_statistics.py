"""Statistics over seeds: against rliable and SciPy, by hand, and whether intervals hold what they promise."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from rliable import library, metrics

from stacq.core.errors import InputError
from stacq.core.types import Float64s
from stacq.report import statistics
from stacq.report.scores import Scores, checked_scores
from stacq.report.statistics import (
    Estimate,
    aggregates,
    describe,
    difference,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    student_quantile,
)

SHAPES = [(1, 1), (2, 1), (3, 1), (1, 7), (4, 3), (5, 9), (10, 2), (7, 13)]


def scores_of(shape: tuple[int, int], seed: int = 0) -> Float64s:
    """Tasks of different levels, rounded, so that there are ties."""
    rng = np.random.default_rng(seed)
    return (60 + 25 * rng.normal(size=shape[1]) + 12 * rng.normal(size=shape)).round()


def close(ours: Estimate, low: float, high: float, share: float) -> bool:
    """Whether both bounds agree within a share of the interval's width."""
    return abs(ours.low - low) < share * (high - low) and abs(ours.high - high) < share * (high - low)


@pytest.mark.parametrize("shape", SHAPES)
def test_points_are_rliables(shape: tuple[int, int]) -> None:
    for seed in range(5):
        x, y = scores_of(shape, seed), scores_of((shape[0] + seed, shape[1]), seed + 100)
        exact: dict[str, Any] = {"rtol": 1e-10}
        np.testing.assert_allclose(interquartile_mean(x), metrics.aggregate_iqm(x), **exact)
        np.testing.assert_allclose(mean(x), metrics.aggregate_mean(x), **exact)
        np.testing.assert_allclose(median(x), metrics.aggregate_median(x), **exact)
        np.testing.assert_allclose(optimality_gap(x, 70), metrics.aggregate_optimality_gap(x, 70), **exact)
        won = probability_of_improvement(x, y, resamples=1).value
        np.testing.assert_allclose(won, metrics.probability_of_improvement(x, y), **exact)
        thresholds = [-10, *np.unique(x)[:4], 61.5, 200]
        profile = performance_profile(x, thresholds, resamples=1)
        np.testing.assert_allclose(profile.share, library.score_distributions(x, thresholds), **exact)


def test_interquartile_means_are_scipys_trimmed_ones() -> None:
    """Every table of up to 20 runs on up to 22 tasks: sums of weights that miss a quarter by a rounding must not count.

    Without the allowance for it, every fifth table differs.
    """
    rng = np.random.default_rng(0)
    for shape in product(range(1, 21), range(1, 23)):
        x = rng.normal(size=shape)
        assert interquartile_mean(x) == pytest.approx(scipy.stats.trim_mean(x.ravel(), 0.25), rel=1e-10), shape


def trimmed_exactly(tasks: list[Float64s], copies: list[list[int]]) -> float:
    """The interquartile mean in fractions: each run is laid out as often as it was drawn, from the least score up."""
    runs = [
        (float(value), Fraction(1, len(tasks) * len(task)))
        for task, counts in zip(tasks, copies, strict=True)
        for value, count in zip(task, counts, strict=True)
        for _ in range(count)
    ]
    end, total, weights = Fraction(0), 0.0, Fraction(0)
    for value, weight in sorted(runs):
        start, end = end, end + weight
        if end > Fraction(1, 4) and start < Fraction(3, 4):
            total, weights = total + value * float(weight), weights + weight
    return total / float(weights)


def test_interquartile_means_of_resamples_and_of_ragged_tables_are_exact() -> None:
    """Tasks with different numbers of runs, large ones too, and runs that were drawn several times or never."""
    rng = np.random.default_rng(0)
    for sizes in ((1, 1), (3, 5), (2, 7, 4), (10, 6), (5, 5, 5, 20), (31, 37, 41), (9, 1, 16)):
        tasks = [rng.normal(size=size) for size in sizes]
        drawn = [rng.multinomial(size, np.full(size, 1 / size)).tolist() for size in sizes]
        for copies in ([[1] * size for size in sizes], drawn):
            runs = checked_scores({str(number): task for number, task in enumerate(tasks)})
            found = statistics._interquartile_means(runs, np.concatenate(copies)[None].astype(float))
            assert found[0] == pytest.approx(trimmed_exactly(tasks, copies), rel=1e-9), (sizes, copies)


def test_aggregates_hold_the_same_points() -> None:
    x = scores_of((6, 4))
    found = aggregates(x, 70, resamples=10)
    wanted = (interquartile_mean(x), mean(x), median(x), optimality_gap(x, 70))
    points = (found.interquartile_mean, found.mean, found.median, found.optimality_gap)
    assert [point.value for point in points] == pytest.approx(wanted, rel=1e-12)


def test_intervals_are_rliables() -> None:
    """Two bootstraps of 4,000: bounds differ by 0.06 standard errors, 1.5 percent of the width; 5 are allowed."""
    np.random.seed(0)  # noqa: NPY002 (rliable draws from the global generator)
    x, resamples = scores_of((8, 4), 3), 4000

    def theirs(scores: Float64s) -> Float64s:
        values = (metrics.aggregate_iqm(scores), metrics.aggregate_mean(scores), metrics.aggregate_median(scores))
        return np.array([*values, metrics.aggregate_optimality_gap(scores, 70)])

    _, bounds = library.get_interval_estimates({"x": x}, theirs, reps=resamples)
    ours = aggregates(x, 70, resamples=resamples)
    points = (ours.interquartile_mean, ours.mean, ours.median, ours.optimality_gap)
    for point, low, high in zip(points, *bounds["x"], strict=True):
        assert close(point, low, high, 0.05)


def test_bands_are_rliables() -> None:
    """Shares are multiples of 1/32, so bounds may differ by one step of it, and a little where two are averaged."""
    np.random.seed(1)  # noqa: NPY002
    x, thresholds = scores_of((8, 4), 3), np.linspace(0, 120, 13)
    _, bands = library.create_performance_profile({"x": x}, thresholds, reps=2000)
    ours = performance_profile(x, thresholds, resamples=2000)
    np.testing.assert_allclose([ours.low, ours.high], bands["x"], atol=1.01 / 32)
    assert (np.abs(np.array([ours.low, ours.high]) - bands["x"]) < 1e-9).mean() > 0.7


def test_the_interval_of_improvement_is_rliables() -> None:
    """Two bootstraps of 1,500: bounds differ by 2.5 percent of the width; 8 are allowed."""
    np.random.seed(2)  # noqa: NPY002
    x, y = scores_of((8, 3), 3), scores_of((6, 3), 3) - 4
    _, bounds = library.get_interval_estimates(
        {"x": [x, y]}, lambda *sides: np.array([metrics.probability_of_improvement(*sides)]), reps=1500
    )
    ours = probability_of_improvement(x, y, resamples=1500)
    low, high = bounds["x"][:, 0]
    assert close(ours, low, high, 0.08)


def test_numbers_by_hand() -> None:
    """Eight runs: the interquartile mean leaves out two on each side."""
    x = np.array([[0, 10], [1, 20], [2, 30], [3, 1000.0]])
    assert interquartile_mean(x) == pytest.approx((2 + 3 + 10 + 20) / 4)
    assert mean(x) == pytest.approx((1.5 + 265) / 2)
    assert median(x) == pytest.approx((1.5 + 265) / 2)
    assert optimality_gap(x, 20) == pytest.approx(20 - (0 + 1 + 2 + 3 + 10 + 20 + 20 + 20) / 8)
    assert performance_profile(x, [1, 20]).share.tolist() == [6 / 8, 2 / 8]


def test_tasks_weigh_the_same_however_many_runs_they_have() -> None:
    """Four runs weigh 1/8 each, two 1/4: the lowest quarter is 0 and 1, the highest is 40."""
    ragged = {"many": [0, 1, 2, 3], "few": [30, 40]}
    assert mean(ragged) == pytest.approx((1.5 + 35) / 2)
    assert interquartile_mean(ragged) == pytest.approx((2 / 8 + 3 / 8 + 30 / 4) / (1 / 8 + 1 / 8 + 1 / 4))
    assert performance_profile(ragged, [2.5]).share.tolist() == [(1 / 4 + 1) / 2]
    assert optimality_gap(ragged, 35) == pytest.approx(35 - (1.5 + 32.5) / 2)


def test_repeating_every_run_of_a_task_changes_no_point() -> None:
    x = scores_of((4, 3), 5)
    plain = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}
    repeated = {**plain, "b": np.repeat(x[:, 1], 3)}
    for statistic in (mean, median, optimality_gap):
        assert statistic(repeated) == pytest.approx(statistic(plain), rel=1e-12)
    levels = [40, 60, 80]
    np.testing.assert_allclose(performance_profile(repeated, levels).share, performance_profile(plain, levels).share)
    assert probability_of_improvement(repeated, plain).value == pytest.approx(0.5)


def test_improvement_by_hand() -> None:
    """Task a: x wins 3 of 4 pairs and ties once; task b: x loses both."""
    x, y = {"a": [2, 5], "b": [0]}, {"b": [1, 2], "a": [1, 2]}
    assert probability_of_improvement(x, y).value == pytest.approx((3.5 / 4 + 0) / 2)
    assert probability_of_improvement(y, x).value == pytest.approx(1 - 3.5 / 8)
    always = probability_of_improvement(np.ones((3, 2)), np.zeros((4, 2)))
    assert always == (1, 1, 1)


def test_both_sides_of_an_improvement_are_resampled_on_their_own() -> None:
    """Drawn alike, equal runs would tie in every resample."""
    x = scores_of((6, 2))
    found = probability_of_improvement(x, x)
    assert found.value == 0.5 and found.low < 0.4 and found.high > 0.6


def test_arrays_and_mappings_agree_to_the_bit() -> None:
    x, y = scores_of((5, 3)), scores_of((4, 3), 1)
    named = [{f"t{task}": each[:, task] for task in range(3)} for each in (x, y)]
    assert aggregates(x, resamples=50) == aggregates(named[0], resamples=50)
    first = probability_of_improvement(x, y, resamples=50)
    assert first == probability_of_improvement(named[0], dict(reversed(named[1].items())), resamples=50)


def test_the_seed_decides_and_blocks_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = scores_of((5, 3)), scores_of((5, 3), 1)
    calls: list[Callable[[int], Any]] = [
        lambda seed: aggregates(x, resamples=70, seed=seed),
        lambda seed: probability_of_improvement(x, y, resamples=70, seed=seed),
        lambda seed: performance_profile(x, [50, 60], resamples=70, seed=seed).low.tolist(),
    ]
    before = [call(0) for call in calls]
    assert before[:2] != [call(1) for call in calls[:2]]
    monkeypatch.setattr(statistics, "BLOCK", 100)
    for call, wanted in zip(calls, before, strict=True):
        np.testing.assert_allclose(np.ravel(_flat(call(0))), np.ravel(_flat(wanted)), rtol=1e-12)


def _flat(found: Any) -> Any:
    if isinstance(found, statistics.Aggregates):
        return [found.interquartile_mean, found.mean, found.median, found.optimality_gap]
    return found


def test_resamples_keep_to_their_task() -> None:
    """Runs of a task are equal, tasks are far apart: no other run could enter without being seen."""
    found = aggregates(np.tile([0.0, 50.0, 1000.0], (5, 1)), resamples=200)
    for middle, low, high in (found.mean, found.interquartile_mean):
        assert low == pytest.approx(middle, rel=1e-12) and high == pytest.approx(middle, rel=1e-12)
    assert found.mean.value == pytest.approx(350)


@pytest.mark.parametrize("scores", [[[1.0, 2.0]], {"a": [1, 2, 3], "b": [4]}])
def test_a_single_run_has_no_interval(scores: Scores) -> None:
    found = aggregates(scores)
    assert math.isfinite(found.mean.value) and math.isnan(found.mean.low) and math.isnan(found.median.high)
    profile = performance_profile(scores, [0, 1])
    assert np.isfinite(profile.share).all() and np.isnan(profile.low).all() and np.isnan(profile.high).all()
    assert np.isnan(probability_of_improvement(scores, scores)[1:]).all()


@pytest.mark.parametrize("alone", [0, 1])
def test_a_comparison_with_a_single_run_on_one_side_has_no_interval(alone: int) -> None:
    sides = [scores_of((4, 2)), scores_of((4, 2), 1)]
    sides[alone] = sides[alone][:1]
    found = probability_of_improvement(*sides, resamples=10)
    assert 0 <= found.value <= 1 and math.isnan(found.low) and math.isnan(found.high)


def test_two_runs_have_an_interval() -> None:
    """Of a task, 1 and 3: drawn twice each a quarter of the time, so the bounds are the runs themselves."""
    found = aggregates([[1.0], [3.0]], resamples=2000).mean
    assert tuple(found) == (2, 1, 3)
    assert np.isfinite(performance_profile([[1.0], [3.0]], [2]).low).all()


def test_the_seed_is_0_unless_said_otherwise() -> None:
    """Numbers that were published must come out again."""
    x, y = scores_of((5, 3)), scores_of((5, 3), 1)
    assert aggregates(x, resamples=70) == aggregates(x, resamples=70, seed=0)
    assert probability_of_improvement(x, y, resamples=70) == probability_of_improvement(x, y, resamples=70, seed=0)
    levels = np.linspace(0, 120, 40)
    bands = performance_profile(x, levels, resamples=70), performance_profile(x, levels, resamples=70, seed=0)
    np.testing.assert_array_equal(bands[0].low, bands[1].low)


def test_students_quantiles_are_scipys() -> None:
    for degrees in (1, 1.01, 1.5, 2, 3, 4, 5.73, 9, 20.2, 100, 1234.5, 10_000):
        assert student_quantile(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), rel=1e-9)


def test_descriptions_are_scipys() -> None:
    """By hand: 1, 2, 3, 4, 5 have mean 3, variance 10/4 and 2.776 standard errors of sqrt(2.5/5)."""
    found = describe([1, 2, 3, 4, 5])
    assert (found.runs, found.mean) == (5, 3) and found.std == pytest.approx(math.sqrt(2.5))
    assert found.high - 3 == pytest.approx(2.7764451052 * math.sqrt(0.5))
    for size in (2, 3, 10, 50):
        x = np.random.default_rng(size).normal(5, 3, size)
        wanted = scipy.stats.ttest_1samp(x, 0).confidence_interval(0.95)
        assert describe(x)[3:] == pytest.approx((wanted.low, wanted.high), rel=1e-9)
    single = describe([7])
    assert single[:2] == (1, 7) and np.isnan(single[2:]).all()


@pytest.mark.parametrize("sizes", [(2, 2), (5, 5), (3, 20)])
def test_differences_are_scipys(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sizes[1])
    x, y = rng.normal(3, 1, sizes[0]), rng.normal(1, 5, sizes[1])
    wanted = scipy.stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    assert difference(x, y) == pytest.approx((x.mean() - y.mean(), wanted.low, wanted.high), rel=1e-9)
    y = x + rng.normal(1, 2, sizes[0])
    wanted = scipy.stats.ttest_rel(x, y).confidence_interval(0.95)
    assert difference(x, y, paired=True) == pytest.approx((x.mean() - y.mean(), wanted.low, wanted.high), rel=1e-9)


def test_differences_without_spread() -> None:
    assert difference([2, 2, 2], [1, 1]) == (1, 1, 1)
    assert difference([2, 3, 5], [1, 2, 4], paired=True) == (1, 1, 1)
    one = difference([2], [1, 4, 3])
    assert one.value == pytest.approx(2 - 8 / 3) and np.isnan(one[1:]).all()
    assert np.isnan(difference([2], [1], paired=True)[1:]).all()


def coverage(truth: float, intervals: list[tuple[float, float]]) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def shortened(found: Estimate, share: float) -> tuple[float, float]:
    return found.value + share * (found.low - found.value), found.value + share * (found.high - found.value)


def test_students_intervals_hold_the_truth_95_times_in_100() -> None:
    """4,000 experiments of five seeds: a standard error of 0.35 percent. Normal quantiles give 88 percent."""
    samples = np.random.default_rng(0).normal(40, 7, (4000, 5))
    found = [describe(sample) for sample in samples]
    assert abs(coverage(40, [(each.low, each.high) for each in found]) - 0.95) < 0.0105
    reach = [1.96 * each.std / math.sqrt(each.runs) for each in found]
    naive = [(each.mean - r, each.mean + r) for each, r in zip(found, reach, strict=True)]
    assert coverage(40, naive) < 0.9


def test_welchs_intervals_hold_the_truth_95_times_in_100() -> None:
    """Four seeds of wide spread against twelve of narrow: pooling both variances gives 74 percent."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(10, 9, (4000, 4)), rng.normal(7, 2, (4000, 12))
    found = [difference(*pair) for pair in zip(x, y, strict=True)]
    assert abs(coverage(3, [(each.low, each.high) for each in found]) - 0.95) < 0.0105


def test_paired_intervals_hold_the_truth_and_are_shorter() -> None:
    rng = np.random.default_rng(2)
    shared = rng.normal(0, 10, (4000, 5))
    x, y = shared + rng.normal(4, 1, (4000, 5)), shared + rng.normal(0, 1, (4000, 5))
    found = [difference(*pair, paired=True) for pair in zip(x, y, strict=True)]
    assert abs(coverage(4, [(each.low, each.high) for each in found]) - 0.95) < 0.0105
    widths = [each.high - each.low for each in (found[0], difference(x[0], y[0]))]
    assert widths[0] < 0.5 * widths[1]


def test_bootstrap_intervals_hold_the_truth_about_93_times_in_100() -> None:
    """Twenty seeds on four tasks far apart, 500 experiments: a standard error of 1.1 percent.

    Resampling across tasks holds it always; intervals as short as those of forty seeds hold it 81 times.
    """
    rng = np.random.default_rng(3)
    levels, spread = np.array([0.0, 30.0, 45.0, 100.0]), np.array([5.0, 12.0, 12.0, 5.0])
    samples = levels + spread * rng.normal(size=(500, 20, 4))
    truths = interquartile_mean(levels + spread * rng.normal(size=(200_000, 4))), levels.mean()
    found = [aggregates(sample, resamples=400, seed=number) for number, sample in enumerate(samples)]
    for truth, name in zip(truths, ("interquartile_mean", "mean"), strict=True):
        estimates = [getattr(each, name) for each in found]
        assert 0.9 < coverage(float(truth), [each[1:] for each in estimates]) < 0.975, name
        assert coverage(float(truth), [shortened(each, 2**-0.5) for each in estimates]) < 0.87, name


def test_improvement_intervals_hold_the_truth() -> None:
    """Normal scores one standard deviation apart: x wins with probability Phi(1 / sqrt(2))."""
    rng = np.random.default_rng(4)
    truth = float(scipy.stats.norm.cdf(1 / math.sqrt(2)))
    pairs = zip(rng.normal(1, 1, (400, 15, 3)), rng.normal(0, 1, (400, 15, 3)), strict=True)
    found = [probability_of_improvement(*pair, resamples=400, seed=number) for number, pair in enumerate(pairs)]
    assert 0.9 < coverage(truth, [(each.low, each.high) for each in found]) < 0.98


AGGREGATES = (interquartile_mean, mean, median, optimality_gap, aggregates)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no tasks"),
        ({"hopper": []}, "of hopper: no numbers"),
        (np.zeros((0, 3)), "0 runs on 3 tasks"),
        (np.zeros((3, 0)), "3 runs on 0 tasks"),
        ([1, 2, 3], r"shape \(3,\)"),
        (np.zeros((2, 2, 2)), "shape"),
        ({"hopper": [[1, 2]]}, r"of hopper: an array of shape \(1, 2\)"),
        ([[1, np.nan]], r"nan at \[0, 1\]"),
        ({"hopper": [1, -np.inf]}, r"of hopper: -inf at \[1\]"),
        ([[1, 2], [3]], "cannot be read as numbers"),
        ([["a"]], "cannot be read as numbers"),
        ([[None]], "nan"),
        ([[10**400]], "cannot be read as numbers"),
    ],
)
def test_bad_scores_are_refused(scores: Any, message: str) -> None:
    fine = np.ones((2, 2))
    calls: list[Callable[[], object]] = [lambda f=f: f(scores) for f in AGGREGATES]  # type: ignore[misc]
    calls += [lambda: performance_profile(scores, [1]), lambda: probability_of_improvement(fine, scores)]
    for call in calls:
        with pytest.raises(InputError, match=message):
            call()


def test_bad_options_are_refused() -> None:
    x = np.ones((3, 2))
    for wrong in ([], [[1]], [np.nan], "a"):
        with pytest.raises(InputError, match="thresholds"):
            performance_profile(x, wrong)
        with pytest.raises(InputError, match="values"):
            describe(wrong)
        for pair in ((wrong, [1, 2]), ([1, 2], wrong)):
            with pytest.raises(InputError, match=r"^[xy]:"):
                difference(*pair)
    for call in (optimality_gap, aggregates):
        with pytest.raises(InputError, match="target"):
            call(x, math.inf)
    for options, message in (({"resamples": 0}, "0 resamples"), ({"seed": -1}, "seed -1")):
        with pytest.raises(InputError, match=message):
            aggregates(x, **options)
    with pytest.raises(InputError, match="3 runs against 2"):
        difference([1, 2, 3], [1, 2], paired=True)


def test_different_tasks_are_not_compared() -> None:
    with pytest.raises(InputError, match="2 tasks against 1; not in both: ant"):
        probability_of_improvement({"ant": [1], "maze": [2]}, {"maze": [1]})
    with pytest.raises(InputError, match="in both: ant, bee, cat, dog, elk"):
        probability_of_improvement(
            {name: [1] for name in ("gnu", "fox", "elk", "dog")}, {"cat": [1], "bee": [1], "ant": [1]}
        )
    with pytest.raises(InputError, match="3 tasks against 2"):
        probability_of_improvement(np.ones((2, 3)), np.ones((2, 2)))

"""The report of a fit: numbers worked by hand on models that know the system, then text and picture."""

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from dynamics_cases import known_fit, linear_data
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import Curve
from stacq.reach import quality
from stacq.reach.quality import measure
from stacq.reach.quality_facts import Quality
from stacq.report.dynamics_figure import draw_quality
from stacq.report.dynamics_text import print_quality

HELD_OUT = [0, 10, 11, 25, 26, 35, 36, 40]


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Rows 0-29, 30-39 and 40-44; only the last episode's end is unknown."""
    return linear_data([30, 10, 5], [True, True, False])


@pytest.fixture(scope="module")
def perfect(data: Dataset) -> Quality:
    return measure(known_fit(data, HELD_OUT), data)


def test_a_perfect_model_has_no_error(data: Dataset, perfect: Quality) -> None:
    errors = perfect.normalised, perfect.raw
    assert not any(any(each.ensemble) or any(each.member) for each in errors)
    assert not any(perfect.inverse)
    assert not any(any(loop.ensemble) or any(loop.path) or loop.mean for loop in perfect.open_loop)
    assert list(perfect.round_trip.recall) == [1, 1]
    assert not any(map(any, perfect.round_trip.failing)) and not perfect.warnings
    assert perfect.held_out == len(HELD_OUT) and perfect.round_trip.rows == len(HELD_OUT)
    steps = (data.next_observations - data.observations)[HELD_OUT]
    np.testing.assert_allclose(perfect.normalised.identity, np.sqrt((steps**2).mean(axis=0)), rtol=1e-6)


def test_no_start_crosses_an_episode_end(perfect: Quality) -> None:
    """5 steps: rows 0, 10, 11, 25 and 35; not 40, whose loop would end in an unknown state. 20 steps: 0 and 10."""
    assert [(loop.steps, loop.starts) for loop in perfect.open_loop] == [(1, 8), (5, 5), (20, 2)]


def test_horizons_without_a_start_are_left_out(data: Dataset) -> None:
    assert [loop.steps for loop in measure(known_fit(data, [26, 36]), data).open_loop] == [1]


def test_known_biases_give_known_numbers(data: Dataset) -> None:
    """Members off by 1/2 and -1/4 in dimension 0: mean 1/8, spread 3/8; an action moves it by about 1 in all."""
    found = measure(known_fit(data, HELD_OUT, [0.5, -0.25]), data)
    assert list(found.normalised.ensemble) == [0.125, 0]
    assert list(found.normalised.member) == [0.375, 0]
    assert [list(loop.ensemble) for loop in found.open_loop] == [[0.125, 0], [0.625, 0], [2.5, 0]]
    assert found.open_loop[1].path == pytest.approx([0.0625 * step for step in (1, 2, 3, 4, 5)])
    assert [*found.calibration.within_one, *found.calibration.within_two] == [1, 1, 1, 1]
    assert found.calibration.pooled.spread[-1] == pytest.approx(3)
    assert not any(found.round_trip.recall) and list(found.round_trip.failing[0]) == [1, 0]
    assert found.round_trip.worst == 0
    assert "dimension 0" in found.warnings[0] and "epsilon 0.1" in found.warnings[0]


def test_the_tolerance_is_in_units_of_the_range(data: Dataset) -> None:
    """1/16 of a range of about 1 passes at 0.1 and fails at 0.05."""
    found = measure(known_fit(data, HELD_OUT, [0.25, -0.125]), data)
    assert list(found.round_trip.recall) == [1, 0] and not found.warnings


@pytest.mark.parametrize(("biases", "one", "two"), [((0.5, 0.25), 0, 0), ((0.875, 0.125), 0, 1), ((0.75, 0.0), 1, 1)])
def test_shares_within_the_spread(data: Dataset, biases: tuple[float, float], one: float, two: float) -> None:
    found = measure(known_fit(data, HELD_OUT, biases), data).calibration
    assert (found.within_one[0], found.within_two[0]) == (one, two)


def test_calibration_by_hand() -> None:
    spread = np.arange(1, 21, dtype=np.float32)[:, None]
    error = np.where(np.arange(20) % 2, -1, 1).astype(np.float32)[:, None] * spread**2
    found = quality._calibrate(spread, error)
    assert list(found.correlation) == pytest.approx([1])
    assert [*found.within_one, *found.within_two] == [1 / 20, 2 / 20]
    unit = np.sqrt((spread**4.0).mean())
    np.testing.assert_allclose(found.pooled.spread[:2], np.sqrt([2.5, 12.5]) / unit, rtol=1e-6)
    np.testing.assert_allclose(found.pooled.error[0], np.sqrt((1 + 16) / 2) / unit, rtol=1e-6)
    assert list(found.per_dimension) == [found.pooled] and len(found.pooled.spread) == 10


def test_rank_correlation_shares_the_places_of_equal_values() -> None:
    assert quality._ranks(np.array([5.0, 1.0, 5.0, 7.0])).tolist() == [2.5, 1, 2.5, 4]
    assert quality._rank_correlation(np.array([1.0, 2, 3]), np.array([9.0, 4, 1])) == pytest.approx(-1)
    assert quality._rank_correlation(np.ones(3), np.arange(3.0)) == 0


def test_a_model_worse_than_none_is_told(data: Dataset) -> None:
    found = measure(known_fit(data, HELD_OUT, [64.0, 64.0]), data)
    assert any("dimension 0 the forward model is worse" in warning for warning in found.warnings)


def test_raw_units_are_the_normalisers(data: Dataset) -> None:
    made = known_fit(data, HELD_OUT, [0.5, 0.5])
    scaled = Normaliser(np.zeros(2, dtype=np.float32), np.array([2, 4], dtype=np.float32))
    found = measure(replace(made, dynamics=replace(made.dynamics, normaliser=scaled)), data)
    for raw, normalised in (
        (found.raw.ensemble, found.normalised.ensemble),
        (found.raw.identity, found.normalised.identity),
    ):
        np.testing.assert_allclose(raw, np.array(normalised) * [2, 4])


def test_another_dataset_or_no_rows_are_refused(data: Dataset) -> None:
    with pytest.raises(InputError, match="another dataset"):
        measure(known_fit(data, HELD_OUT), linear_data([30, 10, 5], seed=1))
    with pytest.raises(InputError, match="held no rows out"):
        measure(known_fit(data, []), data)


def test_the_numbers_survive_json(perfect: Quality) -> None:
    assert json.loads(json.dumps(perfect.to_json()))["round_trip"]["recall"] == [1, 1]


def test_the_text_fits_a_terminal(data: Dataset, perfect: Quality) -> None:
    for each in (perfect, measure(known_fit(data, HELD_OUT, [0.5, -0.25]), data)):
        console = Console(width=80, record=True, file=StringIO())
        print_quality(each, console)
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= 80
        assert "8 rows that no member saw" in text and "1,000 random actions" in text
        assert ("! only 0%" in text) == bool(each.warnings)


@pytest.mark.parametrize("horizon", [True, False])
def test_the_picture_is_drawn_even_of_zeros(perfect: Quality, horizon: bool) -> None:
    losses = np.array([0.5, 0.25], dtype=np.float32)
    curves = [Curve(epoch, losses, losses / np.float32(epoch + 1), losses, losses, 4) for epoch in range(3)]
    figure = draw_quality(perfect if horizon else replace(perfect, open_loop=()), curves)
    figure.canvas.draw()
    assert (figure.get_size_inches() * figure.dpi).tolist() == [1600, 1000]
    assert len(figure.axes) == 6

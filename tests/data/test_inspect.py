"""The numbers behind `stacq data inspect`, its text and its picture."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from rich.console import Console

from stacq.core.errors import InputError
from stacq.core.types import Array, Bools, Float64s, Floats
from stacq.data import inspect
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.inspect import Summary, count_duplicates, histogram, sample_rows, saturation, spread, summarise
from stacq.report.figures import save_figure
from stacq.report.inspect import show
from stacq.report.summary_figure import draw_summary
from stacq.report.summary_text import print_summary


def hand_made() -> Dataset:
    """Three episodes of 3, 2 and 1 rows: terminal, timeout, cut; returns 3, 6 and -1."""
    return from_arrays(
        observations=[[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [0.0, 5.0], [1.0, 5.0], [9.0, 5.0]],
        actions=[[-1.0], [0.0], [1.0], [0.5], [0.9985], [-0.5]],
        rewards=[1.0, 1.0, 1.0, 2.0, 4.0, -1.0],
        terminals=[0, 0, 1, 0, 0, 0],
        timeouts=[0, 0, 0, 0, 1, 0],
        conventions=Conventions(name="hand-made"),
    )


def healthy(rows: int = 2000, episode: int = 100, **changes: Any) -> Dataset:
    """Nothing to warn of; `changes` replace whole arrays."""
    rng = np.random.default_rng(1)
    flags = np.arange(1, rows + 1) % episode == 0
    late = np.arange(rows) >= rows // 2
    arrays: dict[str, Any] = {
        "observations": rng.standard_normal((rows, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (rows, 2)).astype(np.float32),
        "rewards": rng.uniform(0, 1, rows).astype(np.float32),
        "terminals": flags & late,
        "timeouts": flags & ~late,
        "next_observations": None,
    }
    arrays["next_observations"] = np.roll(arrays["observations"], -1, axis=0) + flags[:, None].astype(np.float32)
    changes = {"next_observations": None, **changes} if "observations" in changes else changes
    return from_arrays(**{**arrays, **changes}, conventions=Conventions(name="healthy"))


def plain(summary: Summary, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_summary(summary, Console(file=stream, width=80))
    stream.seek(0)
    return stream.read()


# ---- numbers


def test_counts_and_spreads_worked_by_hand() -> None:
    summary = summarise(hand_made())
    assert (summary.rows, summary.episodes) == (6, 3)
    assert (summary.terminals, summary.timeouts, summary.cut_episodes) == (1, 1, 1)
    assert summary.unknown_successors == 3
    # sorted returns -1, 3, 6: quartiles halfway between neighbours, mean 8 / 3
    returns = summary.returns
    assert (returns.low, returns.q1, returns.median, returns.q3, returns.high) == (-1, 1, 3, 4.5, 6)
    assert returns.mean == pytest.approx(8 / 3)
    assert (summary.lengths.low, summary.lengths.median, summary.lengths.mean, summary.lengths.high) == (1, 2, 2, 3)
    assert (summary.rewards.low, summary.rewards.median, summary.rewards.high) == (-1, 1, 4)
    assert summary.rewards.mean == pytest.approx(8 / 6)
    assert summary.scores is None


def test_columns_worked_by_hand() -> None:
    first, second = summarise(hand_made()).observations
    # values 0 0 1 1 2 9: mean 13 / 6, mean square 87 / 6; 1 % lies at rank 0.05, 99 % at rank 4.95
    assert (first.low, first.high) == (0, 9)
    assert first.mean == pytest.approx(13 / 6)
    assert first.std == pytest.approx(np.sqrt(87 / 6 - (13 / 6) ** 2))
    assert first.p1 == pytest.approx(0)
    assert first.p99 == pytest.approx(2 + 0.95 * 7)
    assert (second.low, second.mean, second.std, second.high, second.constant) == (5, 5, 0, 5, True)
    assert sum(first.shape) == sum(second.shape) == 6


def test_saturation_worked_by_hand() -> None:
    summary = summarise(hand_made())
    assert summary.saturation == (0.5,)  # -1, 1 and 0.9985, which is within 0.002 of the bound
    actions = np.array([[-2.0, 0.0], [0.0, 10.0], [2.0, 5.0], [1.9, 9.98]])
    assert saturation(actions, np.array([-2.0, 0.0]), np.array([2.0, 10.0])).tolist() == [0.5, 0.5]
    wide = from_arrays(
        np.eye(4), actions, np.ones(4), np.ones(4), conventions=Conventions(action_low=(-2, 0), action_high=(2, 10))
    )
    assert summarise(wide).saturated == 0.5


@pytest.mark.parametrize("stated", [{"name": "hopper-medium-v2"}, {"name": "mine", "env_id": "Hopper-v5"}])
def test_scores_where_the_task_is_known(stated: dict[str, str]) -> None:
    returns = [-20.272305, 3234.3]
    summary = summarise(from_arrays(np.eye(2), np.zeros((2, 1)), returns, [1, 1], conventions=Conventions(**stated)))  # type: ignore[arg-type]
    assert summary.task == "hopper"
    assert summary.scores is not None
    assert (summary.scores.low, summary.scores.median, summary.scores.high) == pytest.approx((0, 50, 100), abs=1e-9)


def test_float32_means_do_not_drift() -> None:
    rows = 200_000
    observations = np.full((rows, 1), 1000.1, dtype=np.float32)
    observations[::2] += 0.5
    column = summarise(from_arrays(observations, np.zeros((rows, 1)), np.zeros(rows), np.zeros(rows))).observations[0]
    assert column.mean == pytest.approx(observations.astype(np.float64).mean(), rel=1e-12)
    assert column.std == pytest.approx(0.25, rel=1e-3)


def test_sample_is_even_and_repeatable() -> None:
    assert sample_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = sample_rows(1_000_003, most=1000)
    assert len(rows) == 1000
    assert (np.diff(rows) > 0).all()
    assert np.diff(rows).max() <= 2 * 1001
    assert rows[-1] < 1_000_003
    assert np.array_equal(rows, sample_rows(1_000_003, most=1000))


def test_percentiles_of_a_sample_are_close() -> None:
    values = np.random.default_rng(3).random((300_000, 1))
    summary = summarise(from_arrays(values, np.zeros((300_000, 1)), np.zeros(300_000), np.zeros(300_000)))
    assert summary.sampled_rows == 100_000
    assert summary.observations[0].p99 == pytest.approx(0.99, abs=2e-3)
    assert "100,000 rows spread evenly" in plain(summary)


def test_histogram_counts_ends_and_equal_values() -> None:
    assert histogram(np.array([0.0, 1.0, 2.0, 4.0]), 4).counts == (1, 1, 1, 1)
    assert histogram(np.array([-9.0, 0.5, 99.0]), 2, 0.0, 1.0).counts == (1, 2)
    assert histogram(np.array([7.0, 7.0]), 3).counts == (0, 2, 0)
    assert sum(histogram(np.array([1.0, np.nextafter(1.0, 2.0)]), 34).counts) == 2


def test_spread_of_numbers_at_the_end_of_the_range() -> None:
    with np.errstate(over="ignore"):
        assert np.isfinite(list(vars(spread(np.array([1.7e308, -1.7e308, np.inf]))).values())).all()


# ---- duplicates

ENTRIES = st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -1.0, 1e-30, 3e8])


@given(st.integers(1, 3).flatmap(lambda size: st.lists(st.tuples(*[ENTRIES] * size), min_size=1, max_size=60)))
@settings(deadline=None, max_examples=200)
def test_duplicates_equal_a_set(rows: list[tuple[float, ...]]) -> None:
    for dtype in (np.float32, np.float64):
        values: Floats = np.array(rows, dtype=dtype)
        assert count_duplicates(values) == len(rows) - len(set(map(tuple, values.tolist())))


def test_duplicates_on_a_grid_share_no_keys() -> None:
    """Round numbers have few bits that differ; keys must tell them apart all the same."""
    grid = np.stack(np.meshgrid(*[np.arange(40.0)] * 3), axis=-1).reshape(-1, 3)
    assert len(np.unique(inspect._row_keys(grid))) == len(grid)
    assert len(np.unique(inspect._row_keys(grid.astype(np.float32)))) == len(grid)
    assert count_duplicates(np.concatenate([grid, grid[::7]])) == len(grid[::7])


def test_duplicates_stay_exact_when_keys_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    def parity(observations: Array) -> Array:
        return observations[:, 0].astype(np.int64) % 2

    monkeypatch.setattr(inspect, "_row_keys", parity)
    values = np.array([[0.0], [1.0], [2.0], [2.0], [4.0], [1.0], [7.0], [2.0]])
    assert count_duplicates(values) == 3


# ---- every valid dataset

NUMBERS = {
    np.float32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    np.float64: st.floats(allow_nan=False, allow_infinity=False),
}


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    rows, size, actions = draw(st.integers(2, 12)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    dtype = draw(st.sampled_from(sorted(NUMBERS, key=str)))
    bounded = st.floats(-1, 1, width=32)

    def array(entries: st.SearchStrategy[Any], *shape: int) -> Array:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(entries, min_size=count, max_size=count))).reshape(shape)

    return from_arrays(
        array(NUMBERS[dtype], rows, size).astype(dtype),
        array(bounded, rows, actions).astype(dtype),
        array(NUMBERS[dtype], rows).astype(dtype),
        array(st.booleans(), rows),
        timeouts=draw(st.sampled_from([None, array(st.booleans(), rows)])),
        conventions=Conventions(name=draw(st.sampled_from(["", "hopper-medium-v2", "[red]"]))),
    )


@given(datasets())
@settings(deadline=None, max_examples=100)
def test_every_valid_dataset_is_summarised_and_printed(dataset: Dataset) -> None:
    summary = summarise(dataset)
    assert sum(summary.return_histogram.counts) == sum(summary.length_histogram.counts) == dataset.episodes
    assert not any(np.isnan(list(vars(each).values())).any() for each in (summary.returns, summary.rewards))
    text = plain(summary)
    assert max(map(len, text.splitlines())) <= 80
    assert (dataset.name or "unnamed dataset") in text


# ---- warnings


def warned(dataset: Dataset, words: str) -> bool:
    return any(words in warning for warning in summarise(dataset).warnings)


def test_a_healthy_dataset_raises_no_warning() -> None:
    assert summarise(healthy()).warnings == ()


def scaled(*factors: float) -> Float64s:
    values: Float64s = np.random.default_rng(2).standard_normal((2000, len(factors))) * np.array(factors)
    return values


def ends(every: int) -> Bools:
    last: Bools = np.arange(1, 2001) % every == 0
    return last


UNKNOWN: dict[str, Any] = {"next_observations": None}
NOWHERE = np.zeros(2000, dtype=bool)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("observation dimension 1 never changes", {"observations": scaled(1, 0, 1)}),
        ("observation dimensions 0, 1 never change:", {"observations": scaled(0, 0, 1)}),
        ("scales differ by a factor of", {"observations": scaled(1, 1, 2e4)}),
        ("observation dimension 2 spreads by less than 0.01", {"observations": scaled(1, 1, 2e-3)}),
        ("repeat an earlier observation", {"observations": scaled(1, 1, 1).round()}),
        ("action dimension 1 never changes", {"actions": np.tanh(scaled(1, 0))}),
        ("lie at a bound", {"actions": scaled(2, 2).clip(-1, 1)}),
        ("action dimension 0 uses about half of the bounds", {"actions": scaled(0.05, 2).clip(-1, 1)}),
        ("of -1 to 1): a policy will try actions far from the data", {"actions": np.abs(scaled(2, 2)).clip(0, 1)}),
        ("every reward is zero", {"rewards": np.zeros(2000)}),
        ("every reward is 2", {"rewards": np.full(2000, 2.0)}),
        ("one episode holds", {"rewards": np.where(np.arange(2000) == 5, 1e6, 1.0)}),
        ("number of episodes is only 2", {"terminals": ends(1000), "timeouts": NOWHERE, **UNKNOWN}),
        ("20% of the episodes hold a single row", {"timeouts": np.isin(np.arange(2000) % 200, (49, 99, 149, 150))}),
        ("no row is terminal", {"terminals": NOWHERE, "timeouts": ends(100)}),
        ("no row is a timeout, yet terminals end only 0 of 1", {"terminals": NOWHERE, "timeouts": NOWHERE, **UNKNOWN}),
        ("20 episodes end in a terminal after exactly 100 rows", {"terminals": ends(100), "timeouts": NOWHERE}),
        ("5.0% of rows have no known successor", {"timeouts": ends(20), **UNKNOWN}),
    ],
)
def test_warnings_fire(words: str, changes: dict[str, Any]) -> None:
    dataset = healthy(**changes)
    assert warned(dataset, words)
    assert not warned(healthy(), words.split(",")[0])


def test_few_rows_say_nothing_about_bounds() -> None:
    assert not warned(from_arrays(np.eye(3), [[0.1], [0.2], [0.15]], np.ones(3), np.ones(3)), "of the bounds")


def test_scales_may_differ_a_good_deal() -> None:
    assert not warned(healthy(observations=scaled(1, 1, 9e3)), "scales differ")


def test_the_readers_notes_come_last() -> None:
    dataset = healthy(next_observations=None)
    assert dataset.notes
    assert summarise(dataset).warnings[-len(dataset.notes) :] == dataset.notes


# ---- text


def test_plain_text_holds_the_numbers() -> None:
    text = plain(summarise(hand_made()))
    assert "hand-made\n6 rows in 3 episodes, observations of 2, actions of 1 in [-1, 1]" in text
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}
    assert lines["return"] == ["-1", "1", "3", "2.667", "4.500", "6"]
    assert lines["length"] == ["1", "1.500", "2", "2", "2.500", "3"]
    assert "1 terminal, 1 timeout, 1 cut" in text
    assert "3 of 6 rows (50.0%)" in text
    assert "50.0% of all entries" in text
    assert "\x1b" not in text
    assert "█" in text
    assert text.rindex("!") > text.index("actions\n")


def test_text_without_unicode() -> None:
    assert "#" in plain(summarise(hand_made()), encoding="ascii")


def test_many_dimensions_are_folded() -> None:
    wide = summarise(healthy(observations=scaled(*[1.0] * 110, 50.0)))
    text = plain(wide)
    assert "and 86 more dimensions" in text
    assert len(text.splitlines()) < 70
    assert max(map(len, text.splitlines())) <= 80


# ---- picture


def single_rows() -> Dataset:
    return from_arrays(np.ones((2, 1)), np.zeros((2, 1)), np.zeros(2), np.ones(2))


def absurd() -> Dataset:
    values = [[1e308, -1e308], [-1e308, 1e308], [1.0, 5e-324], [3.0, 1e-310]]
    return from_arrays(values, np.zeros((4, 2)), [1e308, 1e308, -1e308, 0.0], [0, 1, 0, 0])


def wide_apart() -> Dataset:
    conventions = Conventions(name="$a rather long name$" * 9, env_id="Hopper-v4", action_high=(1.0, 3.0))
    return from_arrays(
        scaled(*np.logspace(-3, 3, 111)), np.tanh(scaled(1, 1)), ends(7), ends(50), conventions=conventions
    )


@pytest.mark.parametrize("make", [hand_made, single_rows, absurd, wide_apart])
def test_the_picture_is_not_blank(make: Any, tmp_path: Path) -> None:
    dataset = make()
    path = tmp_path / "sub" / "picture.png"
    save_figure(draw_summary(dataset, summarise(dataset)), path)
    pixels = imread(path)
    assert pixels.shape[:2] == (1000, 1600)
    assert 0.01 < (pixels[..., :3] < 0.9).any(axis=2).mean() < 0.6
    assert [each.name for each in path.parent.iterdir()] == ["picture.png"]


def test_svg_shows_the_same_every_time(tmp_path: Path) -> None:
    """Up to the names of clip paths, which hang on the last bit of matplotlib's layout."""
    texts = []
    for name in ("one.svg", "two.SVG"):
        save_figure(draw_summary(hand_made(), summarise(hand_made())), tmp_path / name)
        texts.append(re.sub(r"\bp[0-9a-f]{10}\b", "", (tmp_path / name).read_text()))
    assert texts[0] == texts[1]
    assert texts[0].startswith("<?xml")


def test_other_formats_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a file name ending in"):
        save_figure(draw_summary(hand_made(), summarise(hand_made())), tmp_path / "picture.bmp")
    assert not list(tmp_path.glob("*picture*"))


def test_show_prints_and_draws_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STACQ_HOME", str(tmp_path))
    dataset = hand_made()
    picture = show(dataset)
    assert picture == tmp_path / "inspect" / f"hand-made-{dataset.fingerprint[:8]}.png"
    assert picture.exists()
    assert "6 rows in 3 episodes" in capsys.readouterr().out

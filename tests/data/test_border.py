"""What a Dataset promises, and every way in which arrays can break the promise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from arrays import logged, recordings
from stacq import Conventions, Dataset, InputError, Normaliser, from_arrays


def build(raw: dict[str, Any], **conventions: Any) -> Dataset:
    optional = {key: raw[key] for key in ("timeouts", "next_observations") if key in raw}
    return from_arrays(
        raw["observations"],
        raw["actions"],
        raw["rewards"],
        raw["terminals"],
        **optional,
        conventions=Conventions(**conventions),
    )


def test_terminal_and_timeout_stay_apart() -> None:
    dataset = build(logged([2, 3, 2], ["terminal", "timeout", "cut"]))
    assert dataset.episode_offsets.tolist() == [0, 2, 5, 7]
    assert np.flatnonzero(dataset.terminals).tolist() == [1]
    assert np.flatnonzero(dataset.timeouts).tolist() == [4]
    assert dataset.cut.tolist() == [False, False, True]
    assert any("rows 5 to 6" in note and "unfinished" in note for note in dataset.notes)


def test_stored_successors_are_kept_at_every_end() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    dataset = build(raw)
    assert dataset.successor_known.all()
    np.testing.assert_array_equal(dataset.next_observations, raw["next_observations"])


def test_without_stored_successors_the_ends_are_unknown() -> None:
    raw = logged([2, 3, 2], ["terminal", "timeout", "cut"])
    del raw["next_observations"]
    dataset = build(raw)
    assert np.flatnonzero(~dataset.successor_known).tolist() == [1, 4, 6]
    assert np.isnan(dataset.next_observations[[1, 4, 6]]).all()
    np.testing.assert_array_equal(dataset.next_observations[0], raw["observations"][1])


def test_a_collector_that_does_not_reset_shows_the_successor_of_terminals() -> None:
    raw = logged([2, 3, 2], ["terminal", "timeout", "terminal"])
    del raw["next_observations"]
    dataset = build(raw, resets_after_terminal=False)
    assert np.flatnonzero(~dataset.successor_known).tolist() == [4, 6]
    np.testing.assert_array_equal(dataset.next_observations[1], raw["observations"][2])


def test_reset_states_passed_off_as_successors_are_found_out() -> None:
    raw = logged([2, 3, 2], ["terminal", "terminal", "terminal"])
    raw["next_observations"][:-1] = raw["observations"][1:]
    dataset = build(raw)
    assert np.flatnonzero(~dataset.successor_known).tolist() == [1, 4]
    assert any("reset states" in note for note in dataset.notes)


def test_a_dimension_that_never_changes_makes_no_successor_a_reset_state() -> None:
    raw = logged([2, 3, 2], ["terminal", "timeout", "terminal"])
    raw["observations"][:, 0] = raw["next_observations"][:, 0] = 1
    dataset = build(raw)
    assert dataset.successor_known.all() and not any("reset states" in note for note in dataset.notes)


def test_a_jump_inside_an_episode_is_a_cut_not_a_timeout() -> None:
    raw = logged([2, 3], ["timeout", "terminal"])
    raw["timeouts"][:] = False
    dataset = build(raw)
    assert dataset.episode_offsets.tolist() == [0, 2, 5]
    assert not dataset.timeouts.any() and dataset.cut.tolist() == [True, False]
    assert any("1 unmarked episode break" in note and "row 1" in note for note in dataset.notes)


def test_rounding_of_successors_is_no_break() -> None:
    raw = logged([4], ["terminal"])
    raw["next_observations"][1] *= np.float32(1 + 1e-6)
    dataset = build(raw)
    assert dataset.episodes == 1
    np.testing.assert_array_equal(dataset.next_observations[1], raw["observations"][2])


@pytest.mark.parametrize("value", [-1000.0, 1000.0, 0.0])
def test_rounding_is_relative_to_the_size_of_a_number_of_either_sign(value: float) -> None:
    """A hundred-thousandth of it, and of one where it is smaller: half of that is rounding, twice of it a break."""
    for share, episodes in ((0.5, 1), (-0.5, 1), (2.0, 2), (-2.0, 2)):
        raw = logged([4], ["terminal"], dtype=np.float64)
        raw["observations"][2, 1] = value
        raw["next_observations"][1] = raw["observations"][2]
        raw["next_observations"][1, 1] += share * 1e-5 * (1 + abs(value))
        assert build(raw).episodes == episodes, share


def test_missing_timeouts_are_counted_out_from_the_step_limit() -> None:
    raw = logged([7, 2], ["terminal", "cut"])
    del raw["timeouts"], raw["next_observations"]
    dataset = build(raw, max_episode_steps=3)
    assert np.flatnonzero(dataset.timeouts).tolist() == [2, 5]
    assert any("inferred from the limit of 3 steps" in note for note in dataset.notes)


def test_missing_timeouts_without_a_limit_are_not_invented() -> None:
    raw = logged([7], ["terminal"])
    del raw["timeouts"]
    dataset = build(raw)
    assert not dataset.timeouts.any()
    assert any("no step limit is known" in note for note in dataset.notes)


def test_returns_and_lengths() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["rewards"] = np.array([1, 2, 10, 20, 30], dtype=np.float32)
    dataset = build(raw)
    assert dataset.returns.tolist() == [3.0, 60.0] and dataset.lengths.tolist() == [2, 3]
    assert dataset.rewards[dataset.episode(1)].tolist() == [10.0, 20.0, 30.0]


def test_arrays_are_read_only_and_the_callers_stay_writable() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    dataset = build(raw)
    with pytest.raises(ValueError, match="read-only"):
        dataset.observations[0] = 0
    raw["rewards"][0] = 5


def test_stored_arrays_of_the_caller_are_not_mended() -> None:
    raw = logged([4], ["terminal"])
    raw["next_observations"][1] *= np.float32(1 + 1e-6)
    before = raw["next_observations"].copy()
    build(raw)
    np.testing.assert_array_equal(raw["next_observations"], before)


def test_fingerprint_follows_the_data() -> None:
    first, same = (build(logged([2, 3], ["terminal", "timeout"])) for _ in range(2))
    assert first.fingerprint == same.fingerprint
    changed = logged([2, 3], ["terminal", "timeout"])
    changed["rewards"][0] += 1
    assert build(changed).fingerprint != first.fingerprint


def test_integers_keep_every_digit() -> None:
    raw = logged([3], ["terminal"])
    raw["rewards"] = np.array([16_777_217, 0, 1], dtype=np.int64)
    assert build(raw).rewards.tolist() == [16_777_217.0, 0.0, 1.0]


@given(recordings())
def test_every_valid_recording_keeps_the_promises(raw: dict[str, Any]) -> None:
    dataset = build(raw)
    inside = np.ones(len(dataset), dtype=bool)
    inside[dataset.last_rows] = False
    rows = np.flatnonzero(inside)
    assert dataset.successor_known[rows].all()
    np.testing.assert_array_equal(dataset.next_observations[rows], dataset.observations[rows + 1])
    assert (np.isnan(dataset.next_observations).any(axis=1) == ~dataset.successor_known).all()
    flagged = dataset.terminals | dataset.timeouts
    assert set(np.flatnonzero(flagged)) <= set(dataset.last_rows)
    assert dataset.lengths.sum() == len(dataset) == len(raw["rewards"])
    np.testing.assert_array_equal(dataset.terminals, raw["terminals"])
    np.testing.assert_array_equal(dataset.timeouts, raw["timeouts"])


BROKEN = {
    "rank": (
        lambda raw: raw.update(rewards=raw["rewards"][:, None]),
        ["'rewards'", "rank 2", "rank 1, shape (rows,)", "reshape 'rewards' to (rows,)"],
    ),
    "image": (
        lambda raw: raw.update(observations=raw["observations"][:, None]),
        [
            "'observations'",
            "rank 3",
            "rank 2, shape (rows, dimensions)",
            "stacq handles continuous actions and vector states",
        ],
    ),
    "lengths": (lambda raw: raw.update(actions=raw["actions"][:-1]), ["'actions' has 4 rows", "5", "partner: 4"]),
    "nan": (lambda raw: raw["observations"].__setitem__((3, 1), np.nan), ["'observations'", "nan", "row 3, column 1"]),
    "inf": (lambda raw: raw["rewards"].__setitem__(2, np.inf), ["'rewards'", "inf", "row 2"]),
    "nan in successor": (
        lambda raw: raw["next_observations"].__setitem__((4, 0), np.nan),
        ["'next_observations'", "nan", "row 4, column 0"],
    ),
    "bounds": (lambda raw: raw["actions"].__setitem__((1, 1), 1.5), ["'actions'", "1.5", "row 1, column 1", "-1 to 1"]),
    "low bound": (
        lambda raw: raw["actions"].__setitem__((2, 0), -1.5),
        ["'actions' holds -1.5 at row 2, column 0 (1 rows", "-1 to 1"],
    ),
    "flags": (
        lambda raw: raw.update(terminals=np.array([0, 0, 2, 0, 1])),
        ["'terminals'", "holds 2 at row 2", "0 or 1"],
    ),
    "text": (lambda raw: raw.update(rewards=np.array(["a"] * 5)), ["'rewards'", "type <U1"]),
    "complex": (lambda raw: raw.update(rewards=np.zeros(5, dtype=complex)), ["'rewards'", "complex"]),
    "one row": (lambda raw: raw.update({key: value[:1] for key, value in raw.items()}), ["1 transition", "2 rows"]),
    "no rows": (lambda raw: raw.update({key: value[:0] for key, value in raw.items()}), ["0 transitions"]),
    "no columns": (lambda raw: raw.update(actions=raw["actions"][:, :0]), ["'actions'", "no dimensions"]),
    "successor shape": (
        lambda raw: raw.update(next_observations=raw["next_observations"][:, :2]),
        ["'next_observations'", "(5, 2)", "(5, 3)"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_arrays_are_refused_with_place_and_remedy(case: str) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    breaking, words = BROKEN[case]
    breaking(raw)  # type: ignore[no-untyped-call]
    with pytest.raises(InputError) as caught:
        build(raw)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "expected:" in text and "what to do:" in text


def test_bounds_need_not_be_one() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["actions"] = raw["actions"] * 2
    dataset = build(raw, action_low=(-2.0, -2.0), action_high=2.0)
    assert dataset.action_low.tolist() == [-2.0, -2.0] and dataset.action_high.tolist() == [2.0, 2.0]


def test_bounds_differ_between_dimensions() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["actions"][:, 1] *= 3
    assert len(build(raw, action_low=(-1.0, -3.0), action_high=(1.0, 3.0))) == 5
    with pytest.raises(InputError, match="column 1"):
        build(raw, action_low=(-1.0, -0.1), action_high=(1.0, 0.1))


@pytest.mark.parametrize("width", [2e-3, 2.0, 2e3])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("other", [1.0, 10.0])
def test_a_millionth_of_the_width_is_rounding_on_either_side(width: float, column: int, other: float) -> None:
    """Bounds that are alike in all dimensions are tested at once, others one by one: both know the same slack."""
    widths = np.array([width, width])
    widths[1 - column] *= other
    for side in (-1, 1):
        for share, fine in ((0.5, True), (2.0, False)):
            raw = logged([5], ["cut"], dtype=np.float64)
            raw["actions"] = np.zeros((5, 2))
            raw["actions"][:2, 1 - column] = np.array([-1, 1]) * widths[1 - column] / 2  # on the bounds themselves
            raw["actions"][3, column] = side * width * (0.5 + share * 1e-6)
            bounds = {"action_low": tuple(-widths / 2), "action_high": tuple(widths / 2)}
            if fine:
                assert len(build(raw, **bounds)) == 5
            else:
                with pytest.raises(InputError, match=f"at row 3, column {column} "):
                    build(raw, **bounds)


SENSELESS = [(-1.0, -1.0, -1.0), float("-inf"), float("nan"), 1.0, (-1.0, 1.0), (2.0, -1.0), (float("-inf"), -1.0)]


@pytest.mark.parametrize("low", [*SENSELESS, ((-1.0, -1.0),)])
def test_senseless_bounds_are_refused(low: Any) -> None:
    with pytest.raises(InputError, match="the declared action"):
        build(logged([2, 3], ["terminal", "timeout"]), action_low=low)


def test_infinite_sums_of_finite_numbers_are_no_error() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["rewards"] = np.full(5, 3e38, dtype=np.float32)
    assert len(build(raw)) == 5


MARKED = {"column": (5, 1), "table": (5, 3), "cube": (5, 1, 1)}


@pytest.mark.parametrize("key", ["successor_known", "episode_cut"])
@pytest.mark.parametrize("shape", MARKED)
def test_our_marks_are_one_boolean_a_row(key: str, shape: str) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    mark = np.ones(MARKED[shape], dtype=bool)
    if shape == "column":
        assert len(from_arrays(**raw, infos={key: mark})) == 5
        return
    with pytest.raises(InputError, match=rf"key 'infos/{key}' has shape .*(.|\n)*one boolean per row"):
        from_arrays(**raw, infos={key: mark})


def test_a_mark_of_words_is_refused() -> None:
    with pytest.raises(InputError, match="type <U3"):
        from_arrays(**logged([2, 3], ["terminal", "timeout"]), infos={"successor_known": ["yes"] * 5})


@pytest.mark.parametrize("limit", [0, -3])
def test_a_step_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(InputError, match=f"max_episode_steps is {limit}"):
        from_arrays(**logged([5], ["cut"]), conventions=Conventions(max_episode_steps=limit))


def test_episodes_of_a_single_step_and_a_name() -> None:
    raw = logged([5], ["cut"])
    del raw["timeouts"]
    found = from_arrays(**raw, conventions=Conventions(max_episode_steps=1, name="mine"))
    assert found.timeouts.all() and found.episodes == 5 and found.name == "mine"


@pytest.mark.parametrize(
    ("lengths", "ends", "rows"),
    [([3], ["cut"], "0 to 2"), ([2, 3], ["terminal", "cut"], "2 to 4"), ([2, 3], ["terminal", "timeout"], None)],
)
def test_notes_count_unknown_successors_and_name_an_unfinished_episode(
    lengths: list[int], ends: list[str], rows: str | None
) -> None:
    raw = logged(lengths, ends)
    del raw["next_observations"]
    found = from_arrays(**raw).notes
    unfinished = f"the last episode (rows {rows}) is unfinished: kept, and marked cut, neither terminal nor timeout"
    assert [note for note in found if "unfinished" in note] == ([unfinished] if rows else [])
    wanted = f"rows without a known successor (ends of episodes): {len(lengths)}, kept and marked so"
    assert [note for note in found if "known successor" in note] == [wanted]


@pytest.mark.parametrize("block", [1, 2, 3, 100])
@pytest.mark.parametrize("row", range(5))
def test_every_row_is_compared_with_the_next_one(row: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one too, those at the edges of blocks, and those of later blocks."""
    monkeypatch.setattr("stacq.data.succession.BLOCK", block)
    raw = logged([6], ["timeout"])
    raw["next_observations"][row] += 1
    found = from_arrays(**raw)
    assert found.lengths.tolist() == [row + 1, 5 - row] and found.cut.tolist() == [True, False]
    raw["next_observations"][row, 1] = np.nan
    with pytest.raises(InputError, match=f"'next_observations' holds nan at row {row}, column 1"):
        from_arrays(**raw)


def test_a_reset_state_just_before_the_last_row_is_found() -> None:
    raw = logged([3, 1], ["terminal", "timeout"])
    raw["next_observations"][2] = raw["observations"][3]
    assert from_arrays(**raw).successor_known.tolist() == [True, True, False, True]


def test_a_blank_successor_at_an_end_is_an_unknown_one() -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["next_observations"][[1, 4]] = np.nan
    found = from_arrays(**raw)
    assert found.successor_known.tolist() == [True, False, True, True, False]
    assert "2 stored successors at ends of episodes are NaN: read as unknown" in found.notes
    for row, columns in ((3, slice(None)), (4, slice(1, 2))):  # in the middle of an episode, or in part
        raw = logged([2, 3], ["terminal", "timeout"])
        raw["next_observations"][row, columns] = np.nan
        with pytest.raises(InputError, match=f"'next_observations' holds nan at row {row}"):
            from_arrays(**raw)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({}, "assumed where none"),
        ({"action_low": -1}, "assumed where none"),
        ({"action_high": 1}, "assumed where none"),
        ({"action_low": -1, "action_high": 1}, "declared"),
    ],
)
def test_bounds_that_nobody_declared_are_not_called_so(stated: dict[str, Any], words: str) -> None:
    raw = logged([5], ["cut"])
    raw["actions"][2, 1] = 3.0
    with pytest.raises(InputError, match=f"from -1 to 1, the (bounds that are )?{words}"):
        from_arrays(**raw, conventions=Conventions(**stated))


def test_a_column_that_never_changed_does_not_shout_when_it_drifts() -> None:
    rows = np.stack([np.linspace(0, 1, 50), np.full(50, 3.7)], axis=1).astype(np.float32)
    found = Normaliser.fit(rows)
    assert found.apply(rows)[:, 1] == pytest.approx(0, abs=1e-6)
    assert found.apply(np.array([0.5, 3.8]))[1] == pytest.approx(0.1, abs=1e-3)
    assert found.scale[0] == pytest.approx(rows[:, 0].std() + 1e-3)

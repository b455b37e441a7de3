"""CSV tables, and what their columns are."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrays import recordings
from stacq import InputError, from_arrays, load
from stacq.data import csv_table
from stacq.data.csv_table import Wanted, read_csv
from tables import ROWS, WHOLE, read, refused, text


def test_a_table_becomes_a_dataset() -> None:
    dataset = read(text())
    assert dataset.name == "logs" and dataset.observation_names == ("x", "v") and dataset.action_names == ("u",)
    assert dataset.lengths.tolist() == [3, 2]
    assert dataset.observations.tolist() == [row[2:4] for row in ROWS]
    assert dataset.actions[:, 0].tolist() == [row[4] for row in ROWS]
    assert dataset.rewards.tolist() == [-1, -2, -3, -4, -5]
    assert dataset.terminals.tolist() == [False, False, True, False, False]
    assert dataset.timeouts.tolist() == [False, False, False, False, True]
    assert dataset.successor_known.tolist() == [True, True, False, True, False]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + text().encode(),
        text().replace("\n", "\r\n").encode(),
        text(separator=";").encode(),
        text(separator="\t").encode(),
        text().replace("x,", '"x",', 1).replace("a,", '"a",').encode(),
        text().replace("run,", " run ,", 1).encode(),
        (text() + "\n\n,,,,,,\n").encode(),
        text().rstrip("\n").encode(),
        text().replace(",0\n", ",False\n").replace(",1\n", ",True\n").encode(),
    ],
    ids=["mark", "windows", "semicolons", "tabs", "quotes", "blanks", "empty lines", "no last end", "words"],
)
def test_dialects_mean_the_same(content: bytes) -> None:
    assert read(content).fingerprint == read(text()).fingerprint


def test_decimal_commas_are_stated() -> None:
    german = text([[str(cell).replace(".", ",") for cell in row] for row in ROWS], separator=";")
    assert "decimal = ','" in refused(german)
    assert read(german, decimal=",").fingerprint == read(text()).fingerprint
    assert "line 2" in refused(text(separator=";"), decimal=",")  # a point is no thousand


def changed(row: int, column: int, cell: object) -> str:
    rows = [list(each) for each in ROWS]
    rows[row][column] = cell
    return text(rows)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(1, 2, ""), ["line 3", "'x' has no number", "1 such cell in all"]),
        (changed(1, 2, "NaN"), ["line 3", "'x' has no number"]),
        (changed(1, 4, "inf"), ["line 3", "'u' holds inf"]),
        (changed(1, 2, "1_000"), ["line 3", "'x' holds '1_000'"]),
        (changed(2, 4, "left"), ["line 4", "'u' holds 'left'", "continuous actions and vector states"]),
        (changed(2, 2, "frame.png"), ["line 4", "frame.png", "continuous actions and vector states"]),
        (changed(2, 1, 0.1), ["line 4", "time ('t') stays at 0.1"]),
        (changed(2, 1, 0.05), ["line 4", "time ('t') goes back from 0.1 to 0.05", "sort the rows"]),
        (changed(2, 1, ""), ["line 4", "'t' has no time"]),
        (changed(2, 0, ""), ["line 4", "'run' is empty"]),
        (changed(2, 6, 2), ["line 4", "'terminal' (done) is 2"]),
        (text() + "b,0.2,0.1\n", ["line 7", "3 cells", "has 7"]),
        (text() + "b,0.2,0.1,1,1,1,1,1\n", ["line 7", "8 cells"]),
        (text() + 'b,0.2,"0.1,1,1,1,1\n', ["line 7", "quotation mark"]),
        (text() + 'b,"0.2\n",0.1,1,1,1,1\n', ["line 7", "quotation mark"]),
        (text() + "x" * (csv_table.LONGEST + 1), ["line 7", "1,048,576 bytes"]),
        (text().encode() + b"\xff,1\n", ["line 7", "not UTF-8"]),
        (text().encode() + b"\0\n", ["line 7", "zero byte"]),
        (text().replace("\n", "\r"), ["line 1", "carriage return"]),
        (text().encode("utf-16"), ["line 1", "UTF-16"]),
        ("", ["empty"]),
        (text([]), ["no rows"]),
        (text([ROWS[0]]), ["1 transition"]),
        ("1,2,3\n4,5,6\n", ["line 1", "not names"]),
        (text(header=["run", "t", "x", "x", "u", "reward", "done"]), ["line 1", "two columns are called 'x'"]),
    ],
)
def test_odd_tables_are_refused_with_their_line(content: str | bytes, words: list[str]) -> None:
    message = refused(content)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": []}, "data inspect"),
        ({"observations": ["w"]}, "no column is called 'w'"),
        ({"observations": ["xx*"]}, "no column is called"),
        ({"observations": ["*" * 9]}, "too many stars"),
        ({"actions": []}, "logs of states alone are not enough"),
        ({"reward": None}, "'reward' is None"),
        ({"episode": "rnu"}, "is it 'run'"),
        ({"next_observations": ["x"]}, "1 columns are next_observations"),
        ({"obs": ["x"]}, "no key 'obs'"),
        ({"observations": 3}, "a list, each text"),
        ({"gap": -1}, "above zero"),
        ({"gap": 10**400}, "above zero"),
        ({"action_low": [10**400]}, "finite"),
        ({"decimal": ";"}, "a point or a comma"),
        ({"terminal": "x +"}, "formula"),
        ({"reward": "log(-v)"}, "line 2"),
    ],
)
def test_mappings_that_do_not_fit_are_refused(changes: dict[str, Any], words: str) -> None:
    assert words in refused(text(), **changes)


def test_a_table_without_a_mapping_is_not_guessed() -> None:
    Path("logs.csv").write_text(text())
    with pytest.raises(InputError, match=r"stacq data inspect logs\.csv"):
        load("logs.csv")
    no_reward = {key: value for key, value in WHOLE.items() if key != "reward"}
    assert "--reward" in refused(text(), no_reward)
    with pytest.raises(InputError, match="no such file"):
        load("none.csv", columns=WHOLE)


def test_patterns_keep_the_order_of_the_file() -> None:
    header = ["u", "j_2", "j_10", "r", "*"]
    columns = {"observations": ["*", "j_*"], "actions": ["u"], "reward": "r"}
    assert read(text([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], header), columns).observation_names == ("*", "j_2", "j_10")


def test_episodes_that_alternate_are_put_together_by_time() -> None:
    mixed = [ROWS[index] for index in (0, 3, 1, 4, 2)]
    dataset = read(text(mixed))
    assert dataset.fingerprint == read(text()).fingerprint and any("alternate" in note for note in dataset.notes)
    no_time = {key: value for key, value in WHOLE.items() if key != "time"}
    message = refused(text(mixed), no_time)
    assert "line 4" in message and "goes on here" in message


def test_a_gap_cuts_the_episode() -> None:
    rows: list[list[Any]] = [["a", step if step < 12 else step + 3, step, 0, 0, 0, 0] for step in range(30)]
    dataset = read(text(rows))
    assert dataset.lengths.tolist() == [12, 18] and dataset.cut.tolist() == [True, False]
    assert not dataset.successor_known[11]
    assert any("1 gaps in time (first after line 13, of 4)" in note for note in dataset.notes)
    assert read(text(rows), gap=4).episodes == 1


def test_uneven_time_is_asked_about() -> None:
    rows: list[list[Any]] = [["a", step**2, step, 0, 0, 0, 0] for step in range(30)]
    assert "time passes unevenly" in refused(text(rows))
    assert read(text(rows), gap=1000.0).episodes == 1


def test_without_episodes_time_that_starts_again_begins_one() -> None:
    columns = {key: value for key, value in WHOLE.items() if key != "episode"}
    assert read(text(), columns).fingerprint == read(text()).fingerprint
    assert "name the column of episodes" in refused(changed(1, 1, -1), columns)


def test_dates_are_times() -> None:
    rows: list[list[Any]] = [[row[0], f"2024-05-01T10:00:{index:02d}.500Z", *row[2:]] for index, row in enumerate(ROWS)]
    assert read(text(rows)).fingerprint == read(text()).fingerprint
    assert "'t' holds 'noon'" in refused(changed(0, 1, "noon"))


def test_without_episodes_and_time_flags_end_them() -> None:
    rows: list[list[Any]] = [[0, 1, 0, 0], [1, 1, 1, 0], [2, 1, 0, 0], [3, 1, 0, 1], [4, 1, 0, 0]]
    table = text(rows, ["x", "u", "done", "last"])
    columns = {"observations": ["x"], "actions": ["u"], "reward": "x", "terminal": "done", "timeout": "last"}
    dataset = read(table, columns)
    assert dataset.lengths.tolist() == [2, 2, 1] and dataset.cut.tolist() == [False, False, True]
    assert dataset.successor_known.tolist() == [True, False, True, False, False]


def test_a_rule_may_look_at_the_row_after() -> None:
    dataset = read(text(), reward="next(x) - x", terminal="next(v) > 1.15")
    assert dataset.rewards.round(9).tolist() == [0.1, 0.1, 0.1]
    assert dataset.next_observations.tolist() == [ROWS[1][2:4], ROWS[2][2:4], ROWS[4][2:4]]
    assert dataset.terminals.tolist() == [False, True, True]
    assert any("2 last rows are left out" in note for note in dataset.notes)
    assert dataset.provenance["reward"] == "next(x) - x"


def test_recorded_successors_are_used() -> None:
    rows: list[list[Any]] = [
        [0.0, 1.0, 0.5, 0],
        [1.0, 2.0, 0.5, 0],
        [2.0, 3.0, 0.5, 1],
        [5.0, 6.0, 0.5, 0],
        [6.0, "", 0.5, 1],
    ]
    columns = {"observations": ["x"], "next_observations": ["x2"], "actions": ["u"], "timeout": "last"}
    dataset = read(text(rows, ["x", "x2", "u", "last"]), columns, reward="next(x)")
    assert dataset.rewards.tolist() == [1, 2, 3, 6]
    assert dataset.next_observations[:, 0].tolist() == [1, 2, 3, 6]
    assert read(text(rows, ["x", "x2", "u", "last"]), columns, reward="x").successor_known.tolist()[-1] is False


def test_bounds_and_extras_may_be_stated(tmp_path: Path) -> None:
    rows = [[row[0], row[1], row[2], row[3], 10 * row[4], *row[5:]] for row in ROWS]
    assert "--action-low" in refused(text(rows))
    dataset = read(text(rows), action_low=[0], action_high=[5.0])
    assert (dataset.action_low.tolist(), dataset.action_high.tolist()) == ([0], [5])
    assert load("logs.csv", columns={**WHOLE, "action_high": 5}, infos=["done"]).infos["done"].tolist() == [
        0,
        0,
        1,
        0,
        0,
    ]


def test_a_mapping_is_read_from_toml() -> None:
    Path("c.toml").write_text(
        'episode = "run"\nobservations = ["x", "v"]\nactions = "u"\nreward = "reward"\nterminal="done"'
    )
    Path("logs.csv").write_text(text())
    assert load("logs.csv", columns="c.toml").fingerprint == read(text()).fingerprint


@pytest.mark.parametrize("content", [b"x = ", b"\xff", b"x = " + b"[" * 100_000, b"episode = 1979-05-27", b"[episode]"])
def test_a_broken_mapping_is_refused(content: bytes) -> None:
    Path("c.toml").write_bytes(content)
    with pytest.raises(InputError, match=r"c\.toml"):
        load("logs.csv", columns="c.toml")


def test_choices_raise_the_question() -> None:
    rows = [[*row[:4], index % 3, *row[5:]] for index, row in enumerate(ROWS)]
    message = refused(text(rows))
    assert "discrete actions" in message and "--action-low" in message
    assert "reshape" not in message


def test_terminal_rows_inside_a_recording_are_noted() -> None:
    rows = [[*row[:6], int(row[2] == 0.2)] for row in ROWS]
    dataset = read(text(rows))
    assert dataset.lengths.tolist() == [2, 1, 2] and dataset.terminals.tolist() == [False, True, False, False, False]
    assert dataset.successor_known.tolist() == [True, True, False, True, False]  # the recording went on after it
    assert dataset.next_observations[1].tolist() == ROWS[2][2:4]
    assert any("1 terminal rows are not the last of their recording (first: line 3)" in note for note in dataset.notes)


def test_what_hangs_on_the_row_after_is_false_without_one() -> None:
    assert read(text(), terminal="next(x) > 0.25 or x > 0").terminals.tolist() == [True, True, False, True, False]


@settings(max_examples=60)
@given(recordings())
def test_a_table_of_arrays_is_the_arrays(raw: dict[str, Any]) -> None:
    raw = {key: value.astype(np.float64) if value.dtype.kind == "f" else value for key, value in raw.items()}
    parts = {key: value.reshape(len(value), -1) for key, value in raw.items()}
    header = [f"{key}_{index}" for key, value in parts.items() for index in range(value.shape[1])]
    rows = [[cell for value in parts.values() for cell in value[row].tolist()] for row in range(len(raw["rewards"]))]
    columns = {key: [f"{key}_*"] for key in parts if key in ("observations", "actions", "next_observations")}
    dataset = read(
        text(rows, header), {**columns, "reward": "rewards_0", "terminal": "terminals_0", "timeout": "timeouts_0"}
    )
    assert dataset.fingerprint == from_arrays(**raw).fingerprint


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=60)
@given(st.lists(st.tuples(numbers, st.text(max_size=8), numbers), min_size=1, max_size=6), st.sampled_from(",;\t|"))
def test_what_the_csv_module_writes_is_read_back(rows: list[tuple[float, str, float]], separator: str) -> None:
    with io.StringIO(newline="") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerows([("one", "a, b; c", "two"), *rows])
        content = file.getvalue()
    path = Path("any.csv")
    path.write_bytes(content.encode())
    broken = any(set(word) & set("\n\r\0") for _, word, _ in rows)
    try:
        table = read_csv(path, Wanted(("one", "two"), "a, b; c"))
    except InputError as error:
        assert broken and "line" in str(error)
        return
    assert table.numbers["one"].tolist() == [row[0] for row in rows]
    assert table.numbers["two"].tolist() == [row[2] for row in rows]


@settings(max_examples=60)
@given(st.binary(max_size=80), st.integers(0, 120), st.integers(0, 40))
def test_any_damage_is_read_or_refused(damage: bytes, start: int, count: int) -> None:
    whole = text().encode()
    Path("odd.csv").write_bytes(whole[:start] + damage + whole[start + count :])
    try:
        dataset = load("odd.csv", columns=WHOLE)
    except InputError:
        return
    assert np.isfinite(dataset.observations).all() and np.isfinite(dataset.rewards).all()

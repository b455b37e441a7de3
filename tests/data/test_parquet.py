"""Parquet tables: the same as CSV where pyarrow is, one message where it is not."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stacq import InputError, load
from stacq.data.proposal import proposal
from tables import HEADER, ROWS, WHOLE, read, text


def test_without_pyarrow_one_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("logs.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"stacq\[parquet\]"):
        load("logs.parquet", columns=WHOLE)


def written(columns: dict[str, Any], name: str = "logs.parquet", **options: Any) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), name, **options)
    return Path(name)


def columns() -> dict[str, Any]:
    return {name: [row[index] for row in ROWS] for index, name in enumerate(HEADER)}


def test_a_parquet_file_reads_like_csv() -> None:
    path = written(columns(), row_group_size=2)
    assert load(path, columns=WHOLE).fingerprint == read(text()).fingerprint
    assert 'actions = ["u"]' in proposal(path)


def test_lists_are_columns_and_dates_are_times() -> None:
    lists = {"state": [row[2:4] for row in ROWS], "action": [[row[4]] for row in ROWS]}
    dates = {"t": [datetime(2024, 5, 1, 10, 0, index, tzinfo=UTC) for index in range(5)]}
    path = written({**columns(), **lists, **dates})
    mapping = {**WHOLE, "observations": ["state_*"], "actions": ["action_0"]}
    assert load(path, columns=mapping).fingerprint == read(text()).fingerprint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": [1.0, None, 1.0, 1.0, 1.0]}, "row 2: column 'x' has no number"),
        ({"u": list("abcde")}, "continuous actions and vector states"),
        ({"t": [0.0, 0.1, 0.1, 0.0, 0.1]}, "row 3: time"),
        ({"run": ["a", None, "a", "b", "b"]}, "row 2: the cell of 'run' is empty"),
    ],
)
def test_odd_columns_are_refused_with_their_row(changes: dict[str, Any], words: str) -> None:
    path = written({**columns(), **changes})
    with pytest.raises(InputError) as caught:
        load(path, columns=WHOLE)
    assert words in str(caught.value)


def test_lists_of_other_lengths_are_refused() -> None:
    path = written({**columns(), "state": [[1.0, 2.0], [1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]})
    with pytest.raises(InputError, match=r"row 2: the list of 'state' has 1 entries"):
        load(path, columns={**WHOLE, "observations": ["state_*"]})


def test_any_damage_is_read_or_refused() -> None:
    path = written(columns())
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(40):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 4):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole))] if rng.random() < 0.3 else damaged)
        try:
            load(path, columns=WHOLE)
        except InputError as error:
            assert "logs.parquet" in str(error)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100, text().encode()])
def test_other_files_are_refused(content: bytes) -> None:
    pytest.importorskip("pyarrow")
    Path("logs.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"logs\.parquet"):
        load("logs.parquet", columns=WHOLE)
    with pytest.raises(InputError, match="no such file"):
        load("none.parquet", columns=WHOLE)

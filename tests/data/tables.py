"""Tables of logs for tests."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from stacq import Dataset, InputError, load

HEADER = ["run", "t", "x", "v", "u", "reward", "done"]
ROWS: list[list[Any]] = [
    ["a", 0.0, 0.1, 1.0, 0.5, -1, 0],
    ["a", 0.1, 0.2, 1.1, 0.4, -2, 0],
    ["a", 0.2, 0.3, 1.2, 0.3, -3, 1],
    ["b", 0.0, 0.4, 1.3, 0.2, -4, 0],
    ["b", 0.1, 0.5, 1.4, 0.1, -5, 0],
]
WHOLE: dict[str, Any] = {
    "episode": "run",
    "time": "t",
    "observations": ["x", "v"],
    "actions": ["u"],
    "reward": "reward",
    "terminal": "done",
}


def text(rows: list[list[Any]] = ROWS, header: list[str] = HEADER, separator: str = ",") -> str:
    with io.StringIO(newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([header, *rows])
        return file.getvalue()


def read(content: str | bytes, columns: Any = None, **changes: Any) -> Dataset:
    path = Path("logs.csv")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load(path, columns={**(WHOLE if columns is None else columns), **changes})


def refused(content: str | bytes, columns: Any = None, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(content, columns, **changes)
    return str(caught.value)

"""Tables of text: CSV with commas, semicolons, tabs or bars, read line by line.

One line is one row: a cell that goes on over the end of its line is refused, and so is a line of more than a megabyte.
So memory is needed for a block of lines and for the numbers that are kept, whatever the file is.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.reading import check_memory, plain, regular
from stacq.core.types import Float64s, Ints
from stacq.data.checks import CONTINUOUS

SUFFIXES = (".csv", ".tsv")
LONGEST = 1 << 20  # bytes of a line
BLOCK = 1 << 20  # characters that are taken apart at a time
BLOCK_ROWS = 8192
SEPARATORS = (",", ";", "\t", "|")
EMPTY = {"", "nan", "na", "n/a", "null", "none", "-"}
QUOTED = re.compile('"(?:[^"]|"")*"')
WORDS = {"true": 1.0, "false": 0.0}


class Wanted(NamedTuple):
    """The columns to read, and as what; a column may be wanted as several."""

    numbers: tuple[str, ...]
    label: str | None = None  # of any text: a number for each that is new
    clock: str | None = None  # a number, or a date and time
    decimal: str = "."


class Table(NamedTuple):
    """Columns of a table; a cell without a number is NaN."""

    numbers: dict[str, Float64s]  # name -> [N]
    labels: Ints | None  # [N]
    clock: Float64s | None  # [N]
    places: Ints  # [N], the line or row of the file
    unit: str = "line"


class _Bad(ValueError):
    """A cell that is not what its column should hold: which row of the block, and the cell."""


Line = tuple[int, str]


@contextmanager
def opened(path: Path) -> Iterator[tuple[list[str], str, Iterator[Line], int]]:
    """The names of the columns, what separates them, the lines after them, and the size of the file."""
    try:
        with regular(path) as raw, io.BufferedReader(raw, 1 << 18) as handle:
            size = handle.seek(0, io.SEEK_END)
            handle.seek(0)
            lines = _lines(handle, path)
            names, separator = _header(lines, path)
            yield names, separator, lines, size
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        raise InputError(
            "no such file" if absent else f"cannot be read: {error.strerror or error}",
            where=path,
            expected="a table in a CSV file",
            fix="check the path" if absent else "check what it is, and its permissions",
        ) from error


def names_of(path: Path) -> list[str]:
    with opened(path) as (names, _, _, _):
        return names


def read_csv(path: Path, wanted: Wanted) -> Table:
    """The wanted columns in full; every name of them is there."""
    with opened(path) as (names, separator, lines, size):
        parts: list[Table] = []
        labels: dict[str, int] = {}
        for block, places in blocks(lines, names, separator, path):
            if not parts:
                _check_room(block, names, wanted, size, path)
            parts.append(_converted(block, places, names, wanted, labels, path))
    if not parts:
        fix = "check the recording: nothing can be learned from this file"
        raise InputError("the table has no rows", where=path, expected="a row for each step", fix=fix)
    return Table(
        {name: np.concatenate([part.numbers[name] for part in parts]) for name in wanted.numbers},
        None if wanted.label is None else np.concatenate([part.labels for part in parts if part.labels is not None]),
        None if wanted.clock is None else np.concatenate([part.clock for part in parts if part.clock is not None]),
        np.concatenate([part.places for part in parts]),
    )


def _check_room(block: Sequence[Sequence[str]], names: Sequence[str], wanted: Wanted, size: int, path: Path) -> None:
    """By the length of the first lines: what is kept is held twice for a moment."""
    length = sum(len(cell) + 1 for row in block for cell in row) / len(block)
    check_memory(int(2 * 8 * (len(wanted.numbers) + 3) * size / length), path)


def _lines(handle: IO[bytes], path: Path) -> Iterator[Line]:
    """Lines with their numbers, without their ends; lines of nothing but separators are left out."""
    number = 0
    while raw := handle.readline(LONGEST + 1):
        number += 1
        if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise _odd(path, 1, "the text is in UTF-16", "save the table as CSV in UTF-8")
        if b"\0" in raw:
            raise _odd(path, number, "there is a zero byte: this is no text", "check what the file is")
        if len(raw) > LONGEST:
            raise _odd(path, number, f"this line has more than {LONGEST:,} bytes", "check what the file is")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise _odd(path, number, "the text is not UTF-8", "save the table as CSV in UTF-8") from None
        if "\r" in text:
            raise _odd(path, number, "lines end in a carriage return alone", "save the table with usual line ends")
        if text.strip(' \t,;|"'):
            yield number, text


def _odd(path: Path, number: int, problem: str, fix: str) -> InputError:
    return InputError(
        problem, where=f"{path}, line {number:,}", expected="lines of text with a cell per column", fix=fix
    )


def _header(lines: Iterator[Line], path: Path) -> tuple[list[str], str]:
    first = next(lines, None)
    if first is None:
        fix = "check the recording"
        raise InputError("the file is empty", where=path, expected="a line of names, then rows", fix=fix)
    number, text = first
    separator = max(SEPARATORS, key=QUOTED.sub("", text).count)  # the first one of those that occur most
    names = [plain(cell.strip()) for cell in cells(text, separator, path, number)]
    if all(_is_number(name) for name in names):
        raise _odd(path, number, "the first line holds numbers, not names", "write the names of the columns above them")
    twice = next((name for place, name in enumerate(names) if name and name in names[:place]), None)
    if twice is not None:
        raise _odd(path, number, f"two columns are called '{twice:.80}'", "give each column its own name")
    return names, separator


def cells(text: str, separator: str, path: Path, number: int) -> list[str]:
    """Of one line."""
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader((text,), delimiter=separator, strict=True))
    except csv.Error as error:
        fix = "close the quotation mark in the same line; a cell cannot go on over the end of its line"
        raise _odd(path, number, f"a quoted cell is not whole ({error})", fix) from None


def blocks(
    lines: Iterator[Line], names: Sequence[str], separator: str, path: Path
) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Rows of cells with their lines, some thousand at a time."""
    rows: list[list[str]] = []
    places: list[int] = []
    size = 0
    for number, text in lines:
        row = cells(text, separator, path, number)
        if len(row) != len(names):
            problem = f"this line has {len(row):,} cells, the line of names has {len(names):,}"
            fix = "repair the line; a text with a separator in it stands in quotation marks"
            raise _odd(path, number, problem, fix)
        rows.append(row)
        places.append(number)
        size += len(text)
        if len(rows) == BLOCK_ROWS or size > BLOCK:
            yield rows, places
            rows, places, size = [], [], 0
    if rows:
        yield rows, places


def _converted(
    block: Sequence[Sequence[str]],
    places: Sequence[int],
    names: Sequence[str],
    wanted: Wanted,
    labels: dict[str, int],
    path: Path,
) -> Table:
    def column(name: str, convert: Callable[[list[str]], Float64s], expected: str) -> Float64s:
        index = names.index(name)
        try:
            return convert([row[index] for row in block])
        except _Bad as error:
            row, cell = error.args
            decimal = "; if the comma is the decimal mark, state decimal = ','" if "," in cell else ""
            raise InputError(
                f"column '{name}' holds '{cell:.60}'",
                where=f"{path}, line {places[row]:,}",
                expected=f"{expected}: {CONTINUOUS}",
                fix=f"leave the column out, or write numbers{decimal}",
            ) from None

    numbers = {name: column(name, lambda each: numbers_of(each, wanted.decimal), "numbers") for name in wanted.numbers}
    clock = None if wanted.clock is None else column(wanted.clock, lambda each: times_of(each, wanted.decimal), "times")
    return Table(numbers, _labels(block, names, wanted.label, labels), clock, np.asarray(places, dtype=np.int64))


def _labels(
    block: Sequence[Sequence[str]], names: Sequence[str], label: str | None, known: dict[str, int]
) -> Ints | None:
    """A number for each text, by the order in which they come; -1 for none."""
    if label is None:
        return None
    index = names.index(label)
    texts = (row[index].strip() for row in block)
    return np.array([known.setdefault(text, len(known)) if text else -1 for text in texts], dtype=np.int64)


def numbers_of(texts: list[str], decimal: str = ".") -> Float64s:
    """Cells as numbers, NaN for empty ones; `_Bad` says which cell is none."""
    whole = "\n".join(texts)
    if "_" not in whole and decimal == ".":  # Python reads 1_000 as a number; nobody writes one so
        try:
            return np.array(list(map(float, texts)), dtype=np.float64)
        except ValueError:
            pass
    return np.array([_number(text, decimal, row) for row, text in enumerate(texts)], dtype=np.float64)


def _number(text: str, decimal: str, row: int) -> float:
    word = text.strip().lower()
    if word in EMPTY:
        return np.nan
    if word in WORDS:
        return WORDS[word]
    if "_" in word or (decimal == "," and "." in word):
        raise _Bad(row, text)
    try:
        return float(word.replace(decimal, "."))
    except ValueError:
        raise _Bad(row, text) from None


def _is_number(text: str) -> bool:
    try:
        return not np.isnan(numbers_of([text])[0])
    except _Bad:
        return False


def times_of(texts: list[str], decimal: str = ".") -> Float64s:
    """Numbers, or dates with times in ISO 8601 as seconds; without a zone they are taken as universal time."""
    try:
        return numbers_of(texts, decimal)
    except _Bad as error:
        if error.args[0]:  # the first cell is a number: this is no column of dates
            raise
        return np.array([_time(text, row) for row, text in enumerate(texts)], dtype=np.float64)


def _time(text: str, row: int) -> float:
    if text.strip().lower() in EMPTY:
        return np.nan
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _Bad(row, text) from None

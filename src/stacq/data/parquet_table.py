"""Parquet files, read by pyarrow (the extra `parquet`): the same columns as of a CSV file.

A column of lists of one length is read as so many columns of numbers: `action` of two becomes `action_0`, `action_1`.
"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.reading import check_claim, check_memory, plain, regular
from stacq.core.types import Array, Float64s, Ints
from stacq.data.checks import CONTINUOUS
from stacq.data.csv_table import Table, Wanted

SUFFIX = ".parquet"
BATCH = 65_536  # rows at a time
MOST_COLUMNS = 100_000
Parts = Mapping[str, tuple[str, int | None]]  # name -> column, and its place in the column's lists


def names_of(path: Path) -> list[str]:
    with _opened(path) as (file, _):
        return list(_parts(file, path))


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """The wanted columns in full; every name of them is there."""
    with _opened(path) as (file, size):
        parts, rows = _parts(file, path), file.metadata.num_rows
        if rows < 1:
            fix = "check the recording: nothing can be learned from this file"
            raise InputError("the table has no rows", where=path, expected="a row for each step", fix=fix)
        claimed = 8 * rows * (len(wanted.numbers) + 2)
        check_claim(claimed, size, path)
        check_memory(claimed, path)
        numbers = {name: np.empty(rows) for name in wanted.numbers}
        labels = None if wanted.label is None else np.empty(rows, dtype=np.int64)
        clock = None if wanted.clock is None else np.empty(rows)
        known: dict[object, int] = {}
        start = 0
        for batch in _batches(file, wanted, parts):
            stop = start + batch.num_rows
            for name, values in numbers.items():
                values[start:stop] = _numbers(batch, parts[name], name, start, path)
            if labels is not None and wanted.label is not None:
                labels[start:stop] = _labels(batch, parts[wanted.label], known)
            if clock is not None and wanted.clock is not None:
                clock[start:stop] = _times(batch, parts[wanted.clock], wanted.clock, start, path)
            start = stop
        if start != rows:
            problem = f"the file says that it has {rows:,} rows, and holds {start:,}"
            raise InputError(problem, where=path, expected="every row", fix="copy the file again")
    return Table(numbers, labels, clock, np.arange(1, rows + 1), "row")


def _batches(file: Any, wanted: Wanted, parts: Parts) -> Iterator[Any]:
    named = [*wanted.numbers, *(each for each in (wanted.label, wanted.clock) if each is not None)]
    columns = list(dict.fromkeys(parts[name][0] for name in named))
    yield from file.iter_batches(batch_size=BATCH, columns=columns, use_threads=False)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, int]]:
    """The file as pyarrow has it, and its size; whatever pyarrow says of it becomes one message."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            f"Parquet files are read by pyarrow, which cannot be loaded: {error}",
            where=path,
            expected="the parquet extra",
            fix="pip install 'stacq[parquet]', or save the table as CSV",
        ) from error
    try:
        with regular(path) as raw, io.BufferedReader(raw) as handle:
            size = handle.seek(0, io.SEEK_END)
            handle.seek(0)
            with pyarrow.parquet.ParquetFile(handle) as file:
                yield file, size
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        absent = isinstance(error, FileNotFoundError)
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
        raise InputError(
            "no such file" if absent else f"cannot be read: {reason}",
            where=path,
            expected="a Parquet file",
            fix="check the path" if absent else "check what it is, or write it again",
        ) from error


def _parts(file: Any, path: Path) -> Parts:
    """Columns by name; of lists, so many as the first row has. What is neither can be no part of a dataset."""
    import pyarrow.types as kinds

    found: dict[str, tuple[str, int | None]] = {}
    first = None
    for field in file.schema_arrow:
        if field.name in found:
            problem = f"two columns are called '{field.name:.80}'"
            raise InputError(problem, where=path, expected="names that differ", fix="rename one")
        if not (kinds.is_list(field.type) or kinds.is_large_list(field.type) or kinds.is_fixed_size_list(field.type)):
            found[plain(field.name)] = (field.name, None)
            continue
        if first is None:
            first = next(file.iter_batches(batch_size=1, use_threads=False), None)
        entry = None if first is None else first.column(field.name)[0].as_py()
        for place in range(min(len(entry or ()), MOST_COLUMNS)):
            found.setdefault(plain(f"{field.name}_{place}"), (field.name, place))
    return found


def _numbers(batch: Any, part: tuple[str, int | None], name: str, start: int, path: Path) -> Float64s:
    """One column of a batch as numbers, NaN where there is none."""
    import pyarrow

    column, place = part
    values = batch.column(column)
    if place is not None:
        values = _entry(values, place, name, start, path)
    if pyarrow.types.is_temporal(values.type):
        raise _no_numbers(name, values.type, path)
    try:
        cast = values.cast(pyarrow.float64(), safe=False)
    except (pyarrow.ArrowException, NotImplementedError):
        raise _no_numbers(name, values.type, path) from None
    return np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64)


def _no_numbers(name: str, kind: object, path: Path) -> InputError:
    fix = "leave the column out, or write numbers"
    return InputError(f"column '{name}' holds {kind!s:.60}", where=path, expected=f"numbers: {CONTINUOUS}", fix=fix)


def _entry(values: Any, place: int, name: str, start: int, path: Path) -> Any:
    """The entry at one place of every list."""
    import pyarrow
    import pyarrow.compute

    try:
        return pyarrow.compute.list_element(values, place)
    except pyarrow.ArrowException:
        lengths = [len(each) if each is not None else 0 for each in values.to_pylist()]
        row = next((row for row, length in enumerate(lengths) if length <= place), 0)
        problem = f"the list of '{name.rpartition('_')[0]}' has {lengths[row]} entries here, in the first row more"
        fix = f"write lists of one length; {CONTINUOUS}"
        raise InputError(problem, where=f"{path}, row {start + row + 1:,}", expected="one length", fix=fix) from None


def _labels(batch: Any, part: tuple[str, int | None], known: dict[object, int]) -> Ints:
    """A number for each value, by the order in which they come; -1 for none."""
    texts = (None if each is None else str(each) for each in batch.column(part[0]).to_pylist())
    return np.array([known.setdefault(text, len(known)) if text else -1 for text in texts], dtype=np.int64)


def _times(batch: Any, part: tuple[str, int | None], name: str, start: int, path: Path) -> Array:
    """Numbers, or dates with times as seconds."""
    import pyarrow

    values = batch.column(part[0])
    if not pyarrow.types.is_timestamp(values.type):
        return _numbers(batch, part, name, start, path)
    moments = values.cast(pyarrow.timestamp("us"), safe=False)
    counts = moments.cast(pyarrow.int64()).cast(pyarrow.float64(), safe=False)
    return np.asarray(counts.to_numpy(zero_copy_only=False), dtype=np.float64) / 1e6


def sample(path: Path, rows: int) -> dict[str, Float64s | None]:
    """The first numbers of every column, None where it holds others."""
    found: dict[str, Float64s | None] = {}
    with _opened(path) as (file, _):
        parts = _parts(file, path)
        batch = next(file.iter_batches(batch_size=rows, use_threads=False), None)
        for name, part in parts.items():
            try:
                found[name] = np.empty(0) if batch is None else _numbers(batch, part, name, 0, path)
            except InputError:
                found[name] = None
    return found

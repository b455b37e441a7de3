"""How far along, how fast, how long still: a live bar on a terminal, sparse plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Protocol


class Update(Protocol):
    """Called with the amount done so far, and the total where it is known only later."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


@contextlib.contextmanager
def progress(label: str, total: int | None, unit: str) -> Iterator[Update]:
    """Show progress on standard error while the block runs; results go to standard output."""
    with _bar(label, total, unit) if sys.stderr.isatty() else _lines(label, total, unit) as update:
        yield update


@contextlib.contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, rate="")

        def update(done: int, total: int | None = None) -> None:
            rate = done / max(time.monotonic() - started, 1e-9)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield update


@contextlib.contextmanager
def _lines(label: str, total: int | None, unit: str) -> Iterator[Update]:
    started = last = time.monotonic()

    def update(done: int, total: int | None = total) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PLAIN_SECONDS:
            last = now
            print(_line(label, done, total, unit, now - started), file=sys.stderr, flush=True)

    yield update


def _line(label: str, done: int, total: int | None, unit: str, seconds: float) -> str:
    rate = done / max(seconds, 1e-9)
    text = f"{label}: {done:,}" + (f" of {total:,}" if total else "") + f" {unit}, {rate:,.0f}/s"
    if total and done > 1:
        text += f", {(total - done) / rate:,.0f} s left"
    return text

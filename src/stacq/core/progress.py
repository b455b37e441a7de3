"""How far along, how fast, how long still: a live bar on a terminal, sparse plain lines elsewhere."""

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator

Update = Callable[..., None]
"""(done, total=None, *, kept=False, phase=""): the amount done so far, and the total if it is known only later.

What was `kept` from an earlier run says nothing about the speed of this one. A longer work may name its `phase`.
"""

PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


@contextlib.contextmanager
def progress(label: str, total: int | None, unit: str) -> Iterator[Update]:
    """Show progress on standard error while the block runs; results go to standard output."""
    with _bar(label, total, unit) if on_terminal() else _lines(label, total, unit) as update:
        yield update


class Speed:
    """How fast it goes since the first new piece of work began."""

    def __init__(self) -> None:
        self.began, self.before = time.monotonic(), 0

    def rate(self, done: int, *, kept: bool) -> float:
        """Pieces per second; 0 where nothing is known yet."""
        if kept:
            self.began, self.before = time.monotonic(), done
        return (done - self.before) / max(time.monotonic() - self.began, 1e-9)


@contextlib.contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Update]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from stacq.core.terminal import Console

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[speed]}"),
    )
    speed, whole = Speed(), total
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, speed="")

        def update(done: int, total: int | None = None, *, kept: bool = False, phase: str = "") -> None:
            nonlocal whole
            whole = total or whole
            rate_text = _speed_text(done, whole, speed.rate(done, kept=kept))
            bar.update(task, description=_named(label, phase), completed=done, total=whole, speed=rate_text)

        yield update


@contextlib.contextmanager
def _lines(label: str, total: int | None, unit: str) -> Iterator[Update]:
    speed, last = Speed(), time.monotonic()

    def update(done: int, total: int | None = total, *, kept: bool = False, phase: str = "") -> None:
        nonlocal last
        rate = speed.rate(done, kept=kept)
        if time.monotonic() - last >= PLAIN_SECONDS:
            last = time.monotonic()
            tell(_line(_named(label, phase), done, total, unit, rate))

    yield update


def on_terminal() -> bool:
    """Whether somebody watches standard error; a process may have none."""
    return sys.stderr is not None and sys.stderr.isatty()


def tell(line: str) -> None:
    """On standard error. If it cannot be written, the work continues."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr or io.StringIO(), flush=True)


def _named(label: str, phase: str) -> str:
    return f"{label} ({phase})" if phase else label


def _line(label: str, done: int, total: int | None, unit: str, rate: float) -> str:
    rate_text = _speed_text(done, total, rate)
    return (
        f"{label}: {done:,}"
        + (f" of {total:,}" if total else "")
        + f" {unit}"
        + (f", {rate_text}" if rate_text else "")
    )


def _speed_text(done: int, total: int | None, rate: float) -> str:
    """Pieces per second, or seconds per piece where that says more, and the time left."""
    if rate <= 0:
        return ""
    text = f"{rate:,.0f}/s" if rate >= 1 else f"{1 / rate:,.1f} s each"
    return f"{text}, {(total - done) / rate:,.0f} s left" if total else text

"""A judgement as text."""

from collections.abc import Iterator

from rich.table import Table

from stacq.core.printable import printable
from stacq.core.terminal import Console
from stacq.judgement.verdict import Interval, Judgement, Report


def print_judgement(report: Report, console: Console) -> None:
    """A table, best first, and what to do."""
    console.print(
        f"\nvalue at the starts, discount {report.discount:g}; the data's own: {interval_text(report.data)}",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "policy", "value", "95 % interval", "trusted steps", "far actions", "verdict"):
        table.add_column(name, justify="left" if name in ("policy", "verdict") else "right", no_wrap=name != "policy")
    for place, each in enumerate(report.judged, 1):
        table.add_row(
            str(place),
            printable(each.name),
            number_text(each.value.value),
            f"{number_text(each.value.low)} to {number_text(each.value.high)}",
            "" if each.horizon is None else f"{each.horizon:,.0f}",
            f"{each.far_actions:.0%}",
            each.verdict,
        )
    console.print(table)
    for line in remarks(report):
        console.print(line, soft_wrap=True)


def remarks(report: Report) -> Iterator[str]:
    """What a reader must know beside the table; the advice last."""
    for each in report.judged:
        if each.verdict in ("better", "not judged"):
            yield f"{printable(each.name)}: {reason(each)}"
    yield from (printable(note) for note in report.notes)
    yield f"advice: {printable(report.advice)}"


def reason(each: Judgement) -> str:
    return f"{each.verdict}, since {each.because}" if each.verdict == "not judged" else each.because


def interval_text(found: Interval) -> str:
    return f"{number_text(found.value)} ({number_text(found.low)} to {number_text(found.high)})"


def number_text(value: float) -> str:
    """Four digits or so, whatever the size."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"

"""How a dataset's summary looks as text, on a terminal or in a pipe."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stacq.data.inspect import Column, Histogram, Spread, Summary

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " ...:::##"  # for output that cannot carry Unicode
HISTOGRAM_HEIGHT = 4  # lines
MOST_ROWS = 30  # of a table of dimensions; beyond, it is folded
FOLDED_ROWS = 25


def print_summary(summary: Summary, console: Console) -> None:
    """Everything at a glance within 80 columns; without a terminal the same as plain text."""
    glyphs = PLAIN_BLOCKS if console.options.ascii_only else BLOCKS
    parts = (
        _header(summary),
        _spreads(summary),
        _facts(summary),
        _histograms(summary, glyphs),
        _dimension_table("observations", summary.observations, glyphs),
        _dimension_table("actions", summary.actions, glyphs, summary.saturation),
        *([_warning_list(summary.warnings)] if summary.warnings else []),
    )
    for part in parts:
        console.print(part)
        console.print()


def _header(summary: Summary) -> Text:
    text = Text(summary.name or "unnamed dataset", style="bold")
    if summary.env_id:
        text.append(f"  {summary.env_id}", style="not bold dim")
    return text.append(f"\n{shape_line(summary)}", style="not bold")


def shape_line(summary: Summary) -> str:
    return (
        f"{summary.rows:,} rows in {plural(summary.episodes, 'episode')}, "
        f"observations of {len(summary.observations)}, actions of {len(summary.actions)} in {_bounds_text(summary)}"
    )


def _bounds_text(summary: Summary) -> str:
    low, high = set(summary.action_low), set(summary.action_high)
    same = len(low) == len(high) == 1
    return f"[{low.pop():g}, {high.pop():g}]" if same else "bounds of their own"


def _spreads(summary: Summary) -> Table:
    table = _table("", "min", "25%", "median", "mean", "75%", "max")
    quantities = {"return": summary.returns, "score": summary.scores, "length": summary.lengths}
    for label, spread in {**quantities, "reward": summary.rewards}.items():
        if spread is not None:
            table.add_row(label, *_spread_cells(spread))
    return table


def _spread_cells(spread: Spread) -> list[str]:
    values = (spread.low, spread.q1, spread.median, spread.mean, spread.q3, spread.high)
    return [_number(value) for value in values]


def _facts(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    ends = f"{summary.terminals:,} terminal, {summary.timeouts:,} timeout, {summary.cut_episodes:,} cut"
    table.add_row("ends", ends)
    table.add_row("unknown successors", _share(summary.unknown_successors, summary.rows))
    table.add_row("repeated states", _share(summary.duplicates, summary.rows))
    table.add_row("actions at a bound", f"{summary.saturated:.1%} of all entries")
    if summary.sampled_rows < summary.rows:
        table.add_row("percentiles below", f"from {summary.sampled_rows:,} rows spread evenly over the data")
    return table


def _histograms(summary: Summary, glyphs: str) -> Columns:
    pairs = {"returns": summary.return_histogram, "lengths": summary.length_histogram}
    return Columns([_histogram(title, data, glyphs) for title, data in pairs.items()], padding=(0, 4))


def _histogram(title: str, data: Histogram, glyphs: str) -> RenderableType:
    width = len(data.counts)
    low, high = _number(data.low), _number(data.high)
    bars = [Text(line, style="cyan", no_wrap=True) for line in _bars(data.counts, HISTOGRAM_HEIGHT, glyphs)]
    return Group(Text(title, style="bold"), *bars, Text(low + high.rjust(width - len(low)), style="dim"))


def _bars(counts: Sequence[int], height: int, glyphs: str) -> list[str]:
    """Lines of a bar chart, top first; a bin that holds anything shows at least the lowest block."""
    steps = len(glyphs) - 1
    levels = np.ceil(np.array(counts) / max(*counts, 1) * height * steps).astype(int)
    lines = [np.clip(levels - line * steps, 0, steps) for line in reversed(range(height))]
    return ["".join(glyphs[level] for level in line) for line in lines]


def _dimension_table(
    title: str, columns: tuple[Column, ...], glyphs: str, shares: tuple[float, ...] = ()
) -> RenderableType:
    table = _table("", "min", "1%", "mean", "std", "99%", "max", *(["at bound"] if shares else []))
    table.add_column("shape", style="cyan", no_wrap=True)
    shown = columns if len(columns) <= MOST_ROWS else columns[:FOLDED_ROWS]
    for index, column in enumerate(shown):
        numbers = (column.low, column.p1, column.mean, column.std, column.p99, column.high)
        cells = [_number(number, 3) for number in numbers] + ([f"{shares[index]:.1%}"] if shares else [])
        table.add_row(str(index), *cells, *_bars(column.shape, 1, glyphs))
    rest = columns[len(shown) :]
    return Group(Text(title, style="bold"), table, *([_folded(rest)] if rest else []))


def _folded(rest: tuple[Column, ...]) -> Text:
    low, high = min(column.low for column in rest), max(column.high for column in rest)
    return Text(f" and {len(rest)} more dimensions, from {_number(low)} to {_number(high)}", style="dim")


def _warning_list(warnings: tuple[str, ...]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="yellow", no_wrap=True)
    table.add_column()
    for warning in warnings:
        table.add_row("!", Text(warning))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _share(count: int, whole: int) -> str:
    return f"{count:,} of {whole:,} rows ({count / whole:.1%})" if count else "none"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(value: float, digits: int = 4) -> str:
    """The digits that matter, whole numbers as such, and powers of ten only beyond a million or a thousandth."""
    size = abs(value)
    if size < 1e6 and value == round(value):
        return f"{value:,.0f}"
    if not 1e-3 <= size < 1e6:
        return f"{value:.{digits - 2}e}"
    return f"{value:,.{max(0, digits - 1 - int(np.floor(np.log10(size))))}f}"

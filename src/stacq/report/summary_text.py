"""How a dataset's summary looks as text, on a terminal or in a pipe."""

from collections.abc import Sequence

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stacq.core.printable import printable
from stacq.data.inspect import Column, Histogram, Spread, Summary
from stacq.data.tours import Tour
from stacq.report.tables import fact_table, number, number_table, plural, print_parts, rows_shown, warning_list

BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " ...:::##"  # for output that cannot carry Unicode
HISTOGRAM_HEIGHT = 4  # lines
NAME = 14  # characters of a dimension's name, so that the table fits 80 columns
MOST_BOUNDS = 4  # dimensions whose bounds are printed one by one


def print_summary(summary: Summary, console: Console) -> None:
    """Everything at a glance within 80 columns; without a terminal the same as plain text."""
    glyphs = PLAIN_BLOCKS if console.options.ascii_only else BLOCKS
    parts = (
        _header(summary),
        _spreads(summary),
        _facts(summary),
        _histograms(summary, glyphs),
        _dimension_table("observations", summary.observations, glyphs, summary.observation_names),
        _dimension_table("actions", summary.actions, glyphs, summary.action_names, summary.saturation),
        *([warning_list(summary.warnings)] if summary.warnings else []),
    )
    print_parts(parts, console)


def _header(summary: Summary) -> Text:
    text = Text(printable(summary.name) or "unnamed dataset", style="bold")
    if summary.env_id:
        text.append(f"  {printable(summary.env_id)}", style="not bold dim")
    return text.append(f"\n{shape_line(summary)}", style="not bold")


def shape_line(summary: Summary) -> str:
    return (
        f"{summary.rows:,} rows in {plural(summary.episodes, 'episode')}, "
        f"observations of {len(summary.observations)}, actions of {len(summary.actions)} in {_bounds_text(summary)}"
    )


def _bounds_text(summary: Summary) -> str:
    bounds = [f"[{low:g}, {high:g}]" for low, high in zip(summary.action_low, summary.action_high, strict=True)]
    if len(set(bounds)) == 1:
        return bounds[0]
    return " x ".join(bounds[:MOST_BOUNDS]) + (" x ..." if len(bounds) > MOST_BOUNDS else "")


def _spreads(summary: Summary) -> Table:
    table = number_table("", "min", "25%", "median", "mean", "75%", "max")
    quantities = {"return": summary.returns, "score": summary.scores, "length": summary.lengths}
    for label, spread in {**quantities, "reward": summary.rewards}.items():
        if spread is not None:
            table.add_row(label, *_spread_cells(spread))
    return table


def _spread_cells(spread: Spread) -> list[str]:
    values = (spread.low, spread.q1, spread.median, spread.mean, spread.q3, spread.high)
    return [number(value) for value in values]


def _facts(summary: Summary) -> Table:
    table = fact_table()
    ends = f"{summary.terminals:,} terminal, {summary.timeouts:,} timeout, {summary.cut_episodes:,} cut"
    table.add_row("ends", ends)
    table.add_row("unknown successors", _share(summary.unknown_successors, summary.rows))
    table.add_row("repeated states", _share(summary.duplicates, summary.rows))
    if np.isfinite(summary.nearness):
        table.add_row("nearest other episode", f"{summary.nearness:.2f} of a step away")
    table.add_row("actions at a bound", f"{summary.saturated:.1%} of all entries")
    if summary.tour is not None:
        for label, words in _tour_words(summary.tour).items():
            table.add_row(label, words)
    if summary.sampled_rows < summary.rows:
        table.add_row("percentiles below", f"from {summary.sampled_rows:,} rows spread evenly over the data")
    return table


def _tour_words(tour: Tour) -> dict[str, str]:
    walks = plural(tour.recordings, "recording")
    return {
        "cells visited": f"{tour.seen} of {tour.free}",
        "touch the goal": f"{tour.touching:,} of {walks}; {tour.solving:,} of them after they were in the start cell",
    }


def _histograms(summary: Summary, glyphs: str) -> Columns:
    pairs = {"returns": summary.return_histogram, "lengths": summary.length_histogram}
    return Columns([_histogram(title, data, glyphs) for title, data in pairs.items()], padding=(0, 4))


def _histogram(title: str, data: Histogram, glyphs: str) -> RenderableType:
    width = len(data.counts)
    low, high = number(data.low), number(data.high)
    bars = [Text(line, style="cyan", no_wrap=True) for line in _bars(data.counts, HISTOGRAM_HEIGHT, glyphs)]
    return Group(Text(title, style="bold"), *bars, Text(low + high.rjust(width - len(low)), style="dim"))


def _bars(counts: Sequence[int], height: int, glyphs: str) -> list[str]:
    """Lines of a bar chart, top first; a bin that holds anything shows at least the lowest block."""
    steps = len(glyphs) - 1
    levels = np.ceil(np.array(counts) / max(*counts, 1) * height * steps).astype(int)
    lines = [np.clip(levels - line * steps, 0, steps) for line in reversed(range(height))]
    return ["".join(glyphs[level] for level in line) for line in lines]


def _dimension_table(
    title: str,
    columns: tuple[Column, ...],
    glyphs: str,
    names: tuple[str, ...],
    shares: tuple[float, ...] = (),
) -> RenderableType:
    table = number_table("", "min", "1%", "mean", "std", "99%", "max", *(["at bound"] if shares else []))
    table.add_column("shape", style="cyan", no_wrap=True)
    shown = columns[: rows_shown(len(columns))]
    for index, column in enumerate(shown):
        numbers = (column.low, column.p1, column.mean, column.std, column.p99, column.high)
        cells = [number(value, 3) for value in numbers] + ([f"{shares[index]:.1%}"] if shares else [])
        table.add_row(
            f"{index} {printable(names[index]):.{NAME}}" if names else str(index),
            *cells,
            *_bars(column.shape, 1, glyphs),
        )
    rest = columns[len(shown) :]
    return Group(Text(title, style="bold"), table, *([_folded(rest)] if rest else []))


def _folded(rest: tuple[Column, ...]) -> Text:
    low, high = min(column.low for column in rest), max(column.high for column in rest)
    return Text(f" and {len(rest)} more dimensions, from {number(low)} to {number(high)}", style="dim")


def _share(count: int, whole: int) -> str:
    return f"{count:,} of {whole:,} rows ({count / whole:.1%})" if count else "none"

"""Tables and numbers as every textual report writes them."""

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from stacq.core.printable import printable
from stacq.report.statistics import describe, is_pair

MOST_ROWS = 30  # of a table of dimensions; beyond, it is folded
FOLDED_ROWS = 25


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """One part after the other, an empty line after each."""
    for part in parts:
        console.print(part)
        console.print()


def number_table(first: str, *others: str) -> Table:
    """A label in the first column, numbers in the others."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def fact_table() -> Table:
    """Two columns: what it is, and its value in words."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    return table


def warning_list(warnings: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="yellow", no_wrap=True)
    table.add_column()
    for warning in warnings:
        table.add_row("!", Text(printable(warning)))
    return table


def rows_shown(count: int) -> int:
    """How many of so many dimensions a table shows before it folds the rest into one line."""
    return count if count <= MOST_ROWS else FOLDED_ROWS


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spread_text(values: ArrayLike, decimals: int = 1) -> str:
    """How sure one can be of the mean of these runs: by their interval, or of two by both numbers."""
    if is_pair(values):
        return "two seeds: " + ", ".join(f"{value:,.{decimals}f}" for value in np.asarray(values))
    found = describe(values)
    if found.runs < 2:
        return "one seed"
    return f"95 % interval {found.low:,.{decimals}f} to {found.high:,.{decimals}f}"


def number(value: float, digits: int = 4) -> str:
    """The digits that matter, whole numbers as such, and powers of ten only beyond a million or a thousandth."""
    size = abs(value)
    if size < 1e6 and value == round(value):
        return f"{value:,.0f}"
    if not 1e-3 <= size < 1e6:
        return f"{value:.{digits - 2}e}"
    return f"{value:,.{max(0, digits - 1 - int(np.floor(np.log10(size))))}f}"


def weakest_dimension(recall: float | None) -> str:
    """What to call the dimension in which the test of reachability is hardest: where all pass, none fails."""
    return "closest to failing" if recall == 1 else "fails most often"


def doubling_bins(counts: Mapping[int, float], most: int) -> list[tuple[str, float]]:
    """Counts by size: one bin for each size, or for each doubling where that would be more than `most`."""
    if not counts:
        return []
    smallest, largest = min(counts), max(counts)
    if largest - smallest < most:
        return [(str(size), counts.get(size, 0.0)) for size in range(smallest, largest + 1)]
    edges = [min(0, smallest), 1, *(2**power + 1 for power in range(largest.bit_length() + 1))]
    bins = []
    for first, after in itertools.pairwise(edges):
        count = sum(value for size, value in counts.items() if first <= size < after)
        bins.append((str(first) if after == first + 1 else f"{first}–{after - 1}", count))
    while not bins[0][1]:
        bins = bins[1:]
    while not bins[-1][1]:
        bins = bins[:-1]
    return bins

"""Reachable sets as text."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from stacq.reach.stitching import Stitching

BARS = 12  # set sizes shown by themselves; larger ones share the last line
BAR_WIDTH = 36


def print_stitching(found: Stitching, options: Mapping[str, Any], console: Console) -> None:
    """Options, facts and the distribution of set sizes, within 80 columns."""
    chosen = ", ".join(f"{key} {value}" for key, value in options.items() if value is not None)
    console.print(f"reachable sets: {chosen}", soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("states, pairs", f"{found.rows:,}, {found.pairs:,} ({found.extra:.2f} beyond the own successor)")
    table.add_row("more than their own successor", f"{found.more_than_own:.1%} of states")
    table.add_row("a state of another episode", f"{found.across_episodes:.1%} of states")
    table.add_row("groups of linked episodes", f"{found.components_before:,} before, {found.components_after:,} after")
    if found.recall is not None:
        table.add_row("true successors that pass", f"{found.recall:.1%}")
    console.print(table)
    console.print("\nset size   states")
    for label, count in _grouped(found):
        bar = "#" * max(1, round(BAR_WIDTH * count / found.rows))
        console.print(f"{label:>8}   {count:>10,}  {bar}", soft_wrap=True)
    for warning in found.warnings():
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)


def _grouped(found: Stitching) -> list[tuple[str, int]]:
    single = [(str(size), count) for size, count in found.size_histogram if size < BARS]
    rest = sum(count for size, count in found.size_histogram if size >= BARS)
    return [*single, (f"{BARS} to {found.largest}", rest)] if rest else single

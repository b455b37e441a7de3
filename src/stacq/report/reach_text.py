"""Reachable sets as text."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.table import Table

from stacq.reach.config import ReachConfig
from stacq.reach.stitching import Stitching
from stacq.report.tables import doubling_bins, weakest_dimension

BARS = 12  # lines at most
BAR_WIDTH = 36


def print_stitching(found: Stitching, options: Mapping[str, Any], console: Console) -> None:
    """Options, counts and the distribution of set sizes, within 80 columns."""
    console.print(f"reachable sets {criterion_line(found, options)}", soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("states, pairs", f"{found.rows:,}, {found.pairs:,}")
    table.add_row("beyond the own successor", f"{found.extra:.3g} states per state")
    table.add_row("more than their own successor", _share(found.more_than_own, found.rows))
    table.add_row("a state of another episode", _share(found.across_episodes, found.rows))
    table.add_row("groups of linked episodes", f"{found.components_before:,} before, {found.components_after:,} after")
    if found.recall is not None:
        table.add_row("true successors that pass", f"{found.recall:.1%} of {_judged_on(found)}")
    if found.known:
        table.add_row(weakest_dimension(found.recall), f"dimension {found.known['worst_dimension']}")
    console.print(table)
    console.print("\n set size   states")
    for label, count in doubling_bins(dict(found.size_histogram), BARS):
        bar = "#" * math.ceil(BAR_WIDTH * count / found.rows)
        console.print(f"{label:>9}   {count:>10,.0f}  {bar}", soft_wrap=True)
    if found.examples:
        console.print("\nsome stitches (episodes and steps count from 0)")
    for each in found.examples:
        here, there = (
            f"episode {each.episode}, step {each.step}",
            f"episode {each.other_episode}, step {each.other_step}",
        )
        console.print(f"  from {here}, to where {there} led", soft_wrap=True)
    for warning in found.warnings():
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)


def _share(count: int, rows: int) -> str:
    return f"{count:,} states, {count / rows:.1%}"


def _criterion(name: str) -> str:
    return "paper's criterion" if name == "paper" else f"{name} criterion"


def criterion_line(found: Stitching, options: Mapping[str, Any]) -> str:
    """Which test made the sets, and with which options."""
    return f"by the {_criterion(found.criterion)}: {_chosen(found, options)}"


def _chosen(found: Stitching, options: Mapping[str, Any]) -> str:
    """The options that the criterion uses."""
    if found.criterion == "priced":
        return ", ".join(f"{name} {options[name]}" for name in ("neighbours", "price") if name in options)
    idle = {"criterion", *(("norm", "clip") if found.criterion == "calibrated" else ("recall",))}
    shown = [each.name for each in fields(ReachConfig) if each.name not in idle]
    return ", ".join(f"{name} {options[name]}" for name in shown if options.get(name) is not None)


def _judged_on(found: Stitching) -> str:
    if not found.known:
        return "all rows"
    kind = "held-out rows" if found.known["held_out"] else "rows, which the models may have seen"
    return f"{found.known['rows']:,} {kind}"

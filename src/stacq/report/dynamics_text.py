"""How the quality of fitted dynamics looks as text, on a terminal or in a pipe."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stacq.core.printable import printable
from stacq.reach.quality_facts import Quality, RoundTrip
from stacq.report.tables import fact_table, number, number_table, plural, print_parts, rows_shown, warning_list

MOST_ACTIONS = 8  # errors of the inverse model in one line


def print_quality(quality: Quality, console: Console) -> None:
    """The whole report within 80 columns; without a terminal the same as plain text."""
    parts = (
        _header(quality),
        _dimensions(quality),
        *([_open_loops(quality)] if quality.open_loop else []),
        _facts(quality),
        *([warning_list(quality.warnings)] if quality.warnings else []),
    )
    print_parts(parts, console)


def print_again(found: Mapping[str, Any], console: Console) -> None:
    """The lines that matter of a report that was made before, from its numbers."""
    trip = found["round_trip"]
    shares = ", ".join(f"{share:.1%} at {each:g}" for share, each in zip(trip["recall"], trip["epsilons"], strict=True))
    console.print(f"true successors pass: {shares} (epsilon); dimension {trip['worst']} is the hardest", soft_wrap=True)
    if found["warnings"]:
        console.print(warning_list(found["warnings"]))


def _header(quality: Quality) -> Text:
    text = Text(f"dynamics of {printable(quality.name) or 'unnamed dataset'}", style="bold")
    return text.append(f"\n{members_line(quality)}\n{rows_line(quality)}", style="not bold")


def members_line(quality: Quality) -> str:
    layers = " x ".join(map(str, quality.hidden))
    members = f"{quality.forward_members} forward and {quality.inverse_members} inverse members of {layers} units"
    return f"{members}, {plural(quality.epochs, 'epoch')}" if quality.epochs else members


def rows_line(quality: Quality) -> str:
    return f"judged on {plural(quality.held_out, 'row')} that no member saw"


def _dimensions(quality: Quality) -> RenderableType:
    """One line per state dimension: who errs how much, how honest the spread is, and what fails the round trip."""
    table = number_table("", "ensemble", "member", "identity", "ensemble", "identity", "1 sd", "2 sd", "corr", "fails")
    size = len(quality.raw.ensemble)
    shown = rows_shown(size)
    for d in range(shown):
        table.add_row(str(d), *_dimension_cells(quality, d))
    note = Text("RMSE of the next state: three columns normalised, two raw; errors within 1 and 2", style="dim")
    more = Text("standard deviations of the ensemble; rank correlation of spread and error", style="dim")
    rest = [Text(f" and {size - shown} more dimensions", style="dim")] if size > shown else []
    return Group(Text("state dimensions", style="bold"), note, more, table, *rest)


def _dimension_cells(quality: Quality, d: int) -> list[str]:
    normalised, raw, calibration = quality.normalised, quality.raw, quality.calibration
    errors = (normalised.ensemble, normalised.member, normalised.identity, raw.ensemble, raw.identity)
    shares = (calibration.within_one[d], calibration.within_two[d])
    return [
        *(number(each[d], 3) for each in errors),
        *(f"{share:.0%}" for share in shares),
        f"{calibration.correlation[d]:.2f}",
        f"{quality.round_trip.failing[0][d]:.0%}",
    ]


def _open_loops(quality: Quality) -> RenderableType:
    table = number_table("steps", "starts", "ensemble", "identity", "worst dimension")
    for loop in quality.open_loop:
        worst = max(range(len(loop.ensemble)), key=lambda d: loop.ensemble[d])
        identity = sum(loop.identity) / len(loop.identity)
        cells = (number(loop.mean, 3), number(identity, 3), f"{worst}: {number(loop.ensemble[worst], 3)}")
        table.add_row(str(loop.steps), f"{loop.starts:,}", *cells)
    note = Text("normalised RMSE, mean over dimensions; starts held out, later rows perhaps not", style="dim")
    return Group(Text("open loop under the logged actions", style="bold"), note, table)


def _facts(quality: Quality) -> Table:
    table = fact_table()
    shown = [number(error, 3) for error in quality.inverse[:MOST_ACTIONS]]
    rest = " ..." if len(quality.inverse) > MOST_ACTIONS else ""
    table.add_row("inverse RMSE", f"{'  '.join(shown)}{rest}  per action dimension")
    table.add_row("round trip", round_trip_line(quality.round_trip))
    if max(quality.round_trip.failing[0]) > 0:
        worst = quality.round_trip.worst
        share = quality.round_trip.failing[0][worst]
        table.add_row("fails most often", f"dimension {worst}, in {share:.1%} of rows")
    return table


def round_trip_line(trip: RoundTrip) -> str:
    """Recall of the paper's criterion, and what it was measured on."""
    shares = ", ".join(
        f"{recall:.1%} at {epsilon:g}" for recall, epsilon in zip(trip.recall, trip.epsilons, strict=True)
    )
    measured = f"{plural(trip.rows, 'row')}, ranges from {trip.actions:,} random actions"
    return f"true successors pass: {shares} (epsilon)\n({measured})"

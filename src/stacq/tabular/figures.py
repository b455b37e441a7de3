"""The panels: the maze with its trajectories, and one policy after the other."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from stacq.core.files import write_bytes
from stacq.tabular.compare import Result
from stacq.tabular.maze import WALL, Cell, Maze
from stacq.tabular.mdp import NOWHERE
from stacq.tabular.policy import next_states

# Okabe and Ito's palette, which stays apart under the common kinds of colour blindness.
TRAJECTORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, QUIET, GRID, WALLS, STAR = "#1F2933", "#6B7785", "#E4E8ED", "#48525E", "#F5B700"
ARRIVES, FAILS = "#0B5A8F", "#C4560A"
ARRIVES_CELL, FAILS_CELL = "#D9EAF7", "#FCE4D2"
PANEL, GAP, LEFT, RIGHT, TOP, BOTTOM = 3.4, 0.32, 0.28, 0.12, 0.55, 0.62  # inches
LABELLED_CELLS = 12  # a larger maze gets no coordinates along its sides
ARROW = 0.58
DOTTED = (0, (1, 1.1))


def draw(maze: Maze, results: Sequence[Result], png: Path, svg: Path) -> None:
    """Dataset, BCQL, SCQL and, where it was asked for, SCQL over several steps, as PNG and as SVG."""
    figure = panels(maze, [result for result in results if result.name not in ("bc", "qss")])
    with matplotlib.rc_context({"svg.hashsalt": "stacq"}):
        for path, options in ((png, {"dpi": 200}), (svg, {"metadata": {"Date": None}})):
            drawn = io.BytesIO()  # the encoders tell a full disk in words of their own
            figure.savefig(drawn, format=path.suffix[1:], facecolor="white", **options)
            write_bytes(path, drawn.getvalue())


def panels(maze: Maze, shown: Sequence[Result]) -> Figure:
    """The figure itself."""
    columns = 1 + len(shown)
    width = LEFT + columns * PANEL + (columns - 1) * GAP + RIGHT
    height = BOTTOM + PANEL * maze.height / maze.width + TOP
    figure = Figure(figsize=(width, height))
    axes = np.atleast_1d(figure.subplots(1, columns))
    dataset_panel(axes[0], maze)
    for ax, result in zip(axes[1:], shown, strict=True):
        policy_panel(ax, maze, result)
    _legend(figure, shown)
    figure.subplots_adjust(
        left=LEFT / width,
        right=1 - RIGHT / width,
        bottom=BOTTOM / height,
        top=1 - TOP / height,
        wspace=GAP / PANEL,
    )
    return figure


def dataset_panel(ax: Axes, maze: Maze) -> None:
    """The paper's first panel: dotted trajectories from a white circle to a dark one."""
    states = len({cell for cells in maze.trajectories for cell in cells})
    count = len(maze.trajectories)
    trajectories = f"{count} trajector{'y' if count == 1 else 'ies'}"
    _ground(ax, maze, "Maze and dataset", f"{trajectories}, {states} states")
    for number, cells in enumerate(maze.trajectories):
        _trajectory(ax, maze, cells, number)
    _star(ax, maze)


def policy_panel(ax: Axes, maze: Maze, result: Result) -> None:
    """Arrows for the policy on cells coloured by whether it arrives."""
    subtitle = f"reaches the goal from {result.reached} of {result.data_states} states"
    _ground(ax, maze, result.label, subtitle)
    for arrived, cell_colour, colour in ((True, ARRIVES_CELL, ARRIVES), (False, FAILS_CELL, FAILS)):
        states = np.flatnonzero(result.seen & (result.arrives == arrived))
        _cells(ax, [maze.cell(int(s)) for s in states], cell_colour)
        _arrows(ax, maze, result, states, colour)
        _silent(ax, maze, [int(s) for s in states if result.choice[s] == NOWHERE], colour)
    _detours(ax, maze, result)
    _star(ax, maze)


def _ground(ax: Axes, maze: Maze, title: str, subtitle: str) -> None:
    ax.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=19)
    ax.text(0, 1.018, subtitle, transform=ax.transAxes, color=QUIET, fontsize=9)
    ax.set(xlim=(-0.5, maze.width - 0.5), ylim=(maze.height - 0.5, -0.5), aspect="equal")
    ax.set_xticks(np.arange(-0.5, maze.width), minor=True)
    ax.set_yticks(np.arange(-0.5, maze.height), minor=True)
    ax.grid(which="minor", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    labelled = max(maze.width, maze.height) <= LABELLED_CELLS
    ax.set_xticks(range(maze.width) if labelled else [])
    ax.set_yticks(range(maze.height) if labelled else [])
    ax.tick_params(which="both", length=0, labelsize=7, labelcolor=QUIET, pad=2)
    ax.spines[:].set(color=WALLS, linewidth=1.2)
    walls = [(x, y) for y, row in enumerate(maze.rows) for x, kind in enumerate(row) if kind == WALL]
    _cells(ax, walls, WALLS)


def _cells(ax: Axes, cells: list[Cell], colour: str) -> None:
    squares = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in cells]
    ax.add_collection(PatchCollection(squares, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=1))


def _trajectory(ax: Axes, maze: Maze, cells: Sequence[Cell], number: int) -> None:
    """Neighbouring trajectories are drawn next to the middle of the cell, so that shared cells show both."""
    colour = TRAJECTORIES[number % len(TRAJECTORIES)]
    shift = 0.16 * ((number % 2) - 0.5)
    x, y = np.array(cells).T + shift
    dots = (0, (0.1, 1.9))
    scale = _scale(maze)
    ax.plot(x, y, color=colour, linewidth=2.6 * scale, linestyle=dots, dash_capstyle="round", zorder=3)
    circle: dict[str, Any] = {"marker": "o", "markersize": 8 * scale, "zorder": 4}
    circle |= {"markeredgecolor": colour, "markeredgewidth": 1.8 * scale}
    ax.plot(x[0], y[0], markerfacecolor="white", **circle)
    if cells[-1] != maze.goal:
        ax.plot(x[-1], y[-1], markerfacecolor=INK, **circle)


def _arrows(ax: Axes, maze: Maze, result: Result, states: np.ndarray, colour: str) -> None:
    """One arrow towards the next state; a longer path shows its first step unless it leaves the data."""
    first = next_states(result.table.pairs, result.choice)
    if result.paths is not None:
        first = np.where(result.choice == NOWHERE, NOWHERE, result.paths.states[result.choice, 0])
    moving = states[(result.choice[states] != NOWHERE) & result.seen[first[states]]]
    if not len(moving):
        return
    x, y = moving % maze.width, moving // maze.width
    dx, dy = first[moving] % maze.width - x, first[moving] // maze.width - y
    shape: dict[str, Any] = {"width": 0.085, "headwidth": 4.2, "headlength": 4.0, "headaxislength": 3.6}
    shape |= {"angles": "xy", "scale_units": "xy", "units": "xy", "scale": 1, "pivot": "mid"}
    ax.quiver(x, y, ARROW * dx, ARROW * dy, color=colour, zorder=3, **shape)


def _silent(ax: Axes, maze: Maze, states: list[int], colour: str) -> None:
    """A ring where the policy has nothing to say; the goal has its star."""
    x, y = np.array([maze.cell(s) for s in states if maze.cell(s) != maze.goal]).reshape(-1, 2).T
    ax.plot(
        x,
        y,
        "o",
        markersize=5.5 * _scale(maze),
        markerfacecolor="white",
        markeredgecolor=colour,
        markeredgewidth=1.5,
    )


def _detours(ax: Axes, maze: Maze, result: Result) -> None:
    """Dotted arrows for paths through cells outside the data."""
    if result.paths is None:
        return
    for s in np.flatnonzero(result.seen & (result.choice != NOWHERE)):
        way = result.paths.states[result.choice[s], : result.paths.steps[result.choice[s]]]
        if result.seen[way].all():
            continue
        way = np.array([maze.cell(int(state)) for state in (s, *way)], dtype=np.float64)
        _dotted_arrow(ax, way, ARRIVES if result.arrives[s] else FAILS, _scale(maze))


def _dotted_arrow(ax: Axes, way: np.ndarray, colour: str, scale: float) -> None:
    """Along the cells of `way`, with a head at the border of the last one."""
    dx, dy = way[-1] - way[-2]
    way[-1] -= 0.42 * np.array([dx, dy])
    ax.plot(*way.T, color=colour, linewidth=2 * scale, linestyle=DOTTED, zorder=3)
    head = (3, 0, np.degrees(np.arctan2(-dx, -dy)))
    ax.plot(*way[-1], marker=head, markersize=7 * scale, color=colour, markeredgewidth=0, zorder=4)


def _scale(maze: Maze) -> float:
    """Lines and marks are measured in points, so they must shrink with the cells of a larger maze."""
    return min(1.3, 10 / max(maze.width, maze.height))


def _star(ax: Axes, maze: Maze) -> None:
    ax.plot(
        *maze.goal,
        "*",
        markersize=max(6, 17 * _scale(maze)),
        markerfacecolor=STAR,
        markeredgecolor=INK,
        markeredgewidth=0.8,
        zorder=5,
    )


def _legend(figure: Figure, shown: Sequence[Result]) -> None:
    ring: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 7, "markeredgewidth": 1.5}
    star = Line2D([], [], linestyle="none", marker="*", markersize=13, color=STAR, markeredgecolor=INK)
    handles: list[tuple[Artist, str]] = [
        (Line2D([], [], markerfacecolor="white", markeredgecolor=INK, **ring), "start"),
        (Line2D([], [], markerfacecolor=INK, markeredgecolor=INK, **ring), "end"),
        (star, "goal"),
        (Patch(facecolor=WALLS), "wall"),
        (Patch(facecolor=ARRIVES_CELL, edgecolor=ARRIVES), "reaches the goal"),
        (Patch(facecolor=FAILS_CELL, edgecolor=FAILS), "does not"),
        (Line2D([], [], markerfacecolor="white", markeredgecolor=FAILS, **ring), "no move known"),
    ]
    if any(result.paths is not None for result in shown):
        dotted = Line2D([], [], color=ARRIVES, linewidth=1.9, linestyle=DOTTED)
        handles.append((dotted, "through a cell outside the data"))
    figure.legend(
        *zip(*handles, strict=True),
        loc="lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handletextpad=0.5,
        columnspacing=1.8,
    )

"""D4RL's three mazes as plans: walls, free cells, shortest ways, and where a body's coordinates lie in them."""

from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stacq.core.types import Bools, Float64s, Floats

Cell = tuple[int, int]
"""(row, column), counted from 0 at the top left corner of the outer wall, as D4RL counts."""
WALL = "#"
MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))


@dataclass(frozen=True)
class Layout:
    """The walls of a maze, and the cells that D4RL marks in it."""

    name: str
    rows: tuple[str, ...]
    start: Cell
    goal: Cell  # where an evaluation leads
    marked: tuple[Cell, ...]  # goals of the recordings that D4RL calls `play`

    @property
    def free(self) -> tuple[Cell, ...]:
        """Every cell that is no wall, row by row."""
        rows = enumerate(self.rows)
        return tuple((i, j) for i, row in rows for j, kind in enumerate(row) if kind != WALL)

    @property
    def walls(self) -> tuple[Cell, ...]:
        rows = enumerate(self.rows)
        return tuple((i, j) for i, row in rows for j, kind in enumerate(row) if kind == WALL)

    @property
    def solid(self) -> Bools:
        """[rows, columns]"""
        return np.array([[kind == WALL for kind in row] for row in self.rows])


UMAZE = Layout("umaze", ("#####", "#   #", "### #", "#   #", "#####"), start=(1, 1), goal=(3, 1), marked=((3, 1),))
MEDIUM = Layout(
    "medium",
    (
        *("########", "#  ##  #", "#  #   #", "##   ###"),
        *("#  #   #", "# #  # #", "#   #  #", "########"),
    ),
    start=(1, 1),
    goal=(6, 6),
    marked=((2, 6), (5, 1), (6, 5)),
)
LARGE = Layout(
    "large",
    (
        *("############", "#    #     #", "# ## # # # #", "#      #   #", "# #### ### #"),
        *("#  # #     #", "## # # # ###", "#  #   #   #", "############"),
    ),
    start=(1, 1),
    goal=(7, 9),
    marked=((1, 6), (3, 5), (3, 10), (5, 2), (7, 4), (7, 6), (7, 9)),
)
LAYOUTS = {layout.name: layout for layout in (UMAZE, MEDIUM, LARGE)}


@cache
def moves_to(layout: Layout, goal: Cell) -> dict[Cell, int]:
    """Length of the shortest way to `goal` from every cell, by breadth-first search."""
    free = set(layout.free)
    found, queue = {goal: 0}, deque([goal])
    while queue:
        i, j = queue.popleft()
        for di, dj in MOVES:
            cell = (i + di, j + dj)
            if cell in free and cell not in found:
                found[cell] = found[i, j] + 1
                queue.append(cell)
    return found


@cache
def next_cells(layout: Layout, goal: Cell) -> dict[Cell, Cell]:
    """The next cell on a shortest way to `goal`; the goal's own next cell is itself."""
    moves = moves_to(layout, goal)
    around = {(i, j): [(i + di, j + dj) for di, dj in MOVES if (i + di, j + dj) in moves] for i, j in moves}
    return {cell: cell if cell == goal else min(around[cell], key=moves.__getitem__) for cell in moves}


@dataclass(frozen=True)
class Grid:
    """How cells lie in a body's coordinates."""

    size: float  # of a cell
    first: float  # the middle of row 0 and of column 0
    x_is_row: bool

    def centre(self, cell: Cell) -> tuple[float, float]:
        """(x, y) of a cell's middle."""
        i, j = (self.first + self.size * place for place in cell)
        return (i, j) if self.x_is_row else (j, i)

    def cell(self, x: float, y: float) -> Cell:
        """The cell around a place."""
        i, j = (round((place - self.first) / self.size) for place in ((x, y) if self.x_is_row else (y, x)))
        return i, j

    def cells(self, positions: Floats) -> Any:
        """Row and column of the cells around [..., 2] places."""
        return np.floor(self.drawn(positions)).astype(np.int64)[..., ::-1]

    def drawn(self, positions: Floats) -> Float64s:
        """Places as they are drawn: in cells from the top left corner, to the right and downwards, [..., 2]."""
        there = (np.asarray(positions, dtype=np.float64) - self.first) / self.size + 0.5
        return there[..., ::-1] if self.x_is_row else there

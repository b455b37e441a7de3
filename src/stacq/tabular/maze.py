"""Mazes as text: a drawing, then the trajectories that were logged in it.

    ; a comment
    ..#.
    ...*

    path 0,0 0,1 1,1 2,1 3,1

`.` is free, `#` a wall, `*` the goal. A trajectory lists its cells as x,y with 0,0 at the top left, and goes
on in lines that begin with a space.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import NoReturn

import numpy as np

from stacq.core.errors import InputError
from stacq.core.reading import read_start, read_text
from stacq.tabular.mdp import MDP, NOWHERE, BoolArray, Dataset, logged

FREE, WALL, GOAL = ".", "#", "*"
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # left, right, up, down, as (x, y) with y downwards
MOVE_REWARD = -0.1
GOAL_REWARD = 10.0
DISCOUNT = 0.99

Cell = tuple[int, int]  # x, y


@dataclass(frozen=True)
class Maze:
    name: str
    rows: tuple[str, ...]
    trajectories: tuple[tuple[Cell, ...], ...]

    @property
    def width(self) -> int:
        return len(self.rows[0])

    @property
    def height(self) -> int:
        return len(self.rows)

    @property
    def goal(self) -> Cell:
        return next((row.index(GOAL), y) for y, row in enumerate(self.rows) if GOAL in row)

    def state(self, cell: Cell) -> int:
        return cell[1] * self.width + cell[0]

    def cell(self, state: int) -> Cell:
        return state % self.width, state // self.width


def shipped() -> list[str]:
    """The names of the mazes that come with the package."""
    folder = resources.files("stacq.tabular") / "mazes"
    return sorted(entry.name.removesuffix(".txt") for entry in folder.iterdir() if entry.name.endswith(".txt"))


def load(name: str) -> Maze:
    """A shipped maze by its name."""
    if name not in shipped():
        raise InputError(f"no maze is called {name!r}", expected=" or ".join(shipped()))
    return parse((resources.files("stacq.tabular") / "mazes" / f"{name}.txt").read_text("utf-8"), name)


def read(path: Path) -> Maze:
    """A maze from a file."""
    try:
        return parse(read_text(path), str(path))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path, fix="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError("not a text file", where=path, expected="UTF-8 text") from error


def is_drawing(path: Path) -> bool:
    """Whether a file begins as a maze does: with a line of nothing but its cells, after comments."""
    try:
        start = read_start(path, 1 << 16).decode("utf-8-sig", errors="replace")
    except OSError:
        return False
    lines = (line.strip() for line in start.splitlines())
    first = next((line for line in lines if line and not line.startswith(";")), "")
    return bool(first) and set(first) <= {FREE, WALL, GOAL}


def parse(text: str, name: str) -> Maze:
    """A maze from text; `name` stands in front of every error, followed by line and column, both from 1."""
    lines = [(i, line.rstrip()) for i, line in enumerate(text.splitlines(), 1)]
    lines = [(i, line) for i, line in lines if line and not line.startswith(";")]
    split = next((n for n, (_, line) in enumerate(lines) if line.startswith("path")), len(lines))
    drawing, paths = lines[:split], lines[split:]
    if not drawing:
        _fail(name, 1, 1, "there is no drawing", f"lines of {FREE!r}, {WALL!r} and one {GOAL!r}")
    _check_drawing(name, drawing)
    if not paths:
        number, line = drawing[-1]
        _fail(
            name,
            number,
            len(line),
            "no trajectory follows the drawing",
            "at least one line 'path x,y x,y ...'",
        )
    maze = Maze(name, tuple(line for _, line in drawing), ())
    return replace(maze, trajectories=tuple(_trajectory(maze, tokens) for tokens in _paths(name, paths)))


def _check_drawing(name: str, drawing: list[tuple[int, str]]) -> None:
    width = len(drawing[0][1])
    goals = []
    for number, line in drawing:
        for column, character in enumerate(line, 1):
            if character not in (FREE, WALL, GOAL):
                _fail(
                    name,
                    number,
                    column,
                    f"unknown character {character!r}",
                    f"{FREE!r}, {WALL!r} or {GOAL!r}",
                )
            if character == GOAL:
                goals.append((number, column))
        if len(line) != width:
            column = min(len(line), width) + 1
            _fail(name, number, column, f"this line has {len(line)} cells", f"{width}, as in the first line")
    if not goals:
        _fail(name, drawing[0][0], 1, "the maze has no goal", f"one {GOAL!r}")
    if len(goals) > 1:
        number, column = goals[1]
        _fail(name, number, column, "the maze has a second goal", f"one {GOAL!r}")


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    column: int


def _paths(name: str, lines: list[tuple[int, str]]) -> Iterator[list[_Token]]:
    """The words of each trajectory, `path` first, with its continuation lines joined."""
    tokens: list[_Token] = []
    for number, line in lines:
        found = [_Token(m.group(), number, m.start() + 1) for m in re.finditer(r"\S+", line)]
        if not line[0].isspace():
            if found[0].text != "path":
                _fail(name, number, 1, f"unknown word {found[0].text!r}", "'path', or a space and more cells")
            if tokens:
                yield tokens
            tokens = []
        tokens = tokens + found
    yield tokens


def _trajectory(maze: Maze, tokens: list[_Token]) -> tuple[Cell, ...]:
    head, *rest = tokens
    cells: list[Cell] = []
    for token in rest:
        cell = _cell(maze, token)
        if cells:
            _check_step(maze, token, cells[-1], cell)
        cells.append(cell)
    if len(cells) < 2:
        _fail(maze.name, head.line, head.column, "the trajectory makes no move", "at least two cells")
    return tuple(cells)


def _cell(maze: Maze, token: _Token) -> Cell:
    match = re.fullmatch(r"(\d{1,9}),(\d{1,9})", token.text, re.ASCII)
    if not match:
        _fail(maze.name, token.line, token.column, f"{token.text!r} is not a cell", "x,y with two whole numbers")
    x, y = int(match[1]), int(match[2])
    if x >= maze.width or y >= maze.height:
        limits = f"x below {maze.width} and y below {maze.height}"
        _fail(maze.name, token.line, token.column, f"the cell {x},{y} lies outside the maze", limits)
    if maze.rows[y][x] == WALL:
        _fail(
            maze.name,
            token.line,
            token.column,
            f"the trajectory runs through the wall at {x},{y}",
            "free cells",
        )
    return x, y


def _check_step(maze: Maze, token: _Token, last: Cell, cell: Cell) -> None:
    (x0, y0), (x1, y1) = last, cell
    if last == maze.goal:
        problem, expected = "the trajectory goes on after the goal", "the goal as its last cell"
        _fail(maze.name, token.line, token.column, problem, expected)
    if abs(x1 - x0) + abs(y1 - y0) != 1:
        problem = f"the trajectory jumps from {x0},{y0} to {x1},{y1}"
        _fail(
            maze.name,
            token.line,
            token.column,
            problem,
            "a cell to the left, right, top or bottom of the last one",
        )


def _fail(name: str, line: int, column: int, problem: str, expected: str) -> NoReturn:
    raise InputError(problem, where=f"{name}, line {line}, column {column}", expected=expected)


def mdp_of(maze: Maze) -> MDP:
    """Section 3.2: a state for each cell, four moves, -0.1 a move, 10 for the move into the goal.

    Walls are states too, because the paper's reachability rule names them; nothing enters or leaves them.
    """
    free = np.array([[character != WALL for character in row] for row in maze.rows])
    goal = np.zeros_like(free)
    goal[maze.goal[1], maze.goal[0]] = True
    return grid_mdp(free, goal)


def grid_mdp(free: BoolArray, goal: BoolArray) -> MDP:
    """A grid of free cells [height, width] and goal cells as an MDP."""
    height, width = free.shape
    number = np.arange(free.size).reshape(height, width)
    around = np.pad(np.where(free, number, NOWHERE), 1, constant_values=NOWHERE)
    moves = [around[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width] for dx, dy in MOVES]
    next_state = np.stack(moves, axis=2).reshape(-1, len(MOVES))
    next_state[~free.ravel()] = NOWHERE
    final = goal.ravel()
    reward = np.where((next_state != NOWHERE) & final[next_state], GOAL_REWARD, MOVE_REWARD)
    return MDP(next_state, reward, final, DISCOUNT)


def data_of(maze: Maze, mdp: MDP) -> Dataset:
    """The transitions of all trajectories, one after the other."""
    state, action = [], []
    for cells in maze.trajectories:
        for (x0, y0), (x1, y1) in itertools.pairwise(cells):
            state.append(maze.state((x0, y0)))
            action.append(MOVES.index((x1 - x0, y1 - y0)))
    return logged(mdp, state, action)


def neighbours(maze: Maze, state: int) -> Iterator[int]:
    """The rule of section 3.2: the four cells next to this one, walls included."""
    x, y = maze.cell(state)
    for dx, dy in MOVES:
        if 0 <= x + dx < maze.width and 0 <= y + dy < maze.height:
            yield maze.state((x + dx, y + dy))

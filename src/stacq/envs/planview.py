"""A maze seen from above, in NumPy alone: walls, start, goal and the path so far."""

import numpy as np

from stacq.core.types import Array, Float64s, Floats
from stacq.envs.bodies import GOAL_RADIUS, Arena

PIXELS = 32  # of a cell
WALL = (70, 76, 86)
FLOOR = (250, 250, 250)
START = (205, 220, 240)
GOAL = (120, 190, 110)
PATH = (225, 160, 140)
BODY = (200, 60, 50)


def plan(arena: Arena, path: Floats, goal: tuple[float, float] | None = None) -> Array:
    """Colours [H, W, 3] of the maze with a path [N, 2] in it, whose last place is the body's."""
    solid = arena.layout.solid
    cells = np.full((*solid.shape, 3), FLOOR, dtype=np.uint8)
    cells[solid] = WALL
    cells[arena.start] = START
    image = cells.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
    grid = arena.body.grid
    drawn = grid.drawn(np.asarray(path, dtype=np.float64).reshape(-1, 2)) * PIXELS
    target = grid.drawn(np.array(arena.usual_goal if goal is None else goal)) * PIXELS
    _disc(image, target, max(3.0, GOAL_RADIUS / grid.size * PIXELS), GOAL)
    for place in _dense(drawn):
        _disc(image, place, 1.5, PATH)
    for place in drawn[-1:]:
        _disc(image, place, 5.0, BODY)
    return image


def _dense(path: Float64s) -> Float64s:
    """Places one pixel apart along the path."""
    if len(path) < 2:
        return path
    gaps = np.hypot(*np.diff(path, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(gaps)])
    places = np.arange(0.0, along[-1] + 1.0)
    return np.column_stack([np.interp(places, along, path[:, axis]) for axis in (0, 1)])


def _disc(image: Array, centre: Float64s, radius: float, colour: tuple[int, int, int]) -> None:
    x, y = centre
    reach = int(radius) + 2
    rows = slice(max(int(y) - reach, 0), int(y) + reach + 1)
    columns = slice(max(int(x) - reach, 0), int(x) + reach + 1)
    part = image[rows, columns]
    j, i = np.indices(part.shape[:2]) + 0.5
    part[(i + columns.start - x) ** 2 + (j + rows.start - y) ** 2 < radius**2] = colour

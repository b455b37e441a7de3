"""Where tasks end, as a rule on the observation alone: for models that imagine what follows an action.

Every rule known here is a box: hopper and walker2d fall when they leave theirs, a maze is over inside its goal cell.
"""

from typing import Any, NamedTuple

import numpy as np

from stacq.core.types import Float32s
from stacq.tabular.maze import load

ENDLESS = ("halfcheetah", "antmaze", "maze2d")  # tasks that only the clock ends, by the beginning of their names
PLANE_MAZE = "stacq/maze-"


class Ending(NamedTuple):
    """A box without its border, and whether the task is over inside it, or outside."""

    low: Float32s  # [S]
    high: Float32s  # [S]
    inside: bool


def ends(ending: Any, observation: Any) -> Any:
    """Whether the task is over at raw observations [..., S], [...]; NumPy or JAX arrays.

    A number that is not finite is in no box, so a body with such a number has ended, without limits too.
    """
    within = ((observation > ending.low) & (observation < ending.high)).all(-1)
    return within == ending.inside


def ending_of(task: str, size: int) -> Ending | None:
    """The rule of a task, by its key; none where it is not known."""
    if task == "hopper":  # height and angle of the torso; other angles and velocities
        return _box(size, {0: (0.7, np.inf), 1: (-0.2, 0.2)}, rest=100.0)
    if task == "walker2d":
        return _box(size, {0: (0.8, 2.0), 1: (-1.0, 1.0)})
    if task.startswith(PLANE_MAZE):
        x, y = load(task.removeprefix(PLANE_MAZE)).goal
        return _box(size, {0: (x, x + 1), 1: (y, y + 1)})._replace(inside=True)
    return never(size) if task.startswith(ENDLESS) else None


def never(size: int) -> Ending:
    return _box(size, {})


def _box(size: int, limits: dict[int, tuple[float, float]], rest: float = np.inf) -> Ending:
    """Alive while every dimension is within its limits, or within +-rest."""
    low, high = np.full(size, -rest, np.float32), np.full(size, rest, np.float32)
    for place, (least, most) in limits.items():
        low[place], high[place] = least, most
    return Ending(low, high, inside=False)

"""The tabular mazes as a plane: a point, bounded pushes, solid walls.

Cell (i, j) of a maze is the square [i, i + 1) x [j, j + 1), y downwards. An action in [-1, 1]^2 moves the point by up
to 0.9 cells along each axis, so that most points of a cell are one step from the next cell's middle, as in the tabular
maze, and few are one step from a diagonal cell's, which is two moves away there. Rewards and discount are those of the
tabular maze.

`step` is written once over the array interface that NumPy and JAX share. It follows its arguments: JAX arrays can
be traced and batched, NumPy arrays never import JAX, which worker processes must not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.types import Array, Bools, Float32s, Float64s, Floats, Ints
from stacq.envs.bodies import ARENAS
from stacq.tabular.maze import GOAL_REWARD, MOVE_REWARD, WALL, Cell, Maze, load, read, shipped


def _gymnasium() -> Any:
    """It comes with the MuJoCo extra, and the maze does without."""
    try:
        import gymnasium
    except ImportError:
        return None
    return gymnasium


gymnasium = _gymnasium()

MAX_STEP = 0.9  # cells along each axis; below 1 a step crosses at most one border of cells along each
MARGIN = 1e-3  # how far from a wall a blocked point stops: well above the rounding of float32
TIME_LIMIT = 100  # from every data cell of the shipped mazes there is a way to the goal of at most 22 moves
STEPS_PER_SIDE = 5  # of the limit in a larger maze: 100 where width and height are 10
START_SPREAD = 0.25  # episodes begin up to this far from a cell's centre, along each axis


@dataclass(frozen=True, eq=False)
class Layout:
    """What a step needs to know of a maze."""

    solid: Bools  # [W + 2, H + 2]: walls by x and y, inside a solid border
    goal: Cell


def layout_of(maze: Maze) -> Layout:
    walls = np.array([[character == WALL for character in row] for row in maze.rows])
    return Layout(np.pad(walls.T, 1, constant_values=True), maze.goal)


class Step(NamedTuple):
    """Where a push led; arrays of NumPy or JAX, as the position was."""

    position: Any  # [..., 2]
    reward: Any  # [...]
    arrived: Any  # [...], whether that is in the goal cell


def step(layout: Layout, position: Any, action: Any) -> Step:
    """Push points at `position` [..., 2] by `action` [..., 2]; what is outside [-1, 1] is cut off."""
    xp = position.__array_namespace__()
    push = xp.clip(xp.asarray(action, dtype=position.dtype), -1.0, 1.0) * MAX_STEP
    moved = slide(layout.solid, position, push)
    arrived = (xp.floor(moved) == xp.asarray(layout.goal, dtype=moved.dtype)).all(-1)
    reward = xp.where(arrived, GOAL_REWARD, MOVE_REWARD).astype(moved.dtype)
    return Step(moved, reward, arrived)


def slide(solid: Bools, position: Any, push: Any) -> Any:
    """Where a straight move of less than a cell along each axis ends, [..., 2].

    It enters the neighbouring cell next to it, or that one and then the diagonal one. A component that meets
    a wall ends there and the other one goes on. The segment from start to end thus never touches a wall cell's inside,
    and nothing passes between two walls that meet at a corner.
    """
    xp = position.__array_namespace__()
    here = xp.floor(position)
    aim = position + push
    there = xp.floor(aim)
    line = xp.maximum(here, there)  # the border between the two cells, if they are two
    crosses = here != there
    when = xp.where(crosses, (line - position) / xp.where(crosses, push, 1.0), 2.0)
    x_first = when[..., 0] <= when[..., 1]

    beside = _is_solid(xp, solid, there[..., 0], here[..., 1])
    below = _is_solid(xp, solid, here[..., 0], there[..., 1])
    diagonal = _is_solid(xp, solid, there[..., 0], there[..., 1])
    x_stops = xp.where(x_first, beside, xp.where(below, beside, diagonal))
    y_stops = xp.where(x_first, xp.where(beside, below, diagonal), below)
    stops = xp.stack([x_stops, y_stops], axis=-1)
    return xp.where(stops, xp.clip(aim, here + MARGIN, here + 1 - MARGIN), aim)


def _is_solid(xp: Any, solid: Bools, x: Any, y: Any) -> Any:
    return xp.asarray(solid)[x.astype(xp.int32) + 1, y.astype(xp.int32) + 1]


def time_limit(maze: Maze) -> int:
    """Steps after which an episode is over."""
    return max(TIME_LIMIT, STEPS_PER_SIDE * (maze.width + maze.height))


def data_cells(maze: Maze) -> tuple[Cell, ...]:
    """The cells that a trajectory left or arrived at, in the order of first visits; the goal is one if reached."""
    return tuple(dict.fromkeys(cell for cells in maze.trajectories for cell in cells))


def centres(cells: ArrayLike) -> Float32s:
    """[N, 2]"""
    return np.asarray(cells, dtype=np.float32) + np.float32(0.5)


@dataclass(frozen=True, eq=False)
class Rollouts:
    """One episode from each cell of the data."""

    cells: tuple[Cell, ...]
    success: Bools  # [N]; the goal cell itself counts as reached, as in the tabular comparison
    steps: Ints  # [N], to the goal or to the limit
    returns: Float64s  # [N], undiscounted
    positions: Float32s  # [T + 1, N, 2]; where an episode has ended its last position is repeated

    def path(self, index: int) -> Float32s:
        """The positions of one episode, [steps + 1, 2]."""
        return self.positions[: self.steps[index] + 1, index]


def success_by_cell(policy: Callable[[Float32s], Floats], maze: Maze, *, limit: int | None = None) -> Rollouts:
    """Follow a policy, [N, 2] positions to [N, 2] actions, from the centre of every data cell at once."""
    layout, cells = layout_of(maze), data_cells(maze)
    position = centres(cells)
    running = np.array([cell != maze.goal for cell in cells])
    steps, returns = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells))
    positions = [position]
    for _ in range(time_limit(maze) if limit is None else limit):
        if not running.any():
            break
        taken = step(layout, position, _checked(policy(position), position.shape))
        position = np.where(running[:, None], taken.position, position)
        positions.append(position)
        steps += running
        returns += np.where(running, taken.reward, 0.0)
        running = running & ~taken.arrived
    return Rollouts(cells, ~running, steps, returns, np.stack(positions))


def _checked(action: ArrayLike, shape: tuple[int, ...]) -> Float32s:
    found = np.asarray(action, dtype=np.float32)
    if found.shape != shape or not np.isfinite(found).all():
        raise InputError(
            f"the action {found.tolist() if found.size < 5 else f'of shape {found.shape}'}",
            where="maze",
            expected=f"finite numbers of shape {shape}",
            fix="mend the policy",
        )
    return found


def picture(layout: Layout, positions: Floats, *, pixels: int = 24) -> Array:
    """Walls, goal and the points at `positions` [N, 2], as colours [H * pixels, W * pixels, 3]."""
    solid = layout.solid[1:-1, 1:-1].T
    cells = np.full((*solid.shape, 3), 250, dtype=np.uint8)
    cells[solid] = (70, 76, 86)
    cells[layout.goal[1], layout.goal[0]] = (120, 190, 110)
    image = cells.repeat(pixels, axis=0).repeat(pixels, axis=1)
    y, x = (np.indices(image.shape[:2]) + 0.5) / pixels
    for px, py in np.atleast_2d(positions):
        image[(x - px) ** 2 + (y - py) ** 2 < 0.2**2] = (200, 60, 50)
    return image


class _Box(NamedTuple):
    """What is asked of a Gymnasium box, where there is no Gymnasium."""

    low: Float32s
    high: Float32s
    shape: tuple[int, ...]


def _box(low: ArrayLike, high: ArrayLike) -> Any:
    bounds = np.asarray(low, dtype=np.float32), np.asarray(high, dtype=np.float32)
    if gymnasium is None:
        return _Box(*bounds, bounds[0].shape)
    return gymnasium.spaces.Box(*bounds, dtype=np.float32)


_Env: Any = object if gymnasium is None else gymnasium.Env


class MazeEnv(_Env):  # type: ignore[misc]
    """A maze with Gymnasium's interface, and without Gymnasium where it is not installed.

    Episodes begin near the centre of a random data cell, or at the centre of the one in `options={"cell": (x, y)}`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    spec: Any = None

    def __init__(self, maze: str | Maze = "stitching", render_mode: str | None = None) -> None:
        self.maze = load(maze) if isinstance(maze, str) else maze
        self.layout = layout_of(self.maze)
        self.render_mode = render_mode
        self.observation_space = _box([0, 0], [self.maze.width, self.maze.height])
        self.action_space = _box([-1, -1], [1, 1])
        self._starts = [cell for cell in data_cells(self.maze) if cell != self.maze.goal]
        self._np_random = np.random.default_rng()
        self._position = centres(self._starts[0])
        self._steps, self._limit = 0, time_limit(self.maze)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32s, dict[str, Any]]:
        if seed is not None:
            self._np_random, self._np_random_seed = np.random.default_rng(seed), seed
        cell = (options or {}).get("cell")
        self._position = self._anywhere() if cell is None else centres(self._free(cell))
        self._steps = 0
        return self._position.copy(), {"success": False}

    def step(self, action: ArrayLike) -> tuple[Float32s, float, bool, bool, dict[str, Any]]:
        taken = step(self.layout, self._position, _checked(action, (2,)))
        self._position = taken.position
        self._steps += 1
        arrived = bool(taken.arrived)
        truncated = self._steps >= self._limit and not arrived
        return self._position.copy(), float(taken.reward), arrived, truncated, {"success": arrived}

    def render(self) -> Array | None:
        return picture(self.layout, self._position) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Nothing is held open."""

    def _anywhere(self) -> Float32s:
        cell = self._starts[self._np_random.integers(len(self._starts))]
        spread = self._np_random.uniform(-START_SPREAD, START_SPREAD, 2)
        return centres(cell) + spread.astype(np.float32)

    def _free(self, cell: Any) -> Cell:
        x, y = cell
        inside = 0 <= x < self.maze.width and 0 <= y < self.maze.height
        if not inside or self.layout.solid[x + 1, y + 1] or (x, y) == self.maze.goal:
            raise InputError(
                f"an episode cannot begin in cell {x},{y}",
                where=self.maze.name,
                expected="a free cell of the maze other than the goal",
            )
        return x, y


ENV_IDS = {f"stacq/Maze-{name}-v0": name for name in shipped()}
DRAWN = "stacq/Maze@"
"""What the id of a maze from a file begins with; the path follows."""


def maze_of(env_id: str) -> Maze | None:
    """The maze behind an id, if it is one of ours in the plane."""
    if env_id.startswith(DRAWN):
        return read(Path(env_id.removeprefix(DRAWN)))
    return load(ENV_IDS[env_id]) if env_id in ENV_IDS else None


def make(env_id: str, **options: Any) -> Any:
    """A registered maze, through Gymnasium where that is installed, or one from a file."""
    maze = maze_of(env_id)
    if maze is None:
        raise InputError("no such environment", where=env_id, expected=" or ".join((*ENV_IDS, *ARENAS)))
    if gymnasium is not None and env_id in ENV_IDS:
        return gymnasium.make(env_id, disable_env_checker=True, **options)
    env = MazeEnv(maze, **options)
    env.spec = SimpleNamespace(id=env_id, max_episode_steps=time_limit(maze))
    return env


def _register() -> None:
    for env_id, name in ENV_IDS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, "stacq.envs.maze:MazeEnv", max_episode_steps=TIME_LIMIT, kwargs={"maze": name})


if gymnasium is not None:
    _register()

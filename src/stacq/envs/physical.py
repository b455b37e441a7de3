"""PointMaze and AntMaze: D4RL's tasks with bodies that MuJoCo moves, as Gymnasium environments.

The observation is the whole state of the simulator, positions before velocities. The goal is not in it: D4RL hides it.
AntMaze follows D4RL's version 2, PointMaze has maze2d's ball and walls (docs/mazes.md).
"""

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.types import Array, Float64s, Floats
from stacq.envs.bodies import BODIES, GOAL_RADIUS, Arena
from stacq.envs.layouts import LAYOUTS, Cell
from stacq.envs.planview import plan
from stacq.envs.simulation import Simulation, mujoco_here

PICTURE = 480  # pixels of a side


class PhysicalMaze(gymnasium.Env):
    """A body that is to reach a goal it is not told.

    Reward 1 and the end where it comes within 0.5 of the goal. With `endless` the rules are maze2d's: episodes begin
    in any free cell, the reward is paid at every step near the goal, and only the time limit ends them.
    """

    metadata = {"render_modes": ["rgb_array", "plan"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, body: str, layout: str, render_mode: str | None = None, endless: bool = False) -> None:
        self.arena = Arena(BODIES[body], LAYOUTS[layout])
        self.simulation = Simulation(self.arena)
        self.endless, self.render_mode = endless, render_mode
        size = self.simulation.model.nq + self.simulation.model.nv
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.simulation.model.nu,), dtype=np.float32)
        self.goal = self.arena.usual_goal
        self._path: list[tuple[float, float]] = []
        self._renderer: Any = None

    @property
    def data(self) -> Any:
        """MuJoCo's, as Gymnasium's own bodies have it."""
        return self.simulation.data

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float64s, dict[str, Any]]:
        """Start and goal come from the episode's own generator; `options={"cell": (row, column)}` sets the start."""
        super().reset(seed=seed)
        cell = (options or {}).get("cell")
        self.simulation.begin(self._start() if cell is None else self._free(cell), self.np_random)
        self.goal = self.arena.goal_in(self.arena.goal, self.np_random)
        self._path = []
        self._remember()
        return self.simulation.observation(), {"success": False}

    def step(self, action: ArrayLike) -> tuple[Float64s, float, bool, bool, dict[str, Any]]:
        self.simulation.advance(self._checked(action))
        self._remember()
        reached = self.near_goal()
        return self.simulation.observation(), float(reached), reached and not self.endless, False, {"success": reached}

    def near_goal(self) -> bool:
        x, y = self.simulation.qpos[:2]
        return math.hypot(x - self.goal[0], y - self.goal[1]) <= GOAL_RADIUS

    def set_state(self, qpos: Floats, qvel: Floats) -> None:
        self.simulation.place(qpos, qvel)

    def _get_obs(self) -> Float64s:
        """Called so in Gymnasium's own bodies."""
        return self.simulation.observation()

    def render(self) -> Array | None:
        """An image from above: the simulator's (`rgb_array`, with OpenGL) or the drawn plan (`plan`, without)."""
        if self.render_mode == "plan":
            return plan(self.arena, np.array(self._path), self.goal)
        return self._photograph() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _start(self) -> Cell:
        if not self.endless:
            return self.arena.start
        free = self.arena.layout.free
        return free[self.np_random.integers(len(free))]

    def _free(self, cell: Any) -> Cell:
        row, column = cell
        if (row, column) not in self.arena.layout.free:
            raise InputError(
                f"an episode cannot begin in cell {row},{column}",
                where=self.arena.layout.name,
                expected="row and column of a free cell, counted from 0 with the outer wall",
                fix=f"choose one such as {self.arena.start}",
            )
        return row, column

    def _checked(self, action: ArrayLike) -> Float64s:
        found = np.asarray(action, dtype=np.float64)
        if found.shape != self.action_space.shape or not math.isfinite(found.sum()):
            raise InputError(
                f"the action {found.tolist() if found.size < 9 else f'of shape {found.shape}'}",
                where=f"{self.arena.body.name} in {self.arena.layout.name}",
                expected=f"finite numbers of shape {self.action_space.shape}",
                fix="mend the policy",
            )
        return found

    def _remember(self) -> None:
        if self.render_mode == "plan":
            x, y = self.simulation.qpos[:2]
            self._path.append((float(x), float(y)))

    def _photograph(self) -> Array:
        mujoco = mujoco_here()
        if self._renderer is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the error says what a missing display means
                    self._renderer = mujoco.Renderer(self.simulation.model, PICTURE, PICTURE)
            except Exception as error:  # each way of drawing has exceptions of its own
                raise InputError(
                    f"OpenGL cannot be used here: {error}",
                    where="render_mode='rgb_array'",
                    expected="a display, or MUJOCO_GL=egl or MUJOCO_GL=osmesa with their libraries",
                    fix="set MUJOCO_GL before Python starts, or draw the plan: render_mode='plan'",
                ) from error
        camera = mujoco.MjvCamera()
        rows, columns = self.arena.layout.solid.shape
        x, y = self.arena.body.grid.centre((rows // 2, columns // 2))
        camera.lookat[:] = x, y, 0.0
        camera.distance, camera.elevation, camera.azimuth = (
            1.3 * max(rows, columns) * self.arena.body.grid.size,
            -70,
            90,
        )
        self._renderer.update_scene(self.simulation.data, camera)
        return np.asarray(self._renderer.render())

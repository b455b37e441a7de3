"""MuJoCo's arithmetic for one body in one maze, without an environment around it."""

from functools import cache
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s, Floats
from stacq.envs.bodies import RESET_NOISE, Arena
from stacq.envs.layouts import Cell


def mujoco_here() -> Any:
    """The module, or how to get it. Without a handler MuJoCo writes its warnings to a file in the working directory."""
    try:
        import mujoco
    except ImportError as error:
        raise InputError(
            f"MuJoCo cannot be loaded: {error}",
            where="a maze with a body in it",
            expected="the mujoco extra",
            fix="pip install 'stacq[mujoco]'",
        ) from error
    mujoco.set_mju_user_warning(_ignore)
    return mujoco


def _ignore(message: str) -> None:
    """MuJoCo sets an unstable simulation back by itself; that shows in the path."""


@cache
def _model(arena: Arena) -> Any:
    """Compiled once per process: simulations share it and do not write to it."""
    return mujoco_here().MjModel.from_xml_string(arena.body.xml(arena.layout))


class Simulation:
    """The state of one body; `qpos` and `qvel` are MuJoCo's own memory and change with every step."""

    def __init__(self, arena: Arena) -> None:
        mujoco = mujoco_here()
        self.arena = arena
        self.model = _model(arena)
        self.data = mujoco.MjData(self.model)
        self.qpos, self.qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self._step, self._normalise = mujoco.mj_step, mujoco.mj_normalizeQuat
        self._forward, self._clear = mujoco.mj_forward, mujoco.mj_resetData
        self._skip, self._strength = arena.body.frame_skip, arena.body.strength
        self._fastest = arena.body.fastest

    def advance(self, action: Floats) -> None:
        """One action in [-1, 1]; what is beyond is cut off by the motors."""
        if self._fastest is not None:
            self.qvel.clip(-self._fastest, self._fastest, out=self.qvel)
        np.multiply(action, self._strength, out=self._ctrl)
        self._step(self.model, self.data, self._skip)

    def observation(self) -> Float64s:
        """All positions and then all velocities."""
        return np.concatenate((self.qpos, self.qvel))

    def place(self, qpos: Floats, qvel: Floats) -> None:
        """Set the state; nothing else of the past remains."""
        self._clear(self.model, self.data)
        self.qpos[:], self.qvel[:] = qpos, qvel
        self._normalise(self.model, self.qpos)  # a disturbed rotation is none otherwise
        self._forward(self.model, self.data)

    def after(self, qpos: Floats, qvel: Floats, action: Floats) -> Float64s:
        """Where one action leads from a stored state."""
        self.place(qpos, qvel)
        self.advance(action)
        return self.observation()

    def begin(self, cell: Cell, rng: np.random.Generator) -> None:
        """At rest at the spot of a cell, but for D4RL's noise on positions and velocities."""
        qpos = np.array(self.model.qpos0)
        qpos[:2] = self.arena.spot(cell)
        qpos += rng.uniform(-RESET_NOISE, RESET_NOISE, len(qpos))
        self.place(qpos, RESET_NOISE * rng.standard_normal(len(self.qvel)))

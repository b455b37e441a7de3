"""A MuJoCo body that starts from any stored state: what a step really does."""

from typing import Any

import numpy as np

from stacq.core.types import Float64s
from stacq.envs.gym import make_env
from stacq.envs.physical import PhysicalMaze


class Simulator:
    """One body, by its Gymnasium id."""

    def __init__(self, env_id: str) -> None:
        import mujoco

        self.env: Any = make_env(env_id).unwrapped
        self.step_physics = mujoco.mj_step

    def next_observation(self, qpos: Float64s, qvel: Float64s, action: Float64s) -> Float64s:
        if isinstance(self.env, PhysicalMaze):  # actions and velocities have bounds of its own
            return self.env.simulation.after(qpos, qvel, action)
        data = self.env.data
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, action
        data.qacc_warmstart[:] = 0.0  # the result must not depend on what was simulated before
        self.step_physics(self.env.model, data, nstep=self.env.frame_skip)
        return np.asarray(self.env._get_obs(), dtype=np.float64)

"""Environments and policies for tests of rollouts; importable by worker processes."""

import os
import signal
from typing import Any

import gymnasium
import numpy as np


class Walk(gymnasium.Env[Any, Any]):
    """A point on a line pushed by the action; the reward is its place, ten steps make an episode."""

    def __init__(self, trouble: str = "", at: int = 3) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), dtype=np.float64)
        self.trouble, self.at = trouble, at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.random()), 0
        return np.array([self.place]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place += float(action[0])
        if self.steps == self.at and self.trouble == "raise":
            raise RuntimeError("the motor is on fire")
        if self.steps == self.at and self.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps == self.at and self.trouble == "print":
            print("noise on standard output")
        return np.array([self.place]), self.place, False, self.steps >= 10, {"success": self.place > 0}


class Goal(Walk):
    """The same with observations in a dictionary, keys unsorted."""

    def __init__(self) -> None:
        super().__init__()
        box = gymnasium.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64)
        self.observation_space = gymnasium.spaces.Dict({"observation": box, "goal": box})

    def _dressed(self) -> dict[str, Any]:
        return {"observation": np.array([self.place]), "goal": np.array([9.0])}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._dressed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, *rest = super().step(action)
        return (self._dressed(), *rest)  # type: ignore[return-value]


def noisy(observation: Any, rng: np.random.Generator) -> Any:
    return rng.uniform(-1, 1, 1)


def still(observation: Any, rng: np.random.Generator) -> Any:
    return np.zeros(1)


class Thruster(Walk):
    """The same with actions up to 2, and no simulator beneath it; it ends by itself unless it is told not to."""

    def __init__(self, falls: bool = True) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Box(-2, 2, (2,), dtype=np.float64)
        self.falls = falls

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, _, ended, facts = super().step(action)
        return observation, reward, ended and self.falls, ended and not self.falls, facts


def idle(observation: Any, rng: np.random.Generator) -> Any:
    return np.zeros(2)


def broken(observation: Any, rng: np.random.Generator) -> Any:
    return np.full(2, np.nan)

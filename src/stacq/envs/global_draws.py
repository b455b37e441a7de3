"""Environments that draw from NumPy's global generator, which no seed of theirs sets: OGBench's mazes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np


class OwnDraws(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An episode follows from its seed and its actions, and the draws of the program around it stay as they were."""

    def __init__(self, env: Any, *, steps_draw: bool) -> None:
        super().__init__(env)
        self._steps_draw = steps_draw  # else a step is not slowed down by putting generators in place
        self._draws = np.random.RandomState(0).get_state()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._draws = np.random.RandomState(seed).get_state()
        with self._in_place():
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if not self._steps_draw:
            return self.env.step(action)
        with self._in_place():
            return self.env.step(action)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        theirs = np.random.get_state()  # noqa: NPY002
        np.random.set_state(self._draws)  # noqa: NPY002
        try:
            yield
        finally:
            self._draws = np.random.get_state()  # noqa: NPY002
            np.random.set_state(theirs)  # noqa: NPY002

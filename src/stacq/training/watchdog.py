"""Which seeds go on: a seed whose numbers are no numbers any more, or grow beyond reason, is stopped alone."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Bools
from stacq.runs.directory import Run
from stacq.runs.failed import TrainingFailed
from stacq.training.task import Task, value_limit

EXPLODED = 100  # times the largest return that the data's rewards allow
VALUES = ("q", "q_policy")  # metrics that are mean values: of the pairs learned from, or of what the policy does


class Watchdog:
    """Keeps `alive`, by place along the seed axis, and tells once why a seed is doubted or stopped."""

    def __init__(self, task: Task, seeds: tuple[int, ...], run: Run, say: Callable[[str], None]) -> None:
        self.task, self.seeds, self.run, self.say = task, seeds, run, say
        self.alive: Bools = np.ones(len(seeds), dtype=np.bool_)
        self.limit = value_limit(task)
        self.doubted: set[int] = set()

    def judge(self, step: int, state: Any, metrics: Mapping[str, np.ndarray[Any, Any]]) -> dict[int, dict[str, float]]:
        """The metrics of every seed that goes on, by seed. Metrics are of before the last update, so networks count."""
        whole = np.asarray(_finite_seeds(self.task.algorithm.kept(state)))
        found = {}
        for place in np.flatnonzero(self.alive).tolist():
            seed = self.seeds[place]
            mine = {name: float(values[place]) for name, values in metrics.items()}
            reason = self._lost(mine) or ("" if whole[place] else "its networks hold NaN or infinity")
            if reason:
                self.alive[place] = False
                self._stop(seed, step, reason)
            else:
                found[seed] = mine
                self._doubt(seed, step, mine)
        return found

    def check_left(self, step: int) -> None:
        """End a training of which no seed is left."""
        if not self.alive.any():
            often = " or ".join(f"`--set {name}=...`" for name in self.task.algorithm.calmed_by)
            raise TrainingFailed(
                f"every seed was lost by step {step:,}; metrics.jsonl in {self.run.directory} shows how.\n"
                f"A smaller {often} often helps.",
                self.run.directory,
            )

    def _stop(self, seed: int, step: int, reason: str) -> None:
        rest = "; the other seeds go on" if self.alive.any() else ""
        self.say(f"seed {seed} is stopped at step {step:,}: {reason}{rest}")
        self.run.log(f"seed {seed} stopped at step {step}: {reason}")

    def _lost(self, metrics: Mapping[str, float]) -> str:
        for name, value in metrics.items():
            if not math.isfinite(value):
                return f"{name} is {value}"
        name, value = _largest(metrics)
        if abs(value) > EXPLODED * self.limit:
            return f"the critics' mean value, {name}, is {value:.3g}, {EXPLODED} times any return of these rewards"
        return ""

    def _doubt(self, seed: int, step: int, metrics: Mapping[str, float]) -> None:
        """Say once for every seed that its critics promise what cannot be: it may recover, and often does not."""
        name, value = _largest(metrics)
        if abs(value) > self.limit and seed not in self.doubted:
            self.doubted.add(seed)
            message = (
                f"{name}, the critics' mean value, is {value:.3g}; no return of these rewards exceeds {self.limit:.3g}"
            )
            self.say(f"warning: seed {seed} at step {step:,}: {message}")
            self.run.log(f"seed {seed} at step {step}: {message}")


def _largest(metrics: Mapping[str, float]) -> tuple[str, float]:
    """The mean value of greatest size."""
    return max(((name, metrics.get(name, 0.0)) for name in VALUES), key=lambda named: abs(named[1]))


@jax.jit
def _finite_seeds(networks: Any) -> jax.Array:
    """Which seeds have nothing but numbers in their networks, [K]."""
    leaves = jax.tree.leaves(networks)
    return jnp.stack([jnp.isfinite(leaf).all(axis=range(1, leaf.ndim)) for leaf in leaves]).all(axis=0)

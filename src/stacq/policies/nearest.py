"""The policy that looks states up: the actions kept for the nearest stored states, the nearer the heavier."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s
from stacq.policies.networks import float32
from stacq.policies.policy import Policy, onto_bounds, space_of

WHERE = "a policy that looks states up"
WIDTH = 0.5  # of the weights, in distances of the farthest state that is looked at


@dataclass(frozen=True, eq=False)
class NearestPolicy(Policy):
    """States as the normaliser shows them, and an action in [-1, 1] for each."""

    states: Float32s  # [N, S]
    actions: Float32s  # [N, A]
    count: int = 5  # states that are looked at
    kind: ClassVar[str] = "nearest"

    @cached_property
    def tree(self) -> "cKDTree":
        """Built when the first action is asked for."""
        return cKDTree(self.states.astype(np.float64))

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        """Weights exp(-(d / (WIDTH d_farthest))^2 / 2). The same observation gets the same action."""
        del rng
        count = min(self.count, len(self.states))
        found: tuple[Any, Any] = self.tree.query(seen.astype(np.float64), np.arange(1, count + 1))
        distance, rows = found
        width = np.maximum(WIDTH * distance[..., -1:], np.finfo(np.float64).tiny)
        weight = np.exp(-0.5 * (distance / width) ** 2)
        weight /= weight.sum(axis=-1, keepdims=True)
        share = (weight[..., None] * self.actions[rows]).sum(axis=-2)
        return onto_bounds(share.astype(np.float32), self.space)

    def arrays(self) -> dict[str, Float32s]:
        return {"states": self.states, "actions": self.actions}

    def facts(self) -> dict[str, Any]:
        return {"count": self.count}


def nearest_policy(
    states: ArrayLike,
    actions: ArrayLike,
    normaliser: Normaliser | None = None,
    bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
    *,
    count: int = 5,
) -> NearestPolicy:
    """A policy from arrays, checked. States are as the normaliser shows them, actions in [-1, 1]."""
    s, a = float32(states), float32(actions)
    fits = s.ndim == 2 and a.ndim == 2 and len(s) == len(a) > 0
    if not fits or not (np.isfinite(s).all() and np.isfinite(a).all()) or (np.abs(a) > 1).any():
        raise InputError(
            f"states of shape {s.shape} and actions of shape {a.shape}",
            where=WHERE,
            expected="as many states as actions, at least one, all finite, actions within -1 and 1",
            fix="give one action for every state",
        )
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"count is {count!r}", where=WHERE, expected="a whole number from 1")
    return NearestPolicy(space_of(normaliser, bounds, s.shape[1], a.shape[1], WHERE), s, a, count)


def from_file(
    arrays: Mapping[str, Float32s],
    facts: Mapping[str, Any],
    normaliser: Normaliser,
    bounds: tuple[ArrayLike, ArrayLike],
) -> NearestPolicy:
    return nearest_policy(arrays["states"], arrays["actions"], normaliser, bounds, count=facts["count"])

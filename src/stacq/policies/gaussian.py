"""The stochastic policy: a Gaussian squashed by tanh, as soft actor-critic has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s
from stacq.policies.networks import Layers, forward, layers_of, stored_layers
from stacq.policies.policy import Policy, onto_bounds, space_of

LOG_STD_RANGE = (-20.0, 2.0)
WHERE = "a Gaussian policy"


@dataclass(frozen=True, eq=False)
class GaussianPolicy(Policy):
    """A network that gives mean and logarithm of the spread; without a generator the mean action is taken."""

    layers: Layers  # [S] -> [2 A]
    log_std_range: tuple[float, float] = LOG_STD_RANGE
    kind: ClassVar[str] = "gaussian"

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        mean, log_std = mean_and_log_std(self.layers, seen)
        if rng is None:
            return onto_bounds(np.tanh(mean), self.space)
        return onto_bounds(squashed_sample(mean, log_std, rng, self.log_std_range), self.space)

    def arrays(self) -> dict[str, Float32s]:
        return self.layers.arrays()

    def facts(self) -> dict[str, Any]:
        return {"log_std_range": list(self.log_std_range)}


def mean_and_log_std(layers: Layers, observation: Float32s) -> tuple[Float32s, Float32s]:
    """Before the one is squashed and the other clipped."""
    mean, log_std = np.split(forward(*layers, observation), 2, axis=-1)
    return mean, log_std


def squashed_sample(
    mean: Float32s, log_std: Float32s, rng: np.random.Generator, log_std_range: tuple[float, float] = LOG_STD_RANGE
) -> Float32s:
    """tanh(mean + std noise), in (-1, 1)."""
    noise = rng.standard_normal(mean.shape, dtype=np.float32)
    return np.tanh(mean + np.exp(np.clip(log_std, *log_std_range)) * noise)


def gaussian_policy(
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    normaliser: Normaliser | None = None,
    bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0),
    *,
    log_std_range: tuple[float, float] = LOG_STD_RANGE,
) -> GaussianPolicy:
    """A policy from arrays, checked."""
    layers = layers_of(weights, biases, WHERE)
    if layers.outputs % 2:
        raise InputError(
            f"the last layer has {layers.outputs} outputs", where=WHERE, expected="a mean and a spread per action"
        )
    low, high = (float(value) for value in log_std_range)
    if not low < high:
        raise InputError(f"a log deviation from {low} to {high}", where=WHERE, expected="a range, such as -20 to 2")
    return GaussianPolicy(space_of(normaliser, bounds, layers.inputs, layers.outputs // 2, WHERE), layers, (low, high))


def from_file(
    arrays: Mapping[str, Float32s],
    facts: Mapping[str, Any],
    normaliser: Normaliser,
    bounds: tuple[ArrayLike, ArrayLike],
) -> GaussianPolicy:
    low, high = facts["log_std_range"]
    return gaussian_policy(*stored_layers(arrays, WHERE), normaliser, bounds, log_std_range=(low, high))

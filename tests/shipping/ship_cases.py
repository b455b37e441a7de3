"""Policies to export, observations to try them on, and what they do in double precision."""

from functools import cache
from itertools import pairwise

import numpy as np

from stacq import Normaliser, Policy
from stacq.core.types import Float32s, Float64s
from stacq.policies import ChosenPolicy, GaussianPolicy, Layers, MLPPolicy
from stacq.policies.gaussian import gaussian_policy
from stacq.policies.policy import space_of

SIZE, ACTIONS = 5, 3
LOW, HIGH = np.array([-1.0, 0.0, -0.3], np.float32), np.array([1.0, 1.5, 0.5], np.float32)
SCALES = (0.0, 1e-30, 0.1, 1.0, 10.0, 1e6, 1e12, 1e30)


def layers(*sizes: int, seed: int = 0) -> Layers:
    """Weights as small as those that trainings begin with."""
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [(rng.uniform(-1, 1, pair) / np.sqrt(pair[0])).astype(np.float32) for pair in pairs]
    return Layers(tuple(weights), tuple(rng.uniform(-0.5, 0.5, size).astype(np.float32) for size in sizes[1:]))


def normaliser() -> Normaliser:
    rng = np.random.default_rng(7)
    return Normaliser(rng.normal(size=SIZE).astype(np.float32), rng.uniform(0.5, 2, SIZE).astype(np.float32))


def mlp(*hidden: int, activation: str = "relu", output: str = "tanh") -> MLPPolicy:
    weights, biases = layers(SIZE, *hidden, ACTIONS)
    return Policy.from_mlp(
        weights,
        biases,
        normaliser(),
        (LOW, HIGH),
        activation=activation,  # type: ignore[arg-type]
        output=output,  # type: ignore[arg-type]
    )


def gaussian() -> GaussianPolicy:
    return gaussian_policy(*layers(SIZE, 32, 32, 2 * ACTIONS), normaliser(), (LOW, HIGH), log_std_range=(-1.0, 0.05))


@cache
def chosen() -> ChosenPolicy:
    nets = layers(SIZE + 4, 32, ACTIONS), layers(SIZE + ACTIONS, 32, ACTIONS, seed=1), layers(SIZE + ACTIONS, 16, 1)
    return ChosenPolicy(space_of(normaliser(), (LOW, HIGH), SIZE, ACTIONS, "test"), *nets, samples=7, reach=0.3)


def observations(rows: int = 50, size: int = SIZE) -> Float32s:
    """Of every size from nothing to what would be far outside of any data."""
    rng = np.random.default_rng(3)
    return np.concatenate([scale * rng.standard_normal((rows, size)) for scale in SCALES]).astype(np.float32)


def exact(policy: MLPPolicy, rows: Float32s) -> Float64s:
    """The same equations in double precision, for policies of ReLU layers whose output is squashed."""
    space, hidden = policy.space, np.asarray(policy.space.normaliser.apply(rows), np.float64)
    for weight, bias in zip(policy.weights[:-1], policy.biases[:-1], strict=True):
        hidden = np.maximum(hidden @ weight.astype(np.float64) + bias, 0)
    share = np.tanh(hidden @ policy.weights[-1].astype(np.float64) + policy.biases[-1])
    low, high = (np.asarray(bound, np.float64) for bound in space[1:])
    return np.asarray(low + (share + 1) / 2 * (high - low), np.float64)

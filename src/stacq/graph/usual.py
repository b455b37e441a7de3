"""What is usual at a state: the value of the logged behaviour and its mean action, by regression on fixed features.

Both are linear in the same random features, so each is one system of linear equations: no steps, no learning rate,
and the same data gives the same answer.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from stacq.core.types import Bools, Float64s, Floats

RIDGE = 1e-3  # a row's share of the penalty on weights; features are of size 1
BLOCK = 8_192  # rows at a time
Features = Callable[[Floats], Float64s]


class Usual(NamedTuple):
    """Of every row; values are those of the row's state and of its successor."""

    value: Float64s  # [N]
    value_next: Float64s  # [N], 0 where the task ended
    action: Float64s  # [N, A]


class Steps(NamedTuple):
    """Rows as the regressions see them."""

    s: Floats  # [N, S], normalised
    s_next: Floats  # [N, S]; the row's own state where the successor is unknown
    a: Floats  # [N, A] in [-1, 1]
    r: Float64s  # [N]
    over: Bools  # [N], whether the task ended
    known: Bools  # [N], whether the successor or the end is known


def random_features(size: int, count: int, seed: int) -> Features:
    """x -> [relu(W x + b), x, 1] with W and b drawn once."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((size, count)) / np.sqrt(size)
    bias = rng.uniform(-1, 1, count)

    def features(x: Floats) -> Float64s:
        hidden = np.maximum(x @ weight + bias, 0.0)
        return np.concatenate([hidden, x, np.ones((len(x), 1))], axis=1)

    return features


def usual(steps: Steps, discount: float, count: int, seed: int) -> Usual:
    """Value and action of the logged behaviour at every row's state."""
    features = random_features(steps.s.shape[1], count, seed)
    weights, actions = regressions(steps, features, discount)
    known = steps.r[steps.known]
    low, high = (
        (min(known.min(), 0.0) / (1 - discount), max(known.max(), 0.0) / (1 - discount)) if len(known) else (0.0, 0.0)
    )
    value, value_next, action = (np.concatenate(parts) for parts in zip(*(
        (np.clip(here @ weights, low, high), np.clip(there @ weights, low, high), here @ actions)
        for here, there, _ in blocks(steps, features)
    ), strict=True))  # fmt: skip
    return Usual(value, np.where(steps.over, 0.0, value_next), np.clip(action, -1, 1))


def regressions(steps: Steps, features: Features, discount: float) -> tuple[Float64s, Float64s]:
    """Weights of value [F] and action [F, A].

    Value: sum f(s) (f(s) - gamma (1 - d) f(s'))^T w = sum f(s) r over rows whose future is known (LSTD). Action:
    least squares over all rows. Both with a small penalty on the weights.
    """
    size = features(steps.s[:1]).shape[1]
    forward, backward = np.zeros((size, size)), np.zeros(size)
    square, towards = np.zeros((size, size)), np.zeros((size, steps.a.shape[1]))
    for here, there, rows in blocks(steps, features):
        known = here * steps.known[rows, None]
        forward += known.T @ (here - discount * there * ~steps.over[rows, None])
        backward += known.T @ steps.r[rows]
        square += here.T @ here
        towards += here.T @ steps.a[rows]
    penalty = RIDGE * len(steps.r) * np.eye(size)
    value, action = np.linalg.solve(forward + penalty, backward), np.linalg.solve(square + penalty, towards)
    return value.astype(np.float64), action.astype(np.float64)


def blocks(steps: Steps, features: Features) -> Iterator[tuple[Float64s, Float64s, slice]]:
    """Features of states and successors, and the rows they belong to."""
    for first in range(0, len(steps.r), BLOCK):
        rows = slice(first, first + BLOCK)
        yield features(steps.s[rows]), features(steps.s_next[rows]), rows


def advantages(steps: Steps, found: Usual, discount: float) -> Float64s:
    """r + gamma (1 - d) U(s') - U(s): what a row's action did beyond what is usual, [N]."""
    return steps.r + discount * found.value_next - found.value

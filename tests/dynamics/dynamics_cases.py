"""A linear system whose rows are exact in float32, logged with gaps, and models that know it."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import Fit
from stacq.dynamics.models import Dynamics, Models
from stacq.nn.mlp import MLP

A = np.array([[1, 0.25], [0, 1]], dtype=np.float32)
B = np.array([[0.5, 0], [0, 0.25]], dtype=np.float32)


def linear_data(lengths: Sequence[int], known_ends: bool | Sequence[bool] = False, seed: int = 0) -> Dataset:
    """s' = A s + B u; actions are eighths, so that nothing is ever rounded. An unknown end holds NaN."""
    rng = np.random.default_rng(seed)
    rows, ends = sum(lengths), np.cumsum(lengths) - 1
    actions = rng.integers(-8, 9, (rows, 2)).astype(np.float32) / 8
    observations, successors = np.empty((2, rows, 2), dtype=np.float32)
    for row in range(rows):
        first = row == 0 or row - 1 in ends
        observations[row] = rng.integers(-8, 9, 2) / 8 if first else successors[row - 1]
        successors[row] = A @ observations[row] + B @ actions[row]
    known = np.ones(rows, dtype=np.bool_)
    known[ends] = known_ends
    return Dataset(
        observations=observations,
        actions=actions,
        rewards=np.zeros(rows, dtype=np.float32),
        next_observations=np.where(known[:, None], successors, np.float32(np.nan)),
        terminals=np.zeros(rows, dtype=np.bool_),
        timeouts=np.zeros(rows, dtype=np.bool_),
        successor_known=known,
        episode_offsets=np.concatenate([[0], ends + 1]),
        action_low=-np.ones(2, dtype=np.float32),
        action_high=np.ones(2, dtype=np.float32),
        name="linear",
    )


def linear_network(matrix: Float32s, biases: Sequence[float]) -> MLP:
    """Members that compute x @ matrix exactly, as relu(x) - relu(-x), each off by its bias in the first output."""
    inputs, outputs = matrix.shape
    eye = np.eye(inputs, dtype=np.float32)
    weights = np.concatenate([eye, -eye], axis=1), np.concatenate([matrix, -matrix])
    last = np.zeros((len(biases), outputs), dtype=np.float32)
    last[:, 0] = biases
    stacked = tuple(jnp.asarray(np.stack([weight] * len(biases))) for weight in weights)
    return MLP(stacked, (jnp.zeros((len(biases), 2 * inputs)), jnp.asarray(last)))


def known_fit(dataset: Dataset, held_out: Sequence[int], biases: Sequence[float] = (0.0, 0.0)) -> Fit:
    """A fit that learned the system exactly, but for the members' biases in the first dimension."""
    step = np.concatenate([A - np.eye(2, dtype=np.float32), B], axis=1).T
    back = np.linalg.inv(B) @ np.concatenate([-A, np.eye(2, dtype=np.float32)], axis=1)
    forward, inverse = linear_network(step, biases), linear_network(back.T.astype(np.float32), [0.0])
    models = Models(forward, inverse, jnp.zeros(2), jnp.ones(2))
    bounds = np.asarray(dataset.action_low, np.float32), np.asarray(dataset.action_high, np.float32)
    rows = np.array(held_out, dtype=np.int64)
    return Fit(Dynamics(models, Normaliser.identity(2), *bounds, {}, {"dataset": dataset.fingerprint}, rows), ())

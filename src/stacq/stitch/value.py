"""The state value V of the policies that recorded the data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.types import Float32s, Floats
from stacq.data.dataset import Dataset
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, each_member, init_ensemble
from stacq.stitch.config import ValueConfig
from stacq.stitch.descent import Batch, Job, descended

CHUNK = 16_384  # states at a time


def values(network: MLP, s: jax.Array) -> jax.Array:
    """V_j(s) of every member, [M, ...]."""
    return each_member(network, s)[..., 0]


def value_target(target: MLP, batch: Batch, discount: jax.Array | float) -> jax.Array:
    """y = r + gamma (1 - d) min_j V'_j(s'), [B]."""
    return batch["r"] + discount * (1 - batch["done"]) * values(target, batch["s_next"]).min(axis=0)


def value_loss(network: MLP, batch: Batch, y: jax.Array) -> jax.Array:
    """Sum over both networks of the mean squared error to one shared target."""
    return jnp.mean((values(network, batch["s"]) - y[None]) ** 2, axis=1).sum()


def value_step(learner: Learner[MLP], batch: Batch, key: jax.Array, numbers: Any) -> tuple[Learner[MLP], jax.Array]:
    """One gradient step, and the slow copies moved."""
    del key
    assert learner.target is not None
    y = value_target(learner.target, batch, numbers["discount"])

    def loss(network: MLP) -> tuple[jax.Array, dict[str, jax.Array]]:
        found = value_loss(network, batch, y)
        return found, {"loss": found}

    learner, metrics = descend(learner, loss, optax.adam(numbers["learning_rate"]))
    return follow(learner, numbers["tau"]), metrics["loss"]


def fit_value(dataset: Dataset, config: ValueConfig, key: jax.Array) -> MLP:
    """From scratch on this data: two networks, [2, ...].

    A recording that only stopped has value beyond its end, if the state there is known; rows before an unknown state
    of a task that goes on are left out.
    """
    usable = dataset.successor_known | dataset.terminals
    s_next = np.where(dataset.successor_known[:, None], dataset.next_observations, dataset.observations)
    columns = {"s": dataset.observations, "r": dataset.rewards, "s_next": s_next, "done": dataset.terminals}
    k_init, k_train = jax.random.split(key)
    network = init_ensemble(k_init, 2, (dataset.observation_size, *config.hidden, 1))
    numbers = {"learning_rate": config.learning_rate, "discount": config.discount, "tau": config.tau}
    rows = {name: each[usable].astype(np.float32) for name, each in columns.items()}
    job = Job(value_step, rows, numbers, config.steps, config.batch)
    fitted: MLP = descended(new_learner(network, optax.adam(config.learning_rate)), job, k_train)[0].network
    return fitted


def least_values(network: MLP, s: Floats) -> Float32s:
    """min_j V_j(s), [N]: what stitching compares."""
    parts = [s[first : first + CHUNK].astype(np.float32) for first in range(0, len(s), CHUNK)]
    filled = [np.pad(part, ((0, CHUNK - len(part) if len(parts) > 1 else 0), (0, 0))) for part in parts]
    found = [np.asarray(_least(network, each))[: len(part)] for each, part in zip(filled, parts, strict=True)]
    return np.concatenate(found)


@jax.jit
def _least(network: MLP, s: jax.Array) -> jax.Array:
    return values(network, s).min(axis=0)

"""What the data cannot say of a stitch: the action that makes the step, and the reward of it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.types import Float32s, Float64s, Floats
from stacq.data.dataset import Dataset
from stacq.nn.cvae import CVAE, decode, init_cvae, reconstruction_and_divergence
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.mlp import MLP, init_mlp
from stacq.stitch.config import InverseConfig, RewardConfig
from stacq.stitch.descent import Batch, Job, descended


class Steps(NamedTuple):
    """Pairs of states that a step is to join, [N, S] each."""

    s: Floats
    s_next: Floats


def inverse_loss(cvae: CVAE, batch: Batch, key: jax.Array) -> jax.Array:
    """(squared error + KL) / 2 of the action given both states."""
    condition = jnp.concatenate([batch["s"], batch["s_next"]], axis=-1)
    error, divergence = reconstruction_and_divergence(cvae, condition, batch["a"], key)
    return 0.5 * (error + divergence)


def reward_of(network: MLP, s: jax.Array, a: jax.Array, s_next: jax.Array) -> jax.Array:
    """r(s, a, s'), [...]."""
    return network(jnp.concatenate([s, a, s_next], axis=-1))[..., 0]


def reward_loss(network: MLP, batch: Batch) -> jax.Array:
    """Mean squared error of the predicted reward."""
    return jnp.mean((reward_of(network, batch["s"], batch["a"], batch["s_next"]) - batch["r"]) ** 2)


def inverse_step(learner: Learner[CVAE], batch: Batch, key: jax.Array, numbers: Any) -> tuple[Learner[CVAE], jax.Array]:
    def loss(network: CVAE) -> tuple[jax.Array, dict[str, jax.Array]]:
        found = inverse_loss(network, batch, key)
        return found, {"loss": found}

    learner, metrics = descend(learner, loss, optax.adam(numbers["learning_rate"]))
    return learner, metrics["loss"]


def reward_step(learner: Learner[MLP], batch: Batch, key: jax.Array, numbers: Any) -> tuple[Learner[MLP], jax.Array]:
    del key

    def loss(network: MLP) -> tuple[jax.Array, dict[str, jax.Array]]:
        found = reward_loss(network, batch)
        return found, {"loss": found}

    learner, metrics = descend(learner, loss, optax.adam(numbers["learning_rate"]))
    return learner, metrics["loss"]


def fit_inverse(dataset: Dataset, config: InverseConfig, key: jax.Array) -> tuple[CVAE, float]:
    """The autoencoder of actions in [-1, 1], with a latent of twice as many numbers, and its last loss."""
    k_init, k_train = jax.random.split(key)
    states, actions = dataset.observation_size, dataset.action_size
    cvae = init_cvae(k_init, 2 * states, actions, 2 * actions, config.hidden(len(dataset)))
    learner = new_learner(cvae, optax.adam(config.learning_rate), target=False)
    job = Job(inverse_step, _columns(dataset), {"learning_rate": config.learning_rate}, config.steps, config.batch)
    learner, loss = descended(learner, job, k_train)
    return learner.network, loss


def fit_reward(dataset: Dataset, config: RewardConfig, key: jax.Array) -> tuple[MLP, float]:
    """A plain regression, and its last loss."""
    k_init, k_train = jax.random.split(key)
    network = init_mlp(k_init, (2 * dataset.observation_size + dataset.action_size, *config.hidden, 1))
    learner = new_learner(network, optax.adam(config.learning_rate), target=False)
    job = Job(reward_step, _columns(dataset), {"learning_rate": config.learning_rate}, config.steps, config.batch)
    learner, loss = descended(learner, job, k_train)
    return learner.network, loss


def made_up(cvae: CVAE, reward: MLP, steps: Steps, key: jax.Array) -> tuple[Float32s, Float32s]:
    """An action in (-1, 1) and a reward for every step; the latent is a normal one that nothing cuts.

    Padded to a power of two, since the number of stitches is another one each time.
    """
    room = 1 << max(len(steps.s) - 1, 0).bit_length()
    s, s_next = (np.pad(each.astype(np.float32), ((0, room - len(each)), (0, 0))) for each in steps)
    a, r = _made_up(cvae, reward, s, s_next, key)
    return np.asarray(a)[: len(steps.s)], np.asarray(r)[: len(steps.s)]


@jax.jit
def _made_up(cvae: CVAE, reward: MLP, s: jax.Array, s_next: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    latent = cvae.encoder.biases[-1].shape[0] // 2
    z = jax.random.normal(key, (s.shape[0], latent))
    a = decode(cvae.decoder, jnp.concatenate([s, s_next], axis=-1), z)
    return a, reward_of(reward, s, a, s_next)


def _columns(dataset: Dataset) -> dict[str, Float32s]:
    known = dataset.successor_known
    columns = {
        "s": dataset.observations,
        "a": scaled(dataset, dataset.actions),
        "r": dataset.rewards,
        "s_next": dataset.next_observations,
    }
    return {name: each[known].astype(np.float32) for name, each in columns.items()}


def scaled(dataset: Dataset, actions: Floats) -> Floats:
    """Actions with the bounds at -1 and 1."""
    return (actions - dataset.action_low) / (dataset.action_high - dataset.action_low) * 2 - 1


def unscaled(dataset: Dataset, actions: Floats) -> Float64s:
    """Actions between the bounds of the data."""
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    return np.clip(low + (actions.astype(np.float64) + 1) / 2 * (high - low), low, high)

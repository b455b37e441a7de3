"""The state-only forward model p(s' | s): Gaussians that never see an action, so any policy's step may be likely."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.errors import InputError
from stacq.core.types import Float32s, Float64s
from stacq.data.dataset import Dataset
from stacq.dynamics.epochs import Learner, judge_members, orders_of, train_members
from stacq.nn.mlp import MLP, init_ensemble
from stacq.stitch.config import ForwardConfig

LOG_DEVIATION = (-20.0, 2.0)  # what the networks' are cut to


class Pairs(NamedTuple):
    """States and what followed them, [N, S] each."""

    s: jax.Array
    s_next: jax.Array


class ForwardFit(NamedTuple):
    """The elites, best first, and the validation loss of every member."""

    elites: MLP
    losses: Float32s  # [M]


def moments(network: MLP, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and logarithm of the deviation of the next state, [..., S] each, by one member."""
    mean, log_deviation = jnp.split(network(s), 2, axis=-1)
    return mean, jnp.clip(log_deviation, *LOG_DEVIATION)


def forward_losses(network: MLP, s: jax.Array, s_next: jax.Array) -> jax.Array:
    """-log p(s' | s) without its constant, the mean over dimensions, row by row, [B]."""
    mean, log_deviation = moments(network, s)
    z = (s_next - mean) * jnp.exp(-log_deviation)
    return jnp.mean(0.5 * z**2 + log_deviation, axis=-1)


def log_densities(mean: Float64s, log_deviation: Float64s, s_next: Float64s) -> Float64s:
    """log p(s' | s) of independent Gaussians, [...]."""
    z = (s_next - mean) * np.exp(-log_deviation)
    constant = 0.5 * np.log(2 * np.pi) * s_next.shape[-1]
    found: Float64s = -0.5 * np.einsum("...i,...i->...", z, z) - log_deviation.sum(axis=-1) - constant
    return found


def fit_forward(dataset: Dataset, config: ForwardConfig, key: jax.Array) -> ForwardFit:
    """Every member with its own split, order and stopping; the elites are the best on the rows they did not see."""
    known = dataset.successor_known
    data = Pairs(*(jnp.asarray(each[known], jnp.float32) for each in (dataset.observations, dataset.next_observations)))
    k_split, k_init, k_train = jax.random.split(key, 3)
    training, validation, batch = _split(k_split, len(data.s), dataset, config)
    sizes = (dataset.observation_size, *config.hidden, 2 * dataset.observation_size)
    learner = _learner(init_ensemble(k_init, config.members, sizes), config)
    for epoch in range(config.max_epochs):
        k_epoch = jax.random.fold_in(k_train, epoch)
        learner = _epoch(learner, data, training, validation, k_epoch, config.learning_rate, config.patience, batch)
        if not bool((learner.stale < config.patience).any()):
            break
    losses = np.asarray(learner.best_loss)
    if not np.isfinite(losses).all():
        raise InputError(
            f"{(~np.isfinite(losses)).sum()} of {len(losses)} members of the forward model never had a finite loss",
            where=dataset.name or "dataset",
            expected="losses that fall",
            fix="look for states of enormous size (`stacq data inspect`), or lower forward_rate",
        )
    best = np.argsort(losses, kind="stable")[: config.elites]
    return ForwardFit(jax.tree.map(lambda each: each[best], learner.best), losses)


def _split(key: jax.Array, rows: int, dataset: Dataset, config: ForwardConfig) -> tuple[jax.Array, jax.Array, int]:
    """Rows that each member learns from and is judged on, [M, T] and [M, V], and the size of a batch."""
    held = max(int(config.validation * rows), 1)
    if rows - held < 1:
        raise InputError(
            f"{rows} rows with a known successor are too few to stitch",
            where=dataset.name or "dataset",
            expected="at least two, and thousands to learn from",
            fix="collect more rows",
        )
    order = jax.vmap(lambda member: jax.random.permutation(member, rows))(jax.random.split(key, config.members))
    return order[:, held:], order[:, :held], min(config.batch, rows - held)


def _learner(network: MLP, config: ForwardConfig) -> Learner:
    worst = jnp.full(network.members, jnp.inf, jnp.float32)
    stale = jnp.zeros(network.members, jnp.int32)
    adam = optax.adam(config.learning_rate)
    return Learner(network, adam.init(network), jax.tree.map(jnp.copy, network), worst, stale)


@partial(jax.jit, static_argnames="size", donate_argnums=0)
def _epoch(
    learner: Learner,
    data: Pairs,
    training: jax.Array,
    validation: jax.Array,
    key: jax.Array,
    rate: float,
    patience: int,
    size: int,
) -> Learner:
    """One pass over every member's rows, then its validation."""
    running, adam = learner.stale < patience, optax.adam(rate)

    def step(learner: Learner, rows: jax.Array) -> tuple[Learner, jax.Array]:
        return train_members(learner, data.s[rows], data.s_next[rows], running, adam, forward_losses)

    orders = orders_of(key, training, training.shape[1] // size, size)
    learner, _ = jax.lax.scan(step, learner, orders)
    return judge_members(learner, data, validation, _gathered, running, forward_losses)[0]


def _gathered(data: Pairs, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    return data.s[rows], data.s_next[rows]

"""One pass of an ensemble over its rows, and its judgement: every member has its own split, order and stopping."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax

from stacq.dynamics.models import PRECISION
from stacq.dynamics.recipes import FitConfig
from stacq.nn.mlp import MLP

VALIDATION_CHUNK = 4096  # rows at a time, so that activations stay small
D = TypeVar("D")  # rows in any form
Errors = Callable[[MLP, jax.Array, jax.Array], jax.Array]
"""(one member, inputs, targets) -> what it is wrong by, row by row, [B]."""


class Rows(NamedTuple):
    """The rows with known successors, on the device, in normalised units."""

    s: jax.Array  # [N, S]
    a: jax.Array  # [N, A], the bounds at -1 and 1: whatever its unit, an action weighs as much as another
    s_next: jax.Array  # [N, S]
    target: jax.Array  # [N, S], what a forward member predicts


class Learner(NamedTuple):
    """One ensemble in training; every array has a leading member axis."""

    network: MLP
    moments: optax.OptState
    best: MLP
    best_loss: jax.Array  # [M]
    stale: jax.Array  # [M], epochs since the best


class State(NamedTuple):
    forward: Learner
    inverse: Learner


class Split(NamedTuple):
    """Row numbers that each member of an ensemble trains on and is judged on."""

    training: jax.Array  # [M, T]
    validation: jax.Array  # [M, V]


class Losses(NamedTuple):
    training: jax.Array  # [M]
    validation: jax.Array  # [M]


def optimiser(config: FitConfig, batches: int) -> optax.GradientTransformation:
    if config.schedule == "constant":
        return optax.adam(config.learning_rate)
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.max_epochs * batches))


@partial(jax.jit, static_argnames="config", donate_argnums=0)
def run_epoch(
    state: State, data: Rows, splits: tuple[Split, Split], key: jax.Array, config: FitConfig
) -> tuple[State, tuple[Losses, Losses]]:
    """One pass over every member's rows, then its validation; one compiled program for both ensembles."""
    batches = splits[0].training.shape[1] // config.batch
    adam = optimiser(config, batches)
    orders = [
        orders_of(k, split.training, batches, config.batch)
        for k, split in zip(jax.random.split(key), splits, strict=True)
    ]
    running = (state.forward.stale < config.forward_patience, state.inverse.stale < config.inverse_patience)

    def step(state: State, rows: list[jax.Array]) -> tuple[State, tuple[jax.Array, jax.Array]]:
        forward, f_loss = train_members(state.forward, *_forward_batch(data, rows[0]), running[0], adam)
        inverse, i_loss = train_members(state.inverse, *_inverse_batch(data, rows[1]), running[1], adam)
        return State(forward, inverse), (f_loss, i_loss)

    with jax.default_matmul_precision(PRECISION):
        state, (f_losses, i_losses) = jax.lax.scan(step, state, orders)
        forward = judge_members(state.forward, data, splits[0].validation, _forward_batch, running[0])
        inverse = judge_members(state.inverse, data, splits[1].validation, _inverse_batch, running[1])
    losses = (Losses(f_losses.mean(axis=0), forward[1]), Losses(i_losses.mean(axis=0), inverse[1]))
    return State(forward[0], inverse[0]), losses


def orders_of(key: jax.Array, training: jax.Array, batches: int, size: int) -> jax.Array:
    """A new order of each member's rows, as [batches, M, size]."""
    members = training.shape[0]
    order = jax.vmap(jax.random.permutation)(jax.random.split(key, members), training)
    return order[:, : batches * size].reshape(members, batches, size).swapaxes(0, 1)


def _forward_batch(data: Rows, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eq. (7): (s, a) against the state difference."""
    return jnp.concatenate([data.s[rows], data.a[rows]], axis=-1), data.target[rows]


def _inverse_batch(data: Rows, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eq. (8): (s, s') against the action."""
    return jnp.concatenate([data.s[rows], data.s_next[rows]], axis=-1), data.a[rows]


def squared_errors(network: MLP, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean squared error of every row, [B]."""
    return jnp.mean((network(inputs) - targets) ** 2, axis=-1)


def _loss(network: MLP, inputs: jax.Array, targets: jax.Array, errors: Errors = squared_errors) -> jax.Array:
    return jnp.mean(errors(network, inputs, targets))


def train_members(
    learner: Learner,
    inputs: jax.Array,
    targets: jax.Array,
    running: jax.Array,
    adam: optax.GradientTransformation,
    errors: Errors = squared_errors,
) -> tuple[Learner, jax.Array]:
    """One Adam step of every member that has not stopped."""
    losses, gradients = jax.vmap(jax.value_and_grad(partial(_loss, errors=errors)))(learner.network, inputs, targets)
    updates, moments = adam.update(gradients, learner.moments)
    updates = jax.tree.map(lambda update: jnp.where(_like(running, update), update, 0), updates)
    return learner._replace(network=optax.apply_updates(learner.network, updates), moments=moments), losses


def judge_members(
    learner: Learner,
    data: D,
    rows: jax.Array,
    batch: Callable[[D, jax.Array], tuple[jax.Array, jax.Array]],
    running: jax.Array,
    errors: Errors = squared_errors,
) -> tuple[Learner, jax.Array]:
    """Validation losses, and the best snapshot of each member brought up to date."""
    members, count = rows.shape
    size = min(count, VALIDATION_CHUNK)
    short = -count % size  # rows that fill up the last chunk, and do not count
    chunks = jnp.pad(rows, ((0, 0), (0, short))).reshape(members, -1, size).swapaxes(0, 1)
    counts = (jnp.arange(count + short) < count).reshape(-1, 1, size)
    squares = jax.lax.map(lambda chunk: jax.vmap(errors)(learner.network, *batch(data, chunk)), chunks)
    losses = jnp.where(counts, squares, 0.0).sum(axis=(0, 2)) / count
    better = running & (losses < learner.best_loss)
    best = jax.tree.map(lambda new, old: jnp.where(_like(better, new), new, old), learner.network, learner.best)
    stale = jnp.where(better, 0, learner.stale + 1)
    return learner._replace(best=best, best_loss=jnp.where(better, losses, learner.best_loss), stale=stale), losses


def _like(members: jax.Array, array: jax.Array) -> jax.Array:
    """A flag per member, shaped to broadcast against one of the ensemble's arrays."""
    return members.reshape(-1, *(1,) * (array.ndim - 1))

"""Fitting both ensembles in one compiled program: every member with its own split, order and stopping."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.errors import InputError, check_seed, check_whole
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.dynamics.models import PRECISION, Dynamics, Models
from stacq.dynamics.recipes import DEFAULT, FitConfig
from stacq.nn.mlp import MLP, init_ensemble

HELD_OUT_SHARE, HELD_OUT_ROWS = 0.05, 20_000  # kept from every member, whichever is less
VALIDATION_CHUNK = 4096  # rows at a time, so that activations stay small
RECIPE = "recipe for dynamics"
MOST = 1_000_000  # epochs, members or rows of a batch: nobody waits for more, and no memory holds it
MIN_STEP_SCALE = 1e-6  # of a dimension that no step of the data moves


class Curve(NamedTuple):
    """What the fit reports after an epoch: losses by member, in the units of the loss."""

    epoch: int
    forward_training: Float32s  # [F]
    forward_validation: Float32s  # [F]
    inverse_training: Float32s  # [I]
    inverse_validation: Float32s  # [I]
    running: int  # members that have not stopped

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; None where a loss was none."""
        return {name: _plain(value) for name, value in self._asdict().items()}


def _plain(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return [float(each) if np.isfinite(each) else None for each in value]


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


@dataclass(frozen=True, eq=False)
class Fit:
    """Trained dynamics, and how they came about."""

    dynamics: Dynamics
    curves: tuple[Curve, ...]

    @property
    def held_out(self) -> Ints:
        """Rows of the dataset that no member was trained or stopped on."""
        return self.dynamics.held_out


def fit(dataset: Dataset, config: FitConfig = DEFAULT, *, on_epoch: Callable[[Curve], None] | None = None) -> Fit:
    """Fit forward and inverse ensembles to the rows whose successor is known.

    Some rows are kept from every member, so that the ensembles' means can be judged on rows that none of
    them saw; of the rest, each member holds out a share of its own for early stopping.
    """
    _check(config)
    held_out, rows = _hold_out(dataset, config)
    config = lengthened(config, dataset)
    normaliser = Normaliser.fit(dataset.observations) if config.normalise else _untouched(dataset)
    data, step_mean, step_scale = _rows(dataset, rows, normaliser, config)
    keys = jax.random.split(jax.random.key(config.seed), 5)
    splits = (
        _split(keys[0], config.forward_members, len(rows), config),
        _split(keys[1], config.inverse_members, len(rows), config),
    )
    state = _init(keys[2], keys[3], dataset, config)
    program = replace(config, seed=0)  # the seed is no part of the compiled program: one for all seeds
    curves: list[Curve] = []
    for epoch in range(config.max_epochs):
        state, losses = _epoch(state, data, splits, jax.random.fold_in(keys[4], epoch), program)
        curves.append(_curve(epoch, state, losses, config))
        if on_epoch:
            on_epoch(curves[-1])
        if curves[-1].running == 0:
            break
    _check_learned(state, dataset)
    networks = _of_raw_actions(state.forward.best, state.inverse.best, dataset)
    models = Models(*networks, step_mean, step_scale)
    bounds = dataset.action_low.astype(np.float32), dataset.action_high.astype(np.float32)
    parents = {"dataset": dataset.fingerprint}
    return Fit(Dynamics(models, normaliser, *bounds, asdict(config), parents, held_out), tuple(curves))


def lengthened(config: FitConfig, dataset: Dataset) -> FitConfig:
    """With as many epochs as `least_steps` take on this data: an epoch of a short recording is a few steps long."""
    if not config.least_steps:
        return config
    known = int(dataset.successor_known.sum())
    training = _training_rows(known - _held_out_count(known), config)
    factor = config.least_steps / (config.max_epochs * max(training // config.batch, 1))
    if factor <= 1:
        return config
    counts = ("max_epochs", "forward_patience", "inverse_patience")
    return replace(config, **{name: math.ceil(factor * getattr(config, name)) for name in counts})


def _held_out_count(known: int) -> int:
    return min(int(HELD_OUT_SHARE * known), HELD_OUT_ROWS)


def _training_rows(rows: int, config: FitConfig) -> int:
    """What a member learns from, of the rows that are not kept from all."""
    return rows - max(int(config.validation * rows), 1)


def _check(config: FitConfig) -> None:
    """Refuse numbers that would train nothing, or for ever."""
    for name in ("forward_members", "inverse_members", "max_epochs", "forward_patience", "inverse_patience", "batch"):
        value = getattr(config, name)
        check_whole(f"{name} is {value}", value, 1, MOST, where=RECIPE, fix="leave it as it was")
    check_seed(config.seed, where=RECIPE)
    if not (np.isfinite(config.learning_rate) and config.learning_rate > 0):
        raise InputError(
            f"learning_rate is {config.learning_rate}", where=RECIPE, expected="a finite number above 0", fix="try 3e-4"
        )
    if not 0 < config.validation < 1:
        raise InputError(
            f"validation is {config.validation}", where=RECIPE, expected="a share between 0 and 1", fix="try 0.1"
        )


def _check_learned(state: State, dataset: Dataset) -> None:
    """A member whose loss was never a number still is what chance made it."""
    losses = np.concatenate([np.asarray(learner.best_loss) for learner in state])
    if not np.isfinite(losses).all():
        raise InputError(
            f"{int((~np.isfinite(losses)).sum())} of {len(losses)} members never had a finite validation loss",
            where=dataset.name or "dataset",
            expected="losses that fall",
            fix="look for states or actions of enormous size (`stacq data inspect`), or lower the learning rate",
        )


def _hold_out(dataset: Dataset, config: FitConfig) -> tuple[Ints, Ints]:
    """Rows kept from every member, and the rest; rows without a known successor are in neither."""
    known = np.random.default_rng(config.seed).permutation(np.flatnonzero(dataset.successor_known))
    count = _held_out_count(len(known))
    if _training_rows(len(known) - count, config) < config.batch:
        least = math.ceil(config.batch / (1 - HELD_OUT_SHARE) / (1 - config.validation)) + 1
        raise InputError(
            f"{len(known):,} of {len(dataset):,} rows have a known successor, too few to fit dynamics to",
            where=dataset.name or "dataset",
            expected=f"about {least:,}: a batch of {config.batch}, and as much beside it as is kept to judge the fit",
            fix="collect more rows; TD3+BC and BC need no dynamics (--algo td3bc, or `stacq run --algos td3bc bc`)",
        )
    return np.sort(known[:count]), np.sort(known[count:])


def _untouched(dataset: Dataset) -> Normaliser:
    return Normaliser.identity(dataset.observation_size)


def _rows(dataset: Dataset, rows: Ints, normaliser: Normaliser, config: FitConfig) -> tuple[Rows, jax.Array, jax.Array]:
    s, s_next = (normaliser.apply(values[rows]) for values in (dataset.observations, dataset.next_observations))
    step = s_next - s
    mean, scale = np.zeros(s.shape[1], dtype=np.float32), np.ones(s.shape[1], dtype=np.float32)
    if config.scale_targets:
        # Sums over millions of rows lose digits in float32.
        exact = step.mean(axis=0, dtype=np.float64), step.std(axis=0, dtype=np.float64)
        mean, scale = exact[0].astype(np.float32), np.maximum(exact[1], MIN_STEP_SCALE).astype(np.float32)
    middle, half = _action_box(dataset)
    a = ((dataset.actions[rows] - middle) / half).astype(np.float32)
    arrays = (s, a, s_next, (step - mean) / scale)
    return Rows(*map(jnp.asarray, arrays)), jnp.asarray(mean), jnp.asarray(scale)


def _action_box(dataset: Dataset) -> tuple[Float64s, Float64s]:
    """Middle and half width of the bounds, each [A]."""
    low, high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)
    return (low + high) / 2, (high - low) / 2


def _of_raw_actions(forward: MLP, inverse: MLP, dataset: Dataset) -> tuple[MLP, MLP]:
    """Both ensembles with the scaling of actions moved into their weights."""
    middle, half = _action_box(dataset)
    into, offset = (np.asarray(part[0], np.float64) for part in (forward.weights, forward.biases))
    actions = slice(dataset.observation_size, None)
    scaled = into[:, actions] / half[:, None]
    into = np.concatenate([into[:, : actions.start], scaled], axis=1)
    out, shift = (np.asarray(part[-1], np.float64) for part in (inverse.weights, inverse.biases))
    return (
        MLP((_device(into), *forward.weights[1:]), (_device(offset - middle @ scaled), *forward.biases[1:])),
        MLP((*inverse.weights[:-1], _device(out * half)), (*inverse.biases[:-1], _device(shift * half + middle))),
    )


def _device(values: Float64s) -> jax.Array:
    return jnp.asarray(values.astype(np.float32))


def _split(key: jax.Array, members: int, rows: int, config: FitConfig) -> Split:
    held = rows - _training_rows(rows, config)
    order = jax.vmap(lambda member: jax.random.permutation(member, rows))(jax.random.split(key, members))
    return Split(order[:, held:], order[:, :held])


def _init(k_forward: jax.Array, k_inverse: jax.Array, dataset: Dataset, config: FitConfig) -> State:
    s, a = dataset.observation_size, dataset.action_size
    forward = init_ensemble(k_forward, config.forward_members, (s + a, *config.hidden, s))
    inverse = init_ensemble(k_inverse, config.inverse_members, (2 * s, *config.hidden, a))
    adam = _optimiser(config, 1)
    return State(*(_learner(network, adam) for network in (forward, inverse)))


def _learner(network: MLP, adam: optax.GradientTransformation) -> Learner:
    members = network.members
    copy = jax.tree.map(jnp.copy, network)
    worst = jnp.full(members, jnp.inf, jnp.float32)  # the type spelt out: a weak one would compile the epoch twice
    return Learner(network, adam.init(network), copy, worst, jnp.zeros(members, jnp.int32))


def _optimiser(config: FitConfig, batches: int) -> optax.GradientTransformation:
    if config.schedule == "constant":
        return optax.adam(config.learning_rate)
    return optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.max_epochs * batches))


@partial(jax.jit, static_argnames="config", donate_argnums=0)
def _epoch(
    state: State, data: Rows, splits: tuple[Split, Split], key: jax.Array, config: FitConfig
) -> tuple[State, tuple[Losses, Losses]]:
    """One pass over every member's rows, then its validation; one compiled program for both ensembles."""
    batches = splits[0].training.shape[1] // config.batch
    adam = _optimiser(config, batches)
    orders = [
        _orders(k, split.training, batches, config) for k, split in zip(jax.random.split(key), splits, strict=True)
    ]
    running = (state.forward.stale < config.forward_patience, state.inverse.stale < config.inverse_patience)

    def step(state: State, rows: list[jax.Array]) -> tuple[State, tuple[jax.Array, jax.Array]]:
        forward, f_loss = _train(state.forward, *_forward_batch(data, rows[0]), running[0], adam)
        inverse, i_loss = _train(state.inverse, *_inverse_batch(data, rows[1]), running[1], adam)
        return State(forward, inverse), (f_loss, i_loss)

    with jax.default_matmul_precision(PRECISION):
        state, (f_losses, i_losses) = jax.lax.scan(step, state, orders)
        forward = _judge(state.forward, data, splits[0].validation, _forward_batch, running[0])
        inverse = _judge(state.inverse, data, splits[1].validation, _inverse_batch, running[1])
    losses = (Losses(f_losses.mean(axis=0), forward[1]), Losses(i_losses.mean(axis=0), inverse[1]))
    return State(forward[0], inverse[0]), losses


def _orders(key: jax.Array, training: jax.Array, batches: int, config: FitConfig) -> jax.Array:
    """A new order of each member's rows, as [batches, M, batch]."""
    members = training.shape[0]
    order = jax.vmap(jax.random.permutation)(jax.random.split(key, members), training)
    return order[:, : batches * config.batch].reshape(members, batches, config.batch).swapaxes(0, 1)


def _forward_batch(data: Rows, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eq. (7): (s, a) against the state difference."""
    return jnp.concatenate([data.s[rows], data.a[rows]], axis=-1), data.target[rows]


def _inverse_batch(data: Rows, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eq. (8): (s, s') against the action."""
    return jnp.concatenate([data.s[rows], data.s_next[rows]], axis=-1), data.a[rows]


def _errors(network: MLP, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean squared error of every row, [B]."""
    return jnp.mean((network(inputs) - targets) ** 2, axis=-1)


def _loss(network: MLP, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.mean(_errors(network, inputs, targets))


def _train(
    learner: Learner, inputs: jax.Array, targets: jax.Array, running: jax.Array, adam: optax.GradientTransformation
) -> tuple[Learner, jax.Array]:
    """One Adam step of every member that has not stopped."""
    losses, gradients = jax.vmap(jax.value_and_grad(_loss))(learner.network, inputs, targets)
    updates, moments = adam.update(gradients, learner.moments)
    updates = jax.tree.map(lambda update: jnp.where(_like(running, update), update, 0), updates)
    return learner._replace(network=optax.apply_updates(learner.network, updates), moments=moments), losses


def _judge(
    learner: Learner,
    data: Rows,
    rows: jax.Array,
    batch: Callable[[Rows, jax.Array], tuple[jax.Array, jax.Array]],
    running: jax.Array,
) -> tuple[Learner, jax.Array]:
    """Validation losses, and the best snapshot of each member brought up to date."""
    members, count = rows.shape
    size = min(count, VALIDATION_CHUNK)
    short = -count % size  # rows that fill up the last chunk, and do not count
    chunks = jnp.pad(rows, ((0, 0), (0, short))).reshape(members, -1, size).swapaxes(0, 1)
    counts = (jnp.arange(count + short) < count).reshape(-1, 1, size)
    squares = jax.lax.map(lambda chunk: jax.vmap(_errors)(learner.network, *batch(data, chunk)), chunks)
    losses = jnp.where(counts, squares, 0.0).sum(axis=(0, 2)) / count
    better = running & (losses < learner.best_loss)
    best = jax.tree.map(lambda new, old: jnp.where(_like(better, new), new, old), learner.network, learner.best)
    stale = jnp.where(better, 0, learner.stale + 1)
    return learner._replace(best=best, best_loss=jnp.where(better, losses, learner.best_loss), stale=stale), losses


def _like(members: jax.Array, array: jax.Array) -> jax.Array:
    """A flag per member, shaped to broadcast against one of the ensemble's arrays."""
    return members.reshape(-1, *(1,) * (array.ndim - 1))


def _curve(epoch: int, state: State, losses: tuple[Losses, Losses], config: FitConfig) -> Curve:
    running = (state.forward.stale < config.forward_patience).sum() + (
        state.inverse.stale < config.inverse_patience
    ).sum()
    forward, inverse = (tuple(map(np.asarray, each)) for each in losses)
    return Curve(epoch, forward[0], forward[1], inverse[0], inverse[1], int(running))

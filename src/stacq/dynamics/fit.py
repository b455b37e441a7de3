"""Fitting both ensembles in one compiled program: every member with its own split, order and stopping."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.errors import InputError, check_seed, check_whole
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float32s, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.dynamics.epochs import Learner, Losses, Rows, Split, State, optimiser, run_epoch
from stacq.dynamics.models import Dynamics, Models
from stacq.dynamics.recipes import DEFAULT, FitConfig
from stacq.nn.mlp import MLP, init_ensemble

HELD_OUT_SHARE, HELD_OUT_ROWS = 0.05, 20_000  # kept from every member, whichever is less
RECIPE = "recipe for dynamics"
MOST = 1_000_000  # epochs, members or rows of a batch: more would take too long and too much memory
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
        state, losses = run_epoch(state, data, splits, jax.random.fold_in(keys[4], epoch), program)
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
            expected=f"about {least:,}: a batch of {config.batch}, and the rows that are held out",
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
    adam = optimiser(config, 1)
    return State(*(_learner(network, adam) for network in (forward, inverse)))


def _learner(network: MLP, adam: optax.GradientTransformation) -> Learner:
    members = network.members
    copy = jax.tree.map(jnp.copy, network)
    worst = jnp.full(members, jnp.inf, jnp.float32)  # the type spelt out: a weak one would compile the epoch twice
    return Learner(network, adam.init(network), copy, worst, jnp.zeros(members, jnp.int32))


def _curve(epoch: int, state: State, losses: tuple[Losses, Losses], config: FitConfig) -> Curve:
    running = (state.forward.stale < config.forward_patience).sum() + (
        state.inverse.stale < config.inverse_patience
    ).sum()
    forward, inverse = (tuple(map(np.asarray, each)) for each in losses)
    return Curve(epoch, forward[0], forward[1], inverse[0], inverse[1], int(running))

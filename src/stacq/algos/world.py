"""What every update reads and none changes: the data on the device, the frozen models, the reachable sets."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Bools, Float32s, Floats, Precision
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics, forward_mean
from stacq.nn.mlp import MLP, each_member, frozen_for
from stacq.reach.sets import ReachableSets, others

PREDICT_CHUNK = 65_536  # rows at a time


class Columns(NamedTuple):
    """What a row of the data holds: normalised states, an action scaled to [-1, 1]."""

    s: jax.Array  # [..., S]
    a: jax.Array  # [..., A]
    r: jax.Array  # [...]
    s_next: jax.Array  # [..., S]; of a terminal row without a recorded successor, the models' prediction
    done: jax.Array  # [...], 1 where the task ended: no value beyond


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """The data. What belongs to a row lies together, so that a random one is fetched at once, not piece by piece."""

    table: jax.Array  # [N, S + A + 1 + S + 1], in the order of `Columns`
    state: int = field(metadata={"static": True})  # S

    @property
    def all(self) -> Columns:
        """Every row, [N, ...]."""
        return self.split(self.table)

    def split(self, part: jax.Array) -> Columns:
        """The columns of some rows of the table, [..., S + A + 1 + S + 1]."""
        s = self.state
        return Columns(part[..., :s], part[..., s : -s - 2], part[..., -s - 2], part[..., -s - 1 : -1], part[..., -1])


def pack_rows(s: ArrayLike, a: ArrayLike, r: ArrayLike, s_next: ArrayLike, done: ArrayLike) -> Rows:
    """One float32 table of all columns, on the device."""
    parts = [np.asarray(part, np.float32) for part in (s, a, r, s_next, done)]
    table = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    return Rows(jnp.asarray(table), parts[0].shape[1])


class Extras(NamedTuple):
    """Reachable states of every anchor, without the own successor: flat rows and offsets."""

    start: jax.Array  # [N]
    size: jax.Array  # [N]
    rows: jax.Array  # [M], at least one entry so that it can be indexed
    actions: jax.Array | None  # [M, A] in [-1, 1]: what leads there
    prices: jax.Array | None = None  # [M] in rewards as they are learned from; none where all are free


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class World:
    """Read-only surroundings of a training run, one copy for all seeds."""

    rows: Rows
    anchors: jax.Array  # [V] rows that batches are drawn from
    usable: jax.Array  # [N] bool, whether a row is among them
    chained: jax.Array  # [N] bool, the row after is the next step of the same episode
    ensemble: MLP | None  # forward members: (s, scaled action) -> s' - s, the models' own scaling folded in
    extras: Extras | None
    recorded: jax.Array | None = None  # [N] bool, whether a row's s_next was recorded; none where all anchors' were
    prepared: Any = None  # what the algorithm computed from the whole data before the training, a tree of arrays
    precision: Precision = field(default="float32", metadata={"static": True})  # of what does not learn in an update

    def forward(self, s: jax.Array, a: jax.Array) -> jax.Array:
        """f(s, a): the ensemble's mean prediction of the next state, [..., S]; `a` in [-1, 1]."""
        return jnp.mean(self.forward_members(s, a), axis=0)

    def forward_members(self, s: jax.Array, a: jax.Array) -> jax.Array:
        """Every member's prediction, [F, ..., S]."""
        assert self.ensemble is not None
        return s + each_member(self.ensemble, jnp.concatenate([s, a], axis=-1)).astype(s.dtype)

    def frozen(self, network: MLP) -> MLP:
        """A network to compare many candidates with, for which no gradient is asked: multiplied as `precision` says.

        Sums are float32 on every device: values that are compared are close to each other.
        """
        return replace(frozen_for(jax.default_backend(), network, self.precision), biases=network.biases)


class Batch(NamedTuple):
    """Rows of the data as one update sees them."""

    row: jax.Array  # [B] row numbers
    s: jax.Array  # [B, S]
    a: jax.Array  # [B, A]
    r: jax.Array  # [B]
    s_next: jax.Array  # [B, S]
    done: jax.Array  # [B]


def draw_rows(world: World, key: jax.Array, size: int) -> jax.Array:
    """Row numbers of a batch, [size]: uniformly at random, with replacement."""
    return world.anchors[jax.random.randint(key, (size,), 0, world.anchors.shape[0])]


def gather(rows: Rows, index: jax.Array) -> Batch:
    return Batch(index, *rows.split(rows.table[index]))


def make_world(
    dataset: Dataset,
    normaliser: Normaliser,
    dynamics: Dynamics | None = None,
    sets: ReachableSets | None = None,
    *,
    actions: Float32s | None = None,
    reward_scale: float = 1.0,
    reward_shift: float = 0.0,
    every_row: bool = False,
    precision: Precision = "auto",
    prepared: Any = None,
) -> World:
    """Put everything on the device. Algorithms that need no dynamics, sets or actions that lead there are given none.

    Batches are drawn from rows whose successor is known or whose task is over, or from `every_row`. `actions` are
    those of `reach.actions.leading_actions` or, of priced sets, `graph.sets.lent_actions`. With dynamics, states must
    be shown as these were fitted. `precision` decides how models and other frozen networks are multiplied from here
    on; successors predicted here are float32.
    """
    assert dynamics is None or normaliser is dynamics.normaliser, "the models know states in their own units only"
    usable = dataset.successor_known | dataset.terminals | every_row
    anchors = np.flatnonzero(usable)
    if len(anchors) == 0:
        raise InputError(
            "no row has a known successor or ends the task",
            where=dataset.name or "dataset",
            expected="rows to learn from",
            fix="store next_observations, or keep whole episodes together",
        )
    s_next = _filled(dataset, normaliser, dynamics)
    arrays = (
        normaliser.apply(dataset.observations),
        scaled_actions(dataset),
        (dataset.rewards * reward_scale + reward_shift).astype(np.float32),
        s_next,
        dataset.terminals.astype(np.float32),
    )
    return World(
        rows=pack_rows(*arrays),
        anchors=jnp.asarray(anchors.astype(np.int32)),
        usable=jnp.asarray(usable),
        chained=jnp.asarray(chained(dataset)),
        ensemble=None if dynamics is None else frozen_for(jax.default_backend(), folded(dynamics), precision),
        extras=None if sets is None or dynamics is None else _extras(sets, dynamics, actions, reward_scale),
        recorded=None if dataset.successor_known[anchors].all() else jnp.asarray(dataset.successor_known),
        prepared=jax.tree.map(jnp.asarray, prepared),
        precision=precision,
    )


def scaled_actions(dataset: Dataset) -> Float32s:
    """Actions with the bounds at -1 and 1."""
    return _scaled(dataset.actions, dataset.action_low, dataset.action_high)


def _scaled(actions: Floats, low: Floats, high: Floats) -> Float32s:
    return ((actions - low) / (high - low) * 2 - 1).astype(np.float32)


def chained(dataset: Dataset) -> Bools:
    """Whether the row after is the next step of the same episode, [N]."""
    inside = np.ones(len(dataset), dtype=np.bool_)
    inside[dataset.last_rows] = False
    return inside


def _filled(dataset: Dataset, normaliser: Normaliser, dynamics: Dynamics | None) -> Float32s:
    """Successors, with a prediction at rows that have none.

    Of these only terminal ones are ever drawn: falls must count, their value is the reward. Without models such a row
    keeps its own state as a stand-in, which done = 1 hides from every target.
    """
    s_next = normaliser.apply(dataset.next_observations)
    missing = np.flatnonzero(~dataset.successor_known)
    s_next[missing] = normaliser.apply(dataset.observations[missing])
    if dynamics is not None:
        for first in range(0, len(missing), PREDICT_CHUNK):
            rows = missing[first : first + PREDICT_CHUNK]
            s, a = jnp.asarray(s_next[rows]), jnp.asarray(dataset.actions[rows], jnp.float32)
            s_next[rows] = np.asarray(forward_mean(dynamics.models, s, a))
    return s_next


def folded(dynamics: Dynamics) -> MLP:
    """The forward members with the scaling of actions and of state differences moved into their weights."""
    models, half = dynamics.models, (dynamics.action_high - dynamics.action_low) / 2
    middle = (dynamics.action_high + dynamics.action_low) / 2
    weights = [np.asarray(weight, np.float64) for weight in models.forward.weights]
    biases = [np.asarray(bias, np.float64) for bias in models.forward.biases]
    actions = slice(len(dynamics.normaliser.mean), None)
    biases[0] = biases[0] + middle @ weights[0][:, actions]
    weights[0] = np.concatenate([weights[0][:, : actions.start], weights[0][:, actions] * half[:, None]], axis=1)
    scale, mean = np.asarray(models.step_scale, np.float64), np.asarray(models.step_mean, np.float64)
    weights[-1], biases[-1] = weights[-1] * scale, biases[-1] * scale + mean
    return MLP(tuple(_device(weight) for weight in weights), tuple(_device(bias) for bias in biases))


def _device(values: Floats) -> jax.Array:
    return jnp.asarray(values.astype(np.float32))


def _extras(sets: ReachableSets, dynamics: Dynamics, actions: Float32s | None, reward_scale: float) -> Extras:
    anchors, rows = others(sets)
    prices = None if sets.prices is None else sets.prices[sets.anchors != sets.indices] * np.float32(reward_scale)
    count = np.bincount(anchors, minlength=len(sets))
    start = np.cumsum(count) - count
    assert actions is None or len(actions) == len(rows), "an action for every entry that is not an own successor"
    actions = None if actions is None else _scaled(actions, dynamics.action_low, dynamics.action_high)
    if len(rows) == 0:
        rows = np.zeros(1, dtype=np.int64)
        actions = None if actions is None else np.zeros((1, actions.shape[1]), np.float32)
        prices = None if prices is None else np.zeros(1, np.float32)
    flat = [jnp.asarray(values.astype(np.int32)) for values in (start, count, rows)]
    known = [None if values is None else jnp.asarray(values) for values in (actions, prices)]
    return Extras(flat[0], flat[1], flat[2], *known)

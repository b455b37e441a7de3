"""Windows over episodes: pieces of so many steps, actions before states, from anywhere in the data."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Bools, Float32s, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.policies.planner import Scales

LONGEST = 1000  # steps of an episode; where windows of a longer one begin, they end within these


class Windows(NamedTuple):
    """The data as windows see it. What comes after an episode's end is one more row of the table."""

    table: jax.Array  # [N + P, A + S], scaled
    starts: jax.Array  # [W] rows at which windows begin
    stop: jax.Array  # [N] the row after the last one of the same episode
    padding: jax.Array  # [N] the row of the table that stands for all after that
    returns: jax.Array  # [N] discounted sum of the rewards from a row to the end of its episode
    scales: Scales

    def at(self, row: jax.Array, horizon: int) -> jax.Array:
        """The windows that begin at these rows, [B, H, A + S]."""
        place = row[:, None] + jnp.arange(horizon)
        return self.table[jnp.where(place < self.stop[row][:, None], place, self.padding[row][:, None])]


def make_windows(
    dataset: Dataset,
    normaliser: Normaliser,
    *,
    horizon: int,
    discount: float,
    fall_cost: float,
    limits: bool,
    stays: bool,
    say: Callable[[str], None],
) -> Windows:
    """From whole episodes: the return of one that was cut is not known.

    After an episode's end come zeros, as published, or with `stays` the last state again and no action.
    """
    whole = _whole(dataset, say)
    starts = window_starts(dataset, horizon, whole)
    rows = np.concatenate([dataset.actions, normaliser.apply(dataset.observations)], axis=1).astype(np.float32)
    used = np.repeat(whole, dataset.lengths)
    scales = fitted_scales(rows[used], limits=limits)
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    after, padding = _after(dataset, normaliser, len(rows)), len(rows) + (episode + 1) * stays
    table = (np.concatenate([rows, after]) - scales.mean) / scales.scale
    ended = dataset.terminals & dataset.successor_known
    goal = after[1:, dataset.action_size :][ended[dataset.last_rows]]
    if stays and not len(goal):
        raise InputError(
            "no episode ends the task, so there is no goal",
            where=dataset.name or "dataset",
            expected="terminal rows with a recorded successor",
            fix="leave out the variant that plans to the goal",
        )
    of_state = slice(dataset.action_size, None)
    middle = goal.mean(axis=0) if stays else np.zeros(dataset.observation_size, np.float32)
    return Windows(
        table=jnp.asarray(table, jnp.float32),
        starts=jnp.asarray(starts, jnp.int32),
        stop=jnp.asarray(np.repeat(dataset.episode_offsets[1:], dataset.lengths), jnp.int32),
        padding=jnp.asarray(padding, jnp.int32),
        returns=jnp.asarray(returns_to_go(dataset, discount, fall_cost), jnp.float32),
        scales=scales._replace(goal=((middle - scales.mean[of_state]) / scales.scale[of_state]).astype(np.float32)),
    )


def window_starts(dataset: Dataset, horizon: int, whole: Bools) -> Ints:
    """Rows t < min(length - 1, 1000 - H) of every episode; windows may run over its end."""
    counts = np.minimum(dataset.lengths - 1, LONGEST - horizon).clip(0) * whole
    place = np.arange(len(dataset)) - np.repeat(dataset.episode_offsets[:-1], dataset.lengths)
    starts = np.flatnonzero(place < np.repeat(counts, dataset.lengths))
    if not len(starts):
        raise InputError(
            f"no window of {horizon} steps begins anywhere",
            where=dataset.name or "dataset",
            expected="episodes of at least two steps, and a horizon below 1,000",
            fix="set another horizon, or check the ends of the episodes",
        )
    return starts


def returns_to_go(dataset: Dataset, discount: float, fall_cost: float) -> Float64s:
    """R_t = r_t + discount R_{t+1} to the end of the episode, whose last reward pays for ending the task."""
    rewards = dataset.rewards.astype(np.float64) - fall_cost * dataset.terminals
    left, following = np.zeros(len(dataset)), 0.0
    last = np.zeros(len(dataset), dtype=np.bool_)
    last[dataset.last_rows] = True
    for row in range(len(dataset) - 1, -1, -1):
        following = rewards[row] + (0.0 if last[row] else discount * following)
        left[row] = following
    return left


def fitted_scales(rows: Float32s, *, limits: bool) -> Scales:
    """Mean 0 and deviation 1, without an epsilon, or the range as [-1, 1]; what never changes is only shifted."""
    values = rows.astype(np.float64)
    low, high = values.min(axis=0), values.max(axis=0)
    mean = (low + high) / 2 if limits else values.mean(axis=0)
    scale = (high - low) / 2 if limits else values.std(axis=0)
    scale = np.where(low == high, 1.0, scale)
    return Scales(mean.astype(np.float32), scale.astype(np.float32), np.zeros(0, np.float32))


def _whole(dataset: Dataset, say: Callable[[str], None]) -> Bools:
    whole = ~dataset.cut
    if not whole.any():
        say("note: no episode has an end, so returns are counted up to where the data stops")
        return np.ones_like(whole)
    return whole


def _after(dataset: Dataset, normaliser: Normaliser, count: int) -> Float32s:
    """Raw zeros, then the state in which every episode ended with no action; the last known one if need be."""
    last = dataset.last_rows
    known = dataset.successor_known[last][:, None]
    state = np.where(known, dataset.next_observations[last], dataset.observations[last])
    states = np.concatenate([np.zeros((1, dataset.observation_size), np.float32), state])
    return np.concatenate([np.zeros((len(states), dataset.action_size)), normaliser.apply(states)], axis=1).astype(
        np.float32
    )

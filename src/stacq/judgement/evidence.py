"""The data as judges see it: scaled rows, the episode each belongs to, and what a policy would do next."""

import time
from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Array, Bools, Float32s, Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.policies import Policy

BLOCK = 4_096  # rows that a policy acts on at a time
TRIED = 64  # rows that a policy's speed is measured on
LEAST_EPISODES = 10  # fewer tell nothing of how episodes differ
EXTREME = 0.001  # share of rewards, on either side, that count as outliers


class Evidence(NamedTuple):
    """Rows whose successor is known or whose task is over, in units of the judges."""

    s: Float32s  # [N, S] normalised
    a: Float32s  # [N, A] with the bounds at -1 and 1
    r: Float32s  # [N] in units of `reward_scale`
    s_next: Float32s  # [N, S]; the own state where it is not known, which `done` hides
    a_next: Float32s  # [N, A] that the data took next; zero where `followed` is False
    followed: Bools  # [N], whether it is known what the data did next, or the task was over
    done: Float32s  # [N]
    episode: Ints  # [N]
    starts: Float32s  # [E, S] normalised
    start_actions: Float32s  # [E, A] that the data took there
    normaliser: Normaliser
    action_middle: Float32s  # [A]
    action_half: Float32s  # [A]
    reward_scale: float
    rewards: tuple[float, float]  # lowest and highest, without outliers
    longest: int  # episode

    @property
    def episodes(self) -> int:
        return len(self.starts)

    def scaled(self, actions: Floats) -> Float32s:
        """Raw actions with the bounds at -1 and 1."""
        return ((actions - self.action_middle) / self.action_half).astype(np.float32)

    def raw(self, states: Float32s) -> Float32s:
        """Normalised states as policies see them."""
        return self.normaliser.invert(states)

    def some(self, count: int, seed: int) -> "Evidence":
        """So many rows by chance, of the same episodes."""
        if count >= len(self.r):
            return self
        kept = np.sort(np.random.default_rng(seed).permutation(len(self.r))[:count])
        by_row = ("s", "a", "r", "s_next", "a_next", "followed", "done", "episode")
        return self._replace(**{name: getattr(self, name)[kept] for name in by_row})


def evidence_of(dataset: Dataset, normaliser: Normaliser | None = None) -> Evidence:
    """Refused where so few episodes are recorded that chance cannot be told from merit."""
    usable = np.flatnonzero(dataset.successor_known | dataset.terminals)
    if dataset.episodes < LEAST_EPISODES or not len(usable):
        raise InputError(
            f"{dataset.episodes} episodes, {len(usable):,} rows with a known successor",
            where=dataset.name or "dataset",
            expected=f"at least {LEAST_EPISODES} episodes: intervals come from how much they differ",
            fix="record more, or split long recordings into episodes",
        )
    normaliser = normaliser or Normaliser.fit(dataset.observations)
    low, high = (np.asarray(bound, np.float32) for bound in (dataset.action_low, dataset.action_high))
    half_of = np.float32(0.5)
    middle, half = (low + high) * half_of, (high - low) * half_of
    known = dataset.successor_known[usable]
    successors = np.where(known[:, None], dataset.next_observations[usable], dataset.observations[usable])
    rewards = dataset.rewards[usable].astype(np.float64)
    scale = float(rewards.std()) or float(np.abs(rewards).max()) or 1.0
    actions = ((dataset.actions - middle) / half).astype(np.float32)
    last = np.zeros(len(dataset), dtype=np.bool_)
    last[dataset.last_rows] = True
    ends = last[usable]
    a_next = np.where(ends[:, None], np.float32(0), actions[np.minimum(usable + 1, len(dataset) - 1)])
    first = dataset.episode_offsets[:-1]
    return Evidence(
        s=normaliser.apply(dataset.observations[usable]),
        a=actions[usable],
        r=(rewards / scale).astype(np.float32),
        s_next=normaliser.apply(successors),
        a_next=a_next,
        followed=~ends | dataset.terminals[usable],
        done=dataset.terminals[usable].astype(np.float32),
        episode=np.repeat(np.arange(dataset.episodes), dataset.lengths)[usable],
        starts=normaliser.apply(dataset.observations[first]),
        start_actions=actions[first],
        normaliser=normaliser,
        action_middle=middle,
        action_half=half,
        reward_scale=scale,
        rewards=(float(np.quantile(rewards, EXTREME)), float(np.quantile(rewards, 1 - EXTREME))),
        longest=int(dataset.lengths.max()),
    )


def actions_at(policy: Policy, observations: Floats, seed: int) -> Float32s:
    """Raw actions for raw observations [N, S], in blocks; a stochastic policy draws them."""
    rng = np.random.default_rng(seed)
    parts = [policy(observations[first : first + BLOCK], rng) for first in range(0, len(observations), BLOCK)]
    found: Float32s = np.concatenate(parts)
    return found


def affordable(policy: Policy, observations: Floats, seconds: float) -> int:
    """How many rows the policy can act on in that time, as measured: a planner needs a second for a few."""
    count = 1
    while True:
        started = time.monotonic()
        actions_at(policy, observations[:count], 0)
        taken = max(time.monotonic() - started, 1e-6)
        if count >= min(TRIED, len(observations)) or taken * TRIED / count > seconds:
            return int(seconds * count / taken)
        count = min(8 * count, TRIED, len(observations))


def discounted_returns(dataset: Dataset, discount: float) -> Float64s:
    """Of each episode as recorded, [E]."""
    found = [
        float(dataset.rewards[rows].astype(np.float64) @ discount ** np.arange(rows.stop - rows.start))
        for rows in dataset.iterate_episodes()
    ]
    return np.array(found)


def resampled_mean(values: Array, seed: int, share: float = 0.95, times: int = 2_000) -> tuple[float, float, float]:
    """Mean of some numbers and its bootstrap interval."""
    rng = np.random.default_rng(seed)
    means = rng.choice(values, (times, len(values))).mean(axis=1)
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(values.mean()), float(low), float(high)

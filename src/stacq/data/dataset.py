"""The one in-memory form of logged data: rows in episode order, every fact kept apart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from stacq.core.files import content_hash
from stacq.core.types import Array, Bools, Floats, Ints


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Logged transitions (s, a, r, s', terminal, timeout), row by row, episode after episode.

    `terminal` (the task ended, no value beyond) and `timeout` (only the recording ended) are separate
    facts. An episode whose last row has neither is *cut*. Inside an episode a row's successor is exactly
    the observation of the row after it; at an episode's last row it is whatever was recorded, and where
    nothing trustworthy was recorded `successor_known` is False and `next_observations` holds NaN, so
    that code which forgets to look cannot go unnoticed.

    Arrays are read-only. Build one with `stacq.load` or `stacq.from_arrays`, which validate;
    the constructor itself trusts its caller.
    """

    observations: Floats  # [N, S]
    actions: Floats  # [N, A]
    rewards: Floats  # [N]
    next_observations: Floats  # [N, S], NaN where the successor is unknown
    terminals: Bools  # [N]
    timeouts: Bools  # [N]
    successor_known: Bools  # [N]
    episode_offsets: Ints  # [E + 1]; episode e is rows episode_offsets[e] up to episode_offsets[e + 1]
    action_low: Floats  # [A]
    action_high: Floats  # [A]
    infos: Mapping[str, Array] = field(default_factory=dict)  # name -> [N, ...], such as qpos and qvel
    name: str = ""
    env_id: str | None = None
    notes: tuple[str, ...] = ()  # remarks of the reader
    observation_names: tuple[str, ...] = ()  # of the dimensions, where they have any
    action_names: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)  # who made it, from what, in the maker's words

    def __post_init__(self) -> None:
        for key, value in self._arrays().items():
            object.__setattr__(self, key, _read_only(value))
        infos = {key: _read_only(value) for key, value in self.infos.items()}
        object.__setattr__(self, "infos", MappingProxyType(infos))

    def __len__(self) -> int:
        return len(self.observations)

    def __repr__(self) -> str:
        label = f"{self.name!r}, " if self.name else ""
        return (
            f"Dataset({label}{len(self):,} rows, {self.episodes:,} episodes, observations of {self.observation_size}, "
            f"actions of {self.action_size}, {self.terminals.sum():,} terminals, {self.timeouts.sum():,} timeouts)"
        )

    @property
    def observation_size(self) -> int:
        return int(self.observations.shape[1])

    @property
    def action_size(self) -> int:
        return int(self.actions.shape[1])

    @property
    def episodes(self) -> int:
        return len(self.episode_offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Rows of each episode, [E]."""
        return np.diff(self.episode_offsets)

    @cached_property
    def returns(self) -> Floats:
        """Undiscounted return of each episode as recorded, [E]."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.episode_offsets[:-1])

    @property
    def last_rows(self) -> Ints:
        """The last row of each episode, [E]."""
        return self.episode_offsets[1:] - 1

    @property
    def cut(self) -> Bools:
        """Episodes that end with neither a terminal nor a timeout, [E]."""
        return ~(self.terminals[self.last_rows] | self.timeouts[self.last_rows])

    def episode(self, index: int) -> slice:
        """Rows of one episode, to index any array of the dataset with."""
        return slice(int(self.episode_offsets[index]), int(self.episode_offsets[index + 1]))

    def iterate_episodes(self) -> Iterator[slice]:
        return (self.episode(index) for index in range(self.episodes))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that training sees; names and notes do not count."""
        return content_hash(self._arrays())

    def _arrays(self) -> dict[str, Array]:
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        return {key: value for key, value in values.items() if isinstance(value, np.ndarray)}


def _read_only(value: Array) -> Array:
    view = value.view()
    view.flags.writeable = False
    return view

"""Trajectories that follow the stitches, and the dataset that is made of them."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from stacq.core.types import Bools, Float32s, Float64s, Floats, Ints
from stacq.data.dataset import Dataset

ROW, TO, STITCHED = "stitch_row", "stitch_to", "stitched"
"""Extras of every row: whose state it is, whose successor it goes to (rows of the data that all began with), and
whether its action and reward were made up."""


class Paths(NamedTuple):
    """Steps of all new trajectories, one after the other: from the state of `row` to the successor of `to`."""

    row: Ints  # [M]
    to: Ints  # [M]
    offsets: Ints  # [E + 1]
    stopped: Bools  # [E], whether the limit of steps ended it

    @property
    def stitched(self) -> Bools:
        """Which steps no recording made, [M]."""
        found: Bools = self.row != self.to
        return found


def traced(dataset: Dataset, jumps: Ints, limit: int) -> Paths:
    """One trajectory from the first row of every episode, all at the same time.

    It ends where the episode ends that it has come to, or after `limit` steps: nothing continues across the end of
    a recording.
    """
    last = np.zeros(len(dataset), dtype=np.bool_)
    last[dataset.last_rows] = True
    place, running = dataset.episode_offsets[:-1].copy(), np.ones(dataset.episodes, dtype=np.bool_)
    rows: list[Ints] = []
    lengths = np.zeros(dataset.episodes, dtype=np.int64)
    while running.any() and len(rows) < limit:
        rows.append(np.where(running, place, -1))
        lengths += running
        to = jumps[place]
        running = running & ~last[to]
        place = np.where(running, to + 1, place)
    table = np.stack(rows, axis=1)  # [E, T]
    row = table[table >= 0]
    return Paths(row, jumps[row], np.concatenate([[0], np.cumsum(lengths)]), running)


def accepted(before: Floats, after: Floats, least_gain: float) -> Bools:
    """R_new > R_old + least_gain |R_old|, by episode."""
    better: Bools = after > before + least_gain * np.abs(before)
    return better


def returns_of(rewards: Floats, offsets: Ints) -> Float64s:
    """Undiscounted, by episode."""
    found: Float64s = np.add.reduceat(rewards.astype(np.float64), offsets[:-1])
    return found


class Made(NamedTuple):
    """What was made up for the stitched steps of paths, in their order."""

    actions: Floats  # [P, A], between the bounds of the data
    rewards: Float32s  # [P]


def rewards_along(dataset: Dataset, paths: Paths, made: Made) -> Floats:
    """Recorded ones, but at stitches."""
    rewards = dataset.rewards[paths.row]
    rewards[paths.stitched] = made.rewards
    return rewards


def rewritten(dataset: Dataset, paths: Paths, made: Made, keep: Bools) -> Dataset:
    """The dataset with the new trajectories where `keep` says so, by episode, and the old ones elsewhere."""
    actions = dataset.actions[paths.row]
    actions[paths.stitched] = made.actions
    stopped = np.zeros(len(paths.row), dtype=np.bool_)
    stopped[paths.offsets[1:] - 1] = paths.stopped
    whole = _Columns(paths.row, paths.to, actions, rewards_along(dataset, paths, made), stopped)
    rows = np.arange(len(dataset))
    old = _Columns(rows, rows, dataset.actions, dataset.rewards, np.zeros(len(dataset), dtype=np.bool_))
    parts = [
        whole.part(paths.offsets[e], paths.offsets[e + 1])
        if keep[e]
        else old.part(dataset.episode_offsets[e], dataset.episode_offsets[e + 1])
        for e in range(dataset.episodes)
    ]
    columns: list[Any] = [np.concatenate(each) for each in zip(*parts, strict=True)]
    lengths = np.array([len(part.row) for part in parts])
    return _as_dataset(dataset, _Columns(*columns), np.concatenate([[0], np.cumsum(lengths)]))


class _Columns(NamedTuple):
    row: Ints
    to: Ints
    actions: Floats
    rewards: Floats
    stopped: Bools

    def part(self, first: int, last: int) -> "_Columns":
        parts: list[Any] = [each[first:last] for each in self]
        return _Columns(*parts)


def _as_dataset(dataset: Dataset, steps: _Columns, offsets: Ints) -> Dataset:
    terminals, timeouts = dataset.terminals[steps.to], dataset.timeouts[steps.to]
    marked = with_marks(dataset)
    infos = {name: values[steps.row] for name, values in marked.infos.items()}
    infos[TO] = marked.infos[TO][steps.to]
    infos[STITCHED] = infos[STITCHED] | (steps.row != steps.to)
    return dataclasses.replace(
        dataset,
        observations=dataset.observations[steps.row],
        actions=steps.actions,
        rewards=steps.rewards,
        next_observations=dataset.next_observations[steps.to],
        terminals=terminals,
        timeouts=timeouts | (steps.stopped & ~terminals),
        successor_known=dataset.successor_known[steps.to],
        episode_offsets=offsets,
        infos=infos,
    )


def with_marks(dataset: Dataset) -> Dataset:
    """With the extras that say where rows come from; data that was never stitched comes from itself."""
    if STITCHED in dataset.infos:
        return dataset
    rows = np.arange(len(dataset))
    marks = {ROW: rows, TO: rows, STITCHED: np.zeros(len(dataset), dtype=np.bool_)}
    return dataclasses.replace(dataset, infos={**dataset.infos, **marks})

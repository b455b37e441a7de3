"""What recordings in a maze did: where they went, and how many of them came to the goal."""

from dataclasses import dataclass

import numpy as np

from stacq.core.types import Bools, Ints
from stacq.data.dataset import Dataset
from stacq.envs.bodies import ARENAS, Arena


@dataclass(frozen=True)
class Tour:
    """The recordings of a dataset in one of D4RL's mazes."""

    env_id: str
    recordings: int
    touching: int  # of them come to the goal that the rewards are for
    solving: int  # of them come there after they were in the evaluation's start cell
    free: int  # cells
    visits: tuple[tuple[int, ...], ...]  # rows of the data, by row and column of the maze

    @property
    def arena(self) -> Arena:
        return ARENAS[self.env_id]

    @property
    def seen(self) -> int:
        """Cells that anything was recorded in."""
        return int((np.array(self.visits)[~self.arena.layout.solid] > 0).sum())


def tour_of(dataset: Dataset) -> Tour | None:
    """None where the data's environment is none of these mazes."""
    arena = ARENAS.get(str(dataset.env_id))
    if arena is None:
        return None
    shape = arena.layout.solid.shape
    cells = arena.body.grid.cells(dataset.observations[:, :2])
    inside = ((cells >= 0) & (cells < shape)).all(axis=1)
    visits = np.zeros(shape, dtype=np.int64)
    np.add.at(visits, tuple(cells[inside].T), 1)
    starts = recording_starts(dataset)
    rewarded = dataset.rewards > 0
    touching = np.logical_or.reduceat(rewarded, starts)
    solving = _after(starts, (cells == arena.start).all(axis=1), rewarded)
    return Tour(
        env_id=str(dataset.env_id),
        recordings=len(starts),
        touching=int(touching.sum()),
        solving=int(solving.sum()),
        free=len(arena.layout.free),
        visits=tuple(tuple(map(int, row)) for row in visits),
    )


def recording_starts(dataset: Dataset) -> Ints:
    """The first rows of recordings.

    A label ends an episode at every step near the goal, while the recording goes on: where a row follows a terminal
    one and no timeout, and is its successor, both are of one recording.
    """
    last, first = dataset.last_rows[:-1], dataset.episode_offsets[1:-1]
    labelled = dataset.terminals[last] & ~dataset.timeouts[last]
    goes_on = labelled & (dataset.next_observations[last] == dataset.observations[first]).all(axis=1)
    return np.concatenate([[0], first[~goes_on]])


def _after(starts: Ints, here: Bools, there: Bools) -> Bools:
    """Which stretches of rows hold a `here` and, at that row or later, a `there`."""
    count, rows = len(here), np.arange(len(here))
    first_here = np.minimum.reduceat(np.where(here, rows, count), starts)
    last_there = np.maximum.reduceat(np.where(there, rows, -1), starts)
    found: Bools = last_there >= first_here
    return found

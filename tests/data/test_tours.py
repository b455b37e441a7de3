"""Where walks went, which of them count as one recording, and which came to the goal."""

import re
from pathlib import Path

import numpy as np
import pytest

from stacq import Conventions, from_arrays
from stacq.core.terminal import Console
from stacq.core.types import Bools, Floats
from stacq.data.dataset import Dataset
from stacq.data.generate import roll_out
from stacq.data.inspect import summarise
from stacq.data.registry import recipe
from stacq.data.tours import recording_starts, tour_of
from stacq.report.inspect import show

ENV = "stacq/PointMaze-umaze-v0"
WAY = np.array([[3, 1], [3, 2], [3, 3], [2, 3], [1, 3], [1, 2], [1, 1]], dtype=np.float64)  # of a ball, start to goal


def walked(paths: list[Floats], *, env: str = ENV) -> Dataset:
    """Recordings along the given places, labelled near the goal at (1, 1)."""
    columns: list[list[Floats]] = [[], [], []]
    ends: list[Bools] = []
    for path in paths:
        states = np.hstack([path, np.zeros_like(path)])
        columns[0].append(states[:-1])
        columns[1].append(states[1:])
        columns[2].append(np.hypot(*(states[1:, :2] - 1).T) <= 0.5)
        ends.append(np.arange(1, len(states)) == len(states) - 1)
    observations, following, near = (np.concatenate(column) for column in columns)
    return from_arrays(
        observations,
        np.zeros((len(observations), 2)),
        near.astype(np.float64),
        near,
        timeouts=np.concatenate(ends),
        next_observations=following,
        conventions=Conventions(env_id=env, resets_after_terminal=False),
    )


def test_a_recording_goes_on_after_a_label() -> None:
    stay = np.vstack([WAY, WAY[-1:] + 0.1, WAY[-1:] - 0.1, WAY[-1:]])
    dataset = walked([stay, WAY[:4], stay[::-1]])
    assert dataset.episodes > 3
    assert recording_starts(dataset).tolist() == [0, len(stay) - 1, len(stay) + 2]


def test_which_recordings_touch_and_solve() -> None:
    tour = tour_of(walked([WAY, WAY[:4], WAY[3:], WAY[::-1]]))
    assert tour is not None and tour.arena.layout.name == "umaze"
    assert (tour.recordings, tour.touching, tour.solving) == (4, 2, 1)
    assert (tour.seen, tour.free) == (7, 7)
    visits = np.array(tour.visits)
    assert visits.sum() == 6 + 3 + 3 + 6 and visits[3, 1] == 2 and visits[2, 3] == 3 and visits[0, 0] == 0


def test_labels_on_a_walk_are_no_episodes_of_one_row() -> None:
    stay = np.vstack([WAY, *[WAY[-1:] + shift for shift in (0.1, 0.2, -0.1, 0.0, 0.1, -0.2)]])
    dataset = walked([stay])
    assert (dataset.lengths == 1).mean() > 0.5
    assert not any("single row" in warning for warning in summarise(dataset).warnings)


def test_other_data_makes_no_tour() -> None:
    assert tour_of(walked([WAY], env="Hopper-v4")) is None
    assert summarise(walked([WAY], env="Hopper-v4")).tour is None


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_inspect_tells_and_draws_it(tmp_path: Path, suffix: str) -> None:
    dataset = roll_out(recipe("pointmaze-umaze-stitch", size=2000), workers=1)
    with open(tmp_path / "out.txt", "w") as file:
        path = show(dataset, tmp_path / f"plan.{suffix}", Console(file=file, width=100))
    text = (tmp_path / "out.txt").read_text()
    assert re.search(r"cells visited +7 of 7", text)
    assert " of 14 recordings; 0 of them after they were in the start cell" in text
    assert path.stat().st_size > 10_000
    assert suffix == "png" or ("Walks" in path.read_text() and "ring: goal" in path.read_text())

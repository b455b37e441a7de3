"""Rows done again: the right environment repeats them, states may be stored on either side, others are told apart."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest

from stacq import InputError, load
from stacq.cli import main
from stacq.core.types import Array
from stacq.data.dataset import Dataset
from stacq.data.generate import roll_out
from stacq.data.hdf5 import write_hdf5
from stacq.data.registry import recipe
from stacq.evaluation.replay import replay


@cache
def recorded(name: str) -> Dataset:
    return roll_out(recipe(name, size=1000), workers=1)


def with_states(dataset: Dataset, infos: Mapping[str, Array]) -> Dataset:
    return dataclasses.replace(dataset, infos=dict(infos))


@pytest.mark.parametrize("name", ["antmaze-umaze-stitch", "pointmaze-umaze", "hopper-medium"])
def test_the_simulator_of_the_data_repeats_it(name: str) -> None:
    dataset = recorded(name)
    found = replay(dataset, str(dataset.env_id), rows=150)
    assert (found.rows, found.stored) == (150, "before")
    assert found.misplaced < 1e-5 and found.worst_r2 > 0.999
    assert found.median < 1e-4 * found.step and "the same simulator" in found.verdict


def test_states_that_were_stored_after_the_action_are_found_out() -> None:
    """As in D4RL's AntMaze files: the first row of a recording then has no state to begin from."""
    dataset = recorded("antmaze-umaze-stitch")
    shifted = {key: np.roll(dataset.infos[key], -1, axis=0) for key in ("qpos", "qvel")}
    found = replay(with_states(dataset, shifted), str(dataset.env_id), rows=150)
    assert found.stored == "after" and "the same simulator" in found.verdict and found.worst_r2 > 0.999


def in_d4rls_layout(dataset: Dataset, path: Path) -> None:
    """As D4RL's AntMaze files are: no successors, states after the action, rewards that end nothing."""
    ends = np.flatnonzero(dataset.timeouts)
    with h5py.File(path, "w") as file:
        for key in ("observations", "actions", "rewards", "terminals", "timeouts"):
            file[key] = getattr(dataset, key)
        for key, columns in (("qpos", slice(None, 15)), ("qvel", slice(15, None))):
            after = np.roll(dataset.infos[key], -1, axis=0)
            after[ends] = dataset.next_observations[ends, columns]
            file[f"infos/{key}"] = after
        file["infos/goal"] = dataset.infos["goal"]


def test_a_file_in_d4rls_layout_by_its_name_on_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name gives the environment; no row is compared over the border of an episode."""
    path = tmp_path / "Ant_maze_u-maze_noisy_multistart_False_multigoal_False_sparse_fixed.hdf5"
    dataset = recorded("antmaze-umaze-stitch")
    in_d4rls_layout(dataset, path)
    read = load(path, infos=["qpos", "qvel"])
    assert read.env_id == "stacq/AntMaze-umaze-v0" and np.array_equal(read.timeouts, dataset.timeouts)
    found = replay(read, str(read.env_id), rows=1000)
    assert found.stored == "after" and "the same simulator" in found.verdict and found.largest < 0.1 * found.step
    assert found.rows == len(dataset) - 2 * int(dataset.timeouts.sum())  # of an episode without first and last row
    main(["data", "replay", str(path), "--rows", "50"])
    told = capsys.readouterr().out
    assert "stacq/AntMaze-umaze-v0" in told and "after the action" in told and "the same simulator" in told


def test_another_engine_is_no_error_and_another_strength_is_one() -> None:
    dataset = recorded("antmaze-umaze-stitch")
    rng = np.random.default_rng(0)
    change = dataset.next_observations - dataset.observations
    shaken = dataset.observations + change * (1 + 0.1 * rng.standard_normal(change.shape))
    near = replay(dataclasses.replace(dataset, next_observations=shaken), str(dataset.env_id), rows=150)
    assert "another version of the engine" in near.verdict and 0.95 < near.r2 < 0.995
    weak = replay(dataclasses.replace(dataset, actions=-dataset.actions), str(dataset.env_id), rows=150)
    assert weak.r2 < 0.9 and "do not belong here" in weak.verdict


def test_states_of_other_rows_are_seen() -> None:
    dataset = recorded("pointmaze-umaze")
    mixed = {key: dataset.infos[key][::-1] for key in ("qpos", "qvel")}
    found = replay(with_states(dataset, mixed), str(dataset.env_id), rows=50)
    assert "not those of the observations" in found.verdict


def test_what_cannot_be_replayed() -> None:
    dataset = recorded("pointmaze-umaze")
    short = {"qpos": dataset.infos["qpos"][:, :1], "qvel": dataset.infos["qvel"]}
    with pytest.raises(InputError, match=r"infos/qpos has shape \(1000, 1\)"):
        replay(with_states(dataset, short), str(dataset.env_id))
    with pytest.raises(InputError, match="observations of 4 and actions of 2"):
        replay(dataset, "Hopper-v4")
    with pytest.raises(InputError, match="at least 1"):
        replay(dataset, str(dataset.env_id), rows=0)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "walks.hdf5"
    write_hdf5(recorded("pointmaze-umaze"), path)
    main(["data", "replay", str(path), "--rows", "20"])
    told = capsys.readouterr().out
    assert "stacq/PointMaze-umaze-v0" in told and "before the action" in told and "the same simulator" in told
    bare = dataclasses.replace(recorded("pointmaze-umaze"), env_id=None, name="", infos={})
    write_hdf5(bare, tmp_path / "bare.hdf5")
    with pytest.raises(SystemExit) as caught:
        main(["data", "replay", str(tmp_path / "bare.hdf5")])
    assert caught.value.code == 2 and "infos/qpos" in capsys.readouterr().err

"""Rewards by a formula, for data of every kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import Conventions, Dataset, InputError, from_arrays, load
from stacq.data.columns import Columns
from stacq.data.hdf5 import write_hdf5
from stacq.data.relabel import relabelled


def raw() -> dict[str, Any]:
    return logged([2, 3, 1], ["terminal", "timeout", "cut"], dtype=np.float64)


def named() -> Dataset:
    return from_arrays(**raw(), conventions=Conventions(observation_names=("x", "y", "z"), action_names=("u", "v")))


@pytest.mark.parametrize("suffix", [".npz", ".hdf5"])
def test_a_file_needs_no_rewards_then(tmp_path: Path, suffix: str) -> None:
    import h5py

    arrays = {key: value for key, value in raw().items() if key != "rewards"}
    path = tmp_path / f"logs{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value
    with pytest.raises(InputError, match="'rewards' is missing"):
        load(path)
    with pytest.raises(InputError, match="'rewards' is missing"):
        load(path, columns={"reward": "2 * reward"})
    dataset = load(path, columns={"reward": "-abs(obs_1) - action_0 ** 2"})
    expected = -np.abs(arrays["observations"][:, 1]) - arrays["actions"][:, 0] ** 2
    np.testing.assert_allclose(dataset.rewards, expected)
    assert any("by the formula -abs(obs_1)" in note for note in dataset.notes)


def test_recorded_rewards_names_and_extras_may_be_used() -> None:
    dataset = from_arrays(
        **raw(), infos={"battery": np.arange(6)}, conventions=Conventions(observation_names=("x", "y", "z"))
    )
    found = relabelled(dataset, "reward + x - obs_0 + battery", "test")
    np.testing.assert_allclose(found.rewards, dataset.rewards + np.arange(6))
    assert found.provenance == {"reward": "reward + x - obs_0 + battery"}


def test_the_successor_is_the_row_after_of_an_observation() -> None:
    dataset = named()
    assert relabelled(dataset, "next(y)", "test").rewards.tolist() == dataset.next_observations[:, 1].tolist()


def test_rows_without_a_row_after_are_left_out() -> None:
    dataset = named()
    found = relabelled(dataset, "next(u) - u", "test")
    assert found.lengths.tolist() == [1, 2] and found.timeouts.tolist() == [True, False, True]
    assert found.rewards.tolist() == (dataset.actions[[1, 3, 4], 0] - dataset.actions[[0, 2, 3], 0]).tolist()
    assert found.next_observations.tolist() == dataset.observations[[1, 3, 4]].tolist()
    assert any("3 last rows" in note and "1 of them were terminal" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "words"), [("log(-x * x)", "row 0"), ("w", "no column 'w'"), ("1 / 0", "6 such rows")]
)
def test_odd_formulas_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        relabelled(named(), text, "test")


def test_names_go_with_the_file(tmp_path: Path) -> None:
    write_hdf5(named(), tmp_path / "logs.hdf5")
    back = load(tmp_path / "logs.hdf5")
    assert (back.observation_names, back.action_names) == (("x", "y", "z"), ("u", "v"))


def test_names_must_fit() -> None:
    with pytest.raises(InputError, match="2 names for 3 observation dimensions"):
        from_arrays(**raw(), conventions=Conventions(observation_names=("x", "y")))


def test_a_mapping_is_merged_by_statement() -> None:
    assert Columns(reward="x").over(Columns(reward="y", time="t")) == Columns(reward="x", time="t")
    assert Columns(reward="x", action_low=(1,), observations=("a",)).of_tables == ("observations",)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("actions", np.array([0, 1, 2, 1, 0, 1]), "continuous actions and vector states"),
        ("observations", np.zeros((6, 8, 8, 3), np.uint8), "pictures.*\n.*continuous actions and vector states"),
        ("actions", None, "logs of states alone are not enough"),
    ],
)
def test_other_kinds_of_data_are_refused_in_words(tmp_path: Path, key: str, value: Any, words: str) -> None:
    arrays = {name: each for name, each in {**raw(), key: value}.items() if each is not None}
    arrays.pop("next_observations")
    np.savez(tmp_path / "logs.npz", **arrays)
    with pytest.raises(InputError, match=words) as caught:
        load(tmp_path / "logs.npz")
    assert "reshape" not in str(caught.value)


def test_a_single_action_of_whole_numbers_raises_the_question() -> None:
    from stacq.data.inspect import summarise

    arrays = logged([60, 60], ["terminal", "timeout"], sizes=(2, 1))
    arrays["actions"] = np.tile([[0.0], [1.0]], (60, 1))
    assert any("discrete actions" in each for each in summarise(from_arrays(**arrays)).warnings)
    arrays["actions"] = np.tile([[0.0], [0.5]], (60, 1))
    assert not any("discrete actions" in each for each in summarise(from_arrays(**arrays)).warnings)

"""Names, references and what a load by name asserts."""

import re
from pathlib import Path

import numpy as np
import pytest

from arrays import logged
from stacq import Conventions, InputError, from_arrays, load
from stacq.cli.shared import Bounds
from stacq.data.hdf5 import write_hdf5
from stacq.data.load import cached_file
from stacq.data.published import PUBLISHED
from stacq.data.registry import DATASETS, base_name, find, recipe, task_of
from stacq.data.tasks import TASKS, normalised_score

PAPER = [f"{body}-{kind}-v2" for body in ("hopper", "walker2d", "halfcheetah")
         for kind in ("random", "medium-replay", "medium", "medium-expert")] + [
    f"antmaze-{kind}-v2" for kind in
    ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
]  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_every_dataset_of_the_paper_is_known(name: str) -> None:
    info = find(name)
    assert info.remote and info.remote.endswith(".hdf5")
    assert info.env_id is not None and info.env_id.startswith("stacq/AntMaze-") == name.startswith("antmaze")
    assert info.resets_after_terminal == (not name.startswith("antmaze"))


def test_remote_files() -> None:
    assert find("hopper-medium-v2").remote == "gym_mujoco_v2/hopper_medium-v2.hdf5"
    assert find("walker2d-medium-replay-v0").remote == "gym_mujoco/walker_mixed.hdf5"
    assert find("halfcheetah-medium-expert-v1").remote == "gym_mujoco_v1/halfcheetah_medium_expert-v1.hdf5"
    assert find("antmaze-large-play-v2").remote == (
        "ant_maze_v2/Ant_maze_hardest-maze_noisy_multistart_True_multigoal_False_sparse_fixed.hdf5"
    )


def test_published_bytes() -> None:
    """Nothing is made up for the one file that the record lacks."""
    remote = [info for info in DATASETS.values() if info.remote]
    assert len(remote) == 57 and set(PUBLISHED) < {info.name for info in remote}
    assert [info.name for info in remote if not info.sha256] == ["antmaze-medium-play-v2"]
    known = [info for info in remote if info.sha256]
    assert all(re.fullmatch("[0-9a-f]{64}", info.sha256 or "") for info in known)
    assert len({info.sha256 for info in known}) == len({info.size for info in known}) == 56
    assert all(info.size and 3 * info.size < info.size_bound for info in known)
    hopper = find("hopper-medium-v2")
    assert (hopper.size, (hopper.sha256 or "")[:16]) == (152_756_557, "5bdf1bc4a713c829")


def test_minari_counterparts_are_names_too() -> None:
    assert find("hopper-medium-v2").minari == "mujoco/hopper/medium-v0"
    assert find("D4RL/antmaze/umaze-diverse-v1").source == "minari"


def test_normalised_scores() -> None:
    assert normalised_score(TASKS["hopper"], -20.272305) == 0.0
    assert normalised_score(TASKS["hopper"], 3234.3) == pytest.approx(100.0)
    assert normalised_score(TASKS["halfcheetah"], 4770.0) == pytest.approx(40.677456, abs=1e-6)
    assert normalised_score(TASKS["antmaze-umaze"], 1.0) == 100.0


@pytest.mark.parametrize(
    ("body", "random", "expert"),
    [("hopper", -20.272305, 3234.3), ("walker2d", 1.629008, 4592.3), ("halfcheetah", -280.178953, 12135.0)],
)
def test_references_are_d4rls(body: str, random: float, expert: float) -> None:
    """As D4RL prints them: a wrong digit here would shift every score of a body."""
    middle = (random + expert) / 2
    assert [normalised_score(TASKS[body], value) for value in (random, middle, expert)] == pytest.approx([0, 50, 100])


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Hopper-v4", "hopper"),
        ("HalfCheetah-v5", "halfcheetah"),
        ("walker2d-medium-v2", "walker2d"),
        ("stacq/hopper-medium-v0@2000+seed3", "hopper"),
        ("maze2d-umaze-dense-v1", "maze2d-umaze-dense"),
        ("antmaze-large-play-v0", "antmaze-large"),
    ],
)
def test_tasks_by_any_name(name: str, key: str) -> None:
    task = task_of(name)
    assert task is not None and task.key == key


def test_unknown_names_have_no_task() -> None:
    assert task_of("CartPole-v1") is None and task_of("") is None


def test_a_wrong_name_gets_the_nearest_ones() -> None:
    with pytest.raises(InputError, match="did you mean hopper-medium-v2"):
        load("hoper-medium-v2")
    with pytest.raises(InputError, match="stacq data list"):
        load("qqqqqqqqqqqq")


def test_a_name_without_a_file_gets_the_command() -> None:
    with pytest.raises(InputError, match="stacq data download hopper-medium-v2"):
        load("hopper-medium-v2")
    with pytest.raises(InputError, match="stacq data generate stacq/hopper-medium-v0"):
        load("stacq/hopper-medium-v0")


def put(name: str, rows: int, sizes: tuple[int, int]) -> Path:
    path = cached_file(find(name))
    write_hdf5(from_arrays(**logged([rows], ["timeout"], sizes=sizes)), path)
    return path


def test_another_tasks_file_under_the_name_is_refused() -> None:
    put("hopper-medium-v2", 10, (17, 6))
    with pytest.raises(InputError, match="observations of 17 and actions of 6"):
        load("hopper-medium-v2")


def test_a_file_that_only_has_the_name_of_a_task_is_data_of_its_own(tmp_path: Path) -> None:
    """Presets, reference scores and environment go by the name: a cart called hopper-medium must not get hopper's."""
    np.savez(tmp_path / "hopper-medium.npz", **logged([6], ["timeout"], sizes=(4, 1)))
    np.savez(tmp_path / "walker2d-medium.npz", **logged([6], ["timeout"], sizes=(17, 6)))
    other, same = (load(tmp_path / f"{body}-medium.npz") for body in ("hopper", "walker2d"))
    assert task_of(other.name) is None and other.env_id is None
    assert any("the name is that of hopper" in note for note in other.notes)
    assert same.name == "walker2d-medium" and not any("the name is" in note for note in same.notes)


def test_a_certain_row_count_is_asserted() -> None:
    put("halfcheetah-medium-v2", 10, (17, 6))
    with pytest.raises(InputError, match="1,000,000 rows"):
        load("halfcheetah-medium-v2")


def test_an_uncertain_row_count_is_reported() -> None:
    put("hopper-medium-v2", 10, (11, 3))
    dataset = load("hopper-medium-v2")
    assert dataset.env_id == "Hopper-v4" and dataset.name == "hopper-medium-v2"
    assert any("not certain" in note and "1,000,000" in note for note in dataset.notes)


def test_antmaze_terminals_are_followed_by_their_successors(tmp_path: Path) -> None:
    import h5py

    raw = logged([3, 1, 1], ["terminal", "terminal", "timeout"], sizes=(29, 8))
    del raw["next_observations"]
    path = cached_file(find("antmaze-umaze-v2"))
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as file:
        for key, value in raw.items():
            file[key] = value
    named, short, unknown = (tmp_path / f"{name}.hdf5" for name in ("antmaze-umaze-v2", "antmaze-umaze", "walks"))
    for copy in (named, short, unknown):
        copy.write_bytes(path.read_bytes())
    np.savez(tmp_path / "antmaze-umaze-v0.npz", **raw)
    for source in ("antmaze-umaze-v2", path, named, short, tmp_path / "antmaze-umaze-v0.npz"):
        assert np.flatnonzero(~load(source).successor_known).tolist() == [4]
    assert np.flatnonzero(~load(unknown).successor_known).tolist() == [2, 3, 4]
    stated = load(path, conventions=Conventions(resets_after_terminal=True))
    assert np.flatnonzero(~stated.successor_known).tolist() == [2, 3, 4]


def test_recipes_carry_size_and_seed_in_the_name() -> None:
    assert recipe("hopper-medium").info.name == "stacq/hopper-medium-v0"
    small = recipe("stacq/hopper-medium-v0", size=500, seed=7)
    assert small.info.name == "stacq/hopper-medium-v0@500+seed7"
    assert find(small.info.name).rows == 500
    assert recipe(small.info.name).info.name == small.info.name and recipe(small.info.name).seed == 7
    assert recipe(small.info.name, size=600, seed=8).info.name == "stacq/hopper-medium-v0@600+seed8"
    assert recipe("stacq/walker2d-medium-replay-v0").rows == 260_000


@pytest.mark.parametrize("size", [0, -5, 99])
def test_senseless_sizes(size: int) -> None:
    with pytest.raises(InputError, match="at least 100 rows"):
        recipe("hopper-medium", size=size)


def test_d4rl_cannot_be_regenerated_but_its_twin_is_named() -> None:
    with pytest.raises(InputError, match="stacq data generate stacq/hopper-medium-v0"):
        recipe("hopper-medium-v2")


def test_names_are_unique_and_directories_are_no_datasets(tmp_path: Path) -> None:
    assert all(name == info.name for name, info in DATASETS.items())
    with pytest.raises(InputError, match="directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "env"), [("antmaze-umaze-v2", "stacq/AntMaze-umaze-v0"), ("hopper-medium", "Hopper-v4")]
)
def test_a_file_by_its_path_has_the_environment_of_its_name(tmp_path: Path, name: str, env: str) -> None:
    task = task_of(name)
    assert task is not None
    raw = logged([6], ["timeout"], sizes=(task.observation_size, task.action_size))
    np.savez(tmp_path / f"{name}.npz", **raw)
    np.savez(tmp_path / "walks.npz", **raw)
    assert load(tmp_path / f"{name}.npz").env_id == env
    assert load(tmp_path / "walks.npz").env_id is None
    assert load(tmp_path / f"{name}.npz", conventions=Conventions(env_id="Other-v1")).env_id == "Other-v1"


def test_what_a_file_says_of_its_environment_goes_before_its_name(tmp_path: Path) -> None:
    dataset = from_arrays(**logged([6], ["timeout"], sizes=(11, 3)), conventions=Conventions(env_id="Hopper-v5"))
    write_hdf5(dataset, tmp_path / "hopper-medium-v2.hdf5")
    assert load(tmp_path / "hopper-medium-v2.hdf5").env_id == "Hopper-v5"


def test_a_file_may_be_said_to_be_a_known_dataset(tmp_path: Path) -> None:
    """Its rows then follow each other as that dataset's do, it is scored like it, and has its presets."""
    raw = logged([3, 1, 1], ["terminal", "terminal", "timeout"], sizes=(29, 8))
    del raw["next_observations"]
    np.savez(tmp_path / "walks.npz", **raw)
    known = load(tmp_path / "walks.npz", conventions=Bounds(known_as="antmaze-umaze").conventions)
    assert (known.name, known.env_id) == ("antmaze-umaze-v2", "stacq/AntMaze-umaze-v0")
    assert np.flatnonzero(~known.successor_known).tolist() == [4]
    assert base_name(known.name) == "antmaze-umaze"
    with pytest.raises(
        InputError, match="observations of 29 and actions of 8 numbers are not those of 'hopper-medium-v2'"
    ):
        load(tmp_path / "walks.npz", conventions=Bounds(known_as="hopper-medium-v2").conventions)
    with pytest.raises(InputError, match="did you mean antmaze"):
        Bounds(known_as="antmase-umaze-v2").conventions  # noqa: B018


def test_a_short_name_is_answered_with_what_makes_it_here() -> None:
    with pytest.raises(InputError, match=r"stacq data generate hopper-medium.* makes stacq/hopper-medium-v0.*--gener"):
        load("hopper-medium")
    with pytest.raises(InputError, match=r"generate pointmaze-medium-stitch`.*--generate$"):
        load("pointmaze-medium-stitch")

"""Minari directories made by Minari itself, read back; and our own, which must come back unchanged."""

import json
import shutil
import subprocess
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stacq.core.errors import InputError
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.data.minari import read_minari
from stacq.data.minari_write import _buffers, write_minari

minari = pytest.importorskip("minari")
gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

ROW_ARRAYS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminals",
    "timeouts",
    "successor_known",
    "episode_offsets",
    "action_low",
    "action_high",
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def record(dataset_id: str, episodes: list[dict[str, Any]], observation_space: Any, action_space: Any) -> None:
    """Minari's own writer, which warns about every fact that nobody gave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        minari.create_dataset_from_buffers(
            dataset_id,
            [minari.data_collector.EpisodeBuffer(**episode) for episode in episodes],
            observation_space=observation_space,
            action_space=action_space,
        )


def episode(steps: int, observations: Any, *, end: str = "timeout", actions: Any = None) -> dict[str, Any]:
    flags = np.zeros((2, steps), dtype=bool)
    if end != "cut" and steps:
        flags[0 if end == "terminal" else 1, -1] = True
    return {
        "observations": observations,
        "actions": np.linspace(-0.4, 2.0, 2 * steps).reshape(steps, 2) if actions is None else actions,
        "rewards": np.arange(steps, dtype=np.float64) + 0.5,
        "terminations": flags[0],
        "truncations": flags[1],
    }


def box(size: int, dtype: Any = np.float64) -> Any:
    return spaces.Box(-np.inf, np.inf, (size,), dtype)


ACTIONS = spaces.Box(np.array([-0.5, -3.0]), np.array([2.0, 2.5]), dtype=np.float64)


def record_flat(dataset_id: str = "flat-v0") -> list[Any]:
    """Three episodes of 3, 1 and 2 steps: truncated, terminated, cut."""
    seen = [np.random.default_rng(steps).normal(size=(steps + 1, 3)) for steps in (3, 1, 2)]
    ends = ("timeout", "terminal", "cut")
    episodes = [episode(len(each) - 1, each, end=end) for each, end in zip(seen, ends, strict=True)]
    for each in episodes:
        each["infos"] = {
            "qpos": each["observations"][:, :2].copy(),
            "deep": {"t": np.arange(len(each["observations"]))},
        }
    record(dataset_id, episodes, box(3), ACTIONS)
    return seen


def test_flat_observations_are_read_with_every_successor_and_end() -> None:
    seen = record_flat()
    dataset = read_minari("flat-v0")
    assert dataset.observations.dtype == np.float64
    np.testing.assert_array_equal(dataset.observations, np.concatenate([each[:-1] for each in seen]))
    np.testing.assert_array_equal(dataset.next_observations, np.concatenate([each[1:] for each in seen]))
    np.testing.assert_array_equal(dataset.rewards, [0.5, 1.5, 2.5, 0.5, 0.5, 1.5])
    np.testing.assert_array_equal(dataset.terminals, [0, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(dataset.timeouts, [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(dataset.episode_offsets, [0, 3, 4, 6])
    np.testing.assert_array_equal(dataset.cut, [False, False, True])
    assert dataset.successor_known.all()
    np.testing.assert_array_equal(dataset.action_low, [-0.5, -3.0])
    np.testing.assert_array_equal(dataset.action_high, [2.0, 2.5])
    assert (dataset.name, dataset.env_id) == ("flat-v0", None)
    assert any("1 of 3 episodes end with neither" in note for note in dataset.notes)


def test_a_directory_is_read_like_an_id(root: Path) -> None:
    record_flat("name-space/flat-v0")
    moved = root.parent / "elsewhere"
    shutil.move(root / "name-space" / "flat-v0", moved)
    assert len(read_minari(moved)) == len(read_minari(str(moved))) == 6


def test_two_cut_episodes_in_a_row_stay_two() -> None:
    record("cut-v0", [episode(2, np.full((3, 1), value), end="cut") for value in (0.0, 1.0)], box(1), ACTIONS)
    dataset = read_minari("cut-v0")
    np.testing.assert_array_equal(dataset.episode_offsets, [0, 2, 4])
    assert dataset.cut.all() and dataset.successor_known.all()


def test_an_end_inside_an_episode_splits_it_and_keeps_its_successor() -> None:
    inner = episode(4, np.arange(5.0)[:, None])
    inner["terminations"][1] = True
    record("inner-v0", [inner], box(1), ACTIONS)
    dataset = read_minari("inner-v0")
    np.testing.assert_array_equal(dataset.episode_offsets, [0, 2, 4])
    np.testing.assert_array_equal(dataset.next_observations[:, 0], [1, 2, 3, 4])
    assert dataset.successor_known.all()
    assert any("1 rows inside" in note for note in dataset.notes)


def test_episodes_without_steps_are_passed_over(root: Path) -> None:
    seen = np.arange(4.0)[:, None]
    record("empty-v0", [episode(3, seen), episode(3, seen, end="cut")], box(1), ACTIONS)
    with h5py.File(root / "empty-v0" / "data" / "main_data.hdf5", "a") as file:
        for key in ("observations", "actions", "rewards", "terminations", "truncations"):
            file["episode_0"][key].resize(1 if key == "observations" else 0, axis=0)
    dataset = read_minari("empty-v0")
    np.testing.assert_array_equal(dataset.episode_offsets, [0, 3])
    assert any("counts 6 steps" in note for note in dataset.notes)


def goal_space(rng: np.random.Generator) -> tuple[Any, Any]:
    """A goal environment's space with keys in no order, and six observations of it."""
    space = spaces.Dict(
        OrderedDict(
            observation=box(3),
            achieved_goal=box(2, np.float32),
            extra=spaces.Tuple([spaces.Box(-9, 9, (2, 2), np.float32), spaces.Dict({"b": box(1), "a": box(1)})]),
            desired_goal=box(2),
        )
    )
    values = {
        "observation": rng.normal(size=(6, 3)),
        "achieved_goal": rng.normal(size=(6, 2)).astype(np.float32),
        "extra": (
            rng.normal(size=(6, 2, 2)).astype(np.float32),
            {"b": rng.normal(size=(6, 1)), "a": rng.normal(size=(6, 1))},
        ),
        "desired_goal": rng.normal(size=(6, 2)),
    }
    return space, values


def test_goal_observations_are_flattened_by_sorted_keys() -> None:
    space, values = goal_space(np.random.default_rng(0))
    record("goal-v0", [episode(5, values)], space, ACTIONS)
    dataset = read_minari("goal-v0")
    grid, inner = values["extra"]
    leaves = [values["achieved_goal"], values["desired_goal"], grid, inner["a"], inner["b"], values["observation"]]
    expected = np.concatenate([leaf.reshape(6, -1) for leaf in leaves], axis=1)
    assert dataset.observations.dtype == np.float64
    np.testing.assert_array_equal(dataset.observations, expected[:-1])
    np.testing.assert_array_equal(dataset.next_observations, expected[1:])
    assert dataset.notes[0] == (
        "observations are flattened, keys sorted: achieved_goal (2), desired_goal (2), "
        "extra/_index_0 (4), extra/_index_1/a (1), extra/_index_1/b (1), observation (3)"
    )


def test_the_flattened_order_is_gymnasiums() -> None:
    space = spaces.Dict({"observation": box(3), "desired_goal": box(2), "achieved_goal": box(2)})
    steps = [space.sample() for _ in range(4)]
    record("order-v0", [episode(3, {key: np.stack([s[key] for s in steps]) for key in steps[0]})], space, ACTIONS)
    expected = np.stack([spaces.flatten(space, step) for step in steps])
    np.testing.assert_array_equal(read_minari("order-v0").observations, expected[:-1])


def test_infos_are_loaded_on_request_beside_their_observations() -> None:
    seen = record_flat()
    dataset = read_minari("flat-v0", infos=("qpos", "deep/t", "qpos"))
    assert sorted(dataset.infos) == ["deep/t", "qpos"]
    np.testing.assert_array_equal(dataset.infos["qpos"], np.concatenate([each[:-1, :2] for each in seen]))
    np.testing.assert_array_equal(dataset.infos["deep/t"], [0, 1, 2, 0, 0, 1])
    assert not read_minari("flat-v0").infos
    with pytest.raises(InputError, match=r"'episode_0/infos/qvel' is missing[\s\S]*ask for one of: deep/t, qpos"):
        read_minari("flat-v0", infos=("qvel",))
    with pytest.raises(InputError, match="a group, not an array"):
        read_minari("flat-v0", infos=("deep",))


def edit_metadata(directory: Path, **changes: Any) -> None:
    path = directory / "data" / "metadata.json"
    about = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in about.items() if value is not None}))


def test_the_environment_is_named_and_never_made(root: Path) -> None:
    record_flat()
    spec = gymnasium.envs.registration.EnvSpec("absent_package/Absent-v3", entry_point="absent_package:Absent")
    edit_metadata(root / "flat-v0", env_spec=spec.to_json())
    assert read_minari("flat-v0").env_id == "absent_package/Absent-v3"


def test_conventions_win_over_what_is_stored() -> None:
    record_flat()
    stated = Conventions(action_low=-4.0, action_high=(3.0, 4.0), env_id="Other-v0", name="other")
    dataset = read_minari("flat-v0", conventions=stated)
    assert dataset.action_low.tolist() == [-4.0, -4.0] and dataset.action_high.tolist() == [3.0, 4.0]
    assert (dataset.env_id, dataset.name) == ("Other-v0", "other")


def test_infinite_bounds_must_be_declared() -> None:
    unbounded = spaces.Box(np.array([-5.0, -5.0]), np.array([5.0, np.inf]), dtype=np.float64)
    record("wide-v0", [episode(3, np.zeros((4, 1)))], box(1), unbounded)
    with pytest.raises(InputError, match=r"no finite action_high: \[5.0, inf\][\s\S]*--action-high"):
        read_minari("wide-v0")
    dataset = read_minari("wide-v0", conventions=Conventions(action_high=6.0))
    assert dataset.action_low.tolist() == [-5.0, -5.0] and dataset.action_high.tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    ("observation_space", "observations", "named"),
    [
        (spaces.Discrete(3), np.zeros(4, dtype=np.int64), "'observations' is Discrete"),
        (spaces.MultiDiscrete([3, 3]), np.zeros((4, 2), dtype=np.int64), "'observations' is MultiDiscrete"),
        (spaces.Text(5), ["a", "b", "c", "d"], "'observations' is Text"),
        (
            spaces.Dict({"mission": spaces.Text(5), "image": box(1)}),
            {"mission": ["a", "b", "c", "d"], "image": np.zeros((4, 1))},
            "'observations/mission' is Text",
        ),
    ],
)
def test_observations_that_are_no_vectors_are_refused(observation_space: Any, observations: Any, named: str) -> None:
    record("odd-v0", [episode(3, observations)], observation_space, ACTIONS)
    with pytest.raises(InputError, match=f"the space of {named}"):
        read_minari("odd-v0")


@pytest.mark.parametrize(
    ("action_space", "actions", "problem"),
    [
        (spaces.Discrete(3), np.zeros(3, dtype=np.int64), "the space of 'actions' is Discrete"),
        (spaces.Box(0, 5, (2,), np.int32), np.zeros((3, 2), dtype=np.int32), "not one continuous Box"),
        (spaces.Dict({"a": box(1)}), {"a": np.zeros((3, 1))}, "not one continuous Box"),
    ],
)
def test_actions_that_are_not_continuous_are_refused(action_space: Any, actions: Any, problem: str) -> None:
    record("odd-v0", [episode(3, np.zeros((4, 1)), actions=actions)], box(1), action_space)
    with pytest.raises(InputError, match=problem):
        read_minari("odd-v0")


def test_spaces_that_minari_does_not_know_are_named(root: Path) -> None:
    record_flat()
    edit_metadata(root / "flat-v0", observation_space='{"type": "Graph"}')
    with pytest.raises(InputError, match="the space of 'observations' is Graph"):
        read_minari("flat-v0")


def test_encoded_images_are_refused_and_raw_ones_flattened() -> None:
    space = spaces.Box(0, 255, (32, 32), np.uint8)
    record("image-v0", [episode(3, np.zeros((4, 32, 32), dtype=np.uint8))], space, ACTIONS)
    with pytest.raises(InputError, match=r"'episode_0/observations' has shape [\s\S]*encoded images"):
        read_minari("image-v0")
    small = spaces.Box(0, 255, (2, 3), np.uint8)
    record("small-v0", [episode(3, np.full((4, 2, 3), 7, dtype=np.uint8))], small, ACTIONS)
    dataset = read_minari("small-v0")
    assert dataset.observations.dtype == np.float32 and dataset.observations.shape == (3, 6)
    assert dataset.notes[0] == "observations of shape (2, 3) are flattened, row-major"


def test_an_id_without_its_prefix_is_found_in_minaris_root(root: Path) -> None:
    record_flat("hopper/simple-v0")
    assert load("hopper/simple-v0").fingerprint == load("minari:hopper/simple-v0").fingerprint
    for other in ("hopper/simple-v1", "hopper"):
        with pytest.raises(InputError, match="no known dataset"):
            load(other)


def test_an_unknown_id_is_answered_with_the_command_that_brings_it(root: Path) -> None:
    with pytest.raises(InputError, match=r"'mujoco/hopper/expert-v0' is not on this machine[\s\S]*minari download muj"):
        read_minari("mujoco/hopper/expert-v0")
    record_flat("mujoco/hopper/expert-v1")
    with pytest.raises(InputError, match="on this machine: mujoco/hopper/expert-v1"):
        read_minari("mujoco/hopper/expert-v0")
    with pytest.raises(InputError, match="no such directory"):
        read_minari(root / "nothing")
    with pytest.raises(InputError, match="no Minari dataset here"):
        read_minari(root)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def drop_episode(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["episode_1"]


def shorten(key: str) -> Any:
    def cut(path: Path) -> None:
        with h5py.File(path, "a") as file:
            node = file["episode_0"][key]
            node.resize(len(node) - 1, axis=0)

    return cut


def drop_actions(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["episode_2/actions"]


def strings_as_flags(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["episode_2/terminations"]
        file["episode_2/terminations"] = np.array([b"x", b"y"])


def overclaim(path: Path) -> None:
    """Lengths that agree with one another and with nothing stored: four billion steps would be read as zeros."""
    with h5py.File(path, "a") as file:
        for key in ("observations", "actions", "rewards", "terminations", "truncations", "infos/qpos"):
            file["episode_0"][key].resize(4 * 10**9 + (key in ("observations", "infos/qpos")), axis=0)


@pytest.mark.parametrize(
    ("file", "damage", "problem"),
    [
        ("metadata.json", Path.unlink, "metadata.json: the file is missing"),
        ("metadata.json", truncate, "metadata.json: cannot be read"),
        ("metadata.json", lambda path: path.write_text("[1]"), "metadata.json: cannot be read"),
        ("metadata.json", lambda path: path.write_text("{}"), "metadata.json: the metadata does not state data_format"),
        ("main_data.hdf5", Path.unlink, "main_data.hdf5: the file is missing"),
        ("main_data.hdf5", truncate, "main_data.hdf5: cannot be read: .*truncated"),
        ("main_data.hdf5", lambda path: path.write_bytes(b""), "main_data.hdf5: cannot be read"),
        ("main_data.hdf5", drop_episode, "main_data.hdf5: 'episode_1' is missing"),
        ("main_data.hdf5", drop_actions, "'episode_2/actions' is missing"),
        ("main_data.hdf5", shorten("observations"), "'episode_0/observations' has shape"),
        ("main_data.hdf5", shorten("infos/qpos"), "'episode_0/infos/qpos' has shape"),
        ("main_data.hdf5", shorten("truncations"), "'episode_0/truncations' has shape"),
        ("main_data.hdf5", strings_as_flags, "type"),
        ("main_data.hdf5", overclaim, "claims shape"),
    ],
)
def test_damage_is_told_with_its_place(root: Path, file: str, damage: Any, problem: str) -> None:
    record_flat()
    damage(root / "flat-v0" / "data" / file)
    with pytest.raises(InputError, match=problem) as caught:
        read_minari("flat-v0", infos=("qpos",))
    assert str(root / "flat-v0") in caught.value.where


@pytest.mark.parametrize(
    "changes",
    [
        {"observation_space": "{}"},
        {"action_space": '{"type": "Box"}'},
        {"action_space": "not json"},
        {"env_spec": "{}"},
        {"stacq": "text"},
        {"stacq": {"action_low": ["x"]}},
        {"total_episodes": "many"},
        {"total_episodes": float("inf")},
        {"total_episodes": float("nan")},
        {"total_episodes": -1},
        {"total_episodes": 2.5},
        {"total_episodes": [3]},
        {"stacq": {"provenance": [1]}},
        {"stacq": {"provenance": "text"}},
        {"stacq": {"env_id": 5}},
        {"stacq": {"env_id": ["Hopper-v4"]}},
        {"env_spec": '{"id": {}}'},
        {"env_spec": "[" * 100_000},
        {"action_space": "[" * 100_000},
        {"observation_space": {"type": "Box", "shape": [10**12], "low": 0, "high": 1, "dtype": "float32"}},
        {"observation_space": {"type": "Box", "shape": [float("inf")], "low": 0, "high": 1, "dtype": "float32"}},
        {"observation_space": {"type": "Box", "shape": [-3], "low": 0, "high": 1, "dtype": "float32"}},
        {"data_format": "papyrus"},
    ],
)
def test_nonsense_in_the_metadata_is_told(root: Path, changes: dict[str, Any]) -> None:
    record_flat()
    edit_metadata(root / "flat-v0", **changes)
    with pytest.raises(InputError, match="cannot be read"):
        read_minari("flat-v0")


def test_a_dataset_of_no_episodes_is_refused(root: Path) -> None:
    record_flat()
    edit_metadata(root / "flat-v0", total_episodes=0)
    with pytest.raises(InputError, match="no episodes"):
        read_minari("flat-v0")


def test_other_storages_are_read_through_minari(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own package is optional: its place is taken by a storage that Minari hands out under that name."""
    from minari.dataset import _storages

    space, values = goal_space(np.random.default_rng(1))
    recorded = episode(5, values) | {"infos": {"qpos": np.arange(6.0)}}
    record("goal-v0", [recorded], space, ACTIONS)
    expected = read_minari("goal-v0", infos=("qpos",))
    hdf5 = _storages.get_minari_storage("hdf5")
    monkeypatch.setitem(_storages._registry, "arrow", lambda: type("Arrow", (hdf5,), {"FORMAT": "arrow"}))
    edit_metadata(root / "goal-v0", data_format="arrow")
    assert_same(read_minari("goal-v0", infos=("qpos",)), expected)
    with pytest.raises(InputError, match="ask for one of: qpos"):
        read_minari("goal-v0", infos=("qvel",))


@pytest.mark.parametrize("package", ["minari", "gymnasium"])
def test_without_minari_reading_hdf5_works_and_the_rest_names_the_package(
    root: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    record_flat()
    dataset = read_minari("flat-v0")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("minari", "gymnasium")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert_same(read_minari("flat-v0"), dataset)
    with pytest.raises(InputError, match=r"pip install 'stacq\[minari\]'"):
        write_minari(dataset, "other-v0")
    edit_metadata(root / "flat-v0", data_format="arrow")
    with pytest.raises(InputError, match=r"pip install 'stacq\[minari\]'"):
        read_minari("flat-v0")


def test_importing_the_readers_does_not_import_minari() -> None:
    code = "import sys, stacq.data, stacq.data.minari; assert not {'minari', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Writing


def assert_same(found: Dataset, expected: Dataset) -> None:
    for key in ROW_ARRAYS:
        left, right = getattr(found, key), getattr(expected, key)
        assert left.dtype == right.dtype, key
        np.testing.assert_array_equal(left, right, err_msg=key)
    assert sorted(found.infos) == sorted(expected.infos)
    for key, value in expected.infos.items():
        assert found.infos[key].dtype == value.dtype, key
        np.testing.assert_array_equal(found.infos[key], value, err_msg=key)
    assert found.env_id == expected.env_id
    assert found.fingerprint == expected.fingerprint


FLOATS = st.sampled_from([np.float32, np.float64])


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Anything the border lets through: unknown successors, unlike types, odd bounds, infos of any rank."""
    ends = draw(st.lists(st.sampled_from(["terminal", "timeout", "both", ""]), min_size=2, max_size=9))
    rows, rng = len(ends), np.random.default_rng(draw(st.integers(0, 999)))
    observations = rng.normal(size=(rows, 2)).astype(draw(FLOATS))
    successors = np.concatenate([observations[1:], observations[:1]]).astype(draw(FLOATS))
    ending = np.array([end != "" for end in ends]) | (np.arange(rows) == rows - 1)
    successors[ending] = rng.normal(size=(int(ending.sum()), 2)) if draw(st.booleans()) else observations[ending] * 7
    infos: dict[str, Any] = {
        "qpos": rng.normal(size=(rows, 3)).astype(draw(FLOATS)),
        "group/flag": rng.random(rows) < 0.5,
        "grid": rng.integers(0, 9, size=(rows, 2, 2)),
    }
    if draw(st.booleans()):
        infos["successor_known"] = (rng.random(rows) < 0.5) | ~ending
    if draw(st.booleans()):
        infos["episode_cut"] = (rng.random(rows) < 0.4) | ending
    return from_arrays(
        observations,
        rng.uniform(-0.1, 0.3, size=(rows, 2)).astype(draw(FLOATS)),
        rng.normal(size=rows).astype(draw(FLOATS)),
        np.array([end in ("terminal", "both") for end in ends]),
        timeouts=np.array([end in ("timeout", "both") for end in ends]),
        next_observations=successors if draw(st.booleans()) else None,
        infos=infos,
        conventions=Conventions(
            action_low=(-0.1, -1e300),
            action_high=(0.3, 1 / 3),
            env_id=draw(st.sampled_from([None, "Pendulum-v1", "absent/Robot-v7", "no id at all!"])),
            name=draw(st.sampled_from([None, "mine"])),
        ),
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dataset=datasets())
def test_a_round_trip_loses_nothing(root: Path, dataset: Dataset) -> None:
    directory = write_minari(dataset, "some-where/trip-v0")
    try:
        found = read_minari(directory, infos=tuple(dataset.infos))
        assert_same(found, dataset)
        assert found.name == (dataset.name or "some-where/trip-v0")
        loaded = minari.load_dataset("some-where/trip-v0")
        assert loaded.total_steps == len(dataset) and loaded.total_episodes == dataset.episodes
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(3)
    return from_arrays(
        rng.normal(size=(5, 3)).astype(np.float32),
        rng.uniform(-0.3, 0.3, size=(5, 1)).astype(np.float32),
        np.arange(5, dtype=np.float32),
        np.array([0, 0, 1, 0, 0]),
        timeouts=np.array([0, 0, 0, 0, 1]),
        infos={"qpos": np.arange(5.0)},
        conventions=Conventions(action_low=-0.4, action_high=0.4, env_id="Pendulum-v1"),
    )


def test_minari_and_its_users_can_read_what_we_wrote(root: Path, dataset: Dataset) -> None:
    directory = write_minari(dataset, "mine/written-v2", description="five rows")
    assert directory == root / "mine" / "written-v2"
    assert list(minari.list_local_datasets()) == ["mine/written-v2"]
    loaded = minari.load_dataset("mine/written-v2")
    assert loaded.env_spec == gymnasium.spec("Pendulum-v1")
    assert loaded.observation_space == spaces.Box(-np.inf, np.inf, (3,), np.float32)
    assert loaded.action_space == spaces.Box(-0.4, 0.4, (1,), np.float32)
    assert loaded.storage.metadata["description"] == "five rows"
    first, second = loaded.iterate_episodes()
    assert first.observations.shape == (4, 3) and second.observations.shape == (3, 3)
    np.testing.assert_array_equal(first.observations[-1], dataset.observations[2])  # placeholder
    np.testing.assert_array_equal(first.infos["successor_known"], [True, True, False, False])
    np.testing.assert_array_equal(first.infos["qpos"], [0.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(first.terminations, [False, False, True])
    np.testing.assert_array_equal(second.truncations, [False, True])


def tree(path: Path) -> list[tuple[Any, ...]]:
    """Everything in an HDF5 file: names in their order, attributes, and how arrays are stored."""
    found: list[tuple[Any, ...]] = []

    def visit(name: str, node: Any) -> None:
        kept = (
            (node.dtype, node.shape, node.maxshape, node.chunks, node[()].tobytes()) if hasattr(node, "dtype") else ()
        )
        found.append((name, {key: str(value) for key, value in node.attrs.items()}, *kept))

    with h5py.File(path) as file:
        for episode in file:
            visit(episode, file[episode])
            file[episode].visititems(visit)
    return found


def test_the_layout_is_that_of_minaris_own_storage(root: Path, dataset: Dataset) -> None:
    """Infos in groups and of other types among them."""
    many = from_arrays(
        np.tile(dataset.observations, (6, 1)),
        np.tile(dataset.actions, (6, 1)),
        np.tile(dataset.rewards, 6),
        np.tile(dataset.terminals, 6),
        timeouts=np.tile(dataset.timeouts, 6),
        infos={"qpos": np.arange(30.0), "group/flag": np.arange(30) % 2 == 0, "grid": np.zeros((30, 2, 2), np.int8)},
        conventions=Conventions(action_low=-0.4, action_high=0.4),
    )
    episodes: list[dict[str, Any]] = []
    for each in _buffers(many):
        infos: dict[str, Any] = {
            key.removeprefix("infos/"): each.pop(key) for key in list(each) if key.startswith("infos/")
        }
        infos["group"] = {"flag": infos.pop("group/flag")}
        episodes.append({**each, "infos": infos})
    record("theirs-v0", episodes, box(3, np.float32), spaces.Box(-0.4, 0.4, (1,)))
    ours, theirs = write_minari(many, "ours-v0") / "data", root / "theirs-v0" / "data"

    nodes, expected = tree(ours / "main_data.hdf5"), tree(theirs / "main_data.hdf5")
    assert nodes == expected and len(nodes) > 100
    about, wanted = (json.loads((each / "metadata.json").read_text()) for each in (ours, theirs))
    for key in ("total_episodes", "total_steps", "data_format", "observation_space", "action_space", "minari_version"):
        assert about[key] == wanted[key], key
    assert about["dataset_size"] == round((ours / "main_data.hdf5").stat().st_size / 1e6, 1)


def test_minari_can_combine_ours_with_its_own(root: Path, dataset: Dataset) -> None:
    write_minari(dataset, "ours-v0")
    seen = np.zeros((4, 3), dtype=np.float32)
    actions = np.zeros((3, 1), dtype=np.float32)
    record("theirs-v0", [episode(3, seen, actions=actions)], box(3, np.float32), spaces.Box(-0.4, 0.4, (1,)))
    edit_metadata(root / "ours-v0", env_spec=None)
    minari.combine_datasets([minari.load_dataset("ours-v0"), minari.load_dataset("theirs-v0")], "both-v0")
    both = read_minari("both-v0")
    np.testing.assert_array_equal(both.successor_known, [1, 1, 0, 1, 0, 1, 1, 1])
    np.testing.assert_array_equal(both.episode_offsets, [0, 3, 5, 8])


def test_an_existing_id_is_never_overwritten(root: Path, dataset: Dataset) -> None:
    directory = write_minari(dataset, "mine-v0")
    before = (directory / "data" / "main_data.hdf5").read_bytes()
    with pytest.raises(InputError, match=r"'mine-v0' exists already[\s\S]*minari delete mine-v0"):
        write_minari(dataset, "mine-v0")
    assert (directory / "data" / "main_data.hdf5").read_bytes() == before


@pytest.mark.parametrize("dataset_id", ["", "no-version", "/tmp/x-v0", "../up-v0", "sp ace-v0", "x-v0/", "a/b-v0"])
def test_malformed_ids_are_refused(root: Path, dataset: Dataset, dataset_id: str) -> None:
    with pytest.raises(InputError, match="is not a Minari dataset id") as caught:
        write_minari(dataset, dataset_id)
    assert "two of them or more in a namespace" in caught.value.expected  # the rule that a/b-v0 breaks
    assert not root.exists()


def left_behind(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()] + list(root.glob(".*"))


def test_what_minari_cannot_store_leaves_nothing_behind(root: Path, dataset: Dataset) -> None:
    words = from_arrays(
        dataset.observations,
        dataset.actions,
        dataset.rewards,
        dataset.terminals,
        infos={"word": np.array(["a", "b", "c", "d", "e"], dtype=object), "pair": np.array([(1, {})] * 5)},
    )
    with pytest.raises(InputError, match="Minari cannot store"):
        write_minari(words, "words-v0")
    assert not left_behind(root)


def test_a_failure_half_way_leaves_nothing_behind(
    root: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Iterator[Any]:
        yield next(buffers(dataset))
        raise OSError(28, "No space left on device")

    from stacq.data import minari_write as module

    buffers = module._buffers
    monkeypatch.setattr(module, "_buffers", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_minari(dataset, "full-v0")
    assert not left_behind(root)


def test_a_root_that_is_a_file_is_told(root: Path, dataset: Dataset) -> None:
    root.write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_minari(dataset, "mine-v0")


def test_an_environment_registered_as_a_function_is_stored_by_name(dataset: Dataset) -> None:
    gymnasium.register("Local-v0", entry_point=lambda: None)
    try:
        directory = write_minari(replace(dataset, env_id="Local-v0"), "local-v0")
    finally:
        del gymnasium.registry["Local-v0"]
    assert read_minari(directory).env_id == "Local-v0"

"""OGBench's files by their names: rows without the states that lead nowhere, labels of the package's task."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

from stacq import InputError, load
from stacq.cli.shared import Bounds
from stacq.core.types import Array
from stacq.data.ogbench import single_task

NAME = "pointmaze-medium-stitch-v0"


class Pointed(gymnasium.Env[Any, Any]):
    """What is asked of the package's environment."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), dtype=np.float32)

    def __init__(self, goal: tuple[float, float]) -> None:
        self.cur_goal_xy, self._goal_tol = goal, 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2), {}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that registers the tasks: the first leads to (4, 0), the second to (0, 4)."""
    monkeypatch.setitem(sys.modules, "ogbench", ModuleType("ogbench"))
    for task, goal in (("", (4.0, 0.0)), ("-task2", (0.0, 4.0))):
        env_id = f"pointmaze-medium-singletask{task}-v0"
        spec = gymnasium.envs.registration.EnvSpec(env_id, entry_point=lambda goal=goal, **_: Pointed(goal))
        monkeypatch.setitem(gymnasium.registry, env_id, spec)


def arrays() -> dict[str, Array]:
    """Two trajectories of five and three states along a line; the last action of each leads nowhere."""
    along = np.array([0, 1, 2, 3, 4, 0, 1, 2], dtype=np.float32)
    places = np.column_stack([along, np.zeros_like(along)])
    ends = np.isin(np.arange(8), (4, 7))
    return {
        "observations": places,
        "actions": np.tile([[0.5, 0.0]], (8, 1)).astype(np.float32),
        "terminals": ends,
        "qpos": places.astype(np.float64),
        "qvel": np.zeros((8, 2)),
    }


def saved(directory: Path, name: str = NAME, **changes: Array) -> Path:
    np.savez(directory / f"{name}.npz", **{**arrays(), **changes})  # type: ignore[arg-type]
    return directory / f"{name}.npz"


def test_names() -> None:
    plain = single_task(NAME)
    assert plain is not None and plain.env_id == "ogbench:pointmaze-medium-singletask-v0"
    third = single_task("antmaze-giant-navigate-singletask-task3-v0")
    assert third is not None and third.env_id == "ogbench:antmaze-giant-singletask-task3-v0"
    assert third.name == "ogbench/antmaze-giant-navigate-singletask-task3-v0" and single_task(third.name) == third
    for other in ("antmaze-umaze-v2", "pointmaze-medium-stitch", "hopper-medium-v2", "logs", f"{NAME}-val"):
        assert single_task(other) is None


def test_a_file_is_read_as_it_is(tmp_path: Path, package: None) -> None:
    dataset = load(saved(tmp_path), infos=["qpos"])
    assert (dataset.name, dataset.env_id) == (
        "ogbench/pointmaze-medium-stitch-singletask-v0",
        "ogbench:pointmaze-medium-singletask-v0",
    )
    assert dataset.observations[:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert dataset.next_observations[:, 0].tolist() == [1, 2, 3, 4, 1, 2]
    assert dataset.timeouts.tolist() == [False, False, False, True, False, True]
    assert dataset.rewards.tolist() == [-1, -1, -1, 0, -1, -1]  # (3, 0) is within 1 of (4, 0): the current state counts
    assert dataset.terminals.tolist() == [False, False, False, True, False, False]
    assert dataset.successor_known.all() and not dataset.cut.any()
    assert dataset.infos["qpos"].shape == (6, 2) and dataset.infos["qpos"].dtype == np.float64


def test_another_task_by_name(tmp_path: Path, package: None) -> None:
    second = "pointmaze-medium-stitch-singletask-task2-v0"
    path = saved(tmp_path, "walks", qpos=arrays()["qpos"][:, ::-1])
    dataset = load(path, conventions=Bounds(known_as=second).conventions)
    assert dataset.env_id == "ogbench:pointmaze-medium-singletask-task2-v0" and dataset.name == f"ogbench/{second}"
    assert dataset.terminals.sum() == 1


def test_what_is_wrong_is_told(tmp_path: Path, package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"the shapes do not fit: .*qpos"):
        load(saved(tmp_path, qpos=np.zeros((3, 2))))
    with pytest.raises(InputError, match="no per-row extra"):
        load(saved(tmp_path), infos=["buttons"])
    np.savez(tmp_path / f"{NAME}.npz", observations=np.zeros((4, 2)))
    with pytest.raises(InputError, match="key 'actions' is missing"):
        load(tmp_path / f"{NAME}.npz")
    with pytest.raises(InputError, match="no trajectory has two states"):
        load(saved(tmp_path, terminals=np.ones(8)))
    monkeypatch.setitem(sys.modules, "ogbench", None)
    with pytest.raises(InputError, match=r"pip install 'stacq\[ogbench\]'"):
        load(saved(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pointmaze-medium-stitch", "antmaze-medium-navigate"])
def test_rows_and_labels_are_those_of_the_package(tmp_path: Path, name: str) -> None:
    """Where OGBench is installed: walks of random actions near the goal, read by it and by us."""
    ogbench = pytest.importorskip("ogbench")
    body, maze, _ = name.split("-")
    env: Any = gymnasium.make(f"{body}-{maze}-singletask-v0").unwrapped
    env.reset(seed=0)
    columns: dict[str, list[Array]] = {key: [] for key in ("observations", "actions", "terminals", "qpos", "qvel")}
    rng = np.random.default_rng(0)
    for _ in range(3):
        observation, _ = env.reset(seed=0)
        env.set_xy(np.array(env.cur_goal_xy) - 1.5)
        for step in range(30):
            action = rng.uniform(-0.2, 1, env.action_space.shape)
            row = (observation, action, step == 29, env.data.qpos.copy(), env.data.qvel.copy())
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            observation = env.step(action)[0]
    for suffix in ("", "-val"):
        np.savez(tmp_path / f"{name}-v0{suffix}.npz", **{key: np.array(each) for key, each in columns.items()})  # type: ignore[arg-type]
    path = tmp_path / f"{name}-v0.npz"
    _, theirs, _ = ogbench.make_env_and_datasets(f"{name}-singletask-v0", dataset_path=str(path))
    ours = load(path)
    for key in ("observations", "actions", "next_observations", "rewards"):
        np.testing.assert_allclose(getattr(ours, key), theirs[key], rtol=1e-6)
    np.testing.assert_array_equal(ours.terminals, theirs["masks"] == 0)
    np.testing.assert_array_equal(ours.timeouts, theirs["terminals"] == 1)

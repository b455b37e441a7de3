"""OGBench's files by their names: rows without the states that lead nowhere, labels of the package's task."""

import runpy
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
from stacq.data.registry import family_of, stated_name
from stacq.data.single_tasks import single_task
from stacq.envs.global_draws import OwnDraws
from stacq.evaluation.rollouts import Episode, score_of
from stacq.study.cells import cells_of
from stacq.study.plan import read_study

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


def test_the_presets_and_the_score_are_those_of_the_family() -> None:
    """The score is the success in percent; returns count steps and have no reference."""
    point, ant = (f"{body}-medium-stitch-singletask-v0" for body in ("ogbench/pointmaze", "antmaze"))
    assert family_of(point) == family_of(point.removeprefix("ogbench/")) == "ogbench-pointmaze"
    assert family_of(ant) == "" and stated_name(ant) == ant
    reached, missed = (Episode(-70.0, 71, success, -50.0, np.zeros(2)) for success in (True, False))
    for name in (point, ant):
        assert (score_of(reached, None, name), score_of(missed, None, name)) == (100.0, 0.0)
    assert score_of(reached, None, "logs") is None
    assert score_of(Episode(-70.0, 71, None, -50.0, np.zeros(2)), None, point) is None


class Drawing(Pointed):
    """Starts and steps are drawn from NumPy's global generator, as OGBench's are."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.random.uniform(size=2), {}  # noqa: NPY002

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.random.uniform(size=2), 0.0, False, False, {}  # noqa: NPY002


def test_an_episode_follows_from_its_seed_and_leaves_the_global_generator_alone() -> None:
    env = OwnDraws(Drawing((0.0, 0.0)), steps_draw=True)
    first = [env.reset(seed=5)[0], env.step(None)[0], env.step(None)[0], env.reset()[0]]
    np.random.uniform(size=3)  # noqa: NPY002
    again = [env.reset(seed=5)[0], env.step(None)[0], env.step(None)[0], env.reset()[0]]
    np.testing.assert_array_equal(first, again)
    assert len({tuple(drawn) for drawn in first}) == 4
    assert not np.array_equal(first[0], env.reset(seed=6)[0])
    theirs = np.random.RandomState(0).uniform(size=2)  # the next draws of the program around it
    np.random.seed(0)  # noqa: NPY002
    env.step(None)
    np.testing.assert_array_equal(np.random.uniform(size=2), theirs)  # noqa: NPY002


def test_a_study_names_a_task_of_ogbench(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "t"\nalgorithms = ["bc"]\n'
        '[datasets]\nrows = { file = "rows.npz", as = "pointmaze-medium-stitch-v0" }\n'
    )
    (cell,) = cells_of(read_study(str(tmp_path / "mine.toml")))
    assert cell.source.known_as == "pointmaze-medium-stitch-v0" and cell.options.seeds == 5


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


@pytest.mark.slow
def test_our_rows_follow_the_published_recipe() -> None:
    """Where OGBench is installed: 201 states, four moves or fewer, the same rows from the same seed."""
    pytest.importorskip("ogbench")
    script = runpy.run_path(str(Path(__file__).parents[2] / "research" / "ogbench_rows.py"))
    record, steps = script["record"], script["STEPS"]
    rows = record("medium", 12, np.random.default_rng(3))
    assert {key: (len(each), str(each.dtype)) for key, each in rows.items()} == {
        "observations": (12 * steps, "float32"),
        "actions": (12 * steps, "float32"),
        "terminals": (12 * steps, "bool"),
        "qpos": (12 * steps, "float32"),
        "qvel": (12 * steps, "float32"),
    }
    np.testing.assert_array_equal(np.flatnonzero(rows["terminals"]), np.arange(1, 13) * steps - 1)
    again = record("medium", 12, np.random.default_rng(3))
    for key, values in rows.items():
        np.testing.assert_array_equal(values, again[key])
    places = rows["observations"].reshape(12, steps, 2)
    assert np.abs(places[:, -1] - places[:, 0]).sum(axis=1).max() < 4 * 4.0 + 4
    lengths = np.linalg.norm(np.diff(places, axis=1), axis=2)
    assert 0.17 < np.median(lengths) < 0.23

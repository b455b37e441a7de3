"""The maze in the plane: solid walls, one arithmetic for NumPy and JAX, and walks that need stitching."""

import itertools
import subprocess
import sys
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from stacq import InputError, Policy, evaluate, load
from stacq.core.types import Bools, Float32s, Floats
from stacq.data.dataset import Dataset
from stacq.data.match import check_match
from stacq.data.maze import maze_dataset
from stacq.data.registry import family_of, find, recipe, task_of
from stacq.envs import maze as mazes
from stacq.envs.gym import facts_of, make_env
from stacq.envs.maze import (
    ENV_IDS,
    MARGIN,
    MAX_STEP,
    TIME_LIMIT,
    MazeEnv,
    data_cells,
    layout_of,
    maze_of,
    picture,
    step,
    success_by_cell,
    time_limit,
)
from stacq.tabular.compare import PAPER_SWEEPS, compare
from stacq.tabular.maze import GOAL_REWARD, MOVE_REWARD, MOVES, Cell, Maze, parse
from stacq.tabular.maze import load as load_maze

NAMES = ("stitching", "sparse")
SHIPPED = {name: load_maze(name) for name in NAMES}
# Every cell touches a wall, and two pairs of walls meet at a corner.
TIGHT = parse("..#.\n.#..\n#..*\n..#.\n\npath 0,0 1,0\n", "tight")


def free(maze: Maze, cell: Cell) -> bool:
    return not bool(layout_of(maze).solid[cell[0] + 1, cell[1] + 1])


def moves_to_goal(maze: Maze) -> dict[Cell, int]:
    """Length of the shortest way from every cell, by breadth-first search."""
    found, queue = {maze.goal: 0}, deque([maze.goal])
    while queue:
        x, y = queue.popleft()
        for dx, dy in MOVES:
            cell = (x + dx, y + dy)
            if free(maze, cell) and cell not in found:
                found[cell] = found[x, y] + 1
                queue.append(cell)
    return found


def guide(maze: Maze) -> "partial[Floats]":
    """Towards the middle of the neighbouring cell that is nearest to the goal."""
    ways = moves_to_goal(maze)
    target = np.zeros((maze.width, maze.height, 2), dtype=np.float32)
    for x, y in ways:
        around = [(x + dx, y + dy) for dx, dy in MOVES if (x + dx, y + dy) in ways]
        target[x, y] = min(around, key=lambda cell: ways[cell])
    return partial(_head, target + 0.5)


def _head(target: Float32s, position: Floats, rng: np.random.Generator | None = None) -> Floats:
    x, y = np.floor(position).astype(int).T
    push: Floats = np.clip((target[x, y] - position) / MAX_STEP, -1, 1)
    return push


def cells_of(positions: Floats) -> list[Cell]:
    return [(int(x), int(y)) for x, y in np.floor(positions)]


def in_walls(maze: Maze, start: Floats, end: Floats) -> Bools:
    """Whether the segment between two points [N, 2] runs through the inside of a wall, by looking closely."""
    share = np.linspace(0, 1, 400)[:, None, None]
    points = start.astype(np.float64) * (1 - share) + end.astype(np.float64) * share
    at = np.floor(points).astype(int) + 1
    inside = np.abs(points - np.round(points)).min(axis=-1) > 1e-5  # a corner may be touched
    hits: Bools = (layout_of(maze).solid[at[..., 0], at[..., 1]] & inside).any(axis=0)
    return hits


points = st.floats(0, 1, width=32, exclude_max=True)
pushes = st.one_of(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, -1e30, 1e30, float("inf")]), st.floats(-1, 1, width=32))


@given(st.sampled_from([*SHIPPED.values(), TIGHT]), st.data())
def test_no_push_gets_into_or_through_a_wall(maze: Maze, data: st.DataObject) -> None:
    cells = [(x, y) for x in range(maze.width) for y in range(maze.height) if free(maze, (x, y))]
    cell = data.draw(st.sampled_from(cells))
    position = np.array([cell], dtype=np.float32) + np.array([[data.draw(points), data.draw(points)]], dtype=np.float32)
    position = np.minimum(position, np.nextafter(np.array(cell, dtype=np.float32) + 1, np.float32(0)))
    for _ in range(8):
        after = step(layout_of(maze), position, np.array([[data.draw(pushes), data.draw(pushes)]])).position
        assert free(maze, cells_of(after)[0])
        assert not in_walls(maze, position, after).any()
        assert np.abs(after - position).max() <= MAX_STEP + MARGIN
        position = after


@pytest.mark.parametrize("maze", [*SHIPPED.values(), TIGHT], ids=lambda maze: maze.name)
def test_crowds_that_push_at_random_and_into_corners(maze: Maze) -> None:
    rng = np.random.default_rng(0)
    cells = np.array(
        [(x, y) for x, y in itertools.product(range(maze.width), range(maze.height)) if free(maze, (x, y))]
    )
    position = (cells[rng.integers(len(cells), size=500)] + rng.uniform(0.01, 0.99, (500, 2))).astype(np.float32)
    kept = rng.choice([-1.0, 1.0], (500, 2))
    for turn in range(60):
        action = kept if turn % 3 else rng.uniform(-1, 1, (500, 2))
        kept = rng.choice([-1.0, 1.0], (500, 2)) if turn % 10 == 9 else kept
        after = step(layout_of(maze), position, action).position
        assert all(free(maze, cell) for cell in set(cells_of(after)))
        assert not in_walls(maze, position, after).any()
        position = after


def test_two_walls_that_meet_at_a_corner_let_nothing_through() -> None:
    """From 1,0 to the free cell 2,1 there is only the corner between the walls at 2,0 and 1,1."""
    rng = np.random.default_rng(1)
    position = (np.array([1, 0]) + rng.uniform(0.01, 0.99, (2000, 2))).astype(np.float32)
    for _ in range(10):
        position = step(layout_of(TIGHT), position, rng.uniform(0, 1, (2000, 2))).position
        assert set(cells_of(position)) == {(1, 0)}
    corner = np.array([[1.5, 0.5]], dtype=np.float32)
    assert cells_of(step(layout_of(TIGHT), corner, np.ones((1, 2))).position) == [(1, 0)]


def test_a_blocked_component_ends_at_the_wall_and_the_other_goes_on() -> None:
    maze = parse("...\n##.\n..*\n\npath 0,0 1,0\n", "shelf")
    after = step(layout_of(maze), np.array([0.5, 0.8], dtype=np.float32), np.array([0.8, 1.0])).position
    assert after == pytest.approx([0.5 + 0.8 * MAX_STEP, 1 - MARGIN])
    # Two ways past the end of the shelf: one clears it before it turns below, the other runs into it.
    beside = np.array([[2.5, 1.7], [2.2, 1.5]], dtype=np.float32)
    assert cells_of(step(layout_of(maze), beside, np.array([-1.0, 1.0])).position) == [(1, 2), (2, 2)]


def test_free_space_is_plain_addition() -> None:
    after = step(layout_of(SHIPPED["stitching"]), np.array([4.5, 0.5], dtype=np.float32), np.array([-0.5, 0.25]))
    assert after.position == pytest.approx([4.5 - 0.5 * MAX_STEP, 0.5 + 0.25 * MAX_STEP])
    assert after.reward == np.float32(MOVE_REWARD) and not after.arrived


@pytest.mark.parametrize("name", NAMES)
def test_jax_and_numpy_take_the_same_steps(name: str) -> None:
    maze = SHIPPED[name]
    layout, rng = layout_of(maze), np.random.default_rng(2)
    cells = np.array(data_cells(maze))
    position = (cells[rng.integers(len(cells), size=4000)] + rng.uniform(0.05, 0.95, (4000, 2))).astype(np.float32)
    action = rng.uniform(-1.2, 1.2, (4000, 2)).astype(np.float32)
    ours = step(layout, position, action)
    for theirs in (
        jax.jit(partial(step, layout))(jnp.asarray(position), jnp.asarray(action)),
        jax.jit(jax.vmap(partial(step, layout)))(jnp.asarray(position), jnp.asarray(action)),
    ):
        assert isinstance(theirs.position, jax.Array)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.dtype == other.dtype
            assert np.asarray(other) == pytest.approx(mine, abs=1e-5)
    assert ours.position.dtype == np.float32 and ours.arrived.any() and (np.abs(action) > 1).any()


def test_episodes_end_at_the_goal() -> None:
    env = make_env("stacq/Maze-stitching-v0")
    env.reset(seed=0, options={"cell": (9, 8)})
    observation, reward, terminated, truncated, info = env.step([0.0, 0.5])
    assert (reward, terminated, truncated, info["success"]) == (pytest.approx(MOVE_REWARD), False, False, False)
    observation, reward, terminated, truncated, info = env.step([0.0, 0.5])
    assert (reward, terminated, truncated, info["success"]) == (GOAL_REWARD, True, False, True)
    assert cells_of(observation[None]) == [(9, 9)]


def test_episodes_end_at_the_time_limit() -> None:
    env = MazeEnv("sparse")
    env.reset(seed=0)
    ends = [env.step(np.zeros(2))[2:4] for _ in range(TIME_LIMIT)]
    assert ends == [(False, False)] * (TIME_LIMIT - 1) + [(False, True)]


def test_episodes_begin_in_the_data() -> None:
    env, maze = MazeEnv("stitching"), SHIPPED["stitching"]
    seen = [env.reset(seed=seed)[0] for seed in range(600)]
    assert set(cells_of(np.array(seen))) == set(data_cells(maze)) - {maze.goal}
    assert np.array_equal(env.reset(seed=3)[0], seen[3])
    assert env.reset(options={"cell": (0, 3)})[0].tolist() == [0.5, 3.5]
    for cell in ((1, 1), (9, 9), (-1, 0), (0, 10)):
        with pytest.raises(InputError, match=f"begin in cell {cell[0]},{cell[1]}"):
            env.reset(options={"cell": cell})


def test_actions_that_are_none() -> None:
    env = MazeEnv()
    env.reset(seed=0)
    for action in ([np.nan, 0.0], [0.0], [[0.0, 0.0]]):
        with pytest.raises(InputError, match="finite numbers"):
            env.step(action)


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_gymnasium_finds_nothing_wrong(env_id: str) -> None:
    check_env(gymnasium.make(env_id, render_mode="rgb_array").unwrapped)
    facts = facts_of(make_env(env_id), env_id)
    assert (facts.observation_size, facts.action_size, facts.max_episode_steps) == (2, 2, TIME_LIMIT)


def test_an_unknown_maze() -> None:
    with pytest.raises(InputError, match="stacq/Maze-stitching-v0"):
        make_env("stacq/Maze-spiral-v0")


def test_without_gymnasium_and_without_jax() -> None:
    code = """
import sys
sys.modules["gymnasium"] = sys.modules["mujoco"] = None
from stacq.envs.gym import facts_of, make_env
env = make_env("stacq/Maze-sparse-v0")
facts = facts_of(env, "maze")
env.reset(seed=0)
env.step([0.5, 0.5])
env.close()
assert facts.max_episode_steps == 100 and facts.observation_size == 2, facts
import stacq
assert len(stacq.load("stacq/maze-sparse-v0")) > 1000
assert "jax" not in sys.modules and "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_start_with_and_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    through, _ = make_env("stacq/Maze-sparse-v0").reset(seed=11)
    monkeypatch.setattr(mazes, "gymnasium", None)
    bare, _ = make_env("stacq/Maze-sparse-v0").reset(seed=11)
    assert np.array_equal(through, bare)


def test_pictures() -> None:
    env = MazeEnv("stitching", render_mode="rgb_array")
    env.reset(seed=0, options={"cell": (4, 8)})
    image = env.render()
    assert image is not None and image.dtype == np.uint8 and image.shape == (240, 240, 3)
    colours = {tuple(image[int(24 * (y + 0.5)), int(24 * (x + 0.5))]) for x, y in ((4, 8), (9, 9), (1, 1), (0, 0))}
    assert len(colours) == 4
    assert np.array_equal(image, picture(env.layout, np.array([[4.5, 8.5]])))
    assert MazeEnv().render() is None


@pytest.mark.parametrize("name", NAMES)
def test_every_data_cell_has_a_way_to_the_goal_with_time_to_spare(name: str) -> None:
    maze = SHIPPED[name]
    found = success_by_cell(guide(maze), maze)
    ways = moves_to_goal(maze)
    assert found.cells == data_cells(maze) and found.success.all()
    assert found.steps.max() <= TIME_LIMIT / 3
    for index, cell in enumerate(found.cells):
        path = found.path(index)
        assert cells_of(path[:1]) == [cell] and cells_of(path[-1:]) == [maze.goal]
        assert len(path) == found.steps[index] + 1
        steps = found.steps[index]
        assert found.returns[index] == pytest.approx(0 if steps == 0 else GOAL_REWARD + MOVE_REWARD * (steps - 1))
        assert (steps == 0) == (ways[cell] == 0)


def test_who_stands_still_fails_everywhere_but_at_the_goal() -> None:
    found = success_by_cell(np.zeros_like, SHIPPED["sparse"], limit=7)
    assert found.success.sum() == 1 and found.steps.max() == 7
    assert found.positions.shape == (8, 38, 2)


@pytest.mark.parametrize("name", NAMES)
def test_reference_returns(name: str) -> None:
    """Score 0 is uniform actions, 100 the tabular optimum, both from every data cell but the goal."""
    maze, rng = SHIPPED[name], np.random.default_rng(0)
    task = task_of(f"stacq/Maze-{name}-v0")
    assert task is not None and task == find(f"stacq/maze-{name}-v0").task
    assert task.max_episode_steps == TIME_LIMIT and task.env_id in ENV_IDS
    begin = [cell != maze.goal for cell in data_cells(maze)]
    runs = [success_by_cell(lambda s: rng.uniform(-1, 1, s.shape), maze).returns[begin].mean() for _ in range(40)]
    assert task.random_return == pytest.approx(np.mean(runs), abs=0.4)
    ways = moves_to_goal(maze)
    best = [GOAL_REWARD + MOVE_REWARD * (ways[cell] - 1) for cell in data_cells(maze) if cell != maze.goal]
    assert task.expert_return == pytest.approx(np.mean(best), abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_the_dataset_by_its_name(name: str) -> None:
    dataset = load(f"stacq/maze-{name}-v0", infos="all")
    assert (dataset.name, dataset.env_id) == (f"stacq/maze-{name}-v0", f"stacq/Maze-{name}-v0")
    assert dataset.notes == () and len(dataset) == find(dataset.name).rows
    assert dataset.fingerprint == load(dataset.name).fingerprint == maze_dataset(SHIPPED[name]).fingerprint
    assert dataset.fingerprint != maze_dataset(SHIPPED[name], seed=1).fingerprint
    assert dataset.observations.dtype == dataset.actions.dtype == np.float32
    assert set(dataset.infos["path"]) == {0, 1, 2, 3} and not load(dataset.name).infos
    check_match(dataset, facts_of(make_env(ENV_NAME[name]), name))
    with pytest.raises(InputError, match="infos/qpos"):
        load(dataset.name, infos=("qpos",))


ENV_NAME = {name: f"stacq/Maze-{name}-v0" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_flags_and_successors_are_true(name: str) -> None:
    maze, dataset = SHIPPED[name], load(f"stacq/maze-{name}-v0")
    taken = step(layout_of(maze), dataset.observations, dataset.actions)
    assert np.array_equal(taken.position, dataset.next_observations)
    assert np.array_equal(taken.reward, dataset.rewards)
    assert np.array_equal(taken.arrived, dataset.terminals)
    assert dataset.successor_known.all() and not dataset.cut.any()
    assert not (dataset.terminals & dataset.timeouts).any()
    assert dataset.terminals.sum() == 25 and dataset.timeouts.sum() == 75  # one path in four arrives
    assert dataset.lengths.max() < TIME_LIMIT


@pytest.mark.parametrize("name", NAMES)
def test_walks_make_the_moves_of_the_tabular_data_and_no_others(name: str) -> None:
    maze = SHIPPED[name]
    dataset = load(f"stacq/maze-{name}-v0", infos=("path",))
    for path, cells in enumerate(maze.trajectories):
        rows = dataset.infos["path"] == path
        pairs = zip(cells_of(dataset.observations[rows]), cells_of(dataset.next_observations[rows]), strict=True)
        moves = {(before, after) for before, after in pairs if before != after}
        assert moves == set(itertools.pairwise(cells))


def test_the_actions_vary() -> None:
    dataset = load("stacq/maze-stitching-v0")
    assert (dataset.actions.std(axis=0) > 0.25).all()
    assert (np.abs(dataset.actions).max(axis=0) > 0.8).all()


def followers(dataset: Dataset, leads: Bools) -> Bools:
    """Rows from which a terminal row comes within reach, if row i may go on as row j does where `leads[i, j]`."""
    last = np.zeros(len(dataset), dtype=np.bool_)
    last[dataset.last_rows] = True
    good = dataset.terminals.copy()
    while True:
        goes_on = dataset.terminals.copy()
        goes_on[:-1] |= good[1:] & ~last[:-1]
        more = good | leads[:, goes_on].any(axis=1)
        if np.array_equal(more, good):
            return good
        good = more


def data_cells_of(maze: Maze, dataset: Dataset, rows: Bools) -> int:
    """Data cells with such a row, and the goal."""
    return len({*cells_of(dataset.observations[rows]), maze.goal})


def reachable(maze: Maze, dataset: Dataset) -> Bools:
    """Whether one true step leads from the state of row i to the successor of row j, [N, N]."""
    way = (dataset.next_observations[None] - dataset.observations[:, None]) / MAX_STEP
    i, j = np.nonzero((np.abs(way) <= 1).all(axis=-1))
    ends = step(layout_of(maze), dataset.observations[i], way[i, j]).position
    there = np.abs(ends - dataset.next_observations[j]).max(axis=1) < 1e-4
    found = np.zeros((len(dataset), len(dataset)), dtype=np.bool_)
    found[i[there], j[there]] = True
    return found


@pytest.mark.parametrize(("name", "switching"), [("stitching", 57), ("sparse", 38)])
def test_logged_actions_reach_the_goal_from_where_bcql_does_and_switching_from_everywhere(
    name: str, switching: int
) -> None:
    maze, dataset = SHIPPED[name], load(f"stacq/maze-{name}-v0")
    reached = {result.name: result.reached for result in compare(maze, sweeps=PAPER_SWEEPS)}
    apart = dataset.observations[:, None] - dataset.observations[None]
    for radius in (0.0, 0.1, 0.2):
        near = (apart**2).sum(axis=-1) <= radius**2
        assert data_cells_of(maze, dataset, followers(dataset, near)) == reached["bcql"]
    assert data_cells_of(maze, dataset, followers(dataset, reachable(maze, dataset))) == switching


@pytest.mark.parametrize("neighbours", [1, 20])
@pytest.mark.parametrize("name", NAMES)
def test_imitating_the_nearest_rows_reaches_the_goal_from_where_bcql_does(name: str, neighbours: int) -> None:
    maze, dataset = SHIPPED[name], load(f"stacq/maze-{name}-v0")

    def nearest(position: Float32s) -> Floats:
        apart = ((position[:, None] - dataset.observations[None]) ** 2).sum(axis=-1)
        found: Floats = dataset.actions[apart.argpartition(neighbours, axis=1)[:, :neighbours]].mean(axis=1)
        return found

    reached = {result.name: result.reached for result in compare(maze)}
    assert success_by_cell(nearest, maze).success.sum() == reached["bcql"]


def test_sizes_and_noise() -> None:
    few = maze_dataset(TIGHT, copies=3, noise=0.0)
    assert few.episodes == 3 and few.env_id is None and few.name == "tight"
    for copies, noise in ((0, 0.1), (3, -0.1), (3, float("nan"))):
        with pytest.raises(InputError, match="copies with noise"):
            maze_dataset(TIGHT, copies=copies, noise=noise)


def test_a_maze_has_one_size_and_is_not_regenerated() -> None:
    for name in ("stacq/maze-sparse-v0", "maze-sparse"):
        with pytest.raises(InputError, match="comes with the package"):
            recipe(name)
    with pytest.raises(InputError, match="comes with the package"):
        load("stacq/maze-sparse-v0@500")


def test_scores_from_worker_processes() -> None:
    records = evaluate(
        guide(SHIPPED["sparse"]), "stacq/Maze-sparse-v0", 6, 1, workers=2, dataset="stacq/maze-sparse-v0"
    )
    assert all(record.success and record.score is not None and record.score > 90 for record in records)
    assert len({record.episode_return for record in records}) > 1
    still = Policy.from_mlp([np.zeros((2, 2))], [np.zeros(2)])
    lost = evaluate(still, "stacq/Maze-sparse-v0", 2, 1, workers=1)
    assert [(record.success, record.length) for record in lost] == [(False, TIME_LIMIT)] * 2


DRAWING = """; one corridor and a side of it
.....*
.####.

path 0,0 1,0 2,0 3,0
path 3,0 4,0 5,0
"""


def test_a_maze_from_a_file_is_data_and_the_place_where_policies_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text(DRAWING)
    dataset = load("mine.txt", infos="all")
    assert (dataset.name, dataset.env_id) == ("stacq/maze@mine", "stacq/Maze@mine.txt")
    assert family_of(dataset.name) == "plane-maze" and set(dataset.infos["path"]) == {0, 1}
    env = make_env(str(dataset.env_id))
    assert env.spec.max_episode_steps == TIME_LIMIT
    env.reset(options={"cell": (3, 0)})
    assert [env.step(np.array([1.0, 0.0]))[2] for _ in range(2)] == [False, True]
    maze = maze_of(str(dataset.env_id))
    assert maze is not None and maze.rows == (".....*", ".####.")
    wide = replace(maze, rows=tuple(row * 8 for row in maze.rows))
    assert time_limit(wide) == 250


def test_the_limit_of_the_shipped_mazes_is_the_one_they_were_measured_with() -> None:
    assert {time_limit(maze) for maze in SHIPPED.values()} == {TIME_LIMIT}


def test_a_text_that_is_no_maze_is_told_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1.0 2.0\n")
    with pytest.raises(InputError, match="a maze is drawn with"):
        load(tmp_path / "rows.txt")
    assert load("sparse").name == "stacq/maze-sparse-v0"

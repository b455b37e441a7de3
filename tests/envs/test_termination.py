"""Where tasks end: the rules on observations against what the environments themselves say."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from stacq.core.types import Bools, Float64s
from stacq.data.tasks import TASKS
from stacq.envs.gym import make_env
from stacq.envs.maze import layout_of, step
from stacq.envs.termination import Ending, ending_of, ends, never
from stacq.tabular.maze import load

COUNT = 300


def known(task: str) -> Ending:
    found = ending_of(task, TASKS[task].observation_size)
    assert found is not None
    return found


def random_bodies(env: Any, rng: np.random.Generator) -> tuple[Float64s, Bools]:
    """Observations of random states, and whether the environment calls them healthy."""
    body, seen, healthy = env.unwrapped, [], []
    body.reset(seed=0)
    for _ in range(COUNT):
        place = body.init_qpos + rng.normal(0, 0.25, body.model.nq)
        place[1] = rng.uniform(0.5, 2.3)
        body.set_state(place, rng.normal(0, 3.0, body.model.nv))
        seen.append(body._get_obs())
        healthy.append(body.is_healthy)
    return np.array(seen), np.array(healthy)


@pytest.mark.parametrize("task", ["hopper", "walker2d"])
def test_bodies_fall_where_their_environments_say(task: str) -> None:
    pytest.importorskip("mujoco")
    env = make_env(TASKS[task].env_id or "")
    seen, healthy = random_bodies(env, np.random.default_rng(0))
    assert 0.2 < healthy.mean() < 0.8
    np.testing.assert_array_equal(ends(known(task), seen), ~healthy)
    np.testing.assert_array_equal(ends(known(task), jnp.asarray(seen, jnp.float32)), ~healthy)


def test_a_hopper_with_a_number_beyond_a_hundred_has_fallen() -> None:
    standing = np.zeros((4, 11))
    standing[:, 0] = 1.2
    standing[1, 7], standing[2, 7], standing[3, 0] = 101, -101, 120
    np.testing.assert_array_equal(ends(known("hopper"), standing), [False, True, True, False])


def test_a_number_that_is_not_finite_ends_a_body() -> None:
    seen = np.zeros((3, 17))
    seen[1, 4], seen[2, 4] = np.nan, np.inf
    np.testing.assert_array_equal(ends(known("halfcheetah"), seen), [False, True, True])


@pytest.mark.parametrize("name", ["stitching", "sparse"])
def test_a_maze_is_over_in_its_goal(name: str) -> None:
    maze, rng = load(name), np.random.default_rng(0)
    near = np.array(maze.goal) + rng.uniform(-1, 2, (COUNT, 2))
    taken = step(layout_of(maze), near, np.zeros((COUNT, 2)))
    arrived = np.asarray(taken.arrived)
    assert 0.05 < arrived.mean() < 0.5
    np.testing.assert_array_equal(ends(known(f"stacq/maze-{name}"), near), arrived)


def test_other_tasks_never_end_or_are_not_known() -> None:
    for task in ("halfcheetah", "antmaze-large", "maze2d-umaze"):
        assert not ends(known(task), np.full((2, TASKS[task].observation_size), 50.0)).any()
    assert ending_of("ant", 111) is None
    assert not ends(never(2), np.ones(2))

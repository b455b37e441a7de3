"""Regenerated data: the same bits on any number of workers, true to the simulator, never called D4RL."""

import hashlib
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from stacq import generate, load
from stacq.data.behaviour import Uniform, load_behaviour, snapshots
from stacq.data.generate import GROUP_ROWS, _episode, roll_out, streams
from stacq.data.registry import recipe
from stacq.envs.gym import make_env

SIZE = 3500  # several groups per policy, so that surplus ones occur


def digest(name: str, **options: Any) -> str:
    return hashlib.sha256(generate(name, size=SIZE, force=True, **options).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["hopper-random", "walker2d-medium-expert"])
def test_bits_do_not_depend_on_the_number_of_workers(name: str) -> None:
    assert digest(name, workers=1) == digest(name, workers=3)


def test_the_seed_decides() -> None:
    assert digest("hopper-medium", workers=2) != digest("hopper-medium", workers=2, seed=1)


@pytest.mark.parametrize("body", ["hopper", "walker2d", "halfcheetah"])
@pytest.mark.parametrize("quality", ["random", "medium", "medium-replay", "medium-expert", "expert"])
def test_streams_fill_the_rows(body: str, quality: str) -> None:
    for size in (None, 777):
        plan = recipe(f"{body}-{quality}", size=size)
        assert sum(stream.rows for stream in streams(plan)) == plan.rows
    if quality == "medium-replay":
        acts = [stream.tag for stream in streams(recipe(f"{body}-{quality}"))]
        assert acts == ["uniform", *snapshots(body)]
        assert {stream.rows for stream in streams(recipe(f"{body}-{quality}"))[2:]} == {20_000}


def test_a_generated_file_is_d4rl_format_with_the_simulators_state() -> None:
    path = generate("hopper-medium-expert", size=SIZE, workers=2)
    assert path.name == "hopper-medium-expert-v0@3500.hdf5"
    dataset = load("stacq/hopper-medium-expert-v0@3500", infos=["qpos", "qvel"])
    assert len(dataset) == SIZE and dataset.env_id == "Hopper-v4" and dataset.successor_known.all()
    assert dataset.infos["qpos"].dtype == dataset.infos["qvel"].dtype == np.float64
    assert not dataset.cut.any()
    ends = [SIZE // 2 - 1, SIZE - 1]  # of the medium and of the expert policy's rows
    assert (dataset.timeouts[ends] ^ dataset.terminals[ends]).all()
    assert dataset.provenance["simulator"].startswith("gymnasium") and dataset.provenance["seed"] == "0"


def test_rows_can_be_repeated_in_the_simulator() -> None:
    """From a row's stored state its action leads to its stored successor, up to the solver's warm start."""
    dataset = roll_out(recipe("hopper-medium", size=GROUP_ROWS), workers=1)
    env = make_env("Hopper-v4").unwrapped
    env.reset()
    for row in (0, 1, 100, 700):
        env.set_state(dataset.infos["qpos"][row], dataset.infos["qvel"][row])
        observation, reward, terminated, _, _ = env.step(dataset.actions[row])
        np.testing.assert_allclose(observation, dataset.next_observations[row], atol=1e-4)
        assert reward == pytest.approx(float(dataset.rewards[row]), abs=1e-3)
        assert terminated == dataset.terminals[row]


@pytest.mark.parametrize(("spare", "terminal", "timeout"), [(1, True, False), (0, False, True), (-1, False, True)])
def test_a_fall_at_the_time_limit_counts_as_the_time_limit(spare: int, terminal: bool, timeout: bool) -> None:
    """D4RL's rule, with a hopper that falls one step before the limit, at it, or would have fallen one step later."""
    bare = make_env("Hopper-v4").unwrapped
    fall = len(_episode(bare, Uniform(3), np.random.default_rng(0)).rewards)
    found = _episode(TimeLimit(bare, fall + spare), Uniform(3), np.random.default_rng(0))
    assert len(found.rewards) == fall + min(spare, 0) and 5 < fall < 100
    assert found.terminals.tolist() == [False] * (len(found.rewards) - 1) + [terminal]
    assert found.timeouts.tolist() == [False] * (len(found.rewards) - 1) + [timeout]


def test_a_file_that_is_there_is_kept() -> None:
    path = generate("hopper-random", size=200, workers=1)
    before = path.stat().st_mtime_ns
    generate("hopper-random", size=200, workers=1)
    assert path.stat().st_mtime_ns == before
    generate("hopper-random", size=200, workers=1, force=True)
    assert path.stat().st_mtime_ns != before


def test_progress_ends_at_the_size() -> None:
    seen: list[int] = []
    generate("hopper-random", size=2500, workers=1, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 2500


def test_behaviour_policies_sample_inside_the_bounds() -> None:
    policy = load_behaviour("walker2d", "expert")
    rows = np.random.default_rng(1).standard_normal((50, policy.observation_size))
    actions = policy(rows, np.random.default_rng(0))
    assert actions.shape == (50, 6) and actions.dtype == np.float32 and np.abs(actions).max() <= 1
    assert not np.array_equal(actions, policy(rows, np.random.default_rng(1)))
    assert Uniform(3)(rows[0], np.random.default_rng(0)).shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "medium", "expert"), [("hopper", 1260, 3429), ("walker2d", 2931, 4698), ("halfcheetah", 4893, 10365)]
)
def test_returns_are_those_of_the_policies(body: str, medium: float, expert: float) -> None:
    """Twenty thousand rows each: means within a quarter of what their training reported."""
    for quality, expected in (("medium", medium), ("expert", expert)):
        dataset = roll_out(recipe(f"{body}-{quality}", size=20_000))
        finished = dataset.returns[:-1]
        assert np.mean(finished) == pytest.approx(expected, rel=0.25)

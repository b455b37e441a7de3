"""Diffuser: windows, losses and averages against loops, who learns from whom, and a task with two good actions."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from algo_cases import plain, recording
from probe_cases import train
from teaching import strange_state, taught_by

from stacq import algos
from stacq.algos import diffuser
from stacq.algos.algorithm import Sizes
from stacq.algos.diffuser import Config, averaged, draw, plan_loss, prepared, value_loss
from stacq.algos.settings import preset
from stacq.algos.windows import LONGEST, make_windows, window_starts
from stacq.algos.world import World, make_world
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.data.dataset import Dataset
from stacq.nn.learner import new_learner
from stacq.policies import PlannerPolicy, Policy, Space
from stacq.policies.planner import check_planning

sys.path.insert(0, str(Path(__file__).parents[1] / "nn"))
import unet_oracle as oracle

TINY = Config(batch=6, channels=(8,), horizon=4, noise_steps=3, plans=2, learning_rate=0.0)


def three() -> Dataset:
    """A fall, a stop, and a recording that breaks off."""
    rng = np.random.default_rng(0)
    lengths = (5, 4, 3)
    return recording(
        [rng.normal(size=(length + 1, 3)) for length in lengths],
        [rng.uniform(-0.9, 0.9, (length, 2)) for length in lengths],
        [rng.normal(size=length) for length in lengths],
        terminal=[True, False, False],
        known=[True, True, False],
    )


def space_of(dataset: Dataset) -> Space:
    low, high = (each.astype(np.float32) for each in (dataset.action_low, dataset.action_high))
    return Space(Normaliser.fit(dataset.observations), low, high)


def world_of(dataset: Dataset, cfg: Config) -> World:
    space = space_of(dataset)
    made = prepared(dataset, space, cfg, print)
    return make_world(dataset, space.normaliser, every_row=True, prepared=made)


def window_by_hand(data: Dataset, row: int, horizon: int, last: str) -> Any:
    """Raw numbers of one window, actions first; after the end come zeros, or the state in which the episode ended."""
    end = next(int(end) for end in data.episode_offsets[1:] if row < end)
    rows = [np.concatenate([data.actions[k], data.observations[k]]) for k in range(row, min(row + horizon, end))]
    after = np.zeros(5) if last == "zeros" else np.concatenate([np.zeros(2), data.next_observations[end - 1]])
    return np.array([*rows, *[after] * (horizon - len(rows))], np.float64)


@pytest.mark.parametrize(("stays", "limits"), [(False, False), (True, True)])
def test_windows(stays: bool, limits: bool) -> None:
    data = three()
    normaliser = Normaliser.fit(data.observations)
    shown = {"discount": 0.9, "fall_cost": 100.0, "limits": limits, "stays": stays, "say": print}
    windows = make_windows(data, normaliser, horizon=4, **shown)  # type: ignore[arg-type]
    assert windows.starts.tolist() == [0, 1, 2, 3, 5, 6, 7]  # not the last row, and nothing of what breaks off
    used = np.concatenate([data.actions, data.observations], axis=1)[:9].astype(np.float64)
    shift, width = used.mean(axis=0), used.std(axis=0)
    if limits:
        shift, width = (used.max(axis=0) + used.min(axis=0)) / 2, np.ptp(used, axis=0) / 2
    found = np.asarray(windows.at(windows.starts, 4))
    for row, window in zip(windows.starts.tolist(), found, strict=True):
        wanted = (window_by_hand(data, row, 4, "state" if stays else "zeros") - shift) / width
        np.testing.assert_allclose(window, wanted, atol=2e-5)
    if stays:
        ended = (data.next_observations[4] - shift[2:]) / width[2:]
        np.testing.assert_allclose(windows.scales.goal, ended, atol=2e-5)


def test_returns_are_of_the_rest_of_the_episode_and_a_fall_costs() -> None:
    data = three()
    windows = make_windows(
        data, Normaliser.identity(3), horizon=2, discount=0.9, fall_cost=100.0, limits=False, stays=False, say=print
    )
    for row in range(9):
        end = 5 if row < 5 else 9
        wanted = sum(0.9 ** (k - row) * (data.rewards[k] - (100 if k == 4 else 0)) for k in range(row, end))
        assert float(windows.returns[row]) == pytest.approx(wanted, rel=1e-5)


def test_windows_of_long_episodes_end_within_the_published_length() -> None:
    data = recording([np.zeros((1_201, 1))], [np.zeros((1_200, 1))], [np.zeros(1_200)], terminal=[False])
    starts = window_starts(data, 32, np.ones(1, dtype=np.bool_))
    assert starts.tolist() == list(range(LONGEST - 32))
    with pytest.raises(InputError, match="no window of 1000 steps"):
        window_starts(data, 1_000, np.ones(1, dtype=np.bool_))


def test_data_that_only_breaks_off_is_used_and_said() -> None:
    data = recording([np.arange(5.0)[:, None]], [np.zeros((4, 1))], [np.zeros(4)], terminal=[False], known=[False])
    said: list[str] = []
    options = {"horizon": 2, "discount": 0.9, "fall_cost": 0.0, "limits": False}
    windows = make_windows(data, Normaliser.identity(1), stays=False, say=said.append, **options)  # type: ignore[arg-type]
    assert windows.starts.tolist() == [0, 1, 2] and "no episode has an end" in said[0]
    assert windows.scales.scale[0] == 1  # an action that never changes
    with pytest.raises(InputError, match="there is no goal"):
        make_windows(data, Normaliser.identity(1), stays=True, say=said.append, **options)  # type: ignore[arg-type]


class Case(NamedTuple):
    world: World
    state: Any
    noisy: Any


@cache
def case(goal: bool = False) -> Case:
    cfg = replace(TINY, goal=goal)
    world = world_of(three(), cfg)
    shapes = jax.eval_shape(lambda key: diffuser.init(key, Sizes(3, 2), cfg), jax.random.key(1))
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)  # compiling `init` takes seconds
    state = strange_state(blank, np.random.default_rng(2))
    return Case(world, state, jax.jit(lambda key: draw(world, key, cfg))(jax.random.key(3)))


@pytest.mark.parametrize("goal", [False, True])
def test_what_is_learned_from(goal: bool) -> None:
    """Windows as they are, noise everywhere but in what is known, and the return from the first row."""
    world, _, noisy = plain(case(goal))
    windows = world.prepared
    row, noise, t = (jax.random.split(jax.random.key(3), 3)[k] for k in range(3))
    rows = windows.starts[np.asarray(jax.random.randint(row, (6,), 0, len(windows.starts)))]
    steps = np.asarray(jax.random.randint(noise, (6,), 0, 3))
    draws = np.asarray(jax.random.normal(t, (6, 4, 5)), np.float64)
    kept = _kept(3)
    np.testing.assert_array_equal(noisy.t, steps)
    for b, first in enumerate(rows.tolist()):
        assert noisy.returns[b] == windows.returns[first]
        for h in range(4):
            place = first + h if first + h < windows.stop[first] else windows.padding[first]
            for d in range(5):
                clean = float(windows.table[place, d])
                dirty = np.sqrt(kept[steps[b]]) * clean + np.sqrt(1 - kept[steps[b]]) * draws[b, h, d]
                known = d >= 2 and (h == 0 or (goal and h == 3))
                assert noisy.clean[b, h, d] == pytest.approx(clean, abs=1e-6)
                assert noisy.x[b, h, d] == pytest.approx(clean if known else dirty, abs=1e-4)


def _kept(steps: int) -> list[float]:
    def curve(place: int) -> float:
        return float(np.cos((place / steps + 0.008) / 1.008 * np.pi / 2) ** 2)

    kept = [1.0]
    for t in range(steps):
        kept.append(kept[-1] * (1 - min(1 - curve(t + 1) / curve(t), 0.999)))
    return kept[1:]


def test_both_losses() -> None:
    world, state, noisy = plain(case())
    fixed = np.asarray(diffuser.known(world, TINY))
    weighted = first = judged = 0.0
    for b in range(6):
        predicted = oracle.denoised(state.denoiser.network, noisy.x[b], float(noisy.t[b]))
        for h in range(4):
            for d in range(5):
                error = 0.0 if h == 0 and d >= 2 else (predicted[h, d] - noisy.clean[b, h, d]) ** 2
                weighted += error * (10 if h == 0 and d < 2 else 1)
                first += error if h == 0 else 0
        value = oracle.judged(state.guide.network, noisy.x[b], float(noisy.t[b]))
        judged += (value - noisy.returns[b]) ** 2
    loss, metrics = jax.jit(lambda net, noisy: plan_loss(net, noisy, fixed, TINY))(state.denoiser.network, noisy)
    assert float(loss) == pytest.approx(weighted / 120, rel=1e-3) and loss == metrics["plan_loss"]
    assert float(metrics["first_action_error"]) == pytest.approx(first / 12, rel=1e-3)
    loss, metrics = jax.jit(value_loss)(state.guide.network, noisy)
    assert float(loss) == pytest.approx(judged / 6, rel=1e-3) and loss == metrics["value_loss"]


@pytest.mark.slow
def test_who_learns_from_whom() -> None:
    """Each network from itself alone."""
    world, state, _ = case()
    found = {
        update.__name__: taught_by(update, TINY, state, world) for update in (diffuser.update, diffuser.update_guide)
    }
    assert found == {
        "update": {"denoiser": {"denoiser.network"}, "guide": set()},
        "update_guide": {"denoiser": set(), "guide": {"guide.network"}},
    }


def test_the_slow_copy_is_a_copy_at_first_and_an_average_later() -> None:
    cfg = replace(TINY, ema_every=3, ema_start=5, ema_decay=0.9)
    learner = new_learner(jnp.asarray(0.0), optax.adam(0.1))
    slow, kept = 0.0, []
    for step in range(14):
        _, moments = optax.adam(0.1).update(jnp.asarray(1.0), learner.moments)
        learner = averaged(learner._replace(network=jnp.asarray(step + 1.0), moments=moments), cfg)
        if step % 3 == 0:
            slow = step + 1.0 if step < 5 else 0.9 * slow + 0.1 * (step + 1.0)
        kept.append(slow)
        assert float(learner.target or 0) == pytest.approx(slow, rel=1e-6)
    assert kept[2] == 1.0 and kept[4] == 4.0 and kept[6] == pytest.approx(0.9 * 4 + 0.7)


LOCOMOTION = {
    "hopper-medium-v2": (32, (32, 64, 128, 256), False, 0.1, 2),
    "hopper-medium-replay-v2": (32, (32, 64, 128, 256), False, 0.1, 2),
    "hopper-medium-expert-v2": (32, (32, 64, 128, 256), False, 0.0001, 4),
    "walker2d-medium-v2": (32, (32, 64, 128, 256), False, 0.1, 2),
    "walker2d-medium-replay-v2": (32, (32, 64, 128, 256), False, 0.1, 2),
    "walker2d-medium-expert-v2": (32, (32, 64, 128, 256), False, 0.1, 2),
    "halfcheetah-medium-v2": (4, (32, 128, 256), True, 0.001, 4),
    "halfcheetah-medium-replay-v2": (4, (32, 128, 256), True, 0.001, 4),
    "halfcheetah-medium-expert-v2": (4, (32, 128, 256), True, 0.001, 4),
}


@pytest.mark.parametrize("name", LOCOMOTION)
def test_published_settings(name: str) -> None:
    cfg: Config = preset(algos.find("diffuser"), name).config
    found = cfg.horizon, cfg.channels, cfg.attention, cfg.guide_scale, cfg.guide_until
    assert found == LOCOMOTION[name]
    assert (cfg.steps, cfg.value_steps, cfg.batch, cfg.learning_rate) == (10**6, 200_000, 64, 2e-4)
    assert (cfg.noise_steps, cfg.plans, cfg.guide_steps, cfg.warm_steps) == (20, 64, 2, 20)
    assert (cfg.action_weight, cfg.return_discount, cfg.fall_cost, cfg.scaling) == (10, 0.997, 100, "gaussian")
    assert (cfg.ema_decay, cfg.ema_every, cfg.ema_start, cfg.goal) == (0.995, 10, 2_000, False)


def test_presets_can_be_planned_with() -> None:
    """In all of them the horizon can be halved as often as the network does, and the plan of before fits."""
    described = algos.find("diffuser")
    for name in (*LOCOMOTION, "antmaze-umaze-v2", "stacq/maze-stitching-v0", "mine"):
        assert preset(described, name).evaluations == 5  # each takes as long as thousands of updates
        for variant in described.variants:
            for small in (False, True):
                cfg: Config = preset(described, name, variant=variant, small=small).config
                check_planning(diffuser.planning(cfg))
                assert cfg.goal == (variant == "goal") and (cfg.warm_steps < cfg.noise_steps) >= (variant == "warm")


GOALS = ("antmaze-umaze-v2", "stacq/pointmaze-medium-v0", "stacq/maze-stitching-v0")


@pytest.mark.parametrize("name", GOALS)
@pytest.mark.parametrize("small", [False, True])
def test_a_goal_costs_nothing(name: str, small: bool) -> None:
    """Where the end of a task is its goal, the price of a fall would make the guide lead away from it."""
    assert preset(algos.find("diffuser"), name, small=small).config.fall_cost == 0


def bandit() -> Dataset:
    """Both actions are equally frequent, one pays; states say nothing. The mean action, 0, is never taken."""
    rng = np.random.default_rng(0)
    way = np.where(np.arange(60) % 2, 0.7, -0.7)
    return recording(
        list(rng.normal(size=(60, 5, 1))),
        [np.full((4, 1), each) + rng.normal(0, 0.05, (4, 1)) for each in way],
        [np.full(4, float(each > 0)) for each in way],
        terminal=[False] * 60,
    )


BANDIT = Config(
    steps=800,
    value_steps=400,
    batch=32,
    channels=(8,),
    horizon=4,
    noise_steps=8,
    plans=4,
    guide_scale=0.5,
    learning_rate=3e-3,
    ema_start=10_000,  # copies all along: the training is shorter than what an average needs
)


@cache
def planners() -> dict[str, PlannerPolicy]:
    """One training; how its plans are made differs."""
    data = bandit()
    state = train("diffuser", world_of(data, BANDIT), BANDIT)
    space = space_of(data)
    found = diffuser.policy(jax.device_get(state), space)
    assert isinstance(found, PlannerPolicy)
    alone = replace(found.planning, plans=1, warm_steps=3)
    return {
        "guided": found,
        "pushed": replace(found, planning=alone, guide_scale=2.0),
        "free": replace(found, planning=alone, guide_scale=0.0),
    }


def decisions(name: str, count: int = 48) -> Any:
    seen = np.random.default_rng(1).normal(size=(count, 1))
    return planners()[name](seen, np.random.default_rng(2))[:, 0]


@pytest.mark.slow
def test_plans_begin_with_the_better_of_two_actions_and_never_with_their_mean() -> None:
    free, pushed, guided = decisions("free"), decisions("pushed"), decisions("guided")
    assert np.mean(np.abs(np.abs(free) - 0.7) < 0.3) > 0.9 and 0.2 < np.mean(free > 0) < 0.8
    assert np.mean(pushed > 0.4) > np.mean(free > 0.4) + 0.2  # the gradient alone
    assert np.mean(guided > 0.4) > 0.9


@pytest.mark.slow
def test_a_file_keeps_it_whole(tmp_path: Path) -> None:
    planner = planners()["guided"]
    planner.save(tmp_path / "p.safetensors")
    again = Policy.load(tmp_path / "p.safetensors")
    assert isinstance(again, PlannerPolicy) and again.planning == planner.planning
    seen = np.zeros((48, 1))
    assert np.array_equal(again(seen, np.random.default_rng(5)), planner(seen, np.random.default_rng(5)))


@pytest.mark.slow
def test_an_episode_remembers_its_plan_where_it_is_asked_to() -> None:
    """From three of eight steps of noise on the last plan, the next one stays at the same of the two actions."""
    crew = PlannerPolicy.crew([planners()["free"]], 48)
    rngs = [[np.random.default_rng(k) for k in range(48)]]
    seen, everyone = np.zeros((1, 48, 1), np.float32), np.ones((1, 48), dtype=np.bool_)
    first, second, third = (crew(everyone, seen, rngs)[0, :, 0] for _ in range(3))
    assert len({*np.sign(first)}) == 2
    assert np.mean(np.sign(first) == np.sign(second)) > 0.9 and np.mean(np.sign(second) == np.sign(third)) > 0.9
    assert not np.array_equal(first, second)

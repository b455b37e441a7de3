"""Does it learn? Small problems whose answers are known, and broken variants of each that must miss them.

Nearly all have 40 rows in the plane, s' = s + STEP a exactly: worlds of one shape share compiled programs.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from algo_cases import point_dynamics, recording, sets_of
from probe_cases import actions, train, values, walk, world_of

from stacq.algos import bc, onestep, stacq, td3bc
from stacq.algos.pairs import own_only
from stacq.algos.world import make_world
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float64s
from stacq.data.dataset import Dataset
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig

STEP, GAMMA, COUNT, ROOM = 0.4, 0.9, 40, 256
SHARED: dict[str, Any] = {"batch": 64, "hidden": (32, 32), "learning_rate": 3e-3}
VALUED: dict[str, Any] = {**SHARED, "discount": GAMMA, "tau": 0.05, "alpha": 0.0}
CONFIGS: dict[str, Any] = {
    "td3bc": td3bc.Config(**VALUED, steps=2000, target_noise=0.0),
    "stacq": stacq.Config(**VALUED, steps=1500, target_noise=0.0, actor_noise=0.0, critics=2, slots=32),
    "onestep-stacq": onestep.Config(**VALUED, critic_steps=1500, steps=1200, actor_noise=0.0, slots=32),
    "bc": bc.Config(**SHARED, steps=1500),
}
OWN = sets_of([[row] for row in range(COUNT)])


def flat(x: Any) -> Float64s:
    """Places on a line in the plane."""
    x = np.asarray(x, np.float64)
    return np.stack([x, np.zeros_like(x)], axis=1)


def logged(paths: list[Float64s], rewards: list[Float64s], terminal: list[bool]) -> Dataset:
    """Paths of a point that moves by STEP times its action."""
    return recording(paths, [np.diff(path, axis=0) / STEP for path in paths], rewards, terminal=terminal)


def test_cloning_a_linear_policy() -> None:
    rng = np.random.default_rng(0)
    s, gain = rng.normal(size=(400, 2)), np.array([[0.3, -0.2], [0.1, 0.4]])
    told = np.clip(s @ gain, -0.95, 0.95)
    tried = rng.uniform(-1, 1, (200, 2))

    def miss(shown: Float64s) -> float:
        paths = [np.stack([place, place]) for place in s]
        data = recording(paths, [a[None] for a in shown], [np.zeros(1)] * 400, terminal=[True] * 400)
        state = train("bc", make_world(data, Normaliser.identity(2)), CONFIGS["bc"])
        return float(np.abs(actions(state, tried) - tried @ gain).max())

    assert miss(told) < 0.05
    assert miss(rng.permutation(told)) > 0.3  # actions that belong to other states teach nothing


def test_td3bc_takes_the_better_of_two_logged_actions() -> None:
    """Half of the rows go right and are paid for it; the actor's sign and weight decide what is learned."""
    rng = np.random.default_rng(1)
    s, right = rng.normal(size=(COUNT, 2)), np.arange(COUNT) % 2 == 0
    a = np.where(right, 0.5, -0.5)[:, None] * [1.0, 0.0] + rng.normal(0, 0.1, (COUNT, 2))
    paths = [np.stack([place, place]) for place in s]
    data = recording(paths, list(a[:, None]), list(right[:, None].astype(float)), terminal=[True] * COUNT)
    world = world_of(data, point_dynamics(STEP), OWN, ROOM)

    def chosen(alpha: float) -> Float64s:
        found: Float64s = actions(train("td3bc", world, replace(CONFIGS["td3bc"], alpha=alpha)), 0.5 * s)[:, 0]
        return found

    assert np.median(chosen(2.5)) > 0.25 and np.median(chosen(-2.5)) < -0.25


def chain() -> tuple[Dataset, Float64s]:
    """Four times the same ten steps along a line, and the value of each step."""
    rewards = np.array([0, 0, 1, 0, 0, -1, 0, 0, 0, 4.0])
    wanted, beyond = np.zeros(10), 0.0
    for step in reversed(range(10)):
        beyond = wanted[step] = rewards[step] + GAMMA * beyond
    return logged([flat(np.linspace(-1, 1, 11))] * 4, [rewards] * 4, [True] * 4), wanted


def circles(terminal: bool) -> Dataset:
    """Round and round for 1 a step, stopped by the clock every eight steps, or so it should be."""
    angle = np.arange(COUNT + 1) * np.pi / 10
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    paths = [places[first : first + 9] for first in range(0, COUNT, 8)]
    return logged(paths, [np.ones(8)] * 5, [terminal] * 5)


def learned_values(name: str, data: Dataset) -> Float64s:
    world = world_of(data, point_dynamics(STEP), OWN, ROOM)
    state = train(name, world, CONFIGS[name])
    return values(state, world.rows.all.s, world.rows.all.a if name == "td3bc" else world.rows.all.s_next)


@pytest.mark.parametrize("name", ["td3bc", "stacq", "onestep-stacq"])
def test_critics_find_known_values(name: str) -> None:
    """To 0.15 of values between 1.3 and 4, and to 5 percent of 1 / (1 - gamma)."""
    data, wanted = chain()
    np.testing.assert_allclose(learned_values(name, data)[:10], wanted, atol=0.15)
    np.testing.assert_allclose(learned_values(name, circles(terminal=False)), 10.0, rtol=0.05)
    assert learned_values(name, circles(terminal=True)).max() < 8  # a clock taken for the end of the task


GAP = 0.9  # steps between the two paths


def two_paths() -> Dataset:
    """Side by side to the right, nearly a step apart, half a step out of phase: no state and no action tells of up."""
    k = np.arange(21)
    worse, better = np.stack([-8 + 0.8 * k, 0 * k], axis=1), np.stack([-8.4 + 0.8 * k, GAP + 0 * k], axis=1)
    rewards = [np.full(20, -0.2), np.concatenate([np.zeros(19), [1.0]])]
    return logged([STEP * worse, STEP * better], rewards, [True, True])


@cache
def two_path_sets() -> Any:
    data = two_paths()
    return reachable_sets(data, point_dynamics(STEP, parents={"dataset": data.fingerprint}), ReachConfig())


def climbed(name: str, reduced: bool = False, **changes: Any) -> Float64s:
    """How far up the policy is at each place of its way from the start of the worse path: 0 there, 1 on the better."""
    data, sets = two_paths(), two_path_sets()
    world = world_of(data, point_dynamics(STEP), own_only(sets) if reduced else sets, ROOM)
    state = train(name, world, replace(CONFIGS[name], **changes))
    places = walk(state, data.observations[0], lambda place, a: place + STEP * a, 40)
    before = places[places[:, 0] < STEP * 7.2]  # of the paths' ends
    assert 10 < len(before) < 41, "the policy does not arrive"
    found: Float64s = before[:, 1] / (GAP * STEP)
    return found


def test_the_paths_are_joined_though_they_share_no_state() -> None:
    data, sets = two_paths(), two_path_sets()
    visited = np.concatenate([data.observations, data.next_observations]).round(4)
    below, above = (set(map(tuple, visited[visited[:, 1] == level].tolist())) for level in (0, round(GAP * STEP, 4)))
    assert len(below) + len(above) == len(set(map(tuple, visited.tolist()))) == 42
    upwards = [(i, j) for i in range(20) for j in sets.of(i) if j >= 20]
    assert len(upwards) > 20


@pytest.mark.parametrize("name", ["stacq", "onestep-stacq"])
def test_reachability_switches_over_to_the_better_path(name: str) -> None:
    """Without a weight on the value: the policy goes to the best reachable state and to nothing beyond it."""
    ours = climbed(name)
    assert 0.75 < ours[-1] < 1.25 and abs(ours[10:].mean() - 1) < 0.25  # early, and to stay
    assert np.abs(climbed(name, reduced=True)).max() < 0.3  # own successors alone know no way up


@pytest.mark.slow
def test_a_policy_that_climbs_and_is_held_by_its_action_switches_over_too() -> None:
    """As `robust` has it: LayerNorm in the critics, a weight on their value, and a pull to the action that leads up."""
    held: dict[str, Any] = {"layer_norm": True, "alpha": 0.05, "action_pull": 10.0}
    ours = climbed("stacq", **held)
    assert 0.75 < ours[-1] < 1.25 and abs(ours[10:].mean() - 1) < 0.25
    assert np.abs(climbed("stacq", reduced=True, **held)).max() < 0.5
    held["action_pull"] = 0.0  # nothing but the state holds it now, and without extra states it climbs all the same
    assert np.abs(climbed("stacq", reduced=True, **held)).max() > 0.75


@pytest.mark.slow
def test_a_weight_on_the_value_carries_beyond_the_better_path() -> None:
    """Forty rows hold nothing up there: the more the value counts, the further the policy climbs past the data."""
    little, much = climbed("stacq", alpha=0.02), climbed("stacq", alpha=1.0)
    assert 1.1 < little[10:].mean() < 1.4 and much[-1] > 5


def test_action_constraints_do_not_switch_over() -> None:
    """Cloning stays below, TD3+BC too while it is held there; at its published weight it leaves both paths behind."""
    assert np.abs(climbed("bc")).max() < 0.3
    assert np.abs(climbed("td3bc", alpha=0.01)).max() < 0.5
    assert abs(climbed("td3bc", alpha=2.5)[-1] - 1) > 0.5


@pytest.mark.slow
def test_between_these_weights_actions_switch_over_as_well() -> None:
    """Critics over actions carry values across a gap of a step: so the probe tells cloning apart, not TD3+BC."""
    assert 0.75 < climbed("td3bc", alpha=0.05)[-1] < 1.25

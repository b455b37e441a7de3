"""A wall thinner than a step: states on its two sides are near, and the data say that the way is blocked."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from algo_cases import point_dynamics, recording
from probe_cases import actions, train, world_of

from stacq.algos import stacq
from stacq.core.types import Float64s
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import fit
from stacq.dynamics.models import Dynamics
from stacq.dynamics.recipes import FitConfig
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.sets import ReachableSets

STEP, FACE = 0.25, 0.1  # the wall is between x = -FACE and x = FACE
MODELS = FitConfig(2, 2, hidden=(64, 64), batch=64, max_epochs=25, learning_rate=4e-3)

SMALL: dict[str, Any] = {"steps": 3000, "batch": 64, "hidden": (64, 64), "slots": 192, "critics": 2}
GREEDY: dict[str, Any] = {"alpha": 0.0, "tau": 0.05, "target_noise": 0.1, "actor_noise": 0.05}


def moved(place: Float64s, a: Float64s) -> Float64s:
    """A point that stops at the wall's faces."""
    x, y = place + STEP * np.clip(a, -1, 1)
    return np.array([min(x, -FACE) if place[0] < 0 else max(x, FACE), y])


@cache
def walled() -> Dataset:
    """Random steps on both sides. Leaving the field ends the task, and pays more on the right."""
    rng = np.random.default_rng(0)
    paths: list[Any] = []
    pushes: list[Any] = []
    for _ in range(300):
        place = np.array([rng.choice([-1, 1]) * rng.uniform(FACE, 0.9), rng.uniform(-0.5, 0.5)])
        path, pushed = [place], list[Float64s]()
        while len(pushed) < 10 and abs(path[-1][0]) <= 1:
            pushed.append(rng.uniform(-1, 1, 2))
            path.append(moved(path[-1], pushed[-1]))
        paths.append(np.array(path))
        pushes.append(np.array(pushed))
    out = [bool(abs(path[-1, 0]) > 1) for path in paths]
    rewards = [np.zeros(len(pushed)) for pushed in pushes]
    for path, reward, over in zip(paths, rewards, out, strict=True):
        reward[-1] = over * (1.0 if path[-1, 0] > 0 else 0.6)
    return recording(paths, pushes, rewards, terminal=out)


@cache
def learned() -> Dynamics:
    return fit(walled(), MODELS).dynamics


def free() -> Dynamics:
    """Models that have not heard of the wall."""
    return point_dynamics(STEP)


def joined(sets: ReachableSets) -> int:
    """Pairs whose states lie on different sides."""
    data = walled()
    return int((data.observations[sets.anchors, 0] * data.next_observations[sets.indices, 0] < 0).sum())


def sets_by(dynamics: Dynamics) -> ReachableSets:
    return reachable_sets(walled(), dynamics, ReachConfig())


@pytest.mark.slow
def test_states_on_the_two_sides_are_near_but_not_joined() -> None:
    data, sets = walled(), sets_by(learned())
    assert 2 * FACE < STEP and ((np.abs(data.next_observations[:, 0]) == np.float32(FACE)).sum() > 100)
    assert joined(sets) == 0
    assert sets.sizes.mean() > 50  # states on the same side are
    assert joined(sets_by(free())) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("knows", [True, False])
def test_the_policy_does_not_try_to_pass(knows: bool) -> None:
    """More is paid on the right; from the left it is out of reach, and a policy that believes otherwise gets stuck."""
    dynamics = learned() if knows else free()
    cfg = stacq.Config(**SMALL, **GREEDY, learning_rate=3e-3, discount=0.9)
    world = world_of(walled(), dynamics, sets_by(dynamics))
    for seed in (0, 1):
        state = train("stacq", world, cfg, seed)

        def arrival(x: float, y: float, state: Any = state) -> float:
            place = np.array([x, y])
            for _ in range(30):
                place = moved(place, actions(state, dynamics.normaliser.apply(place)[None])[0])
                if abs(place[0]) > 1:
                    break
            return float(place[0])

        assert arrival(0.5, 0.0) > 1 and arrival(0.1, 0.1) > 1
        if knows:
            assert max(arrival(-0.1, 0.0), arrival(-0.3, 0.2), arrival(-0.5, -0.3)) < -1
        else:
            assert -0.6 < arrival(-0.1, 0.0) <= -FACE

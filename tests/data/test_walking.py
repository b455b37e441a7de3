"""Walks through D4RL's mazes: rules that hold, labels of the next state, rows that the simulator repeats."""

import hashlib
import json
from functools import cache

import numpy as np
import pytest

from stacq import InputError, generate, load
from stacq.core.types import Bools, Floats
from stacq.data.behaviour import load_walker
from stacq.data.dataset import Dataset
from stacq.data.generate import roll_out
from stacq.data.registry import find, recipe, task_of
from stacq.data.walking import Errand, ant_pilot, arena_of, goal_cell, near_cells, point_pilot, start_cell
from stacq.data.walks import NEAR, WALKS, Walk
from stacq.envs.bodies import ANT, ARENAS, GOAL_RADIUS, Arena
from stacq.envs.gym import make_env
from stacq.envs.layouts import LAYOUTS, UMAZE, moves_to
from stacq.envs.simulation import Simulation

STITCH = [name for name in WALKS if name.endswith("-stitch")]
SMALL = {"pointmaze-umaze": 3000, "pointmaze-large-stitch": 3000, "antmaze-umaze": 1000, "antmaze-umaze-stitch": 2000}


@cache
def recorded(name: str) -> Dataset:
    return roll_out(recipe(name, size=SMALL[name]), workers=1)


def walk_of(name: str) -> Walk:
    walk = find(f"stacq/{name}-v0").walk
    assert walk is not None
    return walk


def recordings(dataset: Dataset, name: str) -> list[slice]:
    """Whole episodes of the recording, whatever was labelled in them."""
    steps = walk_of(name).steps
    return [slice(start, start + steps) for start in range(0, len(dataset), steps)]


def test_every_set_has_its_facts() -> None:
    kinds = [f"{body}maze-{layout}" for body in ("ant", "point") for layout in LAYOUTS]
    variants = {"antmaze-umaze-diverse"} | {
        f"antmaze-{layout}-{kind}" for layout in ("medium", "large") for kind in ("play", "diverse")
    }
    bare = {kind for kind in kinds if kind not in ("antmaze-medium", "antmaze-large")}
    assert set(WALKS) == bare | variants | {f"{kind}-stitch" for kind in kinds}
    for name in WALKS:
        plan = recipe(name)
        assert plan.info.name == f"stacq/{name}-v0" and plan.rows == 1_000_000
        assert not plan.info.resets_after_terminal and plan.info.env_id in ARENAS
        assert task_of(plan.info.name) is plan.info.task is task_of(str(plan.info.env_id))
    assert walk_of("antmaze-large-play").goals == "marked" and walk_of("antmaze-umaze").starts == "start"
    with pytest.raises(InputError, match="did you mean"):
        recipe("antmaze-giant-stitch")


@pytest.mark.parametrize("name", WALKS)
def test_starts_and_goals_follow_the_rules(name: str) -> None:
    walk = walk_of(name)
    arena, rng = arena_of(walk), np.random.default_rng(0)
    layout, pairs = arena.layout, []
    for _ in range(400):
        start = start_cell(walk, arena, rng)
        pairs.append((start, goal_cell(walk, arena, start, rng)))
    starts, goals = ({pair[side] for pair in pairs} for side in (0, 1))
    free = set(layout.free)
    assert starts == {"start": {arena.start}, "free": free, "unmarked": free - set(layout.marked)}[walk.starts]
    if walk.goals == "near":
        moves = {moves_to(layout, start)[goal] for start, goal in pairs}
        assert max(moves) == NEAR and (min(moves) == NEAR or layout is UMAZE)
    else:
        assert goals == {"goal": {arena.goal}, "free": free, "marked": set(layout.marked)}[walk.goals]
    assert all(start != goal for start, goal in pairs)


@pytest.mark.parametrize("name", STITCH)
def test_no_stitch_errand_joins_start_and_goal(name: str) -> None:
    """Every cell on any shortest way of an errand is within four moves of all others on it; start and goal are not."""
    arena = arena_of(walk_of(name))
    apart = moves_to(arena.layout, arena.goal)[arena.start]
    assert apart > NEAR
    for start in arena.layout.free:
        for goal in near_cells(arena.layout, start):
            there, back = moves_to(arena.layout, start), moves_to(arena.layout, goal)
            passed = {cell for cell in arena.layout.free if there[cell] + back[cell] <= there[goal]}
            assert not {arena.start, arena.goal} <= passed


def solves(dataset: Dataset, arena: Arena, rows: slice) -> bool:
    """Whether an episode comes to the goal after it was in the start cell."""
    cells = arena.body.grid.cells(dataset.observations[rows, :2])
    from_start = np.flatnonzero((cells == arena.start).all(axis=1))
    ends: Floats = dataset.next_observations[rows, :2]
    there = np.flatnonzero(np.hypot(*(ends - arena.usual_goal).T) <= GOAL_RADIUS)
    return len(from_start) > 0 and bool((there >= from_start[0]).any())


@pytest.mark.parametrize("name", SMALL)
def test_stitch_episodes_do_not_solve_the_task_and_others_may(name: str) -> None:
    dataset, arena = recorded(name), arena_of(walk_of(name))
    solved = [solves(dataset, arena, rows) for rows in recordings(dataset, name)]
    assert any(solved) == (name not in STITCH)


def near(dataset: Dataset, arena: Arena) -> Bools:
    goal = json.loads(dataset.provenance["label_goal"])
    assert tuple(goal) == arena.usual_goal
    found: Bools = np.hypot(*(dataset.next_observations[:, :2].astype(np.float64) - goal).T) <= GOAL_RADIUS
    return found


@pytest.mark.parametrize("name", SMALL)
def test_labels_are_of_the_next_state_and_ends_are_true(name: str) -> None:
    dataset, walk = recorded(name), walk_of(name)
    reached = near(dataset, arena_of(walk))
    assert reached.any() and not reached.all()
    np.testing.assert_array_equal(dataset.rewards, reached)
    np.testing.assert_array_equal(dataset.terminals, reached)
    np.testing.assert_array_equal(
        np.flatnonzero(dataset.timeouts) + 1, np.arange(walk.steps, SMALL[name] + 1, walk.steps)
    )
    assert dataset.successor_known.all() and not dataset.cut.any()
    for rows in recordings(dataset, name):  # inside a recording each row goes on where the one before ended
        np.testing.assert_array_equal(dataset.next_observations[rows][:-1], dataset.observations[rows][1:])
    borders = np.flatnonzero(dataset.timeouts)[:-1]
    gaps = np.abs(dataset.next_observations[borders, :2] - dataset.observations[borders + 1, :2])
    assert len(borders) == 0 or gaps.max() > 0.05


@pytest.mark.parametrize("name", SMALL)
def test_the_simulator_repeats_every_row(name: str) -> None:
    dataset = recorded(name)
    simulation = Simulation(arena_of(walk_of(name)))
    for row in (0, 1, 57, 640, len(dataset) - 1):
        qpos, qvel = dataset.infos["qpos"][row], dataset.infos["qvel"][row]
        np.testing.assert_allclose(np.concatenate([qpos, qvel]), dataset.observations[row], rtol=1e-5, atol=1e-6)
        simulation.place(qpos, qvel)
        simulation.advance(dataset.actions[row])
        np.testing.assert_allclose(simulation.observation(), dataset.next_observations[row], atol=1e-4)


def test_a_point_gets_another_goal_when_it_has_reached_one_and_an_ant_does_not() -> None:
    for name, most in (("pointmaze-umaze", None), ("antmaze-umaze", 1), ("pointmaze-large-stitch", 1)):
        dataset = recorded(name)
        for rows in recordings(dataset, name):
            goals = np.unique(dataset.infos["goal"][rows], axis=0)
            assert len(goals) == most if most else len(goals) > 2
            at = np.linalg.norm(dataset.next_observations[rows, :2] - dataset.infos["goal"][rows], axis=1)
            assert at.min() <= GOAL_RADIUS


def test_noise_is_as_declared() -> None:
    """Near its goal a point is pushed to it. The median distance from that push is that of the noise: cutting off at
    the bounds moves only larger ones."""
    dataset, arena = recorded("pointmaze-large-stitch"), arena_of(walk_of("pointmaze-large-stitch"))
    simulation, away = Simulation(arena), []
    gaps = np.linalg.norm(dataset.observations[:, :2] - dataset.infos["goal"], axis=1)
    for row in np.flatnonzero(gaps < 0.1):
        simulation.place(dataset.infos["qpos"][row], dataset.infos["qvel"][row])
        x, y = dataset.infos["goal"][row]
        push = point_pilot(simulation, (x, y), np.random.default_rng(0))
        away += list(np.abs(dataset.actions[row] - push)[np.abs(push) < 0.3])
    assert len(away) > 200
    assert np.median(away) == pytest.approx(0.6745 * WALKS["pointmaze-umaze"].noise, rel=0.15)


def test_a_body_is_sent_from_middle_to_middle_and_back_on_its_way_when_it_is_lost() -> None:
    arena = Arena(ANT, UMAZE)
    errand = Errand(WALKS["antmaze-umaze"], arena, (1, 1), np.random.default_rng(0))
    assert 0 <= min(errand.aim) <= max(errand.aim) <= 1  # past the middle, as D4RL's
    seen = []
    place = (0.0, 0.0)
    for _ in range(9):
        aim = errand.way_point(*place)
        if aim != place:
            seen.append(arena.body.grid.cell(*aim))
        place = aim
    assert seen == [(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1)]
    assert errand.way_point(8.0, 0.0) != errand.goal  # thrown back to cell (1, 3)
    assert arena.body.grid.cell(*errand.aim) == (2, 3)


def test_a_file_says_how_it_was_made() -> None:
    path = generate("antmaze-umaze-stitch", size=400, workers=1)
    dataset = load("stacq/antmaze-umaze-stitch-v0@400", infos=["qpos", "qvel", "goal"])
    assert path.name == "antmaze-umaze-stitch-v0@400.hdf5" and dataset.env_id == "stacq/AntMaze-umaze-v0"
    facts = dataset.provenance
    assert {"start_rule", "goal_rule", "way_points", "action_noise", "episode", "labels", "label_goal"} < set(facts)
    assert "0.2" in facts["action_noise"] and "200 steps" in facts["episode"] and "mujoco" in facts["simulator"]
    assert len(facts["controller"].rsplit(" ", 1)[1]) == 64 and facts["seed"] == "0"
    assert dataset.infos["qpos"].shape == (400, 15) and dataset.infos["goal"].shape == (400, 2)
    assert dataset.infos["qpos"].dtype == np.float64 and dataset.successor_known.all()


@pytest.mark.parametrize("name", ["pointmaze-medium-stitch", "antmaze-medium-stitch"])
def test_bits_do_not_depend_on_the_number_of_workers(name: str) -> None:
    digests = [
        hashlib.sha256(generate(name, size=1200, workers=workers, force=True).read_bytes()).hexdigest()
        for workers in (1, 2)
    ]
    assert digests[0] == digests[1]


def test_the_walker_sees_the_ant_and_a_direction() -> None:
    walker = load_walker()
    assert (walker.observation_size, walker.action_size) == (29, 8) and walker.log_std_range == (-10.0, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_walker_reaches_the_goal(layout: str) -> None:
    """In the environment itself, from its start to its goal, with the noise of the recordings: 10 episodes of each."""
    env = make_env(f"stacq/AntMaze-{layout}-v0")
    walk, rng, lengths = Walk(f"antmaze-{layout}", "start", "goal"), np.random.default_rng(0), []
    for episode in range(10):
        env.reset(seed=episode)
        bare = env.unwrapped
        errand = Errand(walk, bare.arena, bare.arena.start, rng)
        errand.goal = bare.goal
        ended = False
        while not ended:
            x, y = bare.simulation.qpos[:2].tolist()
            action = ant_pilot(bare.simulation, errand.way_point(x, y), rng) + walk.noise * rng.standard_normal(8)
            _, _, terminated, truncated, info = env.step(action.clip(-1, 1))
            ended = terminated or truncated
        lengths.append(env.get_wrapper_attr("_elapsed_steps") if info["success"] else None)
    arrived = [length for length in lengths if length is not None]
    assert len(arrived) >= 9 and bare.arena.body is ANT
    assert np.median(arrived) < {"umaze": 200, "medium": 320, "large": 430}[layout]

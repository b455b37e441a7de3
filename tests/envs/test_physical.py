"""PointMaze and AntMaze: D4RL's numbers, walls that hold, goals and ends as D4RL has them."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from stacq import InputError
from stacq.core.types import Floats
from stacq.envs.bodies import ANT, ARENAS, GOAL_RADIUS, POINT, Arena
from stacq.envs.gym import facts_of, make_env
from stacq.envs.layouts import LARGE, LAYOUTS, MEDIUM, UMAZE, Cell, moves_to, next_cells
from stacq.envs.planview import GOAL, PIXELS, WALL, plan
from stacq.envs.simulation import Simulation
from stacq.envs.simulator import Simulator

ANT_IDS = [name for name in ARENAS if "AntMaze" in name]
POINT_IDS = [name for name in ARENAS if "PointMaze" in name]
BARE_ANT = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"


def still(env: Any) -> Floats:
    return np.zeros(env.action_space.shape)


def name_of(model: Any, kind: Any, index: int) -> str:
    return str(mujoco.mj_id2name(model, kind, index))


def test_the_environments_are_those_of_the_table() -> None:
    sizes = {name: ARENAS[name].limit for name in ARENAS}
    assert sizes == {
        "stacq/PointMaze-umaze-v0": 300,
        "stacq/PointMaze-medium-v0": 600,
        "stacq/PointMaze-large-v0": 800,
        "stacq/AntMaze-umaze-v0": 700,
        "stacq/AntMaze-medium-v0": 1000,
        "stacq/AntMaze-large-v0": 1000,
    }
    for name in ARENAS:
        facts = facts_of(make_env(name), name)
        assert (facts.observation_size, facts.action_size) == ((29, 8) if name in ANT_IDS else (4, 2))
        assert facts.max_episode_steps == ARENAS[name].limit
        assert facts.action_low.tolist() == [-1.0] * facts.action_size


def test_layouts() -> None:
    """Sizes, free cells, and the lengths of the ways that evaluations ask for."""
    assert [layout.solid.shape for layout in LAYOUTS.values()] == [(5, 5), (8, 8), (9, 12)]
    assert [len(layout.free) for layout in LAYOUTS.values()] == [7, 26, 46]
    assert [moves_to(layout, layout.goal)[layout.start] for layout in LAYOUTS.values()] == [6, 10, 14]
    for layout in LAYOUTS.values():
        assert {layout.start, layout.goal, *layout.marked} <= set(layout.free)
        assert set(moves_to(layout, layout.goal)) == set(layout.free)
        solid = layout.solid
        assert solid[0].all() and solid[-1].all() and solid[:, 0].all() and solid[:, -1].all()
    assert MEDIUM.goal not in MEDIUM.marked and LARGE.goal in LARGE.marked


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_way_points_lead_to_the_goal_one_move_at_a_time(layout: Any) -> None:
    for goal in layout.free:
        ways, moves = next_cells(layout, goal), moves_to(layout, goal)
        assert ways[goal] == goal
        assert all(moves[ways[cell]] == moves[cell] - 1 for cell in layout.free if cell != goal)


def test_places_and_cells() -> None:
    """D4RL's coordinates: AntMaze counts from its start cell, maze2d's ball is off the walls' middles by 0.2."""
    assert [ANT.grid.centre(cell) for cell in ((1, 1), (3, 1), (6, 6), (7, 9))] == [(0, 0), (0, 8), (20, 20), (32, 24)]
    assert POINT.grid.centre((3, 1)) == pytest.approx((2.8, 0.8))
    assert ANT.grid.cell(5.9, 8.1) == (3, 2) and POINT.grid.cell(2.9, 1.2) == (3, 1)
    rng = np.random.default_rng(0)
    for body in (ANT, POINT):
        cells = [LARGE.free[index] for index in rng.integers(len(LARGE.free), size=50)]
        places = np.array([body.grid.centre(cell) for cell in cells]) + rng.uniform(-0.45, 0.45, (50, 2)) * 0.9
        assert [tuple(cell) for cell in body.grid.cells(places).tolist()] == cells
        assert [body.grid.cell(*place) for place in places] == cells


def test_the_ant_is_d4rls() -> None:
    model = Simulation(Arena(ANT, UMAZE)).model
    assert model.body_mass.sum() == pytest.approx(0.911, abs=5e-4)
    assert (model.opt.timestep, model.opt.integrator) == (0.02, mujoco.mjtIntegrator.mjINT_RK4)
    assert ANT.frame_skip * model.opt.timestep == pytest.approx(0.1)
    joints = [name_of(model, mujoco.mjtObj.mjOBJ_JOINT, model.actuator_trnid[i, 0]) for i in range(8)]
    assert joints == ["hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3"]
    assert model.actuator_ctrlrange.tolist() == [[-30.0, 30.0]] * 8 and model.actuator_gear[:, 0].tolist() == [1.0] * 8
    assert model.dof_armature.tolist() == model.dof_damping.tolist() == [0.0] * 6 + [1.0] * 8
    assert model.qpos0.tolist() == [0, 0, 0.75, 1, 0, 0, 0] + [0] * 8
    parts = model.geom_bodyid > 0
    assert set(model.geom_conaffinity[parts]) == {0} and set(model.geom_conaffinity[~parts]) == {1}
    np.testing.assert_allclose(model.geom_solimp[:, :3], [[0.8, 0.8, 0.01]] * model.ngeom)
    np.testing.assert_allclose(model.geom_solref, [[0.02, 1.0]] * model.ngeom)
    np.testing.assert_allclose(model.geom_friction, [[1.0, 0.5, 0.5]] * model.ngeom)
    assert set(model.geom_margin) == {0.01}


def test_the_ants_shape_is_that_of_gymnasiums() -> None:
    """Another file with the same ant: every part at the same place, every joint with the same axis and range."""
    theirs = mujoco.MjModel.from_xml_path(str(BARE_ANT))
    ours = Simulation(Arena(ANT, UMAZE)).model
    found = []
    for model in (ours, theirs):
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        parts = np.flatnonzero(model.geom_bodyid > 0)
        parts = parts[np.lexsort(np.round(data.geom_xpos[parts], 6).T)]
        hinges = [model.joint(f"{kind}_{n}").id for kind in ("hip", "ankle") for n in (1, 2, 3, 4)]
        found.append(
            (
                np.unique(np.round(np.column_stack([data.geom_xpos[parts], model.geom_size[parts, :2]]), 6), axis=0),
                np.column_stack([model.jnt_axis[hinges], model.jnt_range[hinges], data.xanchor[hinges]]),
                [model.body_mass.sum(), *data.subtree_com[1]],
            )
        )
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_the_point_is_maze2ds() -> None:
    model = Simulation(Arena(POINT, LARGE)).model
    assert (model.opt.timestep, model.opt.integrator) == (0.01, mujoco.mjtIntegrator.mjINT_EULER)
    assert model.opt.gravity.tolist() == [0, 0, 0] and POINT.frame_skip == 1
    assert model.body_mass.sum() == pytest.approx(4 / 3 * math.pi * 0.1**3 * 1000)
    assert model.dof_damping.tolist() == [1, 1] and model.actuator_gear[:, 0].tolist() == [100, 100]
    simulation = Simulation(Arena(POINT, LARGE))
    simulation.place(np.array([0.8, 0.8]), np.array([0.0, 9.0]))
    simulation.advance(np.zeros(2))
    assert simulation.qpos[1] == pytest.approx(0.8 + 0.05, abs=2e-3)  # 9 was cut down to 5 before the step


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_no_ball_gets_into_a_wall(layout: Any) -> None:
    """At full speed from every free cell in eight directions."""
    simulation = Simulation(Arena(POINT, layout))
    for cell in layout.free:
        for angle in np.arange(8) * math.pi / 4:
            way = np.array([math.cos(angle), math.sin(angle)])
            simulation.place(np.array(POINT.grid.centre(cell)), 5 * way)
            for _ in range(60):
                simulation.advance(way)
                assert POINT.grid.cell(*simulation.qpos) in layout.free


def shoved(simulation: Simulation, cell: Cell, way: Floats, steps: int) -> list[Cell]:
    """The cells that an ant comes through when something drags it along."""
    qpos = np.array(simulation.model.qpos0)
    qpos[:2] = ANT.grid.centre(cell)
    simulation.place(qpos, np.zeros(14))
    found = []
    for _ in range(steps):
        simulation.data.xfrc_applied[1, :2] = 15 * way
        simulation.advance(np.zeros(8))
        found.append(ANT.grid.cell(*simulation.qpos[:2]))
    return found


def test_no_ant_gets_into_a_wall() -> None:
    """Dragged from the start of the U against its walls; along the corridor it goes on."""
    simulation = Simulation(Arena(ANT, UMAZE))
    for way in ((-1, 0), (0, -1), (0, 1)):
        assert set(shoved(simulation, (1, 1), np.array(way), 12)) == {(1, 1)}
    assert shoved(simulation, (1, 1), np.array([1, 0]), 12)[-1] == (1, 3)
    assert shoved(simulation, (1, 3), np.array([0, 1]), 12)[-1] == (3, 3)


@pytest.mark.parametrize("name", ANT_IDS)
def test_goals_are_drawn_as_d4rl_draws_them(name: str) -> None:
    """A sum of two even draws past the middle of the goal cell along each axis, anew in each episode."""
    arena, rng = ARENAS[name], np.random.default_rng(0)
    shifts = np.array([arena.goal_in(arena.goal, rng) for _ in range(4000)]) - arena.body.grid.centre(arena.goal)
    assert shifts.min() >= 0 and shifts.max() <= 1.5
    np.testing.assert_allclose(shifts.mean(axis=0), 0.75, atol=0.03)
    np.testing.assert_allclose(shifts.var(axis=0), (1 + 0.25) / 12, atol=0.01)
    assert abs(np.corrcoef(shifts[:, 0], shifts[:, 1]).min()) < 0.05
    np.testing.assert_allclose(arena.usual_goal - np.array(arena.body.grid.centre(arena.goal)), 0.75)


def test_a_points_goal_is_exact_and_an_ants_belongs_to_the_episode() -> None:
    point, ant = (make_env(f"stacq/{kind}Maze-umaze-v0").unwrapped for kind in ("Point", "Ant"))
    point.reset(seed=3)
    assert point.goal == pytest.approx((1, 1))
    goals = [(ant.reset(seed=seed), ant.goal)[1] for seed in (5, 6, 5)]
    assert goals[0] == goals[2] != goals[1]
    np.random.seed(0)  # noqa: NPY002 (D4RL draws from it; here it must not count)
    ant.reset(seed=5)
    assert ant.goal == goals[0]


@pytest.mark.parametrize("name", ARENAS)
def test_starts_have_d4rls_noise(name: str) -> None:
    env = make_env(name).unwrapped
    size = len(env.data.qpos)
    states = np.array([env.reset(seed=seed)[0] for seed in range(200)])
    middle = np.array(env.simulation.model.qpos0)
    middle[:2] = (0, 0) if size > 2 else (3, 1) if "umaze" in name else (1, 1)
    away = states[:, :size] - middle
    straight = [i for i in range(size) if size == 2 or not 3 <= i < 7]
    assert 0.09 < np.abs(away[:, straight]).max() <= 0.1
    if size > 2:  # rotations are disturbed too, and are rotations afterwards
        np.testing.assert_allclose(np.linalg.norm(states[:, 3:7], axis=1), 1.0)
        assert 0.05 < np.abs(states[:, 4:7]).max() <= 0.12
    assert states[:, size:].std() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("name", ["stacq/PointMaze-umaze-v0", "stacq/AntMaze-umaze-v0"])
def test_reaching_the_goal_pays_and_ends(name: str) -> None:
    env = make_env(name)
    env.reset(seed=0)
    bare, along = env.unwrapped, np.array([0, 1] if "Point" in name else [1, 0])  # away from walls
    for distance, reached in ((GOAL_RADIUS + 0.1, False), (GOAL_RADIUS - 0.1, True)):
        state = np.array(bare.simulation.model.qpos0)
        state[:2] = np.array(bare.goal) + distance * along
        bare.set_state(state, np.zeros(bare.simulation.model.nv))
        observation, reward, terminated, truncated, info = env.step(still(env))
        assert (reward, terminated, truncated, info["success"]) == (float(reached), reached, False, reached)
        np.testing.assert_allclose(observation[:2], state[:2], atol=0.05)


def test_falling_ends_nothing_and_the_limit_ends_everything() -> None:
    env = make_env("stacq/PointMaze-umaze-v0")
    env.reset(seed=0)
    ends = [env.step(still(env))[2:4] for _ in range(300)]
    assert ends == [(False, False)] * 299 + [(False, True)]
    ant = make_env("stacq/AntMaze-umaze-v0")
    ant.reset(seed=0)
    upside_down = np.array(ant.unwrapped.simulation.model.qpos0)
    upside_down[3:7] = 0, 1, 0, 0
    ant.unwrapped.set_state(upside_down, np.zeros(14))
    assert ant.step(still(ant))[1:4] == (0.0, False, False)


def test_maze2ds_rules_as_an_option() -> None:
    env: Any = gymnasium.make("stacq.envs.registered:stacq/PointMaze-umaze-v0", endless=True)
    cells = {POINT.grid.cell(*env.reset(seed=seed)[0][:2]) for seed in range(60)}
    assert cells == set(UMAZE.free)
    env.unwrapped.set_state(np.array([0.8, 0.8]), np.zeros(2))
    paid = [env.step(still(env))[1:3] for _ in range(5)]
    assert paid == [(1.0, False)] * 5


def test_episodes_may_begin_in_any_free_cell() -> None:
    env = make_env("stacq/AntMaze-medium-v0")
    observation, _ = env.reset(seed=0, options={"cell": (4, 6)})
    assert ANT.grid.cell(*observation[:2]) == (4, 6)
    with pytest.raises(InputError, match=r"cannot begin in cell 0,0.*\n.*medium|medium: an episode cannot begin"):
        env.reset(options={"cell": (0, 0)})


@pytest.mark.parametrize("name", ["stacq/PointMaze-large-v0", "stacq/AntMaze-umaze-v0"])
def test_an_episode_follows_from_its_seed_and_its_actions(name: str) -> None:
    first, second = make_env(name), gymnasium.make(name)
    actions = np.random.default_rng(0).uniform(-1, 1, (20, *first.action_space.shape))
    paths = []
    for env in (first, second, first):
        started, _ = env.reset(seed=7)
        paths.append(np.array([started, *(env.step(action)[0] for action in actions)]))
    np.testing.assert_array_equal(paths[0], paths[1])
    np.testing.assert_array_equal(paths[0], paths[2])
    assert np.abs(paths[0][-1] - paths[0][0]).max() > 0.01


def test_gymnasiums_own_checks_pass() -> None:
    check_env(make_env("stacq/PointMaze-medium-v0").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("action", [np.zeros(3), np.full(8, np.nan), np.zeros((1, 8)), np.full(8, np.inf)])
def test_what_is_no_action_is_refused(action: Floats) -> None:
    env = make_env("stacq/AntMaze-umaze-v0")
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"finite numbers of shape \(8,\)"):
        env.step(action)


def test_motors_cut_off_what_is_too_strong() -> None:
    env = make_env("stacq/AntMaze-umaze-v0")
    found = []
    for strength in (1.0, 50.0):
        env.reset(seed=1)
        found.append(env.step(np.full(8, strength))[0])
    np.testing.assert_array_equal(*found)


def test_a_wrong_id_is_told_the_right_ones() -> None:
    with pytest.raises(InputError, match=r"no such environment(.|\n)*stacq/AntMaze-large-v0"):
        make_env("stacq/AntMaze-giant-v0")


def test_without_mujoco_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InputError, match=r"MuJoCo cannot be loaded(.|\n)*pip install 'stacq\[mujoco\]'"):
        make_env("stacq/PointMaze-umaze-v0")


def test_gymnasium_finds_every_environment_with_nothing_imported_before() -> None:
    ids = ["stacq/Maze-sparse-v0", "stacq/PointMaze-umaze-v0"]
    lines = [
        "import gymnasium",
        *(f"print(gymnasium.make('stacq.envs.registered:{name}').reset(seed=0)[0].shape)" for name in ids),
        "print(sum(name.startswith('stacq/') for name in gymnasium.registry))",
    ]
    found = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:3] == ["(2,)", "(4,)", "8"]


def test_the_plan_needs_no_opengl() -> None:
    env: Any = gymnasium.make("stacq.envs.registered:stacq/PointMaze-umaze-v0", render_mode="plan")
    env.reset(seed=0)
    before = env.render()
    for _ in range(60):
        env.step(np.array([0.0, 1.0]))
    after = env.render()
    assert before.shape == after.shape == (5 * PIXELS, 5 * PIXELS, 3)
    assert tuple(after[0, 0]) == WALL and (after == GOAL).all(axis=-1).sum() > 100
    changed = np.argwhere((before != after).any(axis=-1)) // PIXELS
    assert {(3, 2), (3, 3)} <= {tuple(cell) for cell in changed.tolist()} <= {(3, 1), (3, 2), (3, 3), (3, 4)}


def test_a_path_is_drawn_where_it_went() -> None:
    arena = Arena(ANT, UMAZE)
    image = plan(arena, np.array([[0.0, 0.0], [8.0, 0.0]]))
    red = np.argwhere((image == (225, 160, 140)).all(axis=-1)) / PIXELS
    np.testing.assert_allclose(red[:, 0], 1.5, atol=0.1)
    assert red[:, 1].min() < 1.6 and red[:, 1].max() > 3.3


def test_a_photograph_or_a_word_about_opengl() -> None:
    env: Any = gymnasium.make("stacq.envs.registered:stacq/PointMaze-umaze-v0", render_mode="rgb_array")
    env.reset(seed=0)
    try:
        image = env.render()
    except InputError as error:
        assert "OpenGL cannot be used here" in str(error) and "render_mode='plan'" in str(error)
    else:
        assert image.shape == (480, 480, 3) and image.std() > 10
    env.close()


def test_a_simulation_that_blows_up_goes_on_and_writes_no_log() -> None:
    """MuJoCo begins again by itself, and its warning is not written to a file in the working directory."""
    simulation = Simulation(Arena(ANT, UMAZE))
    simulation.place(simulation.qpos.copy(), np.full(14, 1e12))
    for _ in range(3):
        simulation.advance(np.ones(8))
    assert np.isfinite(simulation.observation()).all()
    assert not Path("MUJOCO_LOG.TXT").exists()


@pytest.mark.parametrize("name", ["stacq/PointMaze-umaze-v0", "stacq/AntMaze-umaze-v0"])
def test_a_step_from_a_stored_state_is_the_environments(name: str) -> None:
    """Actions are forces, velocities have a bound, and nothing of an earlier step remains."""
    env, simulator, rng = make_env(name), Simulator(name), np.random.default_rng(0)
    env.reset(seed=0)
    bare: Any = env.unwrapped
    for step in range(20):
        qpos, qvel = bare.simulation.qpos.copy(), bare.simulation.qvel.copy()
        if step == 10:
            qvel[:2] = 7.0  # the ball may not be so fast
        bare.set_state(qpos, qvel)
        action = rng.uniform(-1, 1, env.action_space.shape)
        there = simulator.next_observation(qpos, qvel, action)
        np.testing.assert_allclose(env.step(action)[0], there, atol=1e-12)
        assert not np.allclose(there, simulator.next_observation(qpos, qvel, -action))

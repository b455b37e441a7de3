"""Recordings of walks through D4RL's mazes: way-points ahead, noise on the actions, labels for one goal.

The goal that a body is sent to and the goal that rows are labelled for are two things, as in D4RL. The label goal is
the mean of the goals that an evaluation draws, and it stands in the file.
"""

import hashlib
import json
from collections.abc import Callable
from functools import cache

import numpy as np

from stacq.core.types import Float32s, Float64s, Floats
from stacq.data.behaviour import load_walker
from stacq.data.generate import GROUP_ROWS, Group, Rollout
from stacq.data.tasks import TASKS
from stacq.data.walks import NEAR, Walk
from stacq.envs.bodies import ANT, ARENAS, GOAL_RADIUS, Arena
from stacq.envs.layouts import MOVES, Cell, Layout, moves_to, next_cells
from stacq.envs.simulation import Simulation

Place = tuple[float, float]
Pilot = Callable[[Simulation, Place, np.random.Generator], Floats]
"""(simulation, way-point, generator) -> action, before noise."""
AHEAD = 10.0  # the ant is told a direction of this length
PUSH, BRAKE = 10.0, 1.0  # maze2d's controller: a = 10 (w - p) - v
SHORTEST = 1e-6
SPREAD = {"ant": (0.0, 1.0), "point": (-0.2, 0.0)}  # of way-points, seen from a cell's spot: D4RL's
PASSED = 0.2  # cells: so near a way-point counts as reached


def arena_of(walk: Walk) -> Arena:
    return ARENAS[str(TASKS[walk.task].env_id)]


def walk_group(walk: Walk, group: Group) -> Rollout:
    """Whole episodes until GROUP_ROWS rows or more, in a worker process, from the group's seed alone."""
    rng = np.random.default_rng(np.random.SeedSequence(group.seed))
    simulation = _simulation(str(TASKS[walk.task].env_id))
    count = -(-GROUP_ROWS // walk.steps)
    episodes = [_episode(walk, simulation, rng) for _ in range(count)]
    return Rollout(*[np.concatenate(columns) for columns in zip(*episodes, strict=True)])


@cache
def _simulation(env_id: str) -> Simulation:
    return Simulation(ARENAS[env_id])


def _episode(walk: Walk, simulation: Simulation, rng: np.random.Generator) -> Rollout:
    """One walk of `walk.steps` steps; its states are those before each step, and the last one's after it."""
    arena = simulation.arena
    pilot = ant_pilot if arena.body is ANT else point_pilot
    start = start_cell(walk, arena, rng)
    simulation.begin(start, rng)
    errand = Errand(walk, arena, start, rng)
    states = np.empty((walk.steps + 1, len(simulation.qpos) + len(simulation.qvel)))
    actions = np.empty((walk.steps, simulation.model.nu), dtype=np.float32)
    goals = np.empty((walk.steps, 2))
    noise: Floats = rng.normal(0.0, walk.noise, (walk.steps, simulation.model.nu))
    for step in range(walk.steps):
        states[step] = simulation.observation()
        x, y = simulation.qpos[:2].tolist()
        aim = errand.way_point(x, y)
        goals[step] = errand.goal
        actions[step] = (pilot(simulation, aim, rng) + noise[step]).clip(-1.0, 1.0)
        simulation.advance(actions[step])
    states[-1] = simulation.observation()
    return labelled(states, actions, goals, arena)


def labelled(states: Float64s, actions: Float32s, goals: Float64s, arena: Arena) -> Rollout:
    """The rows of one episode: reward and terminal by the next state, a timeout at the last row."""
    near = np.hypot(*(states[1:, :2] - arena.usual_goal).T) <= GOAL_RADIUS
    timeouts = np.zeros(len(actions), dtype=np.bool_)
    timeouts[-1] = True
    seen, positions = states.astype(np.float32), _positions(arena)
    before = states[:-1]
    return Rollout(
        observations=seen[:-1],
        actions=actions,
        rewards=near.astype(np.float32),
        next_observations=seen[1:],
        terminals=near,
        timeouts=timeouts,
        qpos=before[:, :positions],
        qvel=before[:, positions:],
        goals=goals,
    )


def _positions(arena: Arena) -> int:
    """How many numbers of a state are positions: the rotation of an ant has one more of them than of velocities."""
    return 15 if arena.body is ANT else 2


class Errand:
    """Where a body is sent, and the way there: from way-point to way-point, each near the middle of the next cell.

    A way-point counts as reached close to it. So a body passes through the middles of cells, and walks that cross one
    meet there; sent on at the border of a cell it would cut every corner.
    """

    def __init__(self, walk: Walk, arena: Arena, start: Cell, rng: np.random.Generator) -> None:
        self.walk, self.arena, self.rng = walk, arena, rng
        self._send(start)
        self._head_for(start)

    def _send(self, start: Cell) -> None:
        self.cell = goal_cell(self.walk, self.arena, start, self.rng)
        self.goal = self.arena.goal_in(self.cell, self.rng)
        self._ways = next_cells(self.arena.layout, self.cell)

    def _head_for(self, cell: Cell) -> None:
        """In the goal's own cell the way-point is the goal."""
        x, y = self.arena.spot(cell)
        dx, dy = self.rng.uniform(*SPREAD[self.arena.body.name], 2).tolist()
        self.next, self.aim = cell, self.goal if cell == self.cell else (x + dx, y + dy)

    def way_point(self, x: float, y: float) -> Place:
        """Where to go from here."""
        if self.walk.renewed and _within(x, y, self.goal, GOAL_RADIUS):
            self._send(self.cell)
            self._head_for(self._ways[self.next])
        here = self.arena.body.grid.cell(x, y)
        lost = here != self.next and self.next not in (self._ways.get(here), *_around(here))
        if lost or (self.next != self.cell and _within(x, y, self.aim, PASSED * self.arena.body.grid.size)):
            self._head_for(self._ways.get(here, here))
        return self.aim


def _within(x: float, y: float, place: Place, radius: float) -> bool:
    return (x - place[0]) ** 2 + (y - place[1]) ** 2 <= radius**2


def _around(cell: Cell) -> list[Cell]:
    return [(cell[0] + di, cell[1] + dj) for di, dj in MOVES]


def start_cell(walk: Walk, arena: Arena, rng: np.random.Generator) -> Cell:
    if walk.starts == "start":
        return arena.start
    layout = arena.layout
    marked = layout.marked if walk.starts == "unmarked" else ()
    return _one_of([cell for cell in layout.free if cell not in marked], rng)


def goal_cell(walk: Walk, arena: Arena, start: Cell, rng: np.random.Generator) -> Cell:
    match walk.goals:
        case "goal":
            return arena.goal
        case "marked":
            return _one_of(list(arena.layout.marked), rng)
        case "near":
            return _one_of(near_cells(arena.layout, start), rng)
        case "free":
            return _one_of([cell for cell in arena.layout.free if cell != start], rng)


def near_cells(layout: Layout, start: Cell) -> list[Cell]:
    """The cells four moves from `start`, or the farthest ones where the maze ends before."""
    moves = moves_to(layout, start)
    distance = min(NEAR, max(moves.values()))
    return [cell for cell, length in moves.items() if length == distance]


def _one_of(cells: list[Cell], rng: np.random.Generator) -> Cell:
    return cells[rng.integers(len(cells))]


def point_pilot(simulation: Simulation, aim: Place, rng: np.random.Generator) -> Floats:
    """maze2d's proportional controller with a brake."""
    del rng
    (x, y), (vx, vy) = simulation.qpos.tolist(), simulation.qvel.tolist()
    pushes = PUSH * (aim[0] - x) - BRAKE * vx, PUSH * (aim[1] - y) - BRAKE * vy
    return np.array([min(max(push, -1.0), 1.0) for push in pushes])


def ant_pilot(simulation: Simulation, aim: Place, rng: np.random.Generator) -> Floats:
    """The shipped policy, which sees the ant without its place, and a direction."""
    qpos = simulation.qpos
    way = np.array([aim[0] - qpos[0], aim[1] - qpos[1]])
    way *= AHEAD / max(float(np.hypot(*way)), SHORTEST)
    return load_walker()(np.concatenate((qpos[2:], simulation.qvel, way)), rng)


def told(walk: Walk) -> dict[str, str]:
    """The rules of a recording, its label goal, and who walked."""
    arena = arena_of(walk)
    return {**walk.facts(), "label_goal": json.dumps(arena.usual_goal), "controller": _controller(arena)}


def _controller(arena: Arena) -> str:
    if arena.body is not ANT:
        return f"{PUSH:g} (way-point - position) - {BRAKE:g} velocity"
    walker, digest = load_walker(), hashlib.sha256()
    for array in (*walker.weights, *walker.biases):
        digest.update(array.tobytes())
    return f"the shipped ant policy, sampled; SHA-256 of its weights {digest.hexdigest()}"

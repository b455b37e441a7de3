"""The walks logged in a maze: the dataset that comes with each."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError, check_seed
from stacq.core.types import Array, Bools, Float32s, Floats
from stacq.data.border import from_arrays
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.envs.maze import DRAWN, ENV_IDS, MAX_STEP, Layout, centres, layout_of, step
from stacq.tabular.maze import GOAL_REWARD, MOVE_REWARD, Cell, Maze, read

COPIES = 25  # of every trajectory
NOISE = 0.1  # cells
SPEEDS = (0.2, 0.7)  # cells per step
WANDER = 0.15  # their waypoints lie up to this far from the centres of the cells
FIRST_SPREAD = 0.4  # they begin up to this far from a centre
HOVER = 12  # steps at the end of a path before the recording stops


class _Walk(NamedTuple):
    """One recording."""

    positions: Float32s  # [T + 1, 2]
    actions: Float32s  # [T, 2]
    arrived: bool


def maze_dataset(
    maze: Maze,
    *,
    copies: int = COPIES,
    noise: float = NOISE,
    seed: int = 0,
    conventions: Conventions = NOTHING_STATED,
) -> Dataset:
    """Noisy walks along the trajectories of a maze, `copies` of each; `infos["path"]` says which one.

    A walker heads from cell to cell at varying speed, with noise on every step (its standard deviation, in cells), and
    never leaves the cells of its path. At the goal its episode ends (terminal). Elsewhere it hovers around the end of
    its path until the recording stops (timeout): the data shows how to get there and how to stay, not how to go on.
    Without the hovering, imitators walk on across the gap to the next trajectory.
    """
    if copies < 1 or not 0 <= noise <= 1:
        raise InputError(
            f"{copies} copies with noise {noise}", where=maze.name, expected="at least one, and noise from 0 to 1"
        )
    check_seed(seed, where=maze.name)
    layout = layout_of(maze)
    seeds = np.random.SeedSequence(seed).spawn(len(maze.trajectories))
    groups = [
        _walks(layout, cells, copies, noise, np.random.default_rng(stream))
        for cells, stream in zip(maze.trajectories, seeds, strict=True)
    ]
    walks = [walk for group in groups for walk in group]
    lengths = np.array([len(walk.actions) for walk in walks])
    last = np.zeros(lengths.sum(), dtype=np.bool_)
    last[np.cumsum(lengths) - 1] = True
    arrived = np.repeat([walk.arrived for walk in walks], lengths)
    terminals = last & arrived
    path = np.repeat(np.arange(len(groups)), [sum(len(walk.actions) for walk in group) for group in groups])
    return from_arrays(
        observations=np.concatenate([walk.positions[:-1] for walk in walks]),
        actions=np.concatenate([walk.actions for walk in walks]),
        rewards=np.where(terminals, GOAL_REWARD, MOVE_REWARD).astype(np.float32),
        terminals=terminals,
        timeouts=last & ~arrived,
        next_observations=np.concatenate([walk.positions[1:] for walk in walks]),
        infos={"path": path},
        conventions=conventions.over(_stated(maze)),
    )


def _stated(maze: Maze) -> Conventions:
    env_id = f"stacq/Maze-{maze.name}-v0"
    return Conventions(name=env_id.lower(), env_id=env_id) if env_id in ENV_IDS else Conventions(name=maze.name)


def drawn_dataset(path: Path, conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Walks along the trajectories of a maze from a file, which are scored in that maze."""
    known = Conventions(name=f"{DRAWN.lower()}{path.stem}", env_id=f"{DRAWN}{path}")
    return maze_dataset(read(path), conventions=conventions.over(known))


def _walks(layout: Layout, cells: tuple[Cell, ...], copies: int, noise: float, rng: np.random.Generator) -> list[_Walk]:
    """Recordings along one path, all made side by side; each walker is at its own place of the path."""
    route, everyone, end = np.asarray(cells), np.arange(copies), len(cells) - 1
    waypoints = centres(cells) + rng.uniform(-WANDER, WANDER, (copies, len(cells), 2))
    position = (centres(cells[0]) + rng.uniform(-FIRST_SPREAD, FIRST_SPREAD, (copies, 2))).astype(np.float32)
    place, hovered = np.zeros(copies, dtype=np.int64), np.zeros(copies, dtype=np.int64)
    running, arrived = np.ones(copies, dtype=np.bool_), np.zeros(copies, dtype=np.bool_)
    positions, lengths = [position], np.zeros(copies, dtype=np.int64)
    actions: list[Float32s] = []
    while running.any():
        ahead = np.minimum(place + 1, end)
        speed = rng.uniform(*SPEEDS, copies) * (len(actions) > 0)  # at rest at first, so that the start is a successor
        calm = _towards(position, waypoints[everyone, ahead], speed)
        action = _shaken(calm, noise, rng)
        strays = ~_within(step(layout, position, action).position, route[place], route[ahead])
        action[strays] = calm[strays]
        taken = step(layout, position, action)
        position = taken.position
        positions.append(position)
        actions.append(action)
        lengths += running
        place = np.where(_within(position, route[ahead], route[ahead]), ahead, place)
        hovered += place == end
        arrived |= running & taken.arrived
        running = running & ~taken.arrived & (hovered < HOVER)
    path, pushes = np.stack(positions), np.stack(actions)
    return [_Walk(path[: n + 1, k], pushes[:n, k], bool(arrived[k])) for k, n in enumerate(lengths)]


def _towards(position: Float32s, aim: Floats, speed: Floats) -> Float32s:
    """The push that leads to `aim`, or `speed` far in its direction."""
    way = aim - position
    distance = np.maximum(np.hypot(way[:, 0], way[:, 1]), 1e-6)
    push: Float32s = (way * np.minimum(1.0, speed / distance)[:, None] / MAX_STEP).astype(np.float32)
    return push


def _shaken(action: Float32s, noise: float, rng: np.random.Generator) -> Float32s:
    """With noise of this many cells, within the bounds."""
    return np.clip(action + noise / MAX_STEP * rng.standard_normal(action.shape), -1, 1).astype(np.float32)


def _within(position: Floats, one: Array, other: Array) -> Bools:
    cell = np.floor(position)
    found: Bools = (cell == one).all(axis=-1) | (cell == other).all(axis=-1)
    return found

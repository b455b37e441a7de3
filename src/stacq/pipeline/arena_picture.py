"""What a page shows of PointMaze and AntMaze: the walks of the data, its stitches, and rollouts from every cell."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from stacq.core.types import Floats, Ints
from stacq.core.workers import WorkerPool
from stacq.data.dataset import Dataset
from stacq.data.tours import recording_starts
from stacq.envs.bodies import ARENAS, GOAL_RADIUS, POINT, Arena
from stacq.envs.layouts import Cell
from stacq.evaluation.rollouts import env_of
from stacq.pipeline.trained import Trained
from stacq.policies import Policy
from stacq.reach.sets import ReachableSets
from stacq.report.page import MazePicture, Ring, Rollout
from stacq.runs.directory import read_records

MOST_WALKS = 40  # drawn
MOST_STITCHES = 400
ARROW = 0.4  # of a cell, for a full push


def draw_arena(dataset: Dataset, env_id: str, found: Mapping[str, Trained], workers: int | None = None) -> MazePicture:
    """The maze, its data, and where one policy of each method gets from every free cell.

    That policy is of the seed in the middle by its last evaluation.
    """
    arena = ARENAS[env_id]
    policies = {name: middle_policy(trained) for name, trained in found.items()}
    cells = [cell for cell in arena.layout.free if cell != arena.goal]
    with WorkerPool(workers) as pool:
        rollouts = {
            name: list(pool.map(partial(walk_from, policy, env_id), cells)) for name, policy in policies.items()
        }
    sets = next((trained.sets for trained in found.values() if trained.sets is not None), None)
    walks = _walks(dataset, arena)
    return MazePicture(
        rows=arena.layout.rows,
        goal=_drawn(arena.goal),
        trajectories=walks,
        recordings=len(recording_starts(dataset)),
        stitches=np.empty((0, 4)) if sets is None else stitches(dataset, sets, arena),
        policies={name: arrows(policy, arena) for name, policy in policies.items()},
        rollouts=rollouts,
        name=arena.layout.name,
        ring=ring_of(arena),
    )


def ring_of(arena: Arena) -> Ring:
    """The goal in the middle of those that are drawn, in cells."""
    x, y = arena.body.grid.drawn(np.array(arena.usual_goal)).tolist()
    return Ring((x, y), GOAL_RADIUS / arena.body.grid.size)


def middle_policy(trained: Trained) -> Policy:
    """Of the seed in the middle by the returns of its last evaluation; without any, of the first seed."""
    records = read_records(trained.directory) if (trained.directory / "records.csv").exists() else []
    last = max((record.step for record in records), default=0)
    returns: dict[int, list[float]] = {seed: [] for seed in trained.policies}
    for record in records:
        if record.step == last and record.seed in returns:
            returns[record.seed].append(record.episode_return)
    ranked = sorted(returns, key=lambda seed: float(np.mean(returns[seed] or [0.0])))
    return trained.policies[ranked[len(ranked) // 2] if records else next(iter(returns))]


def walk_from(policy: Policy, env_id: str, cell: Cell) -> Rollout:
    """One episode that begins in a cell, in a worker process, always the same one."""
    arena, rng = ARENAS[env_id], np.random.default_rng(cell)
    with env_of(env_id, env_id) as (env, _):
        observation, info = env.reset(seed=0, options={"cell": cell})
        path, ended = [observation[:2]], False
        while not ended:
            observation, _, terminated, truncated, info = env.step(policy(observation, rng))
            path.append(observation[:2])
            ended = terminated or truncated
    return Rollout(_drawn(cell), arena.body.grid.drawn(np.array(path)), bool(info["success"]))


def _drawn(cell: Cell) -> tuple[int, int]:
    """x and y of a cell: pages count columns first."""
    return cell[1], cell[0]


def _walks(dataset: Dataset, arena: Arena) -> list[Floats]:
    starts = recording_starts(dataset)
    ends = np.append(starts[1:], len(dataset))
    shown = np.unique(np.linspace(0, len(starts) - 1, min(MOST_WALKS, len(starts))).astype(int))
    return [arena.body.grid.drawn(dataset.observations[starts[k] : ends[k], :2]) for k in shown]


def stitches(dataset: Dataset, sets: ReachableSets, arena: Arena, *, seed: int = 0) -> Floats:
    """Some of the steps from a state of one recording to a state of another that nothing logged, [M, 4]."""
    walk: Ints = np.searchsorted(recording_starts(dataset), np.arange(len(dataset)), side="right")
    across = np.flatnonzero(walk[sets.anchors] != walk[sets.indices])
    keep: Any = np.random.default_rng(seed).permutation(across)[:MOST_STITCHES]
    ends = dataset.observations[sets.anchors[keep], :2], dataset.next_observations[sets.indices[keep], :2]
    return np.hstack([arena.body.grid.drawn(each) for each in ends])


def arrows(policy: Policy, arena: Arena) -> Floats:
    """Where the ball is pushed that rests in the middle of a cell, [N, 4]; an ant's action is no direction."""
    if arena.body is not POINT:
        return np.empty((0, 4))
    places = np.array([arena.body.grid.centre(cell) for cell in arena.layout.free])
    pushes = np.asarray(policy(np.hstack([places, np.zeros_like(places)]).astype(np.float32)))
    spots = arena.body.grid.drawn(places)
    return np.hstack([spots, arena.body.grid.drawn(places + ARROW * pushes) - spots])

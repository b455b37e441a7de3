"""Rows by OGBench's published recipe for its point maze, recorded in OGBench's own environment, in its file's layout.

    python research/ogbench_rows.py --out rows                    # rows/pointmaze-medium-stitch-v0.npz and ...-val.npz
    python research/ogbench_rows.py --out rows --episodes 5000    # as many as OGBench's own file has

They are not OGBench's rows: its file has other draws. The recipe of a `stitch` file, and what is the same here:

- An episode begins in any free cell. Its goal is a cell four moves away, or its own cell where none is. Both are drawn
  up to 1 from the middle of the cell along each axis.
- In every step the package's own search names the next cell. The action is the direction to its middle, of length 1,
  plus normal noise of deviation 0.2 on each axis, cut off at -1 and 1. The ball stays in the goal's cell.
- An episode has 201 states. The action of the last one leads nowhere, and its `terminals` says so.
- There is one episode for validation for every ten; the package's loader asks for that file.

All draws come from `--seed`, also those that the package takes from NumPy's global generator.
It needs the `ogbench` extra.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.types import Array, Float64s, Floats
from stacq.envs.gym import make_env

STEPS = 201  # states of an episode
MOVES = 4  # from start to goal
NOISE = 0.2  # deviation, of the action
SPREAD = 1.0  # of starts and goals around the middle of their cell
FIELDS = {
    "observations": np.float32,
    "actions": np.float32,
    "terminals": np.bool_,
    "qpos": np.float32,
    "qvel": np.float32,
}

Row = tuple[Array, ...]  # in the order of FIELDS


def episode(env: Any, rng: np.random.Generator) -> list[Row]:
    """One walk to a near goal, and the stay there."""
    body = env.unwrapped
    start, goal = errand(body, rng)
    env.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})
    body.set_xy(around(body, start, rng))
    body.set_goal(goal_xy=around(body, goal, rng))
    rows: list[Row] = []
    for step in range(STEPS):
        state = body.get_ob(), body.data.qpos.copy(), body.data.qvel.copy()
        action = np.clip(heading(body) + rng.normal(0.0, NOISE, 2), -1.0, 1.0)
        rows.append((state[0], action, np.array(step == STEPS - 1), *state[1:]))
        env.step(action)
    return rows


def errand(body: Any, rng: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int]]:
    """A start and a goal, as cells."""
    free = np.argwhere(body.maze_map == 0)
    start = free[rng.integers(len(free))]
    middle = np.array(body.ij_to_xy(start))
    _, moves = body.get_oracle_subgoal(middle, middle)
    near = np.argwhere(moves == MOVES)
    goal = near[rng.integers(len(near))] if len(near) else start
    return (int(start[0]), int(start[1])), (int(goal[0]), int(goal[1]))


def around(body: Any, cell: tuple[int, int], rng: np.random.Generator) -> Float64s:
    return np.array(body.ij_to_xy(cell)) + rng.uniform(-SPREAD, SPREAD, 2)


def heading(body: Any) -> Floats:
    """The direction to the middle of the next cell on the way."""
    aim, _ = body.get_oracle_subgoal(body.get_xy(), body.cur_goal_xy)
    way = aim - body.get_xy()
    direction: Floats = way / (np.linalg.norm(way) + 1e-6)
    return direction


def record(maze: str, episodes: int, rng: np.random.Generator) -> dict[str, Array]:
    env = make_env(f"ogbench:pointmaze-{maze}-v0").unwrapped
    env._terminate_at_goal = False
    env.reset(seed=0)
    rows = [row for _ in range(episodes) for row in episode(env, rng)]
    return {
        name: np.array(values, dtype=kind)
        for (name, kind), values in zip(FIELDS.items(), zip(*rows, strict=True), strict=True)
    }


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Record a stitch file by OGBench's recipe.")
    parser.add_argument("--maze", default="medium", choices=("medium", "large", "giant"))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("."))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    began, rng = time.process_time(), np.random.default_rng(asked.seed)
    for ending, episodes in (("", asked.episodes), ("-val", asked.episodes // 10)):
        path = asked.out / f"pointmaze-{asked.maze}-stitch-v0{ending}.npz"
        np.savez_compressed(path, **record(asked.maze, episodes, rng))  # type: ignore[arg-type]
    seconds = round(time.process_time() - began, 1)
    print(
        json.dumps(
            {
                "file": path.name.replace("-val", ""),
                "episodes": asked.episodes,
                "rows": asked.episodes * (STEPS - 1),
                "seed": asked.seed,
                "cpu_seconds": seconds,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])

"""Where policies in OGBench's point maze end: how far they came, and whether they stand against a wall.

    python research/ogbench_ends.py runs/ogbench-pointmaze-medium-stitch-*

It prints a line of JSON for each run: for the policy of every seed, in `--episodes` episodes each, the median number of
cells left to the goal's, the share of episodes that stand still at the end, and the share of these that touch a wall.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stacq.envs.gym import make_env
from stacq.policies import Policy
from stacq.runs.finished import read_finished

STILL = 0.01  # length of the last steps, on average, below which a ball stands
LAST = 50  # steps
BALL = 0.7  # its radius


class End(NamedTuple):
    """Of an episode."""

    left: int  # cells to the goal's
    still: bool
    at_wall: bool


def end_of(env: Any, policy: Policy, seed: int) -> End:
    body, rng = env.unwrapped, np.random.default_rng(seed)
    seen, _ = env.reset(seed=seed)
    places, ended = [seen], False
    while not ended:
        seen, _, terminated, truncated, _ = env.step(policy(seen, rng))
        places.append(seen)
        ended = terminated or truncated
    _, moves = body.get_oracle_subgoal(seen, body.cur_goal_xy)
    last = np.diff(np.array(places[-LAST:]), axis=0)
    return End(int(moves[body.xy_to_ij(seen)]), float(np.hypot(*last.T).mean()) < STILL, touches(body, seen))


def touches(body: Any, place: Any) -> bool:
    """Whether a wall is nearer to the middle of the ball than its radius, and a little more."""
    half = body._maze_unit / 2
    walls = [body.ij_to_xy(cell) for cell in np.argwhere(body.maze_map == 1)]
    gaps = np.maximum(np.abs(np.array(walls) - place) - half, 0.0)
    return bool(np.hypot(*gaps.T).min() < BALL + 0.05)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Where policies in OGBench's point maze end.")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--episodes", type=int, default=5)
    asked = parser.parse_args(words)
    env = make_env("ogbench:pointmaze-medium-singletask-v0")
    for directory in asked.runs:
        run = read_finished(directory)
        ends = [end_of(env, policy, seed) for policy in run.policies.values() for seed in range(asked.episodes)]
        still = [end for end in ends if end.still]
        found = {
            "run": directory.name,
            "label": run.label,
            "episodes": len(ends),
            "cells_left": float(np.median([end.left for end in ends])),
            "still": round(len(still) / len(ends), 2),
            "of_these_at_a_wall": round(sum(end.at_wall for end in still) / max(1, len(still)), 2),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Where near states stop being near: the number that `stacq data inspect` prints, by size of the state.

    python research/near_states.py stacq/maze-stitching-v0 stacq/hopper-medium-v0@100000 Ant-v4 Humanoid-v5

A dataset's name, or a Gymnasium id, whose body is then moved by random actions that change slowly (each is 0.8 of the
one before and fresh noise), for `--rows` rows. Ant-v4 is given its contact forces, which makes 111 dimensions. One line
of JSON for each: the distance of the nearest state of another episode in steps of the data (`nearness`), and the
median distance of the tenth nearest state, over that of a random one (`contrast`): near 1, no state is near.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from scipy.spatial import cKDTree

from stacq import Conventions, Dataset, Normaliser, from_arrays, load
from stacq.core.types import Float64s
from stacq.data.nearness import nearness

ASKED, TENTH = 200, 10
LONGEST, PERSISTENCE = 1_000, 0.8
OPTIONS: dict[str, dict[str, Any]] = {"Ant-v4": {"use_contact_forces": True}}


def rolled_out(env_id: str, rows: int, seed: int = 0) -> Dataset:
    """Random actions; an episode ends with the task or after 1,000 steps."""
    env, rng = gymnasium.make(env_id, **OPTIONS.get(env_id, {})).unwrapped, np.random.default_rng(seed)
    space: Any = env.action_space
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    kept: list[tuple[Any, ...]] = []
    seen, drive, age = env.reset(seed=seed)[0], np.zeros(len(low)), 0
    while len(kept) < rows:
        drive = PERSISTENCE * drive + np.sqrt(1 - PERSISTENCE**2) * rng.normal(size=len(low))
        action = np.clip((low + high) / 2 + drive * (high - low) / 4, low, high)
        after, reward, over, _, _ = env.step(action)
        age += 1
        stopped = not over and (age == LONGEST or len(kept) + 1 == rows)
        kept.append((seen, action, reward, over, stopped, after))
        seen = after
        if over or stopped:
            seen, drive, age = env.reset()[0], np.zeros(len(low)), 0
    s, a, r, ends, stops, s_next = (np.array(each, np.float32) for each in zip(*kept, strict=True))
    known = Conventions(action_low=low, action_high=high, name=f"{env_id}, random")
    return from_arrays(s, a, r, ends > 0, timeouts=stops > 0, next_observations=s_next, conventions=known)


def contrast(dataset: Dataset) -> float:
    """Of normalised states: the tenth nearest over a random one."""
    states: Float64s = Normaliser.fit(dataset.observations).apply(dataset.observations).astype(np.float64)
    rng = np.random.default_rng(0)
    asked, others = (rng.choice(len(states), ASKED, replace=False) for _ in range(2))
    near = np.asarray(cKDTree(states).query(states[asked], [TENTH + 1])[0])[:, 0]
    return float(np.median(near) / np.median(np.linalg.norm(states[asked] - states[others], axis=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--rows", type=int, default=100_000, help="that are rolled out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    for source in chosen.sources:
        dataset = load(source) if source.startswith("stacq/") else rolled_out(source, chosen.rows)
        line = {
            "source": dataset.name,
            "rows": len(dataset),
            "episodes": dataset.episodes,
            "dimensions": dataset.observation_size,
            "nearness": round(nearness(dataset), 3),
            "contrast": round(contrast(dataset), 3),
        }
        print(json.dumps(line), flush=True)
        if chosen.out is not None:
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

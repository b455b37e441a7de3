"""What reachable sets join in a maze, and how true it is: every number against the simulator.

    python research/maze_stitches.py stacq/pointmaze-umaze-stitch-v0@100000 --criterion paper calibrated

Dynamics are those of the small preset, from the cache or fitted. It prints a line of JSON for each criterion:

- `extra`: states per state beyond the own successor.
- `true`: the share of extra pairs for which a search in the simulator finds an action that lands within 0.1 of the
  true one-step range in every dimension; `hit`: the share for which the action of the models does.
- `joined`: from what share of the rows in the evaluation's start cell the goal is reached along recorded steps and
  pairs: all pairs, only true ones, and none. `moves` is the median length of the shortest such way, in steps.
- `true_extra`: how many states per state are truly reachable, among all states of the data; of 300 rows.
- `found`: which share of them the sets hold.
"""

import argparse
import json
import sys
from typing import Any

import numpy as np

from stacq import Dataset, ReachConfig, Stages, load
from stacq.core.types import Bools, Float64s, Floats, Ints, Rows
from stacq.dynamics.models import Dynamics
from stacq.envs.bodies import ARENAS
from stacq.envs.simulator import Simulator
from stacq.pipeline.models import find_reachable, made_dynamics
from stacq.pipeline.reporter import Reporter
from stacq.reach.actions import leading_actions
from stacq.reach.ranges import range_actions
from stacq.reach.search import search
from stacq.reach.sets import ReachableSets, others
from stacq.stitch.truth import NEAR, SIMULATED, SMALLEST_RANGE

ASKED = 300  # rows whose truly reachable states are looked for among all states of the data
SEED = 0


class Trials:
    """Steps from the stored states of a recording, tried out."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.body = dataset, Simulator(str(dataset.env_id))
        low, high = dataset.action_low.astype(np.float32), dataset.action_high.astype(np.float32)
        self.actions = range_actions(low, high, SIMULATED, "corners", SEED).astype(np.float64)
        self.low, self.high = low.astype(np.float64), high.astype(np.float64)
        self.successors = dataset.next_observations.astype(np.float64)
        self._row, self._landed, self._size = -1, np.empty((0, 0)), np.empty(0)

    def land(self, row: int, action: Floats) -> Float64s:
        qpos, qvel = (self.dataset.infos[name][row].astype(np.float64) for name in ("qpos", "qvel"))
        return self.body.next_observation(qpos, qvel, action.astype(np.float64))

    def fan(self, row: int) -> tuple[Float64s, Float64s]:
        """Where the actions behind a range lead from a row, and the true range."""
        if row != self._row:
            self._row, self._landed = row, np.array([self.land(row, action) for action in self.actions])
            everything = np.concatenate([self._landed, self.successors[row][None]])
            self._size = np.maximum(np.ptp(everything, axis=0), SMALLEST_RANGE)
        return self._landed, self._size

    def miss(self, row: int, goal: int, guess: Floats | None = None) -> tuple[float, float]:
        """Largest distances, in true ranges, from the successor of row `goal`: of the guess, and of the best action."""
        landed, size = self.fan(row)
        there = self.successors[goal]

        def gap(action: Floats) -> Float64s:
            found: Float64s = (self.land(row, action) - there) / size
            return found

        nearest = self.actions[np.abs((landed - there) / size).max(axis=1).argmin()]
        found = [
            search(gap, start.astype(np.float64), self.low, self.high)
            for start in (nearest, guess)
            if start is not None
        ]
        return (float(np.abs(gap(guess)).max()) if guess is not None else np.inf), min(found)


def solvable(dataset: Dataset, anchors: Rows, members: Rows) -> Float64s:
    """Steps to the goal from every row along recorded steps and the pairs (anchor, member); infinite without a way."""
    chained = np.ones(len(dataset), dtype=bool)
    chained[dataset.last_rows] = False
    after = np.where(chained, np.arange(len(dataset)) + 1, -1)
    # a labelled step ends an episode, and the recording goes on: a way that comes there has arrived
    steps = np.full(len(dataset) + 1, np.inf)  # the last one stands for no row
    own = np.arange(len(dataset))
    first, then = np.concatenate([own, anchors]), np.concatenate([own, members])
    while True:
        there = np.where(dataset.terminals[then], 0.0, steps[after[then]])
        before = steps.copy()
        np.minimum.at(steps, first, 1 + there)
        if (steps == before).all():
            return steps[:-1]


def start_rows(dataset: Dataset) -> Ints:
    arena = ARENAS[str(dataset.env_id)]
    return np.flatnonzero((arena.body.grid.cells(dataset.observations[:, :2]) == arena.start).all(axis=1))


def joined(dataset: Dataset, anchors: Rows, members: Rows) -> dict[str, float]:
    steps = solvable(dataset, anchors, members)[start_rows(dataset)]
    there = np.isfinite(steps)
    return {"share": round(float(there.mean()), 4), "moves": float(np.median(steps[there])) if there.any() else -1.0}


def truly_reachable(dataset: Dataset, trials: Trials, sets: ReachableSets) -> dict[str, float]:
    """Of some rows: how many states of the data can be reached, and how many of these are in their sets."""
    rows = np.sort(np.random.default_rng(SEED).choice(len(dataset), ASKED, replace=False))
    count = held = 0
    for row in map(int, rows):
        landed, size = trials.fan(row)
        low, high = landed.min(axis=0) - NEAR * size, landed.max(axis=0) + NEAR * size
        inside = np.flatnonzero(((trials.successors >= low) & (trials.successors <= high)).all(axis=1))
        reached = [j for j in map(int, inside) if j != row and trials.miss(row, j)[1] <= NEAR]
        count += len(reached)
        held += int(np.isin(reached, sets.of(row)).sum())
    return {"true_extra": round(count / len(rows), 4), "found": round(held / max(count, 1), 3)}


def measured(dataset: Dataset, dynamics: Dynamics, config: ReachConfig, trials: Trials, most: int) -> dict[str, Any]:
    found = find_reachable(dataset, dynamics, config, reporter=Reporter())
    anchors, members = (each.astype(np.int64) for each in others(found.sets))
    actions = leading_actions(dataset, dynamics, found.sets)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(anchors), min(most, len(anchors)), replace=False))
    misses = np.array([trials.miss(int(anchors[k]), int(members[k]), actions[k]) for k in chosen])
    true: Bools = misses[:, 1] <= NEAR
    line = {
        "dataset": dataset.name,
        "criterion": config.criterion,
        "rows": len(dataset),
        "extra": round(found.stitching.extra, 4),
        "states_with_any": round(found.stitching.more_than_own / len(dataset), 4),
        "recall_of_known": found.stitching.recall,
        "tried": len(chosen),
        "true": round(float(true.mean()), 3),
        "hit": round(float((misses[:, 0] <= NEAR).mean()), 3),
        "joined_by_none": joined(dataset, anchors[:0], members[:0]),
        "joined": joined(dataset, anchors, members),
    }
    if len(chosen) == len(anchors):
        line["joined_by_true"] = joined(dataset, anchors[true], members[true])
    return line | truly_reachable(dataset, trials, found.sets) | {"command": " ".join(["python", *sys.argv])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--criterion", nargs="+", default=["paper"], choices=("paper", "calibrated"))
    parser.add_argument("--epsilon", type=float, default=ReachConfig.epsilon)
    parser.add_argument("--pairs", type=int, default=5_000, help="how many are tried")
    chosen = parser.parse_args()
    dataset = load(chosen.dataset, infos=("qpos", "qvel"))
    dynamics = made_dynamics(dataset, Stages(), small=True, reporter=Reporter()).dynamics
    trials = Trials(dataset)
    for criterion in chosen.criterion:
        config = ReachConfig(criterion=criterion, epsilon=chosen.epsilon)
        print(json.dumps(measured(dataset, dynamics, config, trials, chosen.pairs)), flush=True)


if __name__ == "__main__":
    main()

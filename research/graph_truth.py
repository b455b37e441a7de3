"""How true are the loans of the graph? Each tried out in the simulator, from the stored state of the borrowing row.

    python research/graph_truth.py stacq/hopper-medium-v0@100000 --out research/results/graph-truth.jsonl

Row i borrows from row j, which promises to arrive at the successor of row j. One line of JSON for each fifth of the
edges by distance (the price of an edge is proportional to it), one for the edges that the graph prefers, and one for
actions of whole rows. Rows are compared in normalised dimensions, by root mean square.

- `distance` and `price`: of the two rows, in median steps of the data and in median distances of lending rows.
- `miss_*`: median distance of where one arrives from the promised successor, in steps: by the action of row j as it is
  (`copied`), by the action with the usual difference of the two states (`carried`), by the own action, and of the
  successor that is promised if the difference of the states is added to it (`shifted`, carried action).
- `price_*`: the same in median distances of lending rows.
- `own_nearer`: the share of the edges where the own action arrives nearer to the promised successor than the carried.
- `promised` and `earned`: mean of r + gamma (1 - d) U(s') - U(s), by the promise and in the simulator, in deviations
  of the logged behaviour's; U is the value of the logged behaviour. `kept`: the slope of earned on promised; 1 if
  promises come true, 0 if they say nothing. `error`: root mean square of their difference.
- `fell`: the share that ended the task although the lender's step did not.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stacq import Dataset, load
from stacq.core.normaliser import Normaliser
from stacq.core.types import Array, Bools, Float64s, Floats, Ints
from stacq.envs.gym import make_env
from stacq.graph.config import GraphConfig
from stacq.graph.edges import Edges, edges_of, steps_of
from stacq.graph.made import Graph, made_graph
from stacq.graph.neighbours import NONE
from stacq.graph.usual import Steps, Usual, random_features, regressions, usual

SEED = 0
FIFTHS = 5


class Trials:
    """Single steps from the stored states of a recording, with reward and end."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.env = dataset, make_env(str(dataset.env_id)).unwrapped
        self.env.reset(seed=SEED)
        self.low, self.high = dataset.action_low.astype(np.float64), dataset.action_high.astype(np.float64)

    def step(self, row: int, action: Floats) -> tuple[Float64s, float, bool]:
        """Where an action in [-1, 1] leads from the state of a row."""
        self.env.set_state(*(self.dataset.infos[name][row].astype(np.float64) for name in ("qpos", "qvel")))
        self.env.data.qacc_warmstart[:] = 0.0
        raw = (np.asarray(action, np.float64) + 1) / 2 * (self.high - self.low) + self.low
        seen, reward, over, _, _ = self.env.step(raw)
        return np.asarray(seen, np.float64), float(reward), bool(over)

    def steps(self, rows: Ints, actions: Floats) -> tuple[Float64s, Float64s, Bools]:
        found = [self.step(int(row), action) for row, action in zip(rows, actions, strict=True)]
        return np.array([f[0] for f in found]), np.array([f[1] for f in found]), np.array([f[2] for f in found])


class Setting(NamedTuple):
    """A dataset with its graph, and what is usual in it."""

    trials: Trials
    config: GraphConfig
    normaliser: Normaliser
    steps: Steps
    edges: Edges
    found: Usual
    graph: Graph
    value_weights: Float64s

    @property
    def step_length(self) -> float:
        return float(self.graph.facts["step"])

    @property
    def usual_distance(self) -> float:
        return float(self.graph.facts["near"])

    @property
    def noise(self) -> float:
        return float(self.graph.facts["noise"])

    def value(self, states: Floats) -> Float64s:
        """U of any normalised states, within the range of the rows' own."""
        features = random_features(states.shape[1], self.config.features, self.config.seed)
        found: Float64s = np.clip(features(states) @ self.value_weights, self.found.value.min(), self.found.value.max())
        return found

    def earned(self, rows: Ints, actions: Floats) -> tuple[Float64s, Float64s, Bools]:
        """Normalised arrival, advantage in deviations, and ends."""
        seen, reward, over = self.trials.steps(rows, actions)
        arrived = self.normaliser.apply(seen).astype(np.float64)
        future = np.where(over, 0.0, self.value(arrived))
        return arrived, (reward + self.config.discount * future - self.found.value[rows]) / self.noise, over


def setting_of(name: str, carry_seed: int) -> Setting:
    dataset, config = load(name, infos=("qpos", "qvel")), replace(GraphConfig(), seed=carry_seed)
    steps, graph = steps_of(dataset), made_graph(dataset, config, lambda text: print(text, file=sys.stderr))
    features = random_features(steps.s.shape[1], config.features, config.seed)
    return Setting(
        Trials(dataset),
        config,
        Normaliser.fit(dataset.observations),
        steps,
        edges_of(dataset, steps, config.neighbours),
        usual(steps, config.discount, config.features, config.seed),
        graph,
        regressions(steps, features, config.discount)[0],
    )


def rms(difference: Floats) -> Float64s:
    found: Float64s = np.sqrt(np.mean(difference.astype(np.float64) ** 2, axis=1))
    return found


def tried(setting: Setting, i: Ints, j: Ints) -> dict[str, float]:
    """What becomes of the loans of rows j to rows i; the steps of rows j do not end the task."""
    steps, found = setting.steps, setting.found
    distance, goal = rms(steps.s[i] - steps.s[j]), steps.s_next[j].astype(np.float64)
    carried = np.clip(steps.a[j] + found.action[i] - found.action[j], -1, 1)
    arrived, advantage, fell = {}, {}, {}
    for way, action in (("copied", steps.a[j]), ("carried", carried), ("own", steps.a[i])):
        arrived[way], advantage[way], fell[way] = setting.earned(i, action)
    misses = {way: rms(there - goal) for way, there in arrived.items()}
    shifted = rms(arrived["carried"] - goal - (steps.s[i] - steps.s[j]))
    told = {
        "edges": len(i),
        "distance": float(np.median(distance)) / setting.step_length,
        "price": float(np.median(distance)) / setting.usual_distance,
        **{f"miss_{way}": float(np.median(miss)) / setting.step_length for way, miss in misses.items()},
        "miss_shifted": float(np.median(shifted)) / setting.step_length,
        **{f"price_{way}": float(np.median(miss)) / setting.usual_distance for way, miss in misses.items()},
        "own_nearer": float(np.mean(misses["own"] < misses["carried"])),
        "fell": float(np.mean(fell["carried"])),
        "fell_own": float(np.mean(fell["own"])),
    }
    future = setting.config.discount * np.where(steps.over[j], 0.0, found.value_next[j])
    promised = (steps.r[j] + future - found.value[j]) / setting.noise
    as_it_is = (steps.r[j] + future - found.value[i]) / setting.noise
    told |= {f"{key}_carried": value for key, value in compared(promised, advantage["carried"]).items()}
    told |= {f"{key}_copied": value for key, value in compared(as_it_is, advantage["copied"]).items()}
    return told | {"earned_own": float(advantage["own"].mean())}


def compared(promised: Float64s, earned: Float64s) -> dict[str, float]:
    spread = float(np.var(promised))
    slope = float(np.cov(promised, earned, bias=True)[0, 1]) / spread if spread > 0 else float("nan")
    error = float(np.sqrt(np.mean((earned - promised) ** 2)))
    return {"promised": float(promised.mean()), "earned": float(earned.mean()), "kept": slope, "error": error}


def lendable(setting: Setting) -> Bools:
    """Edges whose lender goes on to a recorded successor, and whose borrower is no last row, [N, K]."""
    edges, steps = setting.edges, setting.steps
    rows = edges.rows[:, 1:]
    lends: Bools = (rows != NONE) & (edges.follow[rows] != NONE) & ~edges.joined[rows] & ~steps.over[rows]
    lends &= steps.known[:, None]
    return lends


def by_fifth(setting: Setting, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Edges by distance."""
    where, column = np.nonzero(lendable(setting))
    j, distance = setting.edges.rows[where, column + 1], setting.edges.distance[where, column + 1]
    bounds = np.quantile(distance, np.linspace(0, 1, FIFTHS + 1))
    lines = []
    for fifth in range(FIFTHS):
        inside = np.flatnonzero((distance >= bounds[fifth]) & (distance <= bounds[fifth + 1]))
        chosen = rng.choice(inside, min(count, len(inside)), replace=False)
        lines.append({"group": f"{20 * fifth}-{20 * fifth + 20}", **tried(setting, where[chosen], j[chosen])})
    return lines


def preferred(setting: Setting, count: int, rng: np.random.Generator) -> dict[str, Any] | None:
    """Edges that are worth more than the own row."""
    best = setting.graph.best
    moved = np.flatnonzero(
        (best != np.arange(len(best)))
        & setting.steps.known
        & ~setting.steps.over[best]
        & (setting.edges.follow[best] != NONE)
        & ~setting.edges.joined[best]
    )
    if not len(moved):
        return None
    chosen = rng.choice(moved, min(count, len(moved)), replace=False)
    return {"group": "preferred", **tried(setting, chosen, best[chosen])}


def whole_rows(setting: Setting, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Advantage in the simulator of the logged, the usual and the chosen action of the same rows, and its error."""
    rows = rng.choice(np.flatnonzero(setting.steps.known), count, replace=False)
    ways: Mapping[str, Array] = {
        "own": setting.steps.a,
        "usual": setting.found.action,
        "chosen": setting.graph.action,
    }
    told: dict[str, Any] = {"group": "rows", "edges": count}
    earned = {}
    for way, actions in ways.items():
        arrived, earned[way], over = setting.earned(rows, actions[rows])
        told |= {f"earned_{way}": float(earned[way].mean()), f"fell_{way}": float(over.mean())}
        if way == "own":
            repeated = rms(arrived - setting.steps.s_next[rows]) / setting.step_length
            told["repeated"] = float(np.mean(repeated < 0.01))
    for way in ("usual", "chosen"):
        told[f"error_of_{way}"] = float((earned[way] - earned["own"]).std() / np.sqrt(count))
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--edges", type=int, default=2_000, help="of every group")
    parser.add_argument("--seed", type=int, default=1, help="of the features, as the algorithm has it")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    for name in chosen.datasets:
        setting, rng = setting_of(name, chosen.seed), np.random.default_rng(SEED)
        numbers = ("near", "step", "noise", "usual_price", "moved", "value", "usual_value", "best_logged")
        about = {key: setting.graph.facts[key] for key in numbers}
        told = {"dataset": name, "rows": len(setting.steps.r), "graph": about}
        groups = [*by_fifth(setting, chosen.edges, rng), preferred(setting, chosen.edges, rng)]
        for line in [*(each for each in groups if each), whole_rows(setting, chosen.edges, rng)]:
            record = told | {key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()}
            text = json.dumps(record | {"command": " ".join(["python", *sys.argv])})
            print(text, flush=True)
            if chosen.out is not None:
                with chosen.out.open("a") as file:
                    file.write(text + "\n")


if __name__ == "__main__":
    main()

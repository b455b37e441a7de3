"""Success in the plane mazes: what a graph of logged states knows before any network, and what networks learn from it.

    python research/graph_mazes.py stitching sparse --out research/results/graph-mazes.jsonl

For every maze: the tabular solvers; graphs of near rows, looked up; Exact SCQL, five seeds, with the reachable sets and
with own successors alone. A success is a cell of the data from whose middle the goal is reached. A line for each.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stacq import Options, Policy, load, train
from stacq.core.normaliser import Normaliser
from stacq.data.dataset import Dataset
from stacq.envs.maze import success_by_cell
from stacq.graph.config import GraphConfig
from stacq.graph.made import solved_graph
from stacq.policies.nearest import nearest_policy
from stacq.tabular.compare import compare
from stacq.tabular.maze import Maze
from stacq.tabular.maze import load as load_maze

NEAR = {
    "own actions alone": GraphConfig(price=float("inf"), seed=1),
    "near rows": GraphConfig(seed=1),
    "near rows, hard": GraphConfig(spread=0.0, seed=1),
    "near rows, hard, actions as they are": GraphConfig(spread=0.0, carry=False, seed=1),
    "40 near rows, hard, actions as they are": GraphConfig(spread=0.0, carry=False, neighbours=40, seed=1),
}


def share(policy: Policy, maze: Maze) -> float:
    return float(success_by_cell(policy, maze).success.mean())


def tabular(maze: Maze) -> Iterator[dict[str, Any]]:
    for result in compare(maze):
        yield {"method": f"tabular {result.label}", "success": [result.reached / result.data_states]}


def looked_up(dataset: Dataset, maze: Maze) -> Iterator[dict[str, Any]]:
    normaliser = Normaliser.fit(dataset.observations)
    states, bounds = normaliser.apply(dataset.observations), (dataset.action_low, dataset.action_high)
    for label, config in NEAR.items():
        graph, facts = solved_graph(dataset, config)
        policy = nearest_policy(states, graph.action, normaliser, bounds)
        yield {"method": label, "success": [share(policy, maze)], "facts": facts.to_json()}


def learned(dataset: Dataset, maze: Maze, runs: Path, first_seed: int) -> Iterator[dict[str, Any]]:
    for own_only in (False, True):
        options = Options("exact-scql", small=True, seeds=5, first_seed=first_seed, evaluate=False, own_only=own_only)
        trained = train(dataset, options, out=runs / f"{maze.name}-exact-scql{'-own-only' * own_only}-{first_seed}")
        yield {
            "method": "Exact SCQL" + ", own successors alone" * own_only,
            "seeds": list(trained.policies),
            "success": [share(policy, maze) for policy in trained.policies.values()],
            "config": json.loads((trained.directory / "config.json").read_text())["config"],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mazes", nargs="+", choices=["stitching", "sparse"])
    parser.add_argument("--out", type=Path, default=Path("graph-mazes.jsonl"))
    parser.add_argument("--runs", type=Path, default=Path("runs/graph-mazes"))
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.mazes:
        maze, dataset = load_maze(name), load(f"stacq/maze-{name}-v0")
        methods = (tabular(maze), looked_up(dataset, maze), learned(dataset, maze, args.runs, args.first_seed))
        for found in (each for method in methods for each in method):
            line = {"dataset": f"maze-{name}", **found, "command": " ".join(sys.argv)}
            with args.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{name}: {found['method']}: {' '.join(f'{each:.0%}' for each in found['success'])}", flush=True)


if __name__ == "__main__":
    main()

"""What a graph of logged states knows of a plane maze, before any network: success of looking its actions up.

    python research/graph_mazes.py stitching

One line for each setting: the price, the share of rows that move, the mean value, and from which share of the cells
of the data the goal is reached. SCQL on the tabular maze is the yardstick.
"""

import sys

import numpy as np

from stacq import load
from stacq.core.normaliser import Normaliser
from stacq.envs.maze import success_by_cell
from stacq.graph.config import GraphConfig
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.made import solved_graph
from stacq.policies.nearest import nearest_policy
from stacq.tabular.compare import compare
from stacq.tabular.maze import load as load_maze

SETTINGS = {
    "own actions alone": GraphConfig(price=np.inf),
    "default": GraphConfig(),
    "hard": GraphConfig(spread=0.0),
    "hard, actions as they are": GraphConfig(spread=0.0, carry=False),
    "hard, actions as they are, 40 neighbours": GraphConfig(spread=0.0, carry=False, neighbours=40),
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "stitching"
    maze, dataset = load_maze(name), load(f"stacq/maze-{name}-v0", infos="all")
    path, near = dataset.infos["path"], edges_of(dataset, steps_of(dataset), GraphConfig().neighbours).rows[:, 1:]
    print(f"{len(dataset):,} rows; {np.mean(path[near] != path[:, None]):.1%} of the near rows belong to another path")
    for result in compare(maze):
        print(f"tabular {result.label}: {result.reached / result.data_states:.0%}")
    normaliser = Normaliser.fit(dataset.observations)
    states, bounds = normaliser.apply(dataset.observations), (dataset.action_low, dataset.action_high)
    for label, config in SETTINGS.items():
        graph, facts = solved_graph(dataset, config)
        policy = nearest_policy(states, graph.action, normaliser, bounds)
        print(
            f"{label}: price {facts.usual_price:.3g}, {facts.moved:.0%} move, mean value {facts.value:.1f}, "
            f"reaches the goal from {success_by_cell(policy, maze).success.mean():.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()

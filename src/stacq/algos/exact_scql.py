"""SCQL with exact values on the reachable sets (section 3 of the paper), then cloning of the actions that lead there.

StaCQ learns values of pairs with critics. Here the same sets make a graph of the logged states, value iteration solves
it before the training, and there is nothing left to learn but the policy.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from stacq.algos import bc, graph_scql
from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Needs, Shown, Solved, Variant
from stacq.algos.graph_scql import Chosen
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.made import made_graph
from stacq.reach.reachable import Reachable


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=100_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    learning_rate: float = 1e-3
    discount: float = field(default=0.99, metadata=STATIC)
    candidates: int = field(default=64, metadata=STATIC)  # reachable states of a row; more are left out by lot
    spread: float = field(default=0.0, metadata=STATIC)  # temperature, in deviations of the usual advantage
    price: float = field(default=0.0, metadata=STATIC)  # of arriving a step off, in the same unit; 0: fitted
    graph_seed: int = field(default=1, metadata=STATIC)  # of everything before the cloning


def graph_config(cfg: Config) -> GraphConfig:
    """The part of the settings that the graph depends on."""
    return GraphConfig(
        edges="reachable",
        neighbours=cfg.candidates,
        discount=cfg.discount,
        spread=cfg.spread,
        price=cfg.price,
        carry=False,
        seed=cfg.graph_seed,
    )


def solved(dataset: Dataset, reachable: Reachable, cfg: Config, say: Callable[[str], None]) -> Solved:
    """The graph of the reachable sets, from the cache if it was made before."""
    graph = made_graph(dataset, graph_config(cfg), say, reachable)
    return Solved(Chosen(jnp.asarray(graph.action)), graph.facts)


ALGORITHM = Algorithm(
    name="exact-scql",
    title="Exact SCQL",
    about="exact values on the reachable sets, then cloning of the actions that lead to the best states",
    Config=Config,
    init=graph_scql.init,
    phases=graph_scql.phases,
    policy=bc.policy,
    needs=Needs(reachable=True, pairs=False, successors=False, leading_actions=lambda cfg: True, solved=solved),
    shown={"antmaze": Shown(normalise=False), "pointmaze": Shown()},
    variants={"paper": PAPER, "soft": Variant("states weighed by their value", {"spread": 1.0})},
    small={"steps": 20_000, "batch": 128, "hidden": (128, 128)},
    small_in={"pointmaze": {"steps": 10_000}},
    maze={"steps": 20_000, "batch": 128, "hidden": (64, 64)},
)

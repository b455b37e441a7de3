"""SCQL on the logged states themselves (section 3 of the paper): exact values on a graph of rows, then cloning.

The graph is made before the training, by `stacq.graph`: near rows lend each other their actions at a price, and value
iteration over all rows says which action is best. What is left is to fit a network to the chosen actions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.algos import bc
from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Metrics, Needs, Phase, Shown, Sizes, Variant
from stacq.algos.bc import State
from stacq.algos.common import act
from stacq.algos.world import Batch, World
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.made import made_graph
from stacq.nn.learner import descend, new_learner
from stacq.nn.mlp import MLP, init_mlp
from stacq.policies import NearestPolicy, Space
from stacq.policies.nearest import nearest_policy


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=100_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    learning_rate: float = 1e-3
    discount: float = field(default=0.99, metadata=STATIC)
    neighbours: int = field(default=10, metadata=STATIC)  # other rows that lend their action to a row
    spread: float = field(default=0.0, metadata=STATIC)  # temperature, in deviations of the usual advantage
    price: float = field(default=0.5, metadata=STATIC)  # of a usual neighbour, in the same unit; 0: fitted
    features: int = field(default=512, metadata=STATIC)  # of the regressions that say what is usual
    carry: bool = field(default=False, metadata=STATIC)  # lend what is more than usual, not actions as they are
    graph_seed: int = field(default=1, metadata=STATIC)  # of everything before the cloning


class Chosen(NamedTuple):
    """What the graph chose for every row."""

    action: jax.Array  # [N, A]


def init(key: jax.Array, sizes: Sizes, cfg: Any) -> State:
    network = init_mlp(key, (sizes.state, *cfg.hidden, sizes.action))
    return State(new_learner(network, optimiser(cfg), target=False))


def optimiser(cfg: Any) -> optax.GradientTransformation:
    """Adam whose rate falls to nothing along a half cosine.

    At a constant rate the last step decides much of what a policy does a little off the data, and seeds disagree.
    """
    return optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, cfg.steps))


def graph_config(cfg: Config) -> GraphConfig:
    """The part of the settings that the graph depends on."""
    return GraphConfig(
        neighbours=cfg.neighbours,
        discount=cfg.discount,
        spread=cfg.spread,
        price=cfg.price,
        features=cfg.features,
        carry=cfg.carry,
        seed=cfg.graph_seed,
    )


def prepared(dataset: Dataset, space: Space, cfg: Config, say: Callable[[str], None]) -> Chosen:
    """The graph of the whole data, from the cache if it was made before."""
    del space
    return Chosen(jnp.asarray(made_graph(dataset, graph_config(cfg), say).action))


def facts(dataset: Dataset, cfg: Config) -> Mapping[str, Any]:
    """What a page shows of the graph."""
    return made_graph(dataset, graph_config(cfg)).facts


def chosen_loss(actor: MLP, batch: Batch, chosen: jax.Array) -> tuple[jax.Array, Metrics]:
    """Mean over batch and dimensions of (pi(s) - a*)^2; beside it the distance to the logged actions, as BC has it."""
    a = act(actor, batch.s)
    loss = jnp.mean((a - chosen) ** 2)
    return loss, {"actor_loss": loss, "logged_error": jnp.mean((a - batch.a) ** 2)}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Any) -> tuple[State, Metrics]:
    del key
    chosen = world.prepared.action[batch.row]
    actor, metrics = descend(state.actor, lambda actor: chosen_loss(actor, batch, chosen), optimiser(cfg))
    return State(actor), metrics


def phases(cfg: Any) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def lookup(dataset: Dataset, space: Space, cfg: Config = Config(), *, count: int = 5) -> NearestPolicy:
    """The graph's own policy, before any network: the chosen actions of the nearest rows."""
    graph = made_graph(dataset, graph_config(cfg))
    states = space.normaliser.apply(dataset.observations)
    bounds = (np.asarray(space.action_low), np.asarray(space.action_high))
    return nearest_policy(states, graph.action, space.normaliser, bounds, count=count)


ALGORITHM = Algorithm(
    name="graph-scql",
    title="Graph SCQL",
    about="exact values on a graph of the logged states, then cloning of the actions it chose",
    Config=Config,
    init=init,
    phases=phases,
    policy=bc.policy,
    needs=Needs(successors=False, prepared=prepared, facts=facts),
    shown={"antmaze": Shown(), "pointmaze": Shown()},
    variants={
        "paper": PAPER,
        "soft": Variant(
            "weighs what rows did beyond the usual, at a price that can be believed",
            {"spread": 1.0, "price": 0.0, "carry": True},
        ),
    },
    small={"steps": 10_000, "batch": 128, "hidden": (128, 128)},
    maze={"steps": 5_000, "batch": 128, "hidden": (64, 64)},
)

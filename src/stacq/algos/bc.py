"""Behaviour cloning: the action of the data, by least squares."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.algorithm import STATIC, Algorithm, Metrics, Needs, Phase, Shown, Sizes
from stacq.algos.common import act, tanh_policy
from stacq.algos.world import Batch, World
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.mlp import MLP, init_mlp
from stacq.policies import Policy, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    learning_rate: float = 3e-4


class State(NamedTuple):
    actor: Learner[MLP]


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    network = init_mlp(key, (sizes.state, *cfg.hidden, sizes.action))
    return State(new_learner(network, optax.adam(cfg.learning_rate), target=False))


def actor_loss(actor: MLP, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Mean over batch and dimensions of (pi(s) - a)^2."""
    loss = jnp.mean((act(actor, batch.s) - batch.a) ** 2)
    return loss, {"actor_loss": loss}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del world, key
    actor, metrics = descend(state.actor, lambda actor: actor_loss(actor, batch), optax.adam(cfg.learning_rate))
    return State(actor), metrics


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def policy(state: State, space: Space) -> Policy:
    return tanh_policy(state.actor.network, space)


ALGORITHM = Algorithm(
    name="bc",
    title="BC",
    about="behaviour cloning: the action of the data, by least squares",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    needs=Needs(successors=False),
    shown={"antmaze": Shown(reward_shift=-1.0), "pointmaze": Shown(reward_shift=-1.0)},
    small={"steps": 100_000, "batch": 128, "hidden": (128, 128)},
    small_in={
        "pointmaze": {"steps": 10_000, "learning_rate": 1e-3},
        "antmaze": {"steps": 50_000, "learning_rate": 1e-3},
    },
    maze={"steps": 5_000, "batch": 128, "hidden": (64, 64), "learning_rate": 1e-3},
)

"""Behaviour cloning: the action of the data, by least squares."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.common import STATIC, Metrics, Phase, Sizes, act
from stacq.algos.world import Batch, World
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.mlp import MLP, init_mlp

NEEDS_REACHABILITY = False
NEEDS_SUCCESSORS = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    learning_rate: float = 3e-4


class State(NamedTuple):
    actor: Learner


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    network = init_mlp(key, (sizes.state, *cfg.hidden, sizes.action))
    return State(new_learner(network, optax.adam(cfg.learning_rate), target=False))


def actor_loss(actor: MLP, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Mean over batch and dimensions of (pi(s) - a)^2."""
    loss = jnp.mean((act(actor, batch.s) - batch.a) ** 2)
    return loss, {"actor_loss": loss}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del world, key
    actor, facts = descend(state.actor, lambda actor: actor_loss(actor, batch), optax.adam(cfg.learning_rate))
    return State(actor), facts


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array | None:
    """Cloning has no opinion about returns."""
    del state, s, world, cfg
    return None

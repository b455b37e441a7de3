"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose policy is also pulled towards the action of the data."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Metrics, Phase, Sizes, Variant
from stacq.algos.common import act, member_values, noisy, tanh_policy, weight_of_values
from stacq.algos.world import Batch, World
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, init_ensemble, init_mlp
from stacq.policies import Policy, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    critics: int = field(default=2, metadata=STATIC)
    actor_every: int = field(default=2, metadata=STATIC)  # critic steps per actor step and target update
    alpha: float = 2.5  # weight of the value against the pull to the data
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4
    target_noise: float = 0.2
    noise_clip: float = 0.5


class State(NamedTuple):
    actor: Learner[MLP]
    critic: Learner[MLP]  # [M, ...]


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_actor, k_critic = jax.random.split(key)
    actor = init_mlp(k_actor, (sizes.state, *cfg.hidden, sizes.action))
    critic = init_ensemble(k_critic, cfg.critics, (sizes.state + sizes.action, *cfg.hidden, 1))
    adam = optax.adam(cfg.learning_rate)
    return State(new_learner(actor, adam), new_learner(critic, adam))


def target(state: State, batch: Batch, key: jax.Array, cfg: Config) -> jax.Array:
    """y = r + gamma (1 - d) min_j Q'_j(s', pi'(s') + clipped noise), [B]."""
    assert state.actor.target is not None and state.critic.target is not None
    a = noisy(act(state.actor.target, batch.s_next), key, cfg.target_noise, cfg.noise_clip)
    v = member_values(state.critic.target, batch.s_next, a).min(axis=0)
    return batch.r + cfg.discount * (1 - batch.done) * v


def critic_loss(critic: MLP, batch: Batch, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Sum over critics of the mean squared error to one shared target."""
    q = member_values(critic, batch.s, batch.a)  # [M, B]
    loss = jnp.mean((q - y[None]) ** 2, axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target": y.mean()}


def actor_loss(actor: MLP, critic: MLP, batch: Batch, cfg: Config) -> tuple[jax.Array, Metrics]:
    """-lambda Q_1(s, pi(s)) + mean (pi(s) - a)^2, lambda = alpha / mean |Q_1|."""
    a = act(actor, batch.s)
    first: MLP = jax.tree.map(lambda values: values[:1], critic)
    q = member_values(first, batch.s, a)[0]
    pull = jnp.mean((a - batch.a) ** 2)
    loss = -weight_of_values(cfg.alpha, q) * q.mean() + pull
    return loss, {"actor_loss": loss, "pull": pull, "q_policy": q.mean()}


def update_critic(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del world
    y = target(state, batch, key, cfg)
    critic, metrics = descend(state.critic, lambda net: critic_loss(net, batch, y), optax.adam(cfg.learning_rate))
    return state._replace(critic=critic), metrics


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """A critic step, an actor step, and both slow copies moved."""
    state, metrics = update_critic(state, batch, world, key, cfg)
    actor, more = descend(
        state.actor,
        lambda net: actor_loss(net, state.critic.network, batch, cfg),
        optax.adam(cfg.learning_rate),
    )
    return State(follow(actor, cfg.tau), follow(state.critic, cfg.tau)), metrics | more


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update_critic,) * (cfg.actor_every - 1) + (update,)),)


def policy(state: State, space: Space) -> Policy:
    return tanh_policy(state.actor.network, space)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the policy from s."""
    del world, cfg
    return member_values(state.critic.network, s, act(state.actor.network, s)).min(axis=0)


ALGORITHM = Algorithm(
    name="td3bc",
    title="TD3+BC",
    about="TD3 whose policy is also pulled towards the action of the data",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    variants={"paper": PAPER, "four-critics": Variant("as many critics as StaCQ", {"critics": 4})},
    small={"steps": 100_000, "batch": 128, "hidden": (128, 128)},
    small_in={
        "pointmaze": {"steps": 10_000, "tau": 0.05, "alpha": 40.0},
        "antmaze": {"steps": 50_000, "learning_rate": 1e-3, "tau": 0.02, "alpha": 10.0},
    },
    maze={"steps": 12_000, "batch": 128, "hidden": (64, 64), "alpha": 0.25, "tau": 0.05},
    calmed_by=("alpha", "learning_rate"),
)

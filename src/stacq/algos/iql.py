"""IQL (Kostrikov, Nair and Levine, 2021): values from the actions of the data alone, then weighted cloning."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.algos.algorithm import AS_LOGGED, PAPER, STATIC, Algorithm, Metrics, Phase, Shown, Sizes, Variant
from stacq.algos.common import act, member_values, tanh_policy
from stacq.algos.world import Batch, World
from stacq.nn.dropout import with_dropout
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP
from stacq.nn.orthogonal import orthogonal_ensemble, orthogonal_mlp
from stacq.policies import Policy, Space

CRITICS = 2
LARGEST_WEIGHT = 100.0
LOG_STD_RANGE = (-5.0, 2.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    dropout: float = field(default=0.0, metadata=STATIC)  # of the policy's hidden units, in training
    expectile: float = 0.7  # of the values of a state's actions; above 0.5 the better ones count more
    beta: float = 3.0  # inverse temperature: how much more the better actions are cloned
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4  # the policy's falls to zero along a cosine


class Gaussian(NamedTuple):
    """A policy in training: its mean before the tanh, and a deviation that depends on no state."""

    mean: MLP
    log_std: jax.Array  # [A]


class State(NamedTuple):
    actor: Learner[Gaussian]
    critic: Learner[MLP]  # [2, ...]
    value: Learner[MLP]


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_actor, k_critic, k_value = jax.random.split(key, 3)
    mean = orthogonal_mlp(k_actor, (sizes.state, *cfg.hidden, sizes.action))
    critic = orthogonal_ensemble(k_critic, CRITICS, (sizes.state + sizes.action, *cfg.hidden, 1))
    value = orthogonal_mlp(k_value, (sizes.state, *cfg.hidden, 1))
    adam = optax.adam(cfg.learning_rate)
    return State(
        new_learner(Gaussian(mean, jnp.zeros(sizes.action)), actor_optimiser(cfg), target=False),
        new_learner(critic, adam),
        new_learner(value, adam, target=False),
    )


def actor_optimiser(cfg: Config) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, cfg.steps))


def state_value(value: MLP, s: jax.Array) -> jax.Array:
    """V(s), [...]."""
    return value(s)[..., 0]


def target(batch: Batch, v_next: jax.Array, cfg: Config) -> jax.Array:
    """y = r + gamma (1 - d) V(s'), [B]."""
    return batch.r + cfg.discount * (1 - batch.done) * v_next


def advantage_weight(advantage: jax.Array, cfg: Config) -> jax.Array:
    """min(exp(beta (Q - V)), 100), [B]."""
    return jnp.minimum(jnp.exp(cfg.beta * advantage), LARGEST_WEIGHT)


def log_likelihood(actor: Gaussian, mean: jax.Array, a: jax.Array) -> jax.Array:
    """log N(a; mean, std^2), summed over the numbers of an action, [B]. The action itself is not squashed."""
    log_std = jnp.clip(actor.log_std, *LOG_STD_RANGE)
    distance = (a - mean) * jnp.exp(-log_std)
    return -jnp.sum(0.5 * distance**2 + log_std + 0.5 * np.log(2 * np.pi), axis=-1)


def value_loss(value: MLP, batch: Batch, q: jax.Array, cfg: Config) -> tuple[jax.Array, Metrics]:
    """Expectile regression: mean |expectile - 1[u < 0]| u^2, where u = q - V(s)."""
    v = state_value(value, batch.s)
    u = q - v
    loss = jnp.mean(jnp.where(u < 0, 1 - cfg.expectile, cfg.expectile) * u**2)
    return loss, {"value_loss": loss, "v": v.mean()}


def critic_loss(critic: MLP, batch: Batch, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Sum over both critics of the mean squared error to one shared target."""
    q = member_values(critic, batch.s, batch.a)  # [2, B]
    loss = jnp.mean((q - y) ** 2, axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target": y.mean()}


def actor_loss(
    actor: Gaussian, batch: Batch, weight: jax.Array, key: jax.Array, cfg: Config
) -> tuple[jax.Array, Metrics]:
    """Advantage-weighted regression: -mean w log pi(a | s)."""
    raw = with_dropout(actor.mean, batch.s, key, cfg.dropout) if cfg.dropout else actor.mean(batch.s)
    likelihood = log_likelihood(actor, jnp.tanh(raw), batch.a)
    loss = -jnp.mean(weight * likelihood)
    return loss, {"actor_loss": loss, "likelihood": likelihood.mean(), "weight": weight.mean()}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """V, then the policy and Q with the V that has just moved, then the slow copy of Q.

    V and the policy read that slow copy as it was before. It is evaluated once for both, and the new V once for s
    and s' together.
    """
    del world
    assert state.critic.target is not None
    adam = optax.adam(cfg.learning_rate)
    q = member_values(state.critic.target, batch.s, batch.a).min(axis=0)
    value, metrics = descend(state.value, lambda net: value_loss(net, batch, q, cfg), adam)
    v, v_next = jnp.split(state_value(value.network, jnp.concatenate([batch.s, batch.s_next])), 2)
    weight, y = advantage_weight(q - v, cfg), target(batch, v_next, cfg)
    actor, more = descend(state.actor, lambda net: actor_loss(net, batch, weight, key, cfg), actor_optimiser(cfg))
    critic, most = descend(state.critic, lambda net: critic_loss(net, batch, y), adam)
    return State(actor, follow(critic, cfg.tau), value), metrics | more | most


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def policy(state: State, space: Space) -> Policy:
    """The mean action."""
    return tanh_policy(state.actor.network.mean, space)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the mean action from s. V(s) would be that of the data's better ones."""
    del world, cfg
    return member_values(state.critic.network, s, act(state.actor.network.mean, s)).min(axis=0)


# Kitchen and Adroit: few demonstrations, which a policy learns by heart without dropout.
KITCHEN = Variant("as published for Kitchen and Adroit: dropout, and a smaller beta", {"dropout": 0.1, "beta": 0.5})
ALGORITHM = Algorithm(
    name="iql",
    title="IQL",
    about="values from the actions of the data alone, then cloning weighted by their advantage",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    shown={**AS_LOGGED, "locomotion": Shown(normalise=False, reward_scale="return-range")},
    published={"antmaze": {"expectile": 0.9, "beta": 10.0}},
    variants={"paper": PAPER, "kitchen": KITCHEN},
    small={"steps": 100_000, "batch": 128, "hidden": (128, 128)},
    small_shown={"locomotion": Shown(reward_scale="return-range")},
    small_in={
        "pointmaze": {"steps": 10_000, "learning_rate": 1e-3, "tau": 0.05, "expectile": 0.9, "beta": 10.0},
        "antmaze": {"steps": 50_000, "learning_rate": 1e-3, "tau": 0.02, "expectile": 0.9, "beta": 10.0},
    },
    maze={"steps": 10_000, "batch": 128, "hidden": (64, 64), "learning_rate": 1e-3, "tau": 0.05},
)

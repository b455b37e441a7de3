"""ReBRAC (Tarasov et al., 2023): TD3+BC with a pull to the data in actor and critic, each of its own weight."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.algorithm import STATIC, Algorithm, Metrics, Phase, Shown, Sizes
from stacq.algos.common import act, member_values, noisy, tanh_policy, weight_of_values
from stacq.algos.world import Batch, World, gather
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, init_ensemble, init_mlp
from stacq.policies import Policy, Space

HIDDEN_BIAS = 0.1  # the start of every bias but the last
ACTOR_OUTPUT, CRITIC_OUTPUT = 1e-3, 3e-3  # output layers start uniform within plus and minus these


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=1024, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256, 256), metadata=STATIC)
    critics: int = field(default=2, metadata=STATIC)
    actor_every: int = field(default=2, metadata=STATIC)  # critic steps per actor step and target update
    beta_actor: float = 0.01  # beta_1: weight of the policy's distance to the action of the data
    beta_critic: float = 0.01  # beta_2: weight of the next action's distance to that of the data, in the target
    discount: float = 0.99
    tau: float = 0.005
    actor_learning_rate: float = 1e-3
    critic_learning_rate: float = 1e-3
    target_noise: float = 0.2
    noise_clip: float = 0.5


class State(NamedTuple):
    actor: Learner[MLP]
    critic: Learner[MLP]  # [M, ...]


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_actor, k_critic = jax.random.split(key)
    actor = init_mlp(k_actor, (sizes.state, *cfg.hidden, sizes.action))
    critic = init_ensemble(k_critic, cfg.critics, (sizes.state + sizes.action, *cfg.hidden, 1), layer_norm=True)
    critic = replace(critic, relu_first=True)
    return State(
        new_learner(started(actor, ACTOR_OUTPUT), optax.adam(cfg.actor_learning_rate)),
        new_learner(started(critic, CRITIC_OUTPUT), optax.adam(cfg.critic_learning_rate)),
    )


def started(network: MLP, bound: float) -> MLP:
    """A new network with the authors' biases and output layer: outputs near 0 from the first step on."""
    *hidden, last = network.weights
    biases = [jnp.full_like(bias, HIDDEN_BIAS) for bias in network.biases[:-1]]
    shrink = bound * last.shape[-2] ** 0.5  # both are uniform in +-1/sqrt(inputs) now
    return replace(network, weights=(*hidden, last * shrink), biases=(*biases, network.biases[-1] * shrink))


def distance(a: jax.Array, b: jax.Array) -> jax.Array:
    """Squared, summed over dimensions, [B]: a mean would weigh less in a body of many joints."""
    return jnp.sum((a - b) ** 2, axis=-1)


def distance_to_next(a: jax.Array, batch: Batch, world: World) -> jax.Array:
    """Squared distance to the action that the data took at s', [B]; 0 where the episode has no row after.

    Of those rows a terminal one has no value beyond it anyway. One before a timeout keeps its value, without a pull.
    """
    following = gather(world.rows, batch.row + 1).a
    return jnp.where(world.chained[batch.row], distance(a, following), 0.0)


def target(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> jax.Array:
    """y = r + gamma (1 - d) [min_j Q'_j(s', a') - beta_2 |a' - a'_data|^2], a' = pi'(s') + clipped noise, [B]."""
    assert state.actor.target is not None and state.critic.target is not None
    a = noisy(act(state.actor.target, batch.s_next), key, cfg.target_noise, cfg.noise_clip)
    v = member_values(state.critic.target, batch.s_next, a).min(axis=0)
    return batch.r + cfg.discount * (1 - batch.done) * (v - cfg.beta_critic * distance_to_next(a, batch, world))


def critic_loss(critic: MLP, batch: Batch, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Sum over critics of the mean squared error to one shared target."""
    q = member_values(critic, batch.s, batch.a)  # [M, B]
    loss = jnp.mean((q - y[None]) ** 2, axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target": y.mean()}


def actor_loss(actor: MLP, critic: MLP, batch: Batch, cfg: Config) -> tuple[jax.Array, Metrics]:
    """Mean of beta_1 |pi(s) - a|^2 - lambda min_j Q_j(s, pi(s)), lambda = 1 / mean |min_j Q_j|."""
    a = act(actor, batch.s)
    q = member_values(critic, batch.s, a).min(axis=0)
    pull = distance(a, batch.a).mean()
    loss = cfg.beta_actor * pull - weight_of_values(1.0, q) * q.mean()
    return loss, {"actor_loss": loss, "pull": pull, "q_policy": q.mean()}


def update_critic(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    y = target(state, batch, world, key, cfg)
    adam = optax.adam(cfg.critic_learning_rate)
    critic, metrics = descend(state.critic, lambda net: critic_loss(net, batch, y), adam)
    return state._replace(critic=critic), metrics


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """A critic step, an actor step, and both slow copies moved: the actor's towards the actor before its step."""
    state, metrics = update_critic(state, batch, world, key, cfg)
    actor, more = descend(
        follow(state.actor, cfg.tau),
        lambda net: actor_loss(net, state.critic.network, batch, cfg),
        optax.adam(cfg.actor_learning_rate),
    )
    return State(actor, follow(state.critic, cfg.tau)), metrics | more


def phases(cfg: Config) -> tuple[Phase, ...]:
    """The actor moves in the first step of every turn."""
    return (Phase(cfg.steps, (update,) + (update_critic,) * (cfg.actor_every - 1)),)


def policy(state: State, space: Space) -> Policy:
    return tanh_policy(state.actor.network, space)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the policy from s."""
    del world, cfg
    return member_values(state.critic.network, s, act(state.actor.network, s)).min(axis=0)


RATES = {"batch": 256, "actor_learning_rate": 3e-4}
BETAS = {
    "halfcheetah-random": (0.001, 0.1),
    "halfcheetah-medium": (0.001, 0.01),
    "halfcheetah-medium-replay": (0.01, 0.001),
    "halfcheetah-medium-expert": (0.01, 0.1),
    "halfcheetah-expert": (0.01, 0.01),
    "hopper-random": (0.001, 0.01),
    "hopper-medium": (0.01, 0.01),
    "hopper-medium-replay": (0.05, 0.5),
    "hopper-medium-expert": (0.1, 0.01),
    "hopper-expert": (0.1, 0.1),
    "walker2d-random": (0.01, 0.0),
    "walker2d-medium": (0.05, 0.1),
    "walker2d-medium-replay": (0.05, 0.01),
    "walker2d-medium-expert": (0.01, 0.01),
    "walker2d-expert": (0.01, 0.5),
    "antmaze-umaze": (0.003, 0.002),
    "antmaze-umaze-diverse": (0.003, 0.001),
    "antmaze-medium-play": (0.001, 0.0005),
    "antmaze-medium-diverse": (0.001, 0.0),
    "antmaze-large-play": (0.002, 0.001),
    "antmaze-large-diverse": (0.002, 0.002),
}

ALGORITHM = Algorithm(
    name="rebrac",
    title="ReBRAC",
    about="TD3+BC with deeper networks, LayerNorm in the critics, and a pull to the data in the critics' target too",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    shown={
        "locomotion": Shown(normalise=False),
        "antmaze": Shown(normalise=False, reward_scale=100.0),
        "pointmaze": Shown(normalise=False),
    },
    published={
        "antmaze": {**RATES, "critic_learning_rate": 5e-5, "discount": 0.999},
        "pointmaze": {**RATES, "critic_learning_rate": 3e-4, "beta_actor": 0.003, "beta_critic": 0.001},
        **{name: {"beta_actor": actor, "beta_critic": critic} for name, (actor, critic) in BETAS.items()},
    },
    small_shown={"locomotion": Shown()},
    small={"steps": 100_000, "batch": 256, "hidden": (128, 128, 128), "beta_actor": 0.1},
    maze={"steps": 12_000, "batch": 128, "hidden": (64, 64), "beta_actor": 2.0, "tau": 0.05},
    calmed_by=("actor_learning_rate", "critic_learning_rate"),
)

"""BCQ (Fujimoto, Meger and Precup, 2019): Q-learning over actions that a model of the data proposes."""

from dataclasses import dataclass, field
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.algos.algorithm import STATIC, Algorithm, Metrics, Needs, Phase, Shown, Sizes
from stacq.algos.common import member_values
from stacq.algos.world import Batch, World
from stacq.data.tasks import Family
from stacq.nn.cvae import CVAE, init_cvae, reconstruction_and_divergence
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, each_member_of_each, init_ensemble, init_mlp
from stacq.policies import ChosenPolicy, Layers, Policy, Space

LATENT_CLIP = 0.5  # of the latents that actions are decoded from
ACTING_SAMPLES = 100  # actions that the policy chooses from
DIVERGENCE_WEIGHT = 0.5  # against the reconstruction


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=100, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(400, 300), metadata=STATIC)  # of critics and correction
    vae_hidden: tuple[int, ...] = field(default=(750, 750), metadata=STATIC)  # of encoder and decoder
    samples: int = field(default=10, metadata=STATIC)  # candidate actions in the target
    phi: float = 0.05  # largest correction of an action
    min_weight: float = 0.75  # lambda: of the smaller critic, against the larger
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 1e-3


class State(NamedTuple):
    vae: Learner[CVAE]
    actor: Learner[MLP]  # xi, the correction of a decoded action
    critic: Learner[MLP]  # [2, ...]
    phi: jax.Array  # as in Config: a policy is made from the state alone


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_vae, k_actor, k_critic = jax.random.split(key, 3)
    pair, adam = sizes.state + sizes.action, optax.adam(cfg.learning_rate)
    vae = init_cvae(k_vae, sizes.state, sizes.action, 2 * sizes.action, cfg.vae_hidden)
    return State(
        new_learner(vae, adam, target=False),
        new_learner(init_mlp(k_actor, (pair, *cfg.hidden, sizes.action)), adam),
        new_learner(init_ensemble(k_critic, 2, (pair, *cfg.hidden, 1)), adam),
        jnp.asarray(cfg.phi, jnp.float32),
    )


def latents(decoder: MLP, s: jax.Array, key: jax.Array, count: int) -> jax.Array:
    """z ~ N(0, I), each number clipped to [-0.5, 0.5]: `count` for every state, [..., K, Z]."""
    size = decoder.weights[0].shape[0] - s.shape[-1]
    return jnp.clip(jax.random.normal(key, (*s.shape[:-1], count, size)), -LATENT_CLIP, LATENT_CLIP)


def proposed(decoder: MLP, s: jax.Array, z: jax.Array) -> jax.Array:
    """u = D(s, z): actions that the data would hold, [..., K, A]."""
    return jnp.tanh(decoder.of_each(s, z))


def corrected(actor: MLP, s: jax.Array, u: jax.Array, phi: jax.Array | float) -> jax.Array:
    """a = clip(u + phi tanh(xi(s, u))), [..., K, A]."""
    return jnp.clip(u + phi * jnp.tanh(actor.of_each(s, u)), -1.0, 1.0)


def soft_minimum(q: jax.Array, weight: jax.Array | float) -> jax.Array:
    """lambda min_j Q_j + (1 - lambda) max_j Q_j, [M, ...] to [...]."""
    return weight * q.min(axis=0) + (1 - weight) * q.max(axis=0)


def taken(a: jax.Array, score: jax.Array) -> jax.Array:
    """The action of greatest score of every state, [B, A]."""
    return jnp.take_along_axis(a, score.argmax(axis=-1)[..., None, None], axis=-2)[..., 0, :]


def target(state: State, batch: Batch, world: World, z: jax.Array, cfg: Config) -> jax.Array:
    """y = r + gamma (1 - d) max_k {lambda min_j Q'_j(s', a_k) + (1 - lambda) max_j Q'_j(s', a_k)}, [B].

    Candidates are made and compared by frozen networks, which may be rounded; the one that wins is valued once more
    without rounding. A maximum over rounded values would be too large on average.
    """
    assert state.actor.target is not None and state.critic.target is not None
    decoder, actor = world.frozen(state.vae.network.decoder), world.frozen(state.actor.target)
    a = corrected(actor, batch.s_next, proposed(decoder, batch.s_next, z), cfg.phi)
    q = each_member_of_each(world.frozen(state.critic.target), batch.s_next, a)[..., 0]  # [2, B, K]
    best = taken(a, soft_minimum(q, cfg.min_weight))
    v = soft_minimum(member_values(state.critic.target, batch.s_next, best), cfg.min_weight)
    return batch.r + cfg.discount * (1 - batch.done) * v


def vae_loss(vae: CVAE, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
    """Mean (D(s, z) - a)^2 + KL(E(s, a) || N(0, I)) / 2, both averaged over batch and numbers."""
    error, divergence = reconstruction_and_divergence(vae, batch.s, batch.a, key)
    loss = error + DIVERGENCE_WEIGHT * divergence
    return loss, {"vae_loss": loss, "reconstruction": error, "divergence": divergence}


def critic_loss(critic: MLP, batch: Batch, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Sum over critics of the mean squared error to one shared target."""
    q = member_values(critic, batch.s, batch.a)  # [2, B]
    loss = jnp.mean((q - y[None]) ** 2, axis=1).sum()
    return loss, {"critic_loss": loss, "q": q.mean(), "target": y.mean()}


def actor_loss(actor: MLP, critic: MLP, s: jax.Array, u: jax.Array, cfg: Config) -> tuple[jax.Array, Metrics]:
    """-mean Q_1(s, u + xi(s, u)) of one proposed action u per state, [B, A]."""
    a = corrected(actor, s, u[:, None], cfg.phi)[:, 0]
    first: MLP = jax.tree.map(lambda values: values[:1], critic)
    q = member_values(first, s, a).mean()
    return -q, {"actor_loss": -q, "q_policy": q}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """One step of the generator, the critics and the correction, each with what moved before; then the slow copies."""
    k_vae, k_latents = jax.random.split(key)
    z = latents(state.vae.network.decoder, batch.s, k_latents, cfg.samples + 1)
    adam = optax.adam(cfg.learning_rate)
    vae, of_vae = descend(state.vae, lambda net: vae_loss(net, batch, k_vae), adam)
    y = target(state._replace(vae=vae), batch, world, z[:, :-1], cfg)
    critic, of_critic = descend(state.critic, lambda net: critic_loss(net, batch, y), adam)
    u = proposed(world.frozen(vae.network.decoder), batch.s, z[:, -1:])[:, 0]
    actor, of_actor = descend(state.actor, lambda net: actor_loss(net, critic.network, batch.s, u, cfg), adam)
    moved = State(vae, follow(actor, cfg.tau), follow(critic, cfg.tau), state.phi)
    return moved, of_vae | of_critic | of_actor


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def policy(state: State, space: Space) -> Policy:
    """The best of 100 candidates by the first critic."""
    first: MLP = jax.tree.map(lambda values: values[0], state.critic.network)
    parts = (state.vae.network.decoder, state.actor.network, first)
    decoder, correction, critic = (_layers(part) for part in parts)
    return ChosenPolicy(space, decoder, correction, critic, ACTING_SAMPLES, float(state.phi), LATENT_CLIP)


def _layers(network: MLP) -> Layers:
    return Layers(tuple(map(np.asarray, network.weights)), tuple(map(np.asarray, network.biases)))


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the policy from s: the smaller one, of the action that the first likes.

    The latents are always the same, so that values of one state can be compared over a training.
    """
    del world
    critic, decoder = state.critic.network, state.vae.network.decoder
    z = latents(decoder, s, jax.random.key(0), ACTING_SAMPLES)
    a = corrected(state.actor.network, s, proposed(decoder, s, z), cfg.phi)
    first: MLP = jax.tree.map(lambda values: values[:1], critic)
    best = taken(a, each_member_of_each(first, s, a)[0, ..., 0])
    return member_values(critic, s, best).min(axis=0)


# The published code knows states as they are, on every task.
RAW: dict[str, Shown] = dict.fromkeys(("", *get_args(Family)), Shown(normalise=False))
ALGORITHM = Algorithm(
    name="bcq",
    title="BCQ",
    about="Q-learning over actions that a model of the data proposes",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    needs=Needs(frozen=True),
    shown=RAW | dict.fromkeys(("antmaze", "pointmaze"), Shown(normalise=False, reward_shift=-1.0)),
    small_shown={"locomotion": Shown()},
    small={"steps": 100_000, "batch": 64, "hidden": (128, 128), "vae_hidden": (128, 128)},
    maze={"steps": 12_000, "batch": 128, "hidden": (64, 64), "vae_hidden": (64, 64), "tau": 0.05},
)

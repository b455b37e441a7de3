"""StaCQ, algorithm 1: values of (state, next state) pairs, and a policy pulled to the best reachable state."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Metrics, Needs, Phase, Settings, Sizes, Variant
from stacq.algos.common import (
    Best,
    act,
    best_of,
    member_values,
    noisy,
    overflow_of,
    pull_to,
    pulls_actions,
    tanh_policy,
    weight_of_values,
)
from stacq.algos.pairs import Pairs, draw_pairs
from stacq.algos.world import Batch, World, gather
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, init_ensemble, init_mlp
from stacq.policies import Policy, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """The paper's where it gives a number, its authors' code for the noise, ours for `slots`.

    The variant `authors` is what that code does otherwise (docs/stacq.md).
    """

    steps: int = field(default=1_000_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    slots: int = field(default=256, metadata=STATIC)  # reachable pairs per batch, without the own ones
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    critics: int = field(default=4, metadata=STATIC)
    layer_norm: bool = field(default=False, metadata=STATIC)  # in the critics
    pairs: Literal["cross", "dataset"] = field(default="cross", metadata=STATIC)
    targets: Literal["shared", "independent"] = field(default="shared", metadata=STATIC)
    actor_q: Literal["min", "first"] = field(default="min", metadata=STATIC)
    reward: Literal["model", "row"] = field(default="model", metadata=STATIC)  # learned, or of the row s' comes from
    alpha: float = 1.0  # weight of the value against the pull to the best reachable state
    action_pull: float = 0.0  # to the action that leads there, in addition to the pull to the state; in units of alpha
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4  # of critics and reward model; the actor's falls from it along a cosine
    target_noise: float = 0.2
    actor_noise: float = 0.1  # standard deviation; the paper words it as a variance
    noise_clip: float = 0.5
    margin: float = 0.0  # the actor's noisy action stays this far inside the bounds


class State(NamedTuple):
    actor: Learner[MLP]
    critic: Learner[MLP]  # [M, ...]
    reward: Learner[MLP]  # does not change where rewards are those of rows


class Edges(NamedTuple):
    """Pairs that the critics learn from: the own ones of the batch, then those in the slots."""

    s: jax.Array  # [P, S]
    s_next: jax.Array  # [P, S]
    r: jax.Array  # [P]
    done: jax.Array  # [P]
    weight: jax.Array  # [P], 0 in unused slots


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_actor, k_critic, k_reward = jax.random.split(key, 3)
    pair = (2 * sizes.state, *cfg.hidden, 1)
    critic = init_ensemble(k_critic, cfg.critics, pair, layer_norm=cfg.layer_norm)
    actor = init_mlp(k_actor, (sizes.state, *cfg.hidden, sizes.action))
    return State(
        new_learner(actor, actor_optimiser(cfg)),
        new_learner(critic, optax.adam(cfg.learning_rate)),
        new_learner(init_mlp(k_reward, pair), optax.adam(cfg.learning_rate), target=False),
    )


def actor_optimiser(cfg: Config) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, cfg.steps))


def predicted_reward(reward: MLP, s: jax.Array, s_next: jax.Array) -> jax.Array:
    """r(s, s'), [...]."""
    return reward(jnp.concatenate([s, s_next], axis=-1))[..., 0]


def reward_loss(reward: MLP, batch: Batch, world: World) -> tuple[jax.Array, Metrics]:
    """Eq. (11): mean (r(s, s') - r)^2 over pairs of the data; a predicted s' is none."""
    error = (predicted_reward(reward, batch.s, batch.s_next) - batch.r) ** 2
    if world.recorded is None:
        loss = error.mean()
    else:
        recorded = world.recorded[batch.row]
        loss = jnp.where(recorded, error, 0.0).sum() / jnp.maximum(recorded.sum(), 1)
    return loss, {"reward_loss": loss}


def edges(batch: Batch, pairs: Pairs, world: World, reward: MLP, cfg: Config) -> Edges:
    """(s_i, s'_j) for every reachable j, with the done flag of row j; `dataset` puts s_j in the place of s_i.

    The reward of row j is exact for `dataset` pairs, and for others where only the state arrived at is rewarded. There
    it spares the learned model, whose smooth edges around a sparse reward are a source of values out of nothing.
    """
    extra = gather(world.rows, pairs.member)
    s_extra = batch.s[jnp.minimum(pairs.anchor, batch.s.shape[0] - 1)] if cfg.pairs == "cross" else extra.s
    s, s_next = jnp.concatenate([batch.s, s_extra]), jnp.concatenate([batch.s_next, extra.s_next])
    if cfg.reward == "row":
        r = jnp.concatenate([batch.r, extra.r])
    else:
        r = jax.lax.stop_gradient(predicted_reward(reward, s, s_next))
    weight = jnp.concatenate([jnp.ones_like(batch.r), pairs.weight])
    return Edges(s, s_next, r, jnp.concatenate([batch.done, extra.done]), weight)


def target(state: State, pairs: Edges, world: World, key: jax.Array, cfg: Config) -> jax.Array:
    """Eq. (10): y = r + gamma (1 - d) Q'(s', f(s', pi'(s') + clipped noise)), [M, P]."""
    assert state.actor.target is not None and state.critic.target is not None
    a = noisy(act(state.actor.target, pairs.s_next), key, cfg.target_noise, cfg.noise_clip)
    after = world.forward(pairs.s_next, a)
    v = member_values(state.critic.target, pairs.s_next, after)  # [M, P]
    if cfg.targets == "shared":
        v = jnp.broadcast_to(v.min(axis=0), v.shape)
    return pairs.r + cfg.discount * (1 - pairs.done) * v


def critic_loss(critic: MLP, pairs: Edges, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Eq. (10): sum over critics of the mean of (Q(s, s') - y)^2 over all pairs of the batch."""
    q = member_values(critic, pairs.s, pairs.s_next)  # [M, P]
    share = pairs.weight / pairs.weight.sum()
    loss = (((q - y) ** 2).sum(axis=0) * share).sum()
    metrics = {"q": (q.mean(axis=0) * share).sum(), "target": (y.mean(axis=0) * share).sum()}
    return loss, {"critic_loss": loss, **metrics}


def actor_value(critic: MLP, s: jax.Array, s_next: jax.Array, cfg: Config) -> jax.Array:
    """What the actor climbs and ranks states by, [B]."""
    q = member_values(critic, s, s_next)
    return q.min(axis=0) if cfg.actor_q == "min" else q[0]


def best_reachable(critic: MLP, batch: Batch, pairs: Pairs, world: World, cfg: Config) -> Best:
    """argmax of Q(s, s') over the states reachable from each anchor; ties go to the own successor."""
    members = gather(world.rows, pairs.member).s_next
    anchors = batch.s[jnp.minimum(pairs.anchor, batch.s.shape[0] - 1)]
    s, s_next = jnp.concatenate([batch.s, anchors]), jnp.concatenate([batch.s_next, members])
    return best_of(actor_value(critic, s, s_next, cfg), batch, members, pairs, world)[1]


def actor_loss(
    actor: MLP, critic: MLP, best: Best, batch: Batch, world: World, key: jax.Array, cfg: Config
) -> tuple[jax.Array, Metrics]:
    """Eq. (12): -lambda Q(s, f(s, pi(s) + noise)) + |f(s, pi(s) + noise) - best|^2, lambda = alpha / mean |Q|.

    With an action pull, + alpha action_pull |pi(s) - a|^2, where a leads to the best state.
    """
    a = act(actor, batch.s)
    tried = noisy(a, key, cfg.actor_noise, cfg.noise_clip)
    s_next = world.forward(batch.s, jnp.clip(tried, cfg.margin - 1, 1 - cfg.margin))
    q = actor_value(critic, batch.s, s_next, cfg)
    pull, distances = pull_to(best, a, s_next, cfg.alpha * cfg.action_pull)
    loss = -weight_of_values(cfg.alpha, q) * q.mean() + pull
    return loss, {"actor_loss": loss, "q_policy": q.mean(), **distances}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """Algorithm 1, one iteration: reward model, critics, actor, slow copies."""
    assert world.extras is not None
    k_pairs, k_target, k_actor = jax.random.split(key, 3)
    pairs = draw_pairs(world.extras, batch.row, k_pairs, cfg.slots)
    adam = optax.adam(cfg.learning_rate)
    reward, metrics = (
        descend(state.reward, lambda net: reward_loss(net, batch, world), adam)
        if cfg.reward == "model"
        else (state.reward, {})
    )
    learned = edges(batch, pairs, world, reward.network, cfg)
    y = target(state, learned, world, k_target, cfg)
    critic, more = descend(state.critic, lambda net: critic_loss(net, learned, y), adam)
    best = best_reachable(critic.network, batch, pairs, world, cfg)
    actor, last = descend(
        state.actor,
        lambda net: actor_loss(net, critic.network, best, batch, world, k_actor, cfg),
        actor_optimiser(cfg),
    )
    metrics |= more | last | overflow_of(pairs, cfg.slots)
    return State(follow(actor, cfg.tau), follow(critic, cfg.tau), reward), metrics


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def policy(state: State, space: Space) -> Policy:
    return tanh_policy(state.actor.network, space)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the policy from s."""
    return actor_value(state.critic.network, s, world.forward(s, act(state.actor.network, s)), cfg)


# Appendix C. Rewards belong to states in AntMaze, so no model of them is learned there.
PUBLISHED: dict[str, Settings] = {
    "hopper": {"alpha": 1.0},
    "walker2d": {"alpha": 5.0},
    "halfcheetah": {"alpha": 10.0},
    "halfcheetah-medium-expert": {"alpha": 0.5},
    "antmaze": {"targets": "independent", "reward": "row"},
    "pointmaze": {"reward": "row"},  # ours: rewards belong to states there too
    "antmaze-umaze": {"alpha": 2.0},
    "antmaze-medium": {"alpha": 10.0},
    "antmaze-large": {"alpha": 19.0},
}
VARIANTS = {
    "paper": PAPER,
    "layer-norm": Variant("critics with LayerNorm", {"layer_norm": True}),
    "robust": Variant(
        "critics with LayerNorm, and a second pull that holds every actuator alike",
        {"layer_norm": True, "action_pull": 0.01},
        small={"action_pull": 0.028},  # with few rows and steps a weaker pull lets the policy fall (docs/ablations.md)
    ),
    # Rewards belong to states there: the policy goes to the best reachable state and climbs no further.
    "maze": Variant(
        "tuned for the continuous mazes", {"critics": 2, "layer_norm": True, "reward": "row", "alpha": 0.0}
    ),
    "authors": Variant(
        "what the authors' code does otherwise, in the training itself",
        {"pairs": "dataset", "margin": 1e-4},
        by_family={"antmaze": {"actor_q": "first"}},
    ),
}
ALGORITHM = Algorithm(
    name="stacq",
    title="StaCQ",
    about="values of (state, next state) pairs, and a policy pulled to the best reachable state",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    needs=Needs(reachable=True, leading_actions=pulls_actions),
    published=PUBLISHED,
    variants=VARIANTS,
    # docs/results.md, docs/mazes.md; in AntMaze nothing was measured
    recommended={"": "robust", "plane-maze": "maze", "antmaze": "paper"},
    small={"steps": 100_000, "batch": 128, "hidden": (128, 128), "critics": 2},
    small_in={
        "pointmaze": {"steps": 10_000, "learning_rate": 1e-3, "tau": 0.05, "alpha": 0.2},
        "antmaze": {"steps": 50_000, "learning_rate": 1e-3, "tau": 0.02},
    },
    maze={"steps": 5_000, "batch": 128, "hidden": (64, 64), "tau": 0.05, "learning_rate": 1e-3},
    calmed_by=("alpha", "learning_rate"),
)

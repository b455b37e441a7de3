"""OneStep StaCQ, algorithm 2: values learned from pairs of the data alone, then one policy extracted from them."""

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
from stacq.algos.stacq import predicted_reward, reward_loss
from stacq.algos.world import Batch, World, gather
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, init_ensemble, init_mlp
from stacq.policies import Policy, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    critic_steps: int = field(default=1_000_000, metadata=STATIC)
    steps: int = field(default=1_000_000, metadata=STATIC)  # of the policy, after the critic's
    batch: int = field(default=256, metadata=STATIC)
    slots: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    critics: int = field(default=1, metadata=STATIC)
    layer_norm: bool = field(default=False, metadata=STATIC)
    reward: Literal["model", "row"] = field(default="model", metadata=STATIC)  # learned, or of the row s' comes from
    alpha: float = 0.1  # weight of the value against the pull to the best state
    action_pull: float = 0.0  # to the action that leads there, in addition to the pull to the state; in units of alpha
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4
    actor_noise: float = 0.1
    noise_clip: float = 0.5


class State(NamedTuple):
    actor: Learner[MLP]
    critic: Learner[MLP]  # [M, ...]
    reward: Learner[MLP]  # does not change where rewards are those of rows


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_actor, k_critic, k_reward = jax.random.split(key, 3)
    pair = (2 * sizes.state, *cfg.hidden, 1)
    adam = optax.adam(cfg.learning_rate)
    critic = init_ensemble(k_critic, cfg.critics, pair, layer_norm=cfg.layer_norm)
    return State(
        new_learner(init_mlp(k_actor, (sizes.state, *cfg.hidden, sizes.action)), actor_optimiser(cfg), target=False),
        new_learner(critic, adam),
        new_learner(init_mlp(k_reward, pair), adam, target=False),
    )


def actor_optimiser(cfg: Config) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, cfg.steps))


def pair_value(critic: MLP, s: jax.Array, s_next: jax.Array) -> jax.Array:
    """Q(s, s'), the least over critics, [...]."""
    return member_values(critic, s, s_next).min(axis=0)


def lookahead(
    critic: MLP, reward: MLP, s: jax.Array, index: jax.Array, world: World, cfg: Config
) -> tuple[jax.Array, jax.Array]:
    """r(s, s'_j) + gamma (1 - d_j) Q(s'_j, s''_j) for the rows j of `index`, and whether it exists, each [...].

    s''_j, the state after s'_j, is recorded one row further on in the same episode. Where the recording stops after
    s'_j without the task being over, or holds a row that no update learns from because it has no successor, nothing
    is known of what follows, and the candidate does not count.
    """
    here = gather(world.rows, index)
    after = jnp.minimum(index + 1, world.chained.shape[0] - 1)
    q = pair_value(critic, here.s_next, gather(world.rows, after).s_next)
    known = (world.chained[index] & world.usable[after]) | (here.done > 0)
    r = here.r if cfg.reward == "row" else predicted_reward(reward, s, here.s_next)
    return r + cfg.discount * (1 - here.done) * q, known


def best_candidate(
    critic: MLP, reward: MLP, s: jax.Array, index: jax.Array, world: World, key: jax.Array, cfg: Config
) -> tuple[jax.Array, Best, Pairs]:
    """The largest lookahead over the sets of anchor rows `index`, whose states are `s`, and where it leads.

    It is -inf for an anchor none of whose candidates counts, and leads to the own successor there.
    """
    assert world.extras is not None
    count = index.shape[0]
    pairs = draw_pairs(world.extras, index, key, cfg.slots)
    rows = jnp.concatenate([index, pairs.member])
    states = jnp.concatenate([s, s[jnp.minimum(pairs.anchor, count - 1)]])
    score, known = lookahead(critic, reward, states, rows, world, cfg)
    own, members = gather(world.rows, index), gather(world.rows, pairs.member).s_next
    most, best = best_of(jnp.where(known, score, -jnp.inf), own, members, pairs, world)
    return most, best, pairs


def target(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[jax.Array, jax.Array, Pairs]:
    """y = r + gamma (1 - d) max over s'' reachable from s' of {r(s', s'') + gamma Q'(s'', s''')}, and where it exists.

    s' of row i is the state of row i + 1, whose set is used; a row at the end of a recording has none.
    """
    assert state.critic.target is not None
    after = jnp.minimum(batch.row + 1, world.chained.shape[0] - 1)
    most, _, pairs = best_candidate(state.critic.target, state.reward.network, batch.s_next, after, world, key, cfg)
    over = batch.done > 0
    exists = over | (world.chained[batch.row] & jnp.isfinite(most))
    y = batch.r + cfg.discount * jnp.where(over | ~exists, 0.0, most)
    return jax.lax.stop_gradient(y), exists, pairs


def critic_loss(critic: MLP, batch: Batch, y: jax.Array, exists: jax.Array) -> tuple[jax.Array, Metrics]:
    """Appendix D: mean (Q(s, s') - y)^2 over the pairs of the data whose target exists, summed over critics."""
    q = member_values(critic, batch.s, batch.s_next)  # [M, B]
    weight = exists / jnp.maximum(exists.sum(), 1)
    loss = (((q - y) ** 2) * weight).sum()
    return loss, {"critic_loss": loss, "q": (q.mean(axis=0) * weight).sum(), "target": (y * weight).sum()}


def actor_loss(
    actor: MLP, critic: MLP, best: Best, batch: Batch, world: World, key: jax.Array, cfg: Config
) -> tuple[jax.Array, Metrics]:
    """Appendix D with the sign that maximises: -lambda Q(s, f(s, pi(s) + noise)) + |f(s, pi(s) + noise) - best|^2.

    With an action pull, + alpha action_pull |pi(s) - a|^2, where a leads to the best state.
    """
    a = act(actor, batch.s)
    s_next = world.forward(batch.s, noisy(a, key, cfg.actor_noise, cfg.noise_clip))
    q = pair_value(critic, batch.s, s_next)
    pull, distances = pull_to(best, a, s_next, cfg.alpha * cfg.action_pull)
    loss = -weight_of_values(cfg.alpha, q) * q.mean() + pull
    return loss, {"actor_loss": loss, "q_policy": q.mean(), **distances}


def update_critic(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """Algorithm 2, first loop: reward model, critic, slow copy."""
    adam = optax.adam(cfg.learning_rate)
    reward, metrics = (
        descend(state.reward, lambda net: reward_loss(net, batch, world), adam)
        if cfg.reward == "model"
        else (state.reward, {})
    )
    state = state._replace(reward=reward)
    y, exists, pairs = target(state, batch, world, key, cfg)
    critic, more = descend(state.critic, lambda net: critic_loss(net, batch, y, exists), adam)
    return state._replace(critic=follow(critic, cfg.tau)), metrics | more | overflow_of(pairs, cfg.slots)


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """Algorithm 2, second loop: the policy alone."""
    k_pairs, k_actor = jax.random.split(key)
    critic, reward = state.critic.network, state.reward.network
    _, best, pairs = best_candidate(critic, reward, batch.s, batch.row, world, k_pairs, cfg)
    actor, metrics = descend(
        state.actor,
        lambda net: actor_loss(net, critic, best, batch, world, k_actor, cfg),
        actor_optimiser(cfg),
    )
    return state._replace(actor=actor), metrics | overflow_of(pairs, cfg.slots)


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.critic_steps, (update_critic,), acts=False), Phase(cfg.steps, (update,)))


def policy(state: State, space: Space) -> Policy:
    return tanh_policy(state.actor.network, space)


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critic gives to acting by the policy from s."""
    del cfg
    return pair_value(state.critic.network, s, world.forward(s, act(state.actor.network, s)))


# Appendix D. Rewards belong to states in AntMaze, so no model of them is learned there.
PUBLISHED: dict[str, Settings] = {
    "hopper": {"alpha": 0.1},
    "walker2d": {"alpha": 1.0},
    "halfcheetah": {"alpha": 5.0},
    "antmaze": {"reward": "row"},
    "pointmaze": {"reward": "row"},  # ours: rewards belong to states there too
    "antmaze-umaze": {"alpha": 10.0},
    "antmaze-medium": {"alpha": 40.0},
    "antmaze-large": {"alpha": 100.0},
}
# The value that the pull is weighed against has less weight itself than in StaCQ, so the pull is firmer.
ROBUST = Variant("with a pull to the action that leads to the best state", {"action_pull": 0.1})
ALGORITHM = Algorithm(
    name="onestep-stacq",
    title="OneStep StaCQ",
    about="values learned from pairs of the data alone, then one policy extracted from them",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    needs=Needs(reachable=True, leading_actions=pulls_actions),
    published=PUBLISHED,
    variants={"paper": PAPER, "robust": ROBUST},
    small={"steps": 50_000, "critic_steps": 50_000, "batch": 128, "hidden": (128, 128)},
    small_in={
        "pointmaze": {"steps": 5_000, "critic_steps": 10_000, "learning_rate": 1e-3, "tau": 0.05},
        "antmaze": {"steps": 25_000, "critic_steps": 50_000, "learning_rate": 1e-3, "tau": 0.02},
    },
    maze={"steps": 5_000, "critic_steps": 5_000, "batch": 128, "hidden": (64, 64), "learning_rate": 1e-3},
    counts=("critic_steps", "steps"),
    calmed_by=("alpha", "learning_rate"),
)

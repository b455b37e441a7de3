"""Fitted Q evaluation: what a policy is worth at the data's starts, from the data's own steps.

    Q(s, a)  <- r + gamma (1 - d) Q'(s', pi(s'))
    Q(s, s') <- r + gamma (1 - d) Q'(s', f(s', pi(s')))

Members of an ensemble differ in their first weights and in the weights that they give to whole episodes. All policies'
critics begin with those of the data's own actions, which are fitted once: from there a policy is a tenth of the way.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.types import Float32s, Float64s
from stacq.judgement.config import FQEConfig
from stacq.judgement.evidence import Evidence
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.mlp import MLP, each_member, init_ensemble


class Table(NamedTuple):
    """What a step draws its batch from; in the second form, successors stand in the place of actions."""

    x: jax.Array  # [N, X] (s, a)
    r: jax.Array  # [N], times 1 - gamma: values are then of the size of a reward
    carry: jax.Array  # [N] gamma (1 - d)
    episode: jax.Array  # [N]
    x_next: jax.Array  # [N, X] (s', pi(s'))


def episode_weights(rng: np.random.Generator, members: int, episodes: int) -> Float32s:
    """The Bayesian bootstrap: exponential weights for whole episodes with a mean of 1, [M, E].

    Unlike the counts of a classic bootstrap none is zero: every member sees every fall.
    """
    raw = rng.exponential(size=(members, episodes))
    weights: Float32s = (raw / raw.mean(axis=1, keepdims=True)).astype(np.float32)
    return weights


def td_target(r: jax.Array, carry: jax.Array, q_next: jax.Array) -> jax.Array:
    """y = r + gamma (1 - d) Q'(s', pi(s')), [M, B]; every member follows its own slow copy."""
    return r + carry * q_next


def fqe_loss(critic: MLP, x: jax.Array, y: jax.Array, weights: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum over members of the weighted mean of (Q(s, a) - y)^2; `weights` [M, B]."""
    q = each_member(critic, x)[..., 0]  # [M, B]
    return (weights * (q - y) ** 2).mean(axis=1).sum(), {}


@partial(jax.jit, static_argnames=("cfg", "steps"))
def fitted(first: MLP, table: Table, weights: jax.Array, key: jax.Array, cfg: FQEConfig, steps: int) -> MLP:
    """The critics after `steps` from `first`; `weights` [M, E]."""
    adam = optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, steps))

    def step(number: jax.Array, critic: Learner[MLP]) -> Learner[MLP]:
        rows = jax.random.randint(jax.random.fold_in(key, number), (cfg.batch,), 0, table.x.shape[0])
        assert critic.target is not None
        q_next = each_member(critic.target, table.x_next[rows])[..., 0]
        y = td_target(table.r[rows], table.carry[rows], q_next)
        share = weights[:, table.episode[rows]]
        learned, _ = descend(critic, lambda net: fqe_loss(net, table.x[rows], y, share), adam)
        return follow(learned, cfg.tau)

    done = jax.lax.fori_loop(0, steps, step, new_learner(first, adam))
    assert done.target is not None
    network: MLP = done.target
    return network


def new_critics(key: jax.Array, inputs: int, cfg: FQEConfig) -> MLP:
    """With LayerNorm: without it, values of unlike actions grow without bound."""
    critics: MLP = init_ensemble(key, cfg.members, (inputs, *cfg.hidden, 1), layer_norm=True)
    return critics


def table_of(evidence: Evidence, second: Float32s, second_next: Float32s, discount: float) -> Table:
    """`second` and `second_next` stand beside s and s': actions, or the states they lead to."""
    parts = (
        np.concatenate([evidence.s, second], axis=1),
        evidence.r * (1 - discount),
        discount * (1 - evidence.done),
        evidence.episode.astype(np.int32),
        np.concatenate([evidence.s_next, second_next], axis=1),
    )
    return Table(*(jnp.asarray(part) for part in parts))


def of_data(evidence: Evidence, discount: float, *, states: bool) -> Table:
    """The table of the data's own behaviour, of rows where it is known what came next."""
    kept = np.flatnonzero(evidence.followed)
    second, second_next = evidence.a, evidence.a_next
    if states:  # the successor of the successor; at the end of an episode the successor stands in for it
        after = np.minimum(np.arange(len(evidence.r)) + 1, len(evidence.r) - 1)
        inside = (evidence.episode[after] == evidence.episode)[:, None]
        second, second_next = evidence.s_next, np.where(inside, evidence.s_next[after], evidence.s_next)
    whole = table_of(evidence, second, second_next, discount)
    return Table(*(part[kept] for part in whole))


def member_starts(critic: MLP, x: Float32s, weights: Float32s) -> Float64s:
    """Each member's mean value over the starts of episodes, weighed as its bootstrap does, [M]."""
    q = np.asarray(each_member(critic, jnp.asarray(x))[..., 0], np.float64)  # [M, E]
    share = weights / weights.sum(axis=1, keepdims=True)
    found: Float64s = (q * share).sum(axis=1)
    return found


class Critics(NamedTuple):
    """What all policies share: the bootstrap, and critics of the data's own behaviour."""

    first: MLP
    weights: Float32s  # [M, E]
    discount: float
    cfg: FQEConfig
    seed: int


def prepared(evidence: Evidence, discount: float, cfg: FQEConfig, seed: int, *, states: bool = False) -> Critics:
    """Fit the data's own values, from which every policy's critics begin."""
    weights = episode_weights(np.random.default_rng(seed), cfg.members, evidence.episodes)
    table = of_data(evidence, discount, states=states)
    keys = jax.random.split(jax.random.key(seed))
    first = new_critics(keys[0], table.x.shape[1], cfg)
    return Critics(
        fitted(first, table, jnp.asarray(weights), keys[1], cfg, cfg.first_steps), weights, discount, cfg, seed
    )


def evaluated(
    critics: Critics, evidence: Evidence, second: Float32s, second_next: Float32s, second_start: Float32s
) -> Float64s:
    """One policy's value at the starts by every member, in units of the data's rewards, [M]."""
    table = table_of(evidence, second, second_next, critics.discount)
    key = jax.random.key(critics.seed + 1)
    critic = fitted(critics.first, table, jnp.asarray(critics.weights), key, critics.cfg, critics.cfg.steps)
    x_start = np.concatenate([evidence.starts, second_start], axis=1)
    values = member_starts(critic, x_start, critics.weights) * evidence.reward_scale / (1 - critics.discount)
    low, high = (reward / (1 - critics.discount) for reward in evidence.rewards)
    return np.clip(values, min(low, 0.0), max(high, 0.0))

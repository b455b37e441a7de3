"""What a model of the dynamics lacks: the reward of a step, and whether the task ends with it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.core.types import Float32s
from stacq.judgement.config import OutcomeConfig
from stacq.judgement.evidence import Evidence
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.mlp import MLP, each_member, init_ensemble


def outcome_loss(network: MLP, x: jax.Array, r: jax.Array, done: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Sum over members of mean (r(x) - r)^2 plus the cross entropy of the ending."""
    told = each_member(network, x)  # [M, B, 2]
    of_reward = ((told[..., 0] - r) ** 2).mean(axis=1).sum()
    of_end = optax.sigmoid_binary_cross_entropy(told[..., 1], done).mean(axis=1).sum()
    return of_reward + of_end, {}


def fit_outcome(evidence: Evidence, s_next: Float32s, cfg: OutcomeConfig, seed: int) -> MLP:
    """(s, a, s') -> (reward, log odds that the task ends), [M, ...].

    `s_next` holds a successor for every row: recorded, or predicted where a terminal row has none. Terminal rows are
    drawn more often than they are recorded. So the model sees an end sooner than it is, which is the safe side.
    """
    x = np.concatenate([evidence.s, evidence.a, s_next], axis=1)
    kinds = [np.flatnonzero(evidence.done == kind).astype(np.int32) for kind in (0, 1)]
    arrays = [jnp.asarray(each) for each in (x, evidence.r, evidence.done, *kinds)]
    network: MLP = _fitted(*arrays, jax.random.key(seed), cfg)
    return network


@partial(jax.jit, static_argnames="cfg")
def _fitted(
    x: jax.Array,
    r: jax.Array,
    done: jax.Array,
    going: jax.Array,
    over: jax.Array,
    key: jax.Array,
    cfg: OutcomeConfig,
) -> MLP:
    adam = optax.adam(optax.cosine_decay_schedule(cfg.learning_rate, cfg.steps))
    k_init, k_steps = jax.random.split(key)
    first = init_ensemble(k_init, cfg.members, (x.shape[1], *cfg.hidden, 2))
    ends = _ends_in(cfg, len(going), len(over))

    def step(number: jax.Array, learner: Learner[MLP]) -> Learner[MLP]:
        keys = jax.random.split(jax.random.fold_in(k_steps, number))
        rows = jnp.concatenate([_some(keys[0], going, cfg.batch - ends), _some(keys[1], over, ends)])
        return descend(learner, lambda net: outcome_loss(net, x[rows], r[rows], done[rows]), adam)[0]

    network: MLP = jax.lax.fori_loop(0, cfg.steps, step, new_learner(first, adam, target=False)).network
    return network


def _ends_in(cfg: OutcomeConfig, going: int, over: int) -> int:
    """Terminal rows of a batch."""
    if not over:
        return 0
    return max(int(cfg.ends * cfg.batch), 1) if going else cfg.batch


def _some(key: jax.Array, rows: jax.Array, count: int) -> jax.Array:
    return rows[jax.random.randint(key, (count,), 0, len(rows))] if count else rows[:0]

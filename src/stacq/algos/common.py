"""Mathematics that several algorithms share."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos.algorithm import Metrics
from stacq.algos.pairs import Pairs, best_extra
from stacq.algos.world import Batch, World
from stacq.nn.mlp import MLP, each_member
from stacq.policies import Policy, Space


class Best(NamedTuple):
    """The reachable next state of greatest value from every anchor, and the action that leads there."""

    s_next: jax.Array  # [B, S]
    a: jax.Array | None  # [B, A]; none where the policy's action is not pulled


def act(actor: MLP, s: jax.Array) -> jax.Array:
    """pi(s) in (-1, 1), [..., A]."""
    return jnp.tanh(actor(s))


def noisy(a: jax.Array, key: jax.Array, deviation: jax.Array | float, clip: jax.Array | float) -> jax.Array:
    """An action with clipped Gaussian noise, back within [-1, 1]."""
    noise = jnp.clip(deviation * jax.random.normal(key, a.shape), -clip, clip)
    return jnp.clip(a + noise, -1.0, 1.0)


def member_values(ensemble: MLP, *inputs: jax.Array) -> jax.Array:
    """Every member's scalar output on the joined inputs, [M, ...]."""
    return each_member(ensemble, jnp.concatenate(inputs, axis=-1))[..., 0]


def weight_of_values(alpha: jax.Array | float, q: jax.Array) -> jax.Array:
    """lambda = alpha / mean |Q|, a constant to the gradient (appendix C, with the absolute value it needs)."""
    return alpha / jnp.maximum(jax.lax.stop_gradient(jnp.abs(q).mean()), 1e-6)


def overflow_of(pairs: Pairs, slots: int) -> Metrics:
    """Reachable pairs of a batch in addition to the own ones, and whether there were more than the slots hold."""
    return {"pairs": pairs.total.astype(jnp.float32), "overflow": (pairs.total > slots).astype(jnp.float32)}


def best_of(values: jax.Array, own: Batch, members: jax.Array, pairs: Pairs, world: World) -> tuple[jax.Array, Best]:
    """The greatest of `values` for every anchor, [B], and where it leads; ties go to the own successor.

    They are of the own successors first, [B], then of the states `members` in the slots, [E].
    """
    assert world.extras is not None
    count = own.s.shape[0]
    most, slot = best_extra(pairs, values[count:], count)
    switch = (most > values[:count])[:, None]
    there = jnp.where(switch, members[slot], own.s_next)
    actions = world.extras.actions
    a = None if actions is None else jnp.where(switch, actions[pairs.entry[slot]], own.a)
    return jnp.maximum(most, values[:count]), Best(there, a)


def tanh_policy(actor: MLP, space: Space) -> Policy:
    """The deterministic policy of an actor without a seed axis."""
    weights, biases = ([np.asarray(values) for values in group] for group in (actor.weights, actor.biases))
    return Policy.from_mlp(weights, biases, space.normaliser, (space.action_low, space.action_high))


def pulls_actions(cfg: Any) -> bool:
    """Whether the actions that lead to reachable states are needed, for any seed."""
    return bool(np.any(np.asarray(cfg.alpha) * np.asarray(cfg.action_pull) != 0))


def pull_to(best: Best, a: jax.Array, s_next: jax.Array, weight: jax.Array | float) -> tuple[jax.Array, Metrics]:
    """Squared distance of the predicted state from the best reachable one and, if asked for, of the action.

    In states alone, a direction of the action that hardly moves the robot within a step is hardly held, and over many
    steps it may throw the robot over (docs/history.md). The action's distance puts a floor under that. It is summed
    over dimensions, so that each is held alike whether few or many, and weighed by alpha: against the value the floor
    is the same whatever alpha a body has.
    """
    pull = jnp.mean((s_next - best.s_next) ** 2)
    if best.a is None:
        return pull, {"pull": pull}
    of_action = jnp.mean(jnp.sum((a - best.a) ** 2, axis=-1))
    return pull + weight * of_action, {"pull": pull, "pull_action": of_action}

"""Rollouts in the forward ensemble: a policy acts in the models for as long as they agree."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Bools, Float32s, Float64s
from stacq.dynamics.models import Dynamics, Models, forward_members
from stacq.judgement.evidence import Evidence
from stacq.nn.mlp import MLP, each_member
from stacq.policies import Policy

ORDINARY = 0.999  # quantile of the members' disagreement at the data's own steps; beyond it they are not believed
SAMPLED = 20_000  # rows that this is measured on
FARTHEST = 50.0  # standard deviations: imagined states are cut there, so that numbers stay finite
OVER = 0.0  # log odds above which the task has ended


class World(NamedTuple):
    """What rollouts need besides a policy."""

    dynamics: Dynamics
    outcome: MLP
    border: float  # of disagreement


class Imagined(NamedTuple):
    """What the models say would happen, for every step and branch, [T, B]."""

    reward: Float32s  # in units of the data
    over: Bools  # the task ends with this step
    strange: Bools  # the members disagree about this step


def disagreement(told: jax.Array, step_scale: jax.Array) -> jax.Array:
    """max over members of the root mean square distance from their mean, in units of the data's steps, [B]."""
    away = (told - told.mean(axis=0)) / step_scale
    return jnp.sqrt((away**2).mean(axis=-1)).max(axis=0)


@jax.jit
def _spread(models: Models, s: jax.Array, a_raw: jax.Array) -> jax.Array:
    return disagreement(forward_members(models, s, a_raw), models.step_scale)


@jax.jit
def _step(
    models: Models, outcome: MLP, s: jax.Array, a_raw: jax.Array, a: jax.Array, member: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """One step of every branch by its own member, which stays the same to the end; the others say if they differ."""
    told = forward_members(models, s, a_raw)  # [F, B, S]
    s_next = jnp.take_along_axis(told, member[None, :, None], 0)[0]
    facts = each_member(outcome, jnp.concatenate([s, a, s_next], axis=-1)).mean(axis=0)
    return s_next, facts[:, 0], facts[:, 1], disagreement(told, models.step_scale)


def world_of(evidence: Evidence, dynamics: Dynamics, outcome: MLP, seed: int) -> World:
    """The border is the data's own: nearly all of its steps lie within."""
    rows = np.random.default_rng(seed).permutation(len(evidence.r))[:SAMPLED]
    raw = evidence.a[rows] * evidence.action_half + evidence.action_middle
    spread = np.asarray(_spread(dynamics.models, jnp.asarray(evidence.s[rows]), jnp.asarray(raw)))
    return World(dynamics, outcome, float(np.quantile(spread, ORDINARY)))


def imagine(policy: Policy, evidence: Evidence, world: World, starts: Float32s, horizon: int, seed: int) -> Imagined:
    """A branch for every start and member, [K F]; it ends early once no branch is both going on and believed."""
    models = world.dynamics.models
    members = models.forward.members
    s, rng = np.repeat(starts, members, axis=0), np.random.default_rng(seed)
    member = jnp.asarray(np.tile(np.arange(members), len(starts)))
    low, high = evidence.rewards
    left = np.zeros(len(s), dtype=np.bool_)
    steps: list[Imagined] = []
    for _ in range(horizon):
        a_raw = policy(evidence.raw(s), rng)
        found = _step(models, world.outcome, s, a_raw, evidence.scaled(a_raw), member)
        s_next, r, odds, spread = (np.nan_to_num(np.asarray(each)) for each in found)
        s = np.clip(s_next, -FARTHEST, FARTHEST)
        reward = np.clip(r * evidence.reward_scale, low, high).astype(np.float32)
        steps.append(Imagined(reward, odds > OVER, spread > world.border))
        left |= steps[-1].over | steps[-1].strange
        if left.all():
            break
    return Imagined(*(np.stack(parts) for parts in zip(*steps, strict=True)))


class Trusted(NamedTuple):
    """What remains of rollouts when each is cut where the members disagree, by branch [B]."""

    value: Float64s  # discounted rewards up to there
    rest: Float64s  # discount of what would come after; 0 where the task ended before
    length: Float64s  # steps that are believed


def trusted(found: Imagined, discount: float, horizon: int) -> Trusted:
    """sum over t < T of gamma^t r_t, where step T is the first that is strange, and gamma^T."""
    before = np.zeros((1, found.over.shape[1]), dtype=np.bool_)
    stopped = np.cumsum(found.strange, axis=0) > 0
    ended = np.concatenate([before, np.cumsum(found.over, axis=0)[:-1] > 0])
    counted = ~stopped & ~ended
    power = discount ** np.arange(len(counted))[:, None]
    length = counted.sum(axis=0)
    over = (found.over & counted).any(axis=0)
    rest = np.where(over, 0.0, discount ** length.astype(np.float64))
    rest = np.where(length >= horizon, 0.0, rest)
    return Trusted((found.reward * counted * power).sum(axis=0), rest, np.where(over, horizon, length).astype(float))

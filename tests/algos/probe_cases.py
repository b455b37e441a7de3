"""Problems with known answers, and what it takes to train on them."""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stacq import algos
from stacq.algos.algorithm import Sizes
from stacq.algos.common import act, member_values
from stacq.algos.world import World, make_world
from stacq.core.types import Float64s
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.reach.actions import leading_actions
from stacq.reach.sets import ReachableSets
from stacq.training.loop import Carry, advance, init_states

ADVANCE = jax.jit(advance, static_argnames="updates")


def train(name: str, world: World, cfg: Any, seed: int = 0) -> Any:
    """The final state of one seed after all phases."""
    algorithm, seeds = algos.find(name), jnp.asarray([seed])
    sizes = Sizes(world.rows.all.s.shape[1], world.rows.all.a.shape[1])
    state, step = _starter(name, sizes)(seeds, cfg), jnp.asarray(0, jnp.int32)
    for phase in algorithm.phases(cfg):
        turns = phase.steps // len(phase.updates)
        carry = ADVANCE(Carry(state, {}, step), world, seeds, cfg, updates=phase.updates, turns=turns)
        state, step = carry.state, carry.step
    return jax.tree.map(lambda leaf: leaf[0], state)


@cache
def _starter(name: str, sizes: Sizes) -> Any:
    return jax.jit(lambda seeds, cfg: init_states(algos.find(name), seeds, sizes, cfg))


def values(state: Any, *inputs: ArrayLike) -> Float64s:
    """The mean of the critics on joined inputs, [B]."""
    joined = [jnp.asarray(part, jnp.float32) for part in inputs]
    return np.asarray(member_values(state.critic.network, *joined).mean(axis=0), np.float64)


def actions(state: Any, s: ArrayLike) -> Float64s:
    return np.asarray(act(state.actor.network, jnp.asarray(s, jnp.float32)), np.float64)


def walk(state: Any, start: ArrayLike, move: Any, steps: int) -> Float64s:
    """Places visited by the policy under `move(place, action)`, [steps + 1, S]."""
    policy = jax.jit(partial(act, state.actor.network))
    places = [np.asarray(start, np.float64)]
    for _ in range(steps):
        places.append(move(places[-1], np.asarray(policy(jnp.asarray(places[-1], jnp.float32)), np.float64)))
    return np.stack(places)


def world_of(dataset: Dataset, dynamics: Dynamics, sets: ReachableSets, room: int = 0) -> World:
    """With `room` for extras: worlds of one shape share a program."""
    sets.check(dataset)
    ways = leading_actions(dataset, dynamics, sets)
    world = make_world(dataset, dynamics.normaliser, dynamics, sets, actions=ways)
    extras = world.extras
    assert extras is not None
    more = max(room - len(extras.rows), 0)
    assert extras.actions is not None
    rows, actions = jnp.pad(extras.rows, (0, more)), jnp.pad(extras.actions, ((0, more), (0, 0)))
    return replace(world, extras=extras._replace(rows=rows, actions=actions))

"""OneStep StaCQ against float64 loops: what follows a state, where nothing is known of it, and the policy's loss."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import (
    A,
    S,
    batch_of,
    disturbed,
    entries_of,
    extras_from,
    joined,
    model,
    net,
    plain,
    policy,
    q_of,
    random_net,
    small_world,
)

from stacq.algos import onestep, stacq
from stacq.algos.algorithm import Sizes
from stacq.algos.common import Best
from stacq.algos.world import Batch, World, pack_rows
from stacq.core.types import Float64s
from stacq.nn.learner import Learner
from stacq.nn.mlp import MLP

KEY = jax.random.key(5)
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}
LAST = (4, 8, 11)  # of the three episodes: the task ended; stopped, successor recorded; cut, successor unknown
UNKNOWN = 11
LISTS = [[2, 6], [10, 8, 4], [4], [10], [], [9, 4], [1], [10, 5], [10], [8, 0], [8, 2], [4, 1]]
CFG = onestep.Config(discount=0.9, slots=32, critics=2, actor_noise=0.3, noise_clip=0.4, alpha=2.0)
TARGET = jax.jit(onestep.target)


def world_of(lists: list[list[int]] = LISTS) -> World:
    return replace(small_world(), extras=extras_from(lists, np.random.default_rng(0)))


def state_of(seed: int = 8) -> onestep.State:
    rng = np.random.default_rng(seed)
    critics = [random_net(rng, (2 * S, 7, 1), 2) for _ in range(2)]
    actor, reward = random_net(rng, (S, 7, A)), random_net(rng, (2 * S, 7, 1))
    return onestep.State(Learner(actor, None, None), Learner(critics[0], critics[1], None), Learner(reward, None, None))


def looked_ahead(critic: MLP, reward: MLP, s: Any, row: int, rows: Any) -> float | None:
    """r(s, s'_j) + gamma Q(s'_j, s''_j), or the reward alone where the task ends; None where nothing is known."""
    first = float(net(reward, joined(s, rows.s_next[row]))[0])
    if rows.done[row]:
        return first
    if row in LAST or row + 1 == UNKNOWN:
        return None
    return first + CFG.discount * min(q_of(critic, m, rows.s_next[row], rows.s_next[row + 1]) for m in range(2))


def best_of(critic: MLP, reward: MLP, s: Any, anchor: int, world: Any) -> tuple[float | None, Float64s, Float64s]:
    """The best of an anchor's own successor and its extras, the own one if nothing is strictly better.

    Its lookahead, the state, and the action that leads there.
    """
    rows = world.rows.all
    most, there, a = looked_ahead(critic, reward, s, anchor, rows), rows.s_next[anchor], rows.a[anchor]
    for entry in entries_of(world.extras, anchor):
        row = int(world.extras.rows[entry])
        score = looked_ahead(critic, reward, s, row, rows)
        if score is not None and (most is None or score > most):
            most, there, a = score, rows.s_next[row], world.extras.actions[entry]
    return most, joined(there), joined(a)


def test_looking_ahead_and_where_it_ends() -> None:
    world, state = world_of(), state_of()
    index = jnp.arange(12)
    s = jnp.asarray(np.random.default_rng(1).normal(size=(12, S)), jnp.float32)
    found, known = jax.jit(onestep.lookahead)(state.critic.network, state.reward.network, s, index, world, CFG)
    network, reward, rows, s = plain(state.critic.network, state.reward.network, world.rows.all, s)
    wanted = [looked_ahead(network, reward, s[row], row, rows) for row in range(12)]
    assert np.asarray(known).tolist() == [each is not None for each in wanted]
    # The last rows of recordings that were stopped; and the row before one whose successor is not recorded.
    assert np.flatnonzero(~np.asarray(known)).tolist() == [8, 10, 11]
    for ours, theirs in zip(np.asarray(found), wanted, strict=True):
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_rewards_of_rows_take_the_place_of_the_models() -> None:
    """There the reward is that of row j, from whatever state its next state is looked at."""
    world, state, index = world_of(), state_of(), jnp.arange(12)
    s = jnp.zeros((12, S))
    learned, recorded = (
        onestep.lookahead(state.critic.network, state.reward.network, s, index, world, replace(CFG, reward=source))[0]
        for source in ("model", "row")
    )
    predicted = stacq.predicted_reward(state.reward.network, s, world.rows.all.s_next)
    np.testing.assert_allclose(recorded - learned, world.rows.all.r - predicted, atol=1e-5)
    assert np.abs(np.asarray(recorded - learned)).max() > 0.1


ROWS = (0, 3, 4, 5, 6, 7, 8, 9, 10)


def wanted_target(state: onestep.State, batch: Batch, world: World) -> list[float | None]:
    state, batch, world = plain(state, batch, world)
    found: list[float | None] = []
    for i, row in enumerate(np.asarray(batch.row).tolist()):
        r = float(batch.r[i])
        if batch.done[i]:
            found.append(r)
        elif row in LAST:
            found.append(None)
        else:
            assert state.critic.target is not None
            most, *_ = best_of(state.critic.target, state.reward.network, batch.s_next[i], row + 1, world)
            found.append(None if most is None else r + CFG.discount * most)
    return found


def test_the_target_takes_the_best_of_the_next_states_set() -> None:
    world, state = world_of(), state_of()
    batch = batch_of(world, ROWS)
    y, exists, pairs = TARGET(state, batch, world, KEY, CFG)
    wanted = wanted_target(state, batch, world)
    assert np.asarray(exists).tolist() == [each is not None for each in wanted]
    missing = [row for row, each in zip(ROWS, wanted, strict=True) if each is None]
    assert missing == [7, 8]  # all of row 8's candidates lead nowhere known; row 8 ends a recording
    for ours, theirs in zip(np.asarray(y), wanted, strict=True):
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert np.isfinite(np.asarray(y)).all()
    assert int(pairs.total) == sum(len(LISTS[min(row + 1, 11)]) for row in ROWS)
    np.testing.assert_array_equal(y[2], batch.r[2])


def test_what_no_update_learns_from_leaves_no_trace_in_targets() -> None:
    """The stand-in for an unknown successor must not matter."""
    world, state = world_of(), state_of()
    batch = batch_of(world, ROWS)
    rows = world.rows.all
    other = replace(world, rows=pack_rows(*rows._replace(s_next=rows.s_next.at[UNKNOWN].set(50.0))))
    before, after = (TARGET(state, batch, each, KEY, CFG) for each in (world, other))
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])


def test_the_loss_counts_only_targets_that_exist() -> None:
    world, state = world_of(), state_of()
    batch = batch_of(world, ROWS)
    y, exists, _ = TARGET(state, batch, world, KEY, CFG)
    loss, facts = onestep.critic_loss(state.critic.network, batch, y, exists)
    wanted, network, rows = wanted_target(state, batch, world), plain(state.critic.network), plain(batch)
    there = [i for i, each in enumerate(wanted) if each is not None]
    y_there = np.array([wanted[i] for i in there], dtype=np.float64)
    q = np.array([[q_of(network, m, rows.s[i], rows.s_next[i]) for i in there] for m in range(2)])
    total = ((q - y_there) ** 2).mean(axis=1).sum()
    np.testing.assert_allclose(loss, total, **CLOSE)
    assert set(facts) == {"critic_loss", "q", "target"}
    for name, value in (("critic_loss", total), ("q", q.mean()), ("target", y_there.mean())):
        np.testing.assert_allclose(facts[name], value, err_msg=name, **CLOSE)
    nothing, _ = onestep.critic_loss(state.critic.network, batch, y, jnp.zeros_like(exists))
    assert float(nothing) == 0.0


def test_the_best_candidate_and_the_state_it_leads_to() -> None:
    world, state = world_of(), state_of()
    index = jnp.asarray(ROWS)
    batch = batch_of(world, ROWS)
    most, best, _ = jax.jit(onestep.best_candidate)(
        state.critic.network, state.reward.network, batch.s, index, world, KEY, CFG
    )
    network, reward, rows, plainly = plain(state.critic.network, state.reward.network, batch, world)
    switched = 0
    assert best.a is not None
    for i, row in enumerate(ROWS):
        value, there, a = best_of(network, reward, rows.s[i], row, plainly)
        np.testing.assert_allclose(most[i], -np.inf if value is None else value, **CLOSE)
        np.testing.assert_allclose(best.s_next[i], there, **CLOSE)
        np.testing.assert_allclose(best.a[i], a, **CLOSE)
        switched += not np.allclose(there, rows.s_next[i])
    assert 0 < switched < len(ROWS) - 1
    assert np.isneginf(most[ROWS.index(8)])
    assert world.extras is not None
    untold = replace(world, extras=world.extras._replace(actions=None))
    _, without, _ = onestep.best_candidate(state.critic.network, state.reward.network, batch.s, index, untold, KEY, CFG)
    assert without.a is None
    np.testing.assert_allclose(without.s_next, best.s_next, **CLOSE)


@pytest.mark.parametrize("action_pull", [0.0, 0.4])
def test_the_loss_of_the_policy_falls_with_the_value(action_pull: float) -> None:
    world, state, cfg = world_of(), state_of(), replace(CFG, action_pull=action_pull)
    rng = np.random.default_rng(2)
    states, actions = rng.normal(size=(len(ROWS), S)), rng.uniform(-1, 1, (len(ROWS), A))
    best = Best(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32) if action_pull else None)
    batch = batch_of(world, ROWS)
    arguments = state.actor.network, state.critic.network, best, batch, world
    found, facts = jax.jit(onestep.actor_loss)(*arguments, KEY, cfg)
    actor, critic, _, rows, plainly = plain(*arguments)
    draws, q, pull, of_action = np.asarray(jax.random.normal(KEY, (len(ROWS), A))), [], [], []
    for i in range(len(ROWS)):
        a = policy(actor, rows.s[i])
        there = model(plainly, rows.s[i], disturbed(a, draws[i], cfg.actor_noise, cfg.noise_clip))
        q.append(min(q_of(critic, m, rows.s[i], there) for m in range(2)))
        pull.append(((there - states[i]) ** 2).mean())
        of_action.append(((a - actions[i]) ** 2).sum())
    drawn = np.mean(pull) + cfg.alpha * action_pull * np.mean(of_action)
    loss = -cfg.alpha / np.mean(np.abs(q)) * np.mean(q) + drawn
    wanted = {"actor_loss": loss, "q_policy": np.mean(q), "pull": np.mean(pull)}
    wanted |= {"pull_action": np.mean(of_action)} if action_pull else {}
    np.testing.assert_allclose(found, loss, **CLOSE)
    assert set(facts) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(facts[name], value, err_msg=name, **CLOSE)
    raised = state.critic.network
    raised = MLP(raised.weights, (*raised.biases[:-1], raised.biases[-1] + 10.0))
    lowered, _ = jax.jit(onestep.actor_loss)(state.actor.network, raised, *arguments[2:], KEY, cfg)
    assert float(lowered) < drawn


def test_phases_are_critic_first_then_policy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = onestep.phases(onestep.Config(critic_steps=7, steps=5))
    assert (first.steps, second.steps) == (7, 5) and not first.acts and second.acts
    assert first.updates == (onestep.update_critic,) and second.updates == (onestep.update,)
    real = onestep.actor_loss

    def telling(actor: MLP, critic: MLP, best: Best, *rest: Any) -> Any:
        loss, facts = real(actor, critic, best, *rest)
        return loss, {**facts, "best": best}

    monkeypatch.setattr(onestep, "actor_loss", telling)
    world, cfg = world_of(), replace(CFG, hidden=(7,))
    state, batch = onestep.init(KEY, Sizes(S, A), cfg), batch_of(world, (8, 4))
    values, _ = jax.jit(onestep.update_critic)(state, batch, world, KEY, cfg)
    policies, facts = jax.jit(onestep.update)(state, batch, world, KEY, cfg)
    jax.tree.map(np.testing.assert_array_equal, values.actor, state.actor)
    jax.tree.map(np.testing.assert_array_equal, (policies.critic, policies.reward), (state.critic, state.reward))
    for after, before in ((values.critic, state.critic), (values.reward, state.reward), (policies.actor, state.actor)):
        assert not np.array_equal(after.network.weights[0], before.network.weights[0])
    # Row 8 has no candidate whose future is known, row 4 no extras: both are pulled to their own successor.
    np.testing.assert_array_equal(facts["best"].s_next, batch.s_next)
    np.testing.assert_array_equal(facts["best"].a, batch.a)

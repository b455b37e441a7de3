"""Every loss and target of BC, TD3+BC and StaCQ against float64 loops that share no code with them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import (
    A,
    S,
    as64,
    batch_of,
    disturbed,
    entries_of,
    joined,
    listed,
    model,
    net,
    pairs_by_hand,
    plain,
    policy,
    q_of,
    random_net,
    small_world,
)

from stacq.algos import bc, stacq, td3bc
from stacq.algos.common import Best, noisy, weight_of_values
from stacq.algos.stacq import Edges
from stacq.algos.world import Batch, World
from stacq.core.types import Float64s
from stacq.nn.learner import Learner
from stacq.nn.mlp import MLP

KEY = jax.random.key(7)
ROWS = (0, 4, 6, 8, 9, 4)  # the end of the task is among them, twice
HIDDEN = (7, 6)
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}


def drawn(key: jax.Array, count: int) -> Float64s:
    """The standard normals behind the noise on `count` actions."""
    return np.asarray(jax.random.normal(key, (count, A)), np.float64)


def td3bc_state(seed: int = 3, critics: int = 3) -> td3bc.State:
    """Networks and slow copies that all differ."""
    rng = np.random.default_rng(seed)
    actors = [random_net(rng, (S, *HIDDEN, A)) for _ in range(2)]
    judges = [random_net(rng, (S + A, *HIDDEN, 1), critics) for _ in range(2)]
    return td3bc.State(Learner(actors[0], actors[1], None), Learner(judges[0], judges[1], None))


def stacq_state(seed: int = 4, critics: int = 3, layer_norm: bool = False) -> stacq.State:
    rng = np.random.default_rng(seed)
    actors = [random_net(rng, (S, *HIDDEN, A)) for _ in range(2)]
    judges = [random_net(rng, (2 * S, *HIDDEN, 1), critics, layer_norm) for _ in range(2)]
    reward = random_net(rng, (2 * S, *HIDDEN, 1))
    return stacq.State(
        Learner(actors[0], actors[1], None), Learner(judges[0], judges[1], None), Learner(reward, None, None)
    )


def assert_told(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    """What a loss tells of itself, for charts and warnings: these numbers and no others."""
    assert set(facts) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(facts[name], value, err_msg=name, **CLOSE)


def slow(learner: Learner[MLP]) -> MLP:
    assert learner.target is not None
    return learner.target


def test_noise_is_clipped_and_the_action_stays_in_bounds() -> None:
    a = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (400, A)), jnp.float32)
    found = np.asarray(noisy(a, KEY, 0.4, 0.3))
    draw = np.asarray(jax.random.normal(KEY, a.shape))
    wanted = [disturbed(each, z, 0.4, 0.3) for each, z in zip(np.asarray(a, np.float64), draw, strict=True)]
    np.testing.assert_allclose(found, wanted, **CLOSE)
    moved = np.abs(found - np.asarray(a))
    assert moved.max() <= 0.3 + 1e-6 and (moved > 0.3 - 1e-6).any() and np.abs(found).max() == 1.0
    np.testing.assert_array_equal(noisy(a, KEY, 0.0, 0.5), a)


@pytest.mark.parametrize("q", [[1.0, 3.0], [-1.0, -3.0], [2.0, -2.0], [0.0, 0.0]])
def test_the_weight_of_values_divides_by_the_mean_absolute_value_and_has_no_gradient(q: list[float]) -> None:
    wanted = 2.5 / max(float(np.mean(np.abs(q))), 1e-6)
    np.testing.assert_allclose(weight_of_values(2.5, jnp.asarray(q)), wanted, rtol=1e-6)
    np.testing.assert_array_equal(jax.grad(lambda q: weight_of_values(2.5, q))(jnp.asarray(q)), [0.0, 0.0])


def test_cloning_is_least_squares_on_actions() -> None:
    world, actor = small_world(), random_net(np.random.default_rng(1), (S, *HIDDEN, A))
    batch = plain(batch_of(world, ROWS))
    errors = [(policy(actor, batch.s[i]) - np.asarray(batch.a[i])) ** 2 for i in range(len(ROWS))]
    loss, facts = jax.jit(bc.actor_loss)(actor, batch)
    np.testing.assert_allclose(loss, np.mean(errors), **CLOSE)
    assert_told(facts, {"actor_loss": np.mean(errors)})


def td3bc_target(state: td3bc.State, batch: Batch, cfg: td3bc.Config) -> list[float]:
    state, batch = plain(state, batch)
    draws, wanted = drawn(KEY, len(ROWS)), []
    for i in range(len(ROWS)):
        a = disturbed(policy(slow(state.actor), batch.s_next[i]), draws[i], cfg.target_noise, cfg.noise_clip)
        least = min(q_of(slow(state.critic), m, batch.s_next[i], a) for m in range(cfg.critics))
        wanted.append(float(batch.r[i]) + (0.0 if batch.done[i] else cfg.discount * least))
    return wanted


@pytest.mark.parametrize(("noise", "clip"), [(0.2, 0.5), (0.9, 0.3), (0.0, 0.5)])
def test_the_target_of_td3bc(noise: float, clip: float) -> None:
    state, batch = td3bc_state(), batch_of(small_world(), ROWS)
    cfg = td3bc.Config(critics=3, discount=0.9, target_noise=noise, noise_clip=clip)
    found = jax.jit(td3bc.target)(state, batch, KEY, cfg)
    np.testing.assert_allclose(found, td3bc_target(state, batch, cfg), **CLOSE)
    over = np.asarray(batch.done) > 0
    assert over.sum() == 2
    np.testing.assert_array_equal(np.asarray(found)[over], np.asarray(batch.r)[over])


def td3bc_critic_loss(critic: MLP, batch: Batch, y: Any, critics: int) -> float:
    critic, batch = plain(critic, batch)
    total = 0.0
    for m in range(critics):
        total += np.mean([(q_of(critic, m, batch.s[i], batch.a[i]) - y[i]) ** 2 for i in range(len(y))])
    return total


def td3bc_actor(actor: MLP, critic: MLP, batch: Batch, alpha: float, weight: float | None = None) -> dict[str, float]:
    """The loss and its parts; with the weight of values fixed if given, as the gradient sees it."""
    actor, critic, batch = plain(actor, critic, batch)
    actions = [policy(actor, s) for s in batch.s]
    q = [q_of(critic, 0, s, a) for s, a in zip(batch.s, actions, strict=True)]
    weight = alpha / float(np.mean(np.abs(q))) if weight is None else weight
    pull = float(np.mean([(a - np.asarray(b)) ** 2 for a, b in zip(actions, batch.a, strict=True)]))
    return {"actor_loss": float(-weight * np.mean(q) + pull), "pull": pull, "q_policy": float(np.mean(q))}


def test_the_losses_of_td3bc() -> None:
    state, batch = td3bc_state(), batch_of(small_world(), ROWS)
    y = np.random.default_rng(5).normal(size=len(ROWS))
    loss, facts = jax.jit(td3bc.critic_loss)(state.critic.network, batch, jnp.asarray(y, jnp.float32))
    wanted = td3bc_critic_loss(state.critic.network, batch, y, 3)
    np.testing.assert_allclose(loss, wanted, **CLOSE)
    network, rows = plain(state.critic.network, batch)
    q = [q_of(network, m, s, a) for m in range(3) for s, a in zip(rows.s, rows.a, strict=True)]
    assert_told(facts, {"critic_loss": wanted, "q": np.mean(q), "target": y.mean()})
    for alpha in (2.5, 0.0):
        loss, facts = jax.jit(td3bc.actor_loss)(
            state.actor.network, state.critic.network, batch, td3bc.Config(alpha=alpha)
        )
        parts = td3bc_actor(state.actor.network, state.critic.network, batch, alpha)
        np.testing.assert_allclose(loss, parts["actor_loss"], **CLOSE)
        assert_told(facts, parts)


def stacq_edges(
    batch: Batch, rows: tuple[int, ...], world: World, reward: MLP, cfg: stacq.Config
) -> list[tuple[Float64s, Float64s, float, float]]:
    """(s, s', r, d) of every pair that the critics are to learn from, in order."""
    batch, world, reward = plain(batch, world, reward)
    assert world.extras is not None
    found: list[tuple[Float64s, Float64s, float, float]] = []
    data = world.rows.all

    def told(s: Any, s_next: Any) -> float:
        return float(net(reward, joined(s, s_next))[0])

    for i in range(len(rows)):
        r = float(batch.r[i]) if cfg.reward == "row" else told(batch.s[i], batch.s_next[i])
        found.append((joined(batch.s[i]), joined(batch.s_next[i]), r, float(batch.done[i])))
    for i, row in enumerate(rows):
        for j in listed(world.extras, row):
            s = data.s[j] if cfg.pairs == "dataset" else batch.s[i]
            r = float(data.r[j]) if cfg.reward == "row" else told(s, data.s_next[j])
            found.append((joined(s), joined(data.s_next[j]), r, float(data.done[j])))
    return found


@pytest.mark.parametrize("pairs", ["cross", "dataset"])
@pytest.mark.parametrize("reward", ["model", "row"])
def test_the_pairs_that_critics_learn_from(pairs: Literal["cross", "dataset"], reward: Literal["model", "row"]) -> None:
    world, state = small_world(), stacq_state()
    cfg, batch = stacq.Config(pairs=pairs, reward=reward, slots=24), batch_of(world, ROWS)
    assert world.extras is not None
    drawn_pairs = pairs_by_hand(world.extras, ROWS, cfg.slots)
    found = jax.jit(stacq.edges)(batch, drawn_pairs, world, state.reward.network, cfg)
    wanted = stacq_edges(batch, ROWS, world, state.reward.network, cfg)
    assert any(d for *_, d in wanted[len(ROWS) :]), "no extra pair ends the task"
    count = len(wanted)
    for values, place in ((found.s, 0), (found.s_next, 1), (found.r, 2), (found.done, 3)):
        np.testing.assert_allclose(values[:count], np.array([each[place] for each in wanted]), **CLOSE)
    np.testing.assert_array_equal(found.weight, [1.0] * count + [0.0] * (len(ROWS) + cfg.slots - count))


def an_edge(world: World, seed: int = 9, count: int = 8) -> Edges:
    rng = np.random.default_rng(seed)
    arrays = *rng.normal(size=(2, count, S)), rng.normal(size=count)
    done, weight = (np.arange(count) % 3 == 1).astype(float), np.array([1, 1, 1, 1, 1.5, 1.5, 0, 0])
    return Edges(*(jnp.asarray(each, jnp.float32) for each in (*arrays, done, weight)))


@pytest.mark.parametrize(("targets", "layer_norm"), [("shared", False), ("independent", True), ("shared", True)])
def test_the_target_of_stacq(targets: Literal["shared", "independent"], layer_norm: bool) -> None:
    world, state = small_world(), stacq_state(layer_norm=layer_norm)
    cfg = stacq.Config(critics=3, targets=targets, discount=0.9, target_noise=0.7, noise_clip=0.4)
    pairs = an_edge(world)
    draws = drawn(KEY, len(pairs.r))
    wanted = np.zeros((3, len(pairs.r)))
    found = jax.jit(stacq.target)(state, pairs, world, KEY, cfg)
    state, pairs, world = plain(state, pairs, world)
    for p in range(len(pairs.r)):
        a = disturbed(policy(slow(state.actor), pairs.s_next[p]), draws[p], 0.7, 0.4)
        beyond = model(world, pairs.s_next[p], a)
        q = [q_of(slow(state.critic), m, pairs.s_next[p], beyond) for m in range(3)]
        for m in range(3):
            v = min(q) if targets == "shared" else q[m]
            wanted[m, p] = float(pairs.r[p]) + (0.0 if pairs.done[p] else 0.9 * v)
    np.testing.assert_allclose(found, wanted, **CLOSE)
    assert (np.ptp(np.asarray(found), axis=0) < 1e-6).all() == (targets == "shared")


def stacq_critic_loss(critic: MLP, pairs: Edges, y: Any) -> float:
    critic, pairs = plain(critic, pairs)
    weight, total, y = np.asarray(pairs.weight, np.float64), 0.0, np.asarray(y, np.float64)
    for m in range(len(y)):
        for p in range(len(weight)):
            total += weight[p] / weight.sum() * (q_of(critic, m, pairs.s[p], pairs.s_next[p]) - y[m][p]) ** 2
    return total


def test_the_critic_loss_of_stacq() -> None:
    state, pairs = stacq_state(), an_edge(small_world())
    y = np.random.default_rng(6).normal(size=(3, 8)).astype(np.float32)
    loss, facts = jax.jit(stacq.critic_loss)(state.critic.network, pairs, jnp.asarray(y))
    wanted = stacq_critic_loss(state.critic.network, pairs, y)
    np.testing.assert_allclose(loss, wanted, **CLOSE)
    network, edges = plain(state.critic.network, pairs)
    q = [np.mean([q_of(network, m, *each) for m in range(3)]) for each in zip(edges.s, edges.s_next, strict=True)]
    means = [np.average(each, weights=edges.weight) for each in (q, y.mean(axis=0))]
    assert_told(facts, {"critic_loss": wanted, "q": means[0], "target": means[1]})
    unused = pairs._replace(s=pairs.s.at[6:].set(1e3), r=pairs.r.at[6:].set(1e3))
    np.testing.assert_allclose(
        jax.jit(stacq.critic_loss)(state.critic.network, unused, jnp.asarray(y))[0], loss, rtol=1e-6
    )


def judged(critic: MLP, s: Any, s_next: Any, cfg: stacq.Config, critics: int = 3) -> float:
    q = [q_of(critic, m, s, s_next) for m in range(critics)]
    return min(q) if cfg.actor_q == "min" else q[0]


def stacq_best(
    critic: MLP, batch: Batch, world: World, cfg: stacq.Config
) -> tuple[list[Float64s], list[Float64s], list[int]]:
    """The best reachable state from every anchor, the action that leads there, and the row it comes from."""
    critic, batch, world = plain(critic, batch, world)
    assert world.extras is not None and world.extras.actions is not None
    states, actions, origin = [], [], []
    for i, row in enumerate(ROWS):
        best, chosen = judged(critic, batch.s[i], batch.s_next[i], cfg), -1
        for entry in entries_of(world.extras, row):
            score = judged(critic, batch.s[i], world.rows.all.s_next[world.extras.rows[entry]], cfg)
            if score > best:
                best, chosen = score, entry
        own = chosen < 0
        there = batch.s_next[i] if own else world.rows.all.s_next[world.extras.rows[chosen]]
        states.append(joined(there))
        actions.append(joined(batch.a[i] if own else world.extras.actions[chosen]))
        origin.append(chosen)
    return states, actions, origin


@pytest.mark.parametrize("actor_q", ["min", "first"])
def test_the_best_reachable_state(actor_q: Literal["min", "first"]) -> None:
    world, critic = small_world(), stacq_state().critic.network
    cfg, batch = stacq.Config(actor_q=actor_q), batch_of(world, ROWS)
    assert world.extras is not None
    pairs = pairs_by_hand(world.extras, ROWS, 24)
    found = jax.jit(stacq.best_reachable)(critic, batch, pairs, world, cfg)
    states, actions, origin = stacq_best(critic, batch, world, cfg)
    assert any(each < 0 for each in origin) and any(each >= 0 for each in origin)
    np.testing.assert_allclose(found.s_next, states, **CLOSE)
    np.testing.assert_allclose(found.a, actions, **CLOSE)
    untold = replace(world, extras=world.extras._replace(actions=None))
    without = jax.jit(stacq.best_reachable)(critic, batch, pairs, untold, cfg)
    assert without.a is None
    np.testing.assert_array_equal(without.s_next, found.s_next)


def test_minimum_and_first_critic_do_not_always_agree() -> None:
    world, critic = small_world(), stacq_state().critic.network
    batch = batch_of(world, ROWS)
    least, first = stacq.Config(actor_q="min"), stacq.Config(actor_q="first")
    assert stacq_best(critic, batch, world, least)[2] != stacq_best(critic, batch, world, first)[2]


def test_ties_go_to_the_own_successor() -> None:
    world = small_world(sizes=[3] * 12)
    critic = jax.tree.map(jnp.zeros_like, stacq_state().critic.network)
    cfg, batch = stacq.Config(), batch_of(world, ROWS)
    assert world.extras is not None
    found = jax.jit(stacq.best_reachable)(critic, batch, pairs_by_hand(world.extras, ROWS, 24), world, cfg)
    np.testing.assert_array_equal(found.s_next, batch.s_next)
    np.testing.assert_array_equal(found.a, batch.a)


def stacq_actor(
    actor: MLP, critic: MLP, best: Best, batch: Batch, world: World, cfg: stacq.Config, weight: float | None = None
) -> dict[str, float]:
    """The loss and its parts."""
    actor, critic, best, batch, world = plain(actor, critic, best, batch, world)
    draws, q, pull, of_action = drawn(KEY, len(ROWS)), [], [], []
    for i in range(len(ROWS)):
        a = policy(actor, batch.s[i])
        tried = disturbed(a, draws[i], cfg.actor_noise, cfg.noise_clip)
        there = model(world, batch.s[i], np.clip(tried, cfg.margin - 1, 1 - cfg.margin))
        q.append(judged(critic, batch.s[i], there, cfg))
        pull.append(((there - np.asarray(best.s_next[i])) ** 2).mean())
        of_action.append(0.0 if best.a is None else ((a - np.asarray(best.a[i])) ** 2).sum())
    weight = cfg.alpha / float(np.mean(np.abs(q))) if weight is None else weight
    loss = -weight * np.mean(q) + np.mean(pull) + cfg.alpha * cfg.action_pull * np.mean(of_action)
    parts = {"actor_loss": float(loss), "pull": float(np.mean(pull)), "q_policy": float(np.mean(q))}
    return parts if best.a is None else {**parts, "pull_action": float(np.mean(of_action))}


def a_best(action_pull: float, seed: int = 11) -> Best:
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(len(ROWS), S)), rng.uniform(-1, 1, (len(ROWS), A))
    return Best(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32) if action_pull else None)


@pytest.mark.parametrize(
    ("actor_q", "action_pull", "margin"),
    [("min", 0.0, 0.0), ("first", 0.0, 0.2), ("min", 0.4, 0.2), ("first", 0.4, 0.0)],
)
def test_the_actor_loss_of_stacq(actor_q: Literal["min", "first"], action_pull: float, margin: float) -> None:
    world, state = small_world(), stacq_state()
    cfg = stacq.Config(actor_q=actor_q, action_pull=action_pull, alpha=3.0)
    cfg = replace(cfg, actor_noise=0.5, noise_clip=0.6, margin=margin)
    arguments = state.actor.network, state.critic.network, a_best(action_pull), batch_of(world, ROWS), world
    found, facts = jax.jit(stacq.actor_loss)(*arguments, KEY, cfg)
    parts = stacq_actor(*arguments, cfg)
    np.testing.assert_allclose(found, parts["actor_loss"], **CLOSE)
    assert_told(facts, parts)


def test_the_reward_loss() -> None:
    world, reward = small_world(), stacq_state().reward.network
    batch = plain(batch_of(world, ROWS))
    errors = [(net(reward, joined(batch.s[i], batch.s_next[i]))[0] - float(batch.r[i])) ** 2 for i in range(len(ROWS))]
    found, facts = jax.jit(stacq.reward_loss)(reward, batch, world)
    np.testing.assert_allclose(found, np.mean(errors), **CLOSE)
    assert_told(facts, {"reward_loss": np.mean(errors)})
    recorded = np.arange(len(world.usable)) % 4 > 0
    partly = replace(world, recorded=jnp.asarray(recorded))
    mine = [error for error, row in zip(errors, ROWS, strict=True) if recorded[row]]
    assert 0 < len(mine) < len(errors)
    np.testing.assert_allclose(jax.jit(stacq.reward_loss)(reward, batch, partly)[0], np.mean(mine), **CLOSE)
    none = replace(world, recorded=jnp.zeros(len(recorded), bool))
    assert float(jax.jit(stacq.reward_loss)(reward, batch, none)[0]) == 0


def by_differences(loss: Callable[[MLP], float], network: MLP, nudge: float = 1e-5) -> list[Float64s]:
    """The gradient with respect to every number of a float64 network, one central difference each."""
    found = []
    for array in (*network.weights, *network.biases):
        values: Any = array
        slopes = np.zeros(values.shape)
        for place in np.ndindex(values.shape):
            kept = values[place]
            values[place] = kept + nudge
            above = loss(network)
            values[place] = kept - nudge
            slopes[place] = (above - loss(network)) / (2 * nudge)
            values[place] = kept
        found.append(slopes)
    return found


def slopes_of(gradient: MLP) -> list[Any]:
    return [*gradient.weights, *gradient.biases]


def assert_same_slopes(found: MLP, wanted: list[Float64s]) -> None:
    for ours, theirs in zip(slopes_of(found), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)
    assert max(np.abs(each).max() for each in wanted) > 1e-2


def test_the_gradient_of_the_td3bc_actor_leaves_the_weight_of_values_alone() -> None:
    state, batch = td3bc_state(), batch_of(small_world(), ROWS)
    actor, critic, cfg = state.actor.network, state.critic.network, td3bc.Config(alpha=2.5)
    found = jax.jit(jax.grad(lambda actor: td3bc.actor_loss(actor, critic, batch, cfg)[0]))(actor)
    q = [q_of(critic, 0, s, policy(actor, s)) for s in batch.s]
    weight = 2.5 / float(np.mean(np.abs(q)))
    assert_same_slopes(
        found, by_differences(lambda actor: td3bc_actor(actor, critic, batch, 2.5, weight)["actor_loss"], as64(actor))
    )


@pytest.mark.parametrize("action_pull", [0.0, 0.4])
def test_the_gradient_of_the_stacq_actor_flows_through_the_frozen_models(action_pull: float) -> None:
    world, state = small_world(), stacq_state()
    cfg = stacq.Config(alpha=3.0, actor_noise=0.1, action_pull=action_pull)
    actor, critic, best, batch = state.actor.network, state.critic.network, a_best(action_pull), batch_of(world, ROWS)
    found = jax.jit(jax.grad(lambda actor: stacq.actor_loss(actor, critic, best, batch, world, KEY, cfg)[0]))(actor)
    draws = drawn(KEY, len(ROWS))
    q = []
    for i in range(len(ROWS)):
        tried = disturbed(policy(actor, batch.s[i]), draws[i], 0.1, cfg.noise_clip)
        q.append(judged(critic, batch.s[i], model(world, batch.s[i], tried), cfg))
    weight = 3.0 / float(np.mean(np.abs(q)))
    wanted = by_differences(
        lambda actor: stacq_actor(actor, critic, best, batch, world, cfg, weight)["actor_loss"], as64(actor), 1e-6
    )
    assert_same_slopes(found, wanted)


def test_the_gradient_of_the_stacq_critics() -> None:
    critic, pairs = stacq_state(critics=2).critic.network, an_edge(small_world())
    y = np.random.default_rng(6).normal(size=(2, 8)).astype(np.float32)
    found = jax.jit(jax.grad(lambda critic: stacq.critic_loss(critic, pairs, jnp.asarray(y))[0]))(critic)
    assert_same_slopes(found, by_differences(lambda critic: stacq_critic_loss(critic, pairs, y), as64(critic)))


def test_values_of_the_policy() -> None:
    world, s = small_world(), small_world().rows.all.s[:5]
    of_pairs, of_actions = stacq_state(), td3bc_state()
    for actor_q in ("min", "first"):
        cfg = replace(stacq.Config(), actor_q=actor_q)
        wanted = [
            judged(of_pairs.critic.network, each, model(world, each, policy(of_pairs.actor.network, each)), cfg)
            for each in s
        ]
        np.testing.assert_allclose(jax.jit(stacq.value)(of_pairs, s, world, cfg), wanted, **CLOSE)
    least = [
        min(q_of(of_actions.critic.network, m, each, policy(of_actions.actor.network, each)) for m in range(3))
        for each in s
    ]
    found = jax.jit(td3bc.value)(of_actions, s, world, td3bc.Config())
    np.testing.assert_allclose(found, least, **CLOSE)
    assert bc.ALGORITHM.value is None  # cloning has no opinion about returns

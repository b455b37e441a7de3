"""IQL against float64 loops, on problems with known answers, and at its published settings."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import A, S, batch_of, net, plain, q_of, random_net, recording, small_world
from probe_cases import train
from teaching import same, strange_state, taught_by, taught_by_moved

from stacq import algos
from stacq.algos import iql
from stacq.algos.algorithm import Shown, Sizes
from stacq.algos.common import act, member_values
from stacq.algos.settings import changed, preset
from stacq.algos.world import World, make_world
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float64s
from stacq.nn.learner import Learner
from stacq.nn.mlp import MLP
from stacq.policies import MLPPolicy, Space

KEY = jax.random.key(5)
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}
ROWS = (0, 2, 4, 5, 8, 10)  # row 4 ends the task
WORLD = small_world(sizes=[3] * 12)  # of the shape that `teaching` has: one program serves all tests
CFG = iql.Config(hidden=(7,), batch=16, steps=4, expectile=0.8, beta=2.0, discount=0.9, tau=0.1, learning_rate=1e-2)
UPDATE = jax.jit(iql.update)


def state_of(seed: int = 8) -> iql.State:
    rng = np.random.default_rng(seed)
    critics = [random_net(rng, (S + A, 7, 1), 2) for _ in range(2)]
    actor = iql.Gaussian(random_net(rng, (S, 7, A)), jnp.asarray([-0.7, 0.4]))
    value = Learner(random_net(rng, (S, 7, 1)), None, None)
    return iql.State(Learner(actor, None, None), Learner(critics[0], critics[1], None), value)


@cache
def started() -> iql.State:
    found: iql.State = jax.jit(lambda key: iql.init(key, Sizes(S, A), CFG))(KEY)
    return found


def test_values_are_an_expectile_of_the_slow_copys_least_critic() -> None:
    state, batch = state_of(), batch_of(WORLD, ROWS)
    assert state.critic.target is not None
    q = member_values(state.critic.target, batch.s, batch.a).min(axis=0)
    found, facts = iql.value_loss(state.value.network, batch, q, CFG)
    critic, value, rows = plain(state.critic.target, state.value.network, batch)
    total, values, below = 0.0, list[float](), 0
    for i in range(len(ROWS)):
        least = min(q_of(critic, member, rows.s[i], rows.a[i]) for member in range(2))
        v = float(net(value, rows.s[i])[0])
        below += least < v
        total += (0.8 if least > v else 0.2) * (least - v) ** 2 / len(ROWS)
        values.append(v)
    assert 0 < below < len(ROWS)
    np.testing.assert_allclose(found, total, **CLOSE)
    np.testing.assert_allclose([facts["value_loss"], facts["v"]], [total, float(np.mean(values))], **CLOSE)


def test_both_critics_learn_the_reward_and_the_value_of_the_next_state() -> None:
    state, batch = state_of(), batch_of(WORLD, ROWS)
    y = iql.target(batch, iql.state_value(state.value.network, batch.s_next), CFG)
    found, facts = iql.critic_loss(state.critic.network, batch, y)
    critic, value, rows = plain(state.critic.network, state.value.network, batch)
    total, wanted, q = 0.0, [], []
    for i in range(len(ROWS)):
        beyond = 0.0 if rows.done[i] else 0.9 * float(net(value, rows.s_next[i])[0])
        wanted.append(float(rows.r[i]) + beyond)
        for member in range(2):
            q.append(q_of(critic, member, rows.s[i], rows.a[i]))
            total += (q[-1] - wanted[-1]) ** 2 / len(ROWS)
    assert rows.done[2] and float(y[2]) == float(batch.r[2])
    np.testing.assert_allclose(y, wanted, **CLOSE)
    np.testing.assert_allclose(found, total, **CLOSE)
    np.testing.assert_allclose([facts["q"], facts["target"]], [np.mean(q), np.mean(wanted)], **CLOSE)


def test_the_weight_of_an_action_grows_with_its_advantage_up_to_a_hundred() -> None:
    found = iql.advantage_weight(jnp.asarray([-1.0, 0.0, 0.5, 2.3, 2.31, 1e6]), CFG)
    wanted = [np.exp(-2.0), 1.0, np.exp(1.0), np.exp(4.6), 100.0, 100.0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("log_std", [(-0.7, 0.4), (-9.0, 3.0)])
def test_the_policy_maximises_the_weighted_likelihood(log_std: tuple[float, float]) -> None:
    """Of a normal density around the squashed mean, whose deviation is cut to exp(-5) and exp(2)."""
    batch, weight = batch_of(WORLD, ROWS), np.linspace(0.1, 3, len(ROWS))
    actor = state_of().actor.network._replace(log_std=jnp.asarray(log_std))
    found, facts = iql.actor_loss(actor, batch, jnp.asarray(weight, jnp.float32), KEY, CFG)
    mean, rows = plain(actor.mean, batch)
    logs = []
    for i in range(len(ROWS)):
        around, log = np.tanh(net(mean, rows.s[i])), 0.0
        for number in range(A):
            std = np.exp(min(max(log_std[number], -5.0), 2.0))
            off = (float(rows.a[i][number]) - around[number]) / std
            log -= off**2 / 2 + np.log(std * np.sqrt(2 * np.pi))
        logs.append(log)
    np.testing.assert_allclose(found, -np.mean(weight * np.asarray(logs)), **CLOSE)
    wanted = {"actor_loss": float(found), "likelihood": np.mean(logs), "weight": weight.mean()}
    assert set(facts) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(facts[name], value, err_msg=name, **CLOSE)


def test_who_learns_from_whom() -> None:
    """Nothing learns from the policy but itself, and V has no slow copy."""
    still = replace(CFG, learning_rate=0.0, beta=0.1)
    assert taught_by(iql.update, still, started()) == {
        "actor": {"actor.network", "critic.target", "value.network"},
        "critic": {"critic.network", "value.network"},
        "value": {"value.network", "critic.target"},
    }


def test_values_move_first_and_the_slow_copy_last() -> None:
    """The policy and Q learn from the V of this update; all but the slow copy see that copy as it was before."""
    assert taught_by_moved(iql.update, replace(CFG, beta=0.1), started()) == {"actor", "critic"}
    done, _ = UPDATE(started(), batch_of(WORLD, ROWS), WORLD, KEY, CFG)
    before, after = started().critic.target, done.critic
    assert before is not None
    for slow, old, new in zip(*map(jax.tree.leaves, (after.target, before, after.network)), strict=True):
        np.testing.assert_allclose(slow, 0.9 * np.asarray(old) + 0.1 * np.asarray(new), rtol=1e-5, atol=1e-7)
    assert not same(after.network, before)
    assert done.value.target is None and done.actor.target is None


def test_the_policys_rate_falls_to_zero_along_a_cosine_and_the_others_stay() -> None:
    optimiser, gradient = iql.actor_optimiser(CFG), jnp.ones(1)
    moments, taken = optimiser.init(gradient), []
    for _ in range(6):  # Adam moves by its rate along a gradient that never changes
        moved, moments = optimiser.update(gradient, moments)
        taken.append(-float(moved[0]))
    wanted = [CFG.learning_rate * (1 + np.cos(np.pi * min(step, 4) / 4)) / 2 for step in range(6)]
    np.testing.assert_allclose(taken, wanted, rtol=1e-4, atol=1e-8)
    states, batch, world = [started()], batch_of(WORLD, ROWS), WORLD
    for _ in range(5):
        states.append(UPDATE(states[-1], batch, world, KEY, CFG)[0])
    for whose in ("actor", "critic", "value"):
        moves = [not same(*(getattr(each, whose).network for each in pair)) for pair in pairwise(states)]
        assert moves == [True] * 4 + [whose != "actor"], whose


def test_networks_begin_orthogonal_and_the_deviation_at_one() -> None:
    state = started()
    critics = [jax.tree.map(lambda each, m=m: each[m], state.critic.network) for m in range(2)]
    networks: list[MLP] = [state.actor.network.mean, state.value.network, *critics]
    for network in networks:
        for weight, bias in zip(network.weights, network.biases, strict=True):
            w = np.asarray(weight, np.float64)
            product = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
            np.testing.assert_allclose(product, 2 * np.eye(len(product)), atol=1e-5)
            assert not np.any(bias)
    assert not np.allclose(networks[2].weights[0], networks[3].weights[0])
    assert state.actor.network.log_std.tolist() == [0.0] * A
    assert same(state.critic.network, state.critic.target)


def test_dropout_is_for_the_policys_training_alone() -> None:
    state, world = strange_state(started(), np.random.default_rng(0)), WORLD
    batch, dropping = batch_of(world, ROWS), replace(CFG, dropout=0.5)
    plainly, first, again, other = (
        UPDATE(state, batch, world, key, cfg)[0]
        for cfg, key in ((CFG, KEY), (dropping, KEY), (dropping, KEY), (dropping, jax.random.key(6)))
    )
    assert same(first, again) and same(plainly, UPDATE(state, batch, world, jax.random.key(6), CFG)[0])
    assert not same(first.actor, plainly.actor) and not same(first.actor, other.actor)
    for without, dropped in ((plainly.value, first.value), (plainly.critic, first.critic)):
        for one, two in zip(*map(jax.tree.leaves, (without, dropped)), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
    assert same(*(iql.value(first, batch.s, world, cfg) for cfg in (CFG, dropping)))


def test_it_acts_by_the_mean_between_the_bounds() -> None:
    state, world = state_of(), WORLD
    low, high = np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)
    acting = iql.policy(state, Space(Normaliser.identity(S), low, high))
    assert isinstance(acting, MLPPolicy)
    s = np.random.default_rng(0).normal(size=(9, S)).astype(np.float32)
    mean = np.asarray(act(state.actor.network.mean, jnp.asarray(s)))
    np.testing.assert_allclose(acting(s), low + (mean + 1) / 2 * (high - low), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(acting(s, np.random.default_rng(1)), acting(s))
    critic, squashed = plain(state.critic.network), plain(mean)
    wanted = [min(q_of(critic, member, s[i], squashed[i]) for member in range(2)) for i in range(len(s))]
    np.testing.assert_allclose(iql.value(state, jnp.asarray(s), world, CFG), wanted, **CLOSE)


GAMMA = 0.9
PROBE = iql.Config(batch=128, hidden=(32, 32), steps=2_000, learning_rate=1e-3, tau=0.1, discount=GAMMA, beta=1.0)
FIRST, SECOND, END = np.eye(3, 2)  # two states, and where the task is over


def chain() -> World:
    """Two steps, each with an action of 0.5 or -0.5 as often; the better one earns 1, in the second state 2."""
    episodes = [(one, two) for one in (0.5, -0.5) for two in (0.5, -0.5)] * 10
    paths = [np.stack([FIRST, SECOND, END])] * len(episodes)
    tried = [np.array([[one, 0.0], [two, 0.0]]) for one, two in episodes]
    earned = [np.array([one > 0, 2.0 * (two > 0)], np.float64) for one, two in episodes]
    return make_world(recording(paths, tried, earned, terminal=[True] * len(episodes)), Normaliser.identity(2))


def judged(state: iql.State, s: Float64s, a: float) -> float:
    return float(member_values(state.critic.network, jnp.asarray(s), jnp.asarray([a, 0.0])).mean())


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_values_and_policy_of_two_states_are_known(expectile: float) -> None:
    """Of two values as frequent, the expectile is expectile * better + (1 - expectile) * worse.

    The best mean action under weights w is their mean, 0.5 tanh(beta (Q_better - Q_worse) / 2).
    """
    state = train("iql", chain(), replace(PROBE, expectile=expectile))
    second = 2 * expectile
    first = expectile + GAMMA * second
    values = [float(iql.state_value(state.value.network, jnp.asarray(s))) for s in (FIRST, SECOND)]
    np.testing.assert_allclose(values, [first, second], atol=0.08)
    for s, better, worse in ((FIRST, 1 + GAMMA * second, GAMMA * second), (SECOND, 2.0, 0.0)):
        np.testing.assert_allclose([judged(state, s, 0.5), judged(state, s, -0.5)], [better, worse], atol=0.08)
        mean = np.asarray(act(state.actor.network.mean, jnp.asarray(s)))
        np.testing.assert_allclose(mean, [0.5 * np.tanh((better - worse) / 2), 0.0], atol=0.08)


def test_without_beta_it_clones_and_with_much_it_takes_the_better_action() -> None:
    for beta, wanted in ((0.0, 0.0), (10.0, 0.5)):
        state = train("iql", chain(), replace(PROBE, beta=beta))
        for s in (FIRST, SECOND):
            assert abs(float(act(state.actor.network.mean, jnp.asarray(s))[0]) - wanted) < 0.08


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_expectiles_of_a_uniform_distribution_are_known(expectile: float) -> None:
    """tau (1 - e)^2 = (1 - tau) e^2 for values spread evenly from 0 to 1."""
    q = (jnp.arange(1000) + 0.5) / 1000
    batch = batch_of(WORLD, [0] * 1000)
    wanted = np.sqrt(expectile) / (np.sqrt(expectile) + np.sqrt(1 - expectile))
    network = jax.tree.map(jnp.zeros_like, state_of().value.network)  # its last bias is all that it says

    @jax.jit
    def slope(v: float) -> jax.Array:
        at = replace(network, biases=(network.biases[0], jnp.asarray(v)[None]))
        gradient: MLP = jax.grad(lambda net: iql.value_loss(net, batch, q, replace(CFG, expectile=expectile))[0])(at)
        return gradient.biases[-1].sum()

    assert slope(wanted - 0.01) < -1e-3 and slope(wanted + 0.01) > 1e-3
    np.testing.assert_allclose(slope(wanted), 0.0, atol=1e-5)


LOCOMOTION = [
    f"{body}-{kind}"
    for body in ("hopper", "walker2d", "halfcheetah")
    for kind in ("random", "medium", "medium-replay", "medium-expert")
]
ANTMAZE = [
    f"antmaze-{kind}"
    for kind in ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
]


@pytest.mark.parametrize("name", [*LOCOMOTION, *ANTMAZE])
def test_published_settings(name: str) -> None:
    found = preset(algos.find("iql"), f"{name}-v2")
    cfg: iql.Config = found.config
    ant = name in ANTMAZE
    assert (cfg.expectile, cfg.beta, cfg.dropout) == ((0.9, 10.0, 0.0) if ant else (0.7, 3.0, 0.0))
    assert (cfg.steps, cfg.batch, cfg.hidden) == (1_000_000, 256, (256, 256))
    assert (cfg.discount, cfg.tau, cfg.learning_rate) == (0.99, 0.005, 3e-4)
    shown = Shown(False, "none", -1.0) if ant else Shown(False, "return-range", 0.0)
    assert found.shown == shown and found.episodes == (100 if ant else 10)
    demonstrated = preset(algos.find("iql"), f"{name}-v2", variant="kitchen").config
    assert demonstrated == replace(cfg, dropout=0.1, beta=0.5)


def test_settings_beyond_their_range_are_refused() -> None:
    assert changed(CFG, ("dropout=0.25", "expectile=0.95")) == replace(CFG, dropout=0.25, expectile=0.95)
    for setting in ("dropout=1", "expectile=0", "expectile=1", "expectile=1.2", "dropout=-0.1"):
        with pytest.raises(InputError, match=setting.partition("=")[0]):
            changed(CFG, (setting,))


def test_rewards_are_scaled_to_a_range_of_a_thousand_between_episodes() -> None:
    data = recording(
        [np.zeros((3, S)), np.zeros((2, S))],
        [np.zeros((2, A)), np.zeros((1, A))],
        [np.array([1.0, 3.0]), np.array([-1.0])],
        terminal=[True, False],
    )
    assert preset(algos.find("iql"), "hopper-medium-v2").shown.scale(data) == 200.0
    assert preset(algos.find("iql"), "antmaze-umaze-v2").shown.scale(data) == 1.0

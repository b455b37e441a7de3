"""ReBRAC: its equations against float64 loops, who learns from whom, its start, its settings, and two probes."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import A, S, batch_of, disturbed, joined, plain, policy, random_net, recording, small_world
from probe_cases import actions, train, values
from teaching import gradients_of, same, strange_state, taught_by
from training_cases import dataset

from stacq import algos
from stacq.algos import rebrac, settings
from stacq.algos.algorithm import Shown, Sizes
from stacq.algos.world import Batch, World, make_world
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float64s
from stacq.nn.learner import Learner
from stacq.nn.mlp import MLP
from stacq.policies import Policy, Space

KEY = jax.random.key(7)
# 4 ends the task, 8 is stopped by the clock, 10 is followed by a row that is not drawn, the last has none after it.
ROWS = (0, 4, 6, 8, 10, 11)
FOLLOWED = {0: 1, 6: 7, 10: 11}
HIDDEN = (7, 6, 5)
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}
TINY = rebrac.Config(steps=8, batch=8, hidden=(8, 8), tau=0.1)
INIT = jax.jit(rebrac.init, static_argnums=1)
TARGET, UPDATE, UPDATE_CRITIC = jax.jit(rebrac.target), jax.jit(rebrac.update), jax.jit(rebrac.update_critic)


@cache
def a_world() -> World:
    return small_world(sizes=[3] * 12)


def judge(critic: MLP, member: int, *parts: Any) -> float:
    """One critic on one input: affine, ReLU, standardised, and so on, in float64."""
    x, last = joined(*parts), len(critic.weights) - 1
    for layer, (weight, bias) in enumerate(zip(critic.weights, critic.biases, strict=True)):
        x = x @ np.asarray(weight[member], np.float64) + np.asarray(bias[member], np.float64)
        if layer < last:
            x = np.maximum(x, 0.0)
            x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return float(x[0])


def a_state(seed: int = 3) -> rebrac.State:
    """Networks and slow copies that all differ."""
    rng = np.random.default_rng(seed)
    actors = [random_net(rng, (S, *HIDDEN, A)) for _ in range(2)]
    judges = [replace(random_net(rng, (S + A, *HIDDEN, 1), 2, layer_norm=True), relu_first=True) for _ in range(2)]
    return rebrac.State(Learner(actors[0], actors[1], None), Learner(judges[0], judges[1], None))


def target_by_hand(state: rebrac.State, batch: Batch, world: World, cfg: rebrac.Config) -> list[float]:
    state, batch, world = plain(state, batch, world)
    draws, told = np.asarray(jax.random.normal(KEY, (len(ROWS), A)), np.float64), []
    assert state.actor.target is not None and state.critic.target is not None
    for i, row in enumerate(ROWS):
        a = disturbed(policy(state.actor.target, batch.s_next[i]), draws[i], cfg.target_noise, cfg.noise_clip)
        beyond = min(judge(state.critic.target, m, batch.s_next[i], a) for m in range(2))
        if row in FOLLOWED:
            beyond -= cfg.beta_critic * float(((a - world.rows.all.a[FOLLOWED[row]]) ** 2).sum())
        told.append(float(batch.r[i]) + (0.0 if batch.done[i] else cfg.discount * beyond))
    return told


@pytest.mark.parametrize(("noise", "clip", "beta"), [(0.2, 0.5, 0.7), (0.9, 0.3, 0.7), (0.0, 0.5, 0.0)])
def test_the_target(noise: float, clip: float, beta: float) -> None:
    state, world = a_state(), a_world()
    cfg = rebrac.Config(discount=0.9, target_noise=noise, noise_clip=clip, beta_critic=beta)
    batch = batch_of(world, ROWS)
    found = TARGET(state, batch, world, KEY, cfg)
    np.testing.assert_allclose(found, target_by_hand(state, batch, world, cfg), **CLOSE)


def test_the_target_holds_the_next_action_inside_episodes_alone() -> None:
    """The weight moves the targets of rows that are followed, down, and of no others; never a number that is none."""
    state, world = a_state(), a_world()
    batch = batch_of(world, ROWS)
    free, held = (TARGET(state, batch, world, KEY, rebrac.Config(beta_critic=beta)) for beta in (0.0, 2.0))
    moved = np.asarray(held - free)
    followed = np.array([row in FOLLOWED for row in ROWS])
    assert (moved[followed] < -1e-3).all() and (moved[~followed] == 0).all()


def test_the_critic_loss() -> None:
    critic, batch = a_state().critic.network, plain(batch_of(a_world(), ROWS))
    y = np.random.default_rng(6).normal(size=len(ROWS))
    q = np.array([[judge(critic, m, batch.s[i], batch.a[i]) for i in range(len(ROWS))] for m in range(2)])
    loss, facts = jax.jit(rebrac.critic_loss)(critic, batch, jnp.asarray(y, jnp.float32))
    wanted = ((q[0] - y) ** 2).mean() + ((q[1] - y) ** 2).mean()
    np.testing.assert_allclose(loss, wanted, **CLOSE)
    told = {"critic_loss": wanted, "q": q.mean(), "target": y.mean()}
    assert set(facts) == set(told)
    for name, each in told.items():
        np.testing.assert_allclose(facts[name], each, err_msg=name, **CLOSE)


def actor_by_hand(actor: MLP, critic: MLP, batch: Batch, beta: float, weight: float | None = None) -> dict[str, float]:
    """The loss and its parts; with the weight of values fixed if given, as the gradient sees it."""
    chosen = [policy(actor, s) for s in batch.s]
    q = [min(judge(critic, m, s, a) for m in range(2)) for s, a in zip(batch.s, chosen, strict=True)]
    pull = float(np.mean([((a - np.asarray(b)) ** 2).sum() for a, b in zip(chosen, batch.a, strict=True)]))
    weight = 1 / float(np.mean(np.abs(q))) if weight is None else weight
    return {
        "actor_loss": beta * pull - weight * float(np.mean(q)),
        "pull": pull,
        "q_policy": float(np.mean(q)),
        "weight": weight,
    }


def test_the_actor_loss_and_its_gradient() -> None:
    """The weight of values has no gradient: central differences with the weight held agree."""
    state, batch, cfg = a_state(), plain(batch_of(a_world(), ROWS)), rebrac.Config(beta_actor=0.3)
    actor, critic = state.actor.network, plain(state.critic.network)
    judged = jax.jit(jax.value_and_grad(rebrac.actor_loss, has_aux=True))
    (loss, facts), slopes = judged(actor, state.critic.network, batch, cfg)
    wanted = actor_by_hand(plain(actor), critic, batch, 0.3)
    np.testing.assert_allclose(loss, wanted["actor_loss"], **CLOSE)
    assert set(facts) == {"actor_loss", "pull", "q_policy"}
    for name in facts:
        np.testing.assert_allclose(facts[name], wanted[name], err_msg=name, **CLOSE)
    for layer in (0, 2):
        bias = np.asarray(actor.biases[layer], np.float64)
        for place in range(len(bias)):
            ends = []
            for nudge in (1e-6, -1e-6):
                biases = list(plain(actor).biases)
                biases[layer] = bias + nudge * (np.arange(len(bias)) == place)
                moved = replace(plain(actor), biases=tuple(biases))
                ends.append(actor_by_hand(moved, critic, batch, 0.3, wanted["weight"])["actor_loss"])
            np.testing.assert_allclose(slopes.biases[layer][place], (ends[0] - ends[1]) / 2e-6, rtol=2e-3, atol=2e-5)


def test_values_of_the_policy() -> None:
    state, world = a_state(), a_world()
    s = world.rows.all.s[:5]
    wanted = [
        min(judge(state.critic.network, m, each, policy(state.actor.network, each)) for m in range(2)) for each in s
    ]
    np.testing.assert_allclose(jax.jit(rebrac.value)(state, s, world, TINY), wanted, **CLOSE)


def test_it_starts_as_the_authors_networks_do() -> None:
    state = INIT(jax.random.key(0), Sizes(11, 3), rebrac.Config())
    for learner, bound, inputs in ((state.actor, 1e-3, 11), (state.critic, 3e-3, 14)):
        weights, biases = plain(learner.network.weights), plain(learner.network.biases)
        assert [each.shape[-2] for each in weights] == [inputs, 256, 256, 256]
        assert all((each == np.float32(0.1)).all() for each in biases[:-1])
        for each, most in zip([*weights, biases[-1]], [inputs**-0.5, 1 / 16, 1 / 16, bound, bound], strict=True):
            assert np.abs(each).max() <= most * (1 + 1e-5)
            assert each.size < 100 or np.abs(each).max() > 0.95 * most
        assert same(learner.network, learner.target)
    assert (state.critic.network.layer_norm, state.critic.network.relu_first) == (True, True)
    assert (state.actor.network.layer_norm, state.critic.network.members) == (False, 2)


# By update: which networks the gradient of each may depend on, before anything has moved.
CRITIC = {"critic.network", "critic.target", "actor.target"}
TAUGHT_BY: dict[str, dict[str, set[str]]] = {
    "update_critic": {"critic": CRITIC, "actor": set()},
    "update": {"critic": CRITIC, "actor": {"actor.network", "critic.network"}},
}


@cache
def first_state() -> rebrac.State:
    state: rebrac.State = INIT(jax.random.key(3), Sizes(S, A), TINY)
    return state


@pytest.mark.parametrize("name", TAUGHT_BY)
def test_each_network_learns_from_those_of_the_algorithm_and_no_others(name: str) -> None:
    still = replace(TINY, actor_learning_rate=0.0, critic_learning_rate=0.0)
    assert taught_by(getattr(rebrac, name), still, first_state()) == TAUGHT_BY[name]


def test_the_actor_learns_from_critics_that_have_just_moved() -> None:
    state = strange_state(first_state(), np.random.default_rng(5))
    slow, quick = (gradients_of(rebrac.update, replace(TINY, critic_learning_rate=rate), state) for rate in (0.0, 0.05))
    assert same(slow["critic"], quick["critic"]) and not same(slow["actor"], quick["actor"])


def test_the_actor_and_the_slow_copies_move_in_the_first_step_of_a_turn() -> None:
    """The actor's slow copy goes towards the actor before its step, the critics' towards those after theirs."""
    assert rebrac.phases(TINY)[0].updates == (rebrac.update, rebrac.update_critic)
    assert rebrac.phases(replace(TINY, actor_every=3))[0].updates == (rebrac.update, *(rebrac.update_critic,) * 2)
    world, state = a_world(), strange_state(first_state(), np.random.default_rng(5))
    batch, key = batch_of(world, ROWS), jax.random.key(0)
    half, _ = UPDATE_CRITIC(state, batch, world, key, TINY)
    done, _ = UPDATE(state, batch, world, key, TINY)
    assert same((half.actor, half.critic.target), (state.actor, state.critic.target))
    assert not same(half.critic.network, state.critic.network) and not same(done.actor.network, state.actor.network)
    pairs = (
        (state.actor.target, state.actor.network, done.actor.target),
        (
            state.critic.target,
            done.critic.network,
            done.critic.target,
        ),
    )
    for before, towards, after in pairs:
        for old, new, found in zip(before.weights, towards.weights, after.weights, strict=True):
            np.testing.assert_allclose(found, 0.9 * np.asarray(old) + 0.1 * np.asarray(new), rtol=1e-5, atol=1e-6)


def test_each_network_has_a_rate_of_its_own() -> None:
    """The first step of Adam is its rate."""
    cfg = replace(TINY, actor_learning_rate=0.02, critic_learning_rate=0.3)
    world, state = a_world(), first_state()
    done, _ = UPDATE(state, batch_of(world, ROWS), world, KEY, cfg)
    for part, rate in (("actor", 0.02), ("critic", 0.3)):
        old, new = (getattr(each, part).network.biases[-1] for each in (state, done))
        assert np.abs(np.asarray(new - old)).max() == pytest.approx(rate, rel=0.02)


COUNT, GAMMA = 40, 0.9
PROBE = rebrac.Config(
    steps=1000,
    batch=64,
    hidden=(32, 32),
    discount=GAMMA,
    tau=0.05,
    actor_learning_rate=3e-3,
    critic_learning_rate=3e-3,
    target_noise=0.0,
)


def world_of(paths: list[Float64s], told: list[Float64s], rewards: list[Float64s]) -> World:
    data = recording(paths, told, rewards, terminal=[True] * len(paths))
    return make_world(data, Normaliser.identity(2))


@pytest.mark.slow
@pytest.mark.parametrize("paid", ["right", "left"])
def test_it_takes_the_better_of_two_logged_actions(paid: str) -> None:
    rng = np.random.default_rng(1)
    s, right = np.repeat(rng.normal(size=(4, 2)), COUNT // 4, axis=0), np.arange(COUNT) % 2 == 0
    a = np.where(right, 0.5, -0.5)[:, None] * [1.0, 0.0] + rng.normal(0, 0.1, (COUNT, 2))
    rewards = (right if paid == "right" else ~right)[:, None].astype(float)
    world = world_of([np.stack([place, place]) for place in s], list(a[:, None]), list(rewards))
    chosen = actions(train("rebrac", world, replace(PROBE, beta_actor=0.3)), s)[:, 0]
    assert (chosen if paid == "right" else -chosen).min() > 0.25


@pytest.mark.parametrize(("beta", "wanted"), [pytest.param(0.0, 0.9, marks=pytest.mark.slow), (2.0, 0.45)])
def test_the_critics_pay_for_a_next_action_that_the_data_did_not_take(beta: float, wanted: float) -> None:
    """At the second step the data goes half a step either way for 1, and the policy is held between the two.

    Its action there is 0, a squared distance of 0.25 from both: the first step is worth 0.9 (1 - 0.25 beta).
    """
    path = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    told = [np.array([[0.0, 0.0], [side, 0.0]]) for side in (0.5, -0.5)] * (COUNT // 4)
    world = world_of([path] * (COUNT // 2), told, [np.array([0.0, 1.0])] * (COUNT // 2))
    state = train("rebrac", world, replace(PROBE, beta_actor=100.0, beta_critic=beta))
    assert np.abs(actions(state, [[1.0, 0.0]])).max() < 0.1
    np.testing.assert_allclose(values(state, [[-1.0, 0.0]], [[0.0, 0.0]]), [wanted], atol=0.08)


# Table of the authors' settings.
PUBLISHED = {
    "halfcheetah": {"random": (0.001, 0.1), "medium": (0.001, 0.01), "medium-replay": (0.01, 0.001)}
    | {"medium-expert": (0.01, 0.1), "expert": (0.01, 0.01)},
    "hopper": {"random": (0.001, 0.01), "medium": (0.01, 0.01), "medium-replay": (0.05, 0.5)}
    | {"medium-expert": (0.1, 0.01), "expert": (0.1, 0.1)},
    "walker2d": {"random": (0.01, 0.0), "medium": (0.05, 0.1), "medium-replay": (0.05, 0.01)}
    | {"medium-expert": (0.01, 0.01), "expert": (0.01, 0.5)},
    "antmaze": {"umaze": (0.003, 0.002), "umaze-diverse": (0.003, 0.001), "medium-play": (0.001, 0.0005)}
    | {"medium-diverse": (0.001, 0.0), "large-play": (0.002, 0.001), "large-diverse": (0.002, 0.002)},
}


@pytest.mark.parametrize("task", PUBLISHED)
def test_published_settings(task: str) -> None:
    for kind, (actor, critic) in PUBLISHED[task].items():
        found = settings.preset(algos.find("rebrac"), f"{task}-{kind}-v2")
        cfg = found.config
        assert (cfg.beta_actor, cfg.beta_critic) == (actor, critic)
        assert (cfg.steps, cfg.hidden, cfg.critics, cfg.actor_every, cfg.tau) == (10**6, (256,) * 3, 2, 2, 0.005)
        assert (cfg.target_noise, cfg.noise_clip, found.shown.reward_shift) == (0.2, 0.5, 0.0)
        rest = cfg.batch, cfg.actor_learning_rate, cfg.critic_learning_rate, cfg.discount, found.episodes
        assert rest == ((256, 3e-4, 5e-5, 0.999, 100) if task == "antmaze" else (1024, 1e-3, 1e-3, 0.99, 10))
        assert not found.shown.normalise
        assert found.shown.scale(dataset()) == (100.0 if task == "antmaze" else 1.0)


def test_data_of_ones_own_and_the_small_preset() -> None:
    find = algos.find("rebrac")
    assert settings.preset(find, "mine").config == rebrac.Config() and settings.preset(find, "mine").shown == Shown()
    assert settings.preset(find, "stacq/hopper-medium-v0") == settings.preset(find, "hopper-medium-v2")
    usual, small = (settings.preset(find, "walker2d-medium-v2", small=each).config for each in (False, True))
    assert small.steps < usual.steps and small.hidden < usual.hidden and small.batch < usual.batch
    assert (small.beta_actor, small.beta_critic) == (0.1, 0.1)  # the policy's is stronger for fewer rows
    point = settings.preset(find, "maze2d-large-v1").config
    assert (point.beta_actor, point.beta_critic, point.batch) == (0.003, 0.001, 256)
    assert (point.actor_learning_rate, point.critic_learning_rate, point.discount) == (3e-4, 3e-4, 0.99)


def test_the_saved_policy_acts_as_the_network_does(tmp_path: Path) -> None:
    state, rng = a_state(), np.random.default_rng(2)
    normaliser = Normaliser(rng.normal(size=S).astype(np.float32), rng.uniform(0.5, 2, S).astype(np.float32))
    low, high = np.array([-2.0, 0.0], np.float32), np.array([1.0, 5.0], np.float32)
    seen = rng.normal(size=(9, S))
    rebrac.policy(state, Space(normaliser, low, high)).save(tmp_path / "policy.safetensors")
    found = Policy.load(tmp_path / "policy.safetensors")(seen)
    wanted = [low + (policy(state.actor.network, s) + 1) / 2 * (high - low) for s in normaliser.apply(seen)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

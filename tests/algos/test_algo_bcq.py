"""BCQ against float64 loops, who learns from whom, what is published, how it acts, and two modes of a bandit."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import A, S, batch_of, joined, net, plain, q_of, random_net, recording, small_world
from probe_cases import train
from teaching import taught_by, taught_by_moved

from stacq.algos import bcq, settings
from stacq.algos.algorithm import Sizes
from stacq.algos.world import make_world
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float64s
from stacq.nn.cvae import CVAE
from stacq.nn.learner import Learner
from stacq.policies import ChosenPolicy, Space

CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}
ROWS = (0, 4, 6, 8, 9, 4)
Z = 2 * A
CFG = bcq.Config(discount=0.9, samples=5, phi=0.3, min_weight=0.6, hidden=(7,), vae_hidden=(7,))
WORLD = small_world(sizes=[0] * 12)
BATCH = batch_of(WORLD, ROWS)
SPACE = Space(Normaliser.identity(S), np.full(A, -1, np.float32), np.full(A, 3, np.float32))


def state_of(seed: int = 12) -> bcq.State:
    """Networks and slow copies of no particular origin."""
    rng = np.random.default_rng(seed)
    vae = CVAE(random_net(rng, (S + A, 7, 2 * Z)), random_net(rng, (S + Z, 7, A)))
    actors = [random_net(rng, (S + A, 7, A)) for _ in range(2)]
    critics = [random_net(rng, (S + A, 7, 1), 2) for _ in range(2)]
    pairs = [Learner(network, slow, None) for network, slow in (actors, critics)]
    return bcq.State(Learner(vae, None, None), pairs[0], pairs[1], jnp.asarray(CFG.phi))


def drawn(count: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).uniform(-0.5, 0.5, (len(ROWS), count, Z)), jnp.float32)


def candidate(decoder: Any, actor: Any, s: Any, z: Any) -> Float64s:
    u = np.tanh(net(decoder, joined(s, z)))
    moved = u + CFG.phi * np.tanh(net(actor, joined(s, u)))
    return np.array([min(max(float(each), -1.0), 1.0) for each in moved])


def softly(values: list[float]) -> float:
    return CFG.min_weight * min(values) + (1 - CFG.min_weight) * max(values)


def test_the_target_is_the_best_of_the_candidates() -> None:
    state, z = state_of(), drawn(CFG.samples)
    found = jax.jit(bcq.target)(state, BATCH, WORLD, z, CFG)
    state, batch, z = plain(state, BATCH, z)
    winners, mixed = set(), 0
    for i in range(len(ROWS)):
        values = []
        for k in range(CFG.samples):
            a = candidate(state.vae.network.decoder, state.actor.target, batch.s_next[i], z[i, k])
            q = [q_of(state.critic.target, m, batch.s_next[i], a) for m in range(2)]
            values.append(softly(q))
            mixed += q[0] < q[1]
        winners.add(int(np.argmax(values)))
        wanted = batch.r[i] + CFG.discount * (1 - batch.done[i]) * max(values)
        np.testing.assert_allclose(found[i], wanted, **CLOSE)
    assert len(winners) > 1 and 0 < mixed < CFG.samples * len(ROWS)
    np.testing.assert_array_equal(found[1], batch.r[1])  # the task ends there


def test_rounded_networks_choose_and_exact_ones_value() -> None:
    """Whatever bfloat16 chooses has its exact value: so no target exceeds the exact one, and few fall short of it."""
    state, rounded = state_of(), replace(WORLD, precision="bfloat16")
    rng = np.random.default_rng(3)
    many = batch_of(WORLD, rng.integers(0, 11, 200).tolist())
    z = jnp.asarray(rng.uniform(-0.5, 0.5, (200, CFG.samples, Z)), jnp.float32)
    exact, other = (np.asarray(jax.jit(bcq.target)(state, many, each, z, CFG)) for each in (WORLD, rounded))
    assert not np.array_equal(exact, other)
    np.testing.assert_allclose(other, exact, atol=0.05)
    assert rounded.frozen(state.critic.network).weights[-1].dtype == jnp.bfloat16
    assert WORLD.frozen(state.critic.network) == state.critic.network


def test_latents_are_clipped_gaussians() -> None:
    """A Gaussian is below -0.5 in 30.9 of 100 draws, and above 0.5 as often."""
    z = np.asarray(bcq.latents(state_of().vae.network.decoder, jnp.zeros((500, S)), jax.random.key(3), 10))
    assert z.shape == (500, 10, Z) and np.abs(z).max() == 0.5
    np.testing.assert_allclose([(z == -0.5).mean(), (z == 0.5).mean()], 0.309, atol=0.015)
    np.testing.assert_allclose(z[np.abs(z) < 0.5].std(), 0.5 / np.sqrt(3), atol=0.01)  # nearly flat in between


def test_the_generators_loss_is_reconstruction_and_half_the_divergence() -> None:
    state, key = state_of(), jax.random.key(5)
    loss, facts = jax.jit(bcq.vae_loss)(state.vae.network, BATCH, key)
    (encoder, decoder), batch = plain(state.vae.network, BATCH)
    noise = np.asarray(jax.random.normal(key, (len(ROWS), Z)), np.float64)
    errors, terms = [], []
    for i in range(len(ROWS)):
        told = net(encoder, joined(batch.s[i], batch.a[i]))
        z = [told[n] + np.exp(told[Z + n]) * noise[i, n] for n in range(Z)]
        terms += [-0.5 * (1 + 2 * told[Z + n] - told[n] ** 2 - np.exp(2 * told[Z + n])) for n in range(Z)]
        again = np.tanh(net(decoder, joined(batch.s[i], z)))
        errors += [(again[n] - float(batch.a[i, n])) ** 2 for n in range(A)]
    np.testing.assert_allclose(loss, np.mean(errors) + 0.5 * np.mean(terms), rtol=1e-5)
    assert set(facts) == {"vae_loss", "reconstruction", "divergence"}
    np.testing.assert_allclose(facts["divergence"], np.mean(terms), rtol=1e-4)
    np.testing.assert_allclose(facts["reconstruction"], np.mean(errors), rtol=1e-5)


def test_the_critics_loss() -> None:
    state, y = state_of(), jnp.arange(len(ROWS)) * 0.3
    loss, facts = bcq.critic_loss(state.critic.network, BATCH, y)
    critic, batch = plain(state.critic.network, BATCH)
    q = [[q_of(critic, m, batch.s[i], batch.a[i]) for i in range(len(ROWS))] for m in range(2)]
    wanted = sum(sum((q[m][i] - 0.3 * i) ** 2 for i in range(len(ROWS))) / len(ROWS) for m in range(2))
    np.testing.assert_allclose(loss, wanted, **CLOSE)
    np.testing.assert_allclose([facts["q"], facts["target"]], [np.mean(q), np.mean(y)], **CLOSE)


def test_the_correction_climbs_the_first_critic() -> None:
    state = state_of()
    u = jnp.asarray(np.random.default_rng(2).uniform(-1, 1, (len(ROWS), A)), jnp.float32)
    loss, facts = jax.jit(bcq.actor_loss)(state.actor.network, state.critic.network, BATCH.s, u, CFG)
    actor, critic, batch, u = plain(state.actor.network, state.critic.network, BATCH, u)
    q = []
    for i in range(len(ROWS)):
        moved = u[i] + CFG.phi * np.tanh(net(actor, joined(batch.s[i], u[i])))
        q.append(q_of(critic, 0, batch.s[i], [min(max(float(each), -1.0), 1.0) for each in moved]))
    np.testing.assert_allclose(loss, -np.mean(q), **CLOSE)
    np.testing.assert_allclose(facts["q_policy"], np.mean(q), **CLOSE)


@pytest.mark.slow
def test_who_learns_from_whom() -> None:
    """Targets come from the generator as it is and slow copies of the others; a correction from the first critic."""
    still = replace(CFG, learning_rate=0.0)
    state = bcq.init(jax.random.key(0), Sizes(S, A), still)
    assert taught_by(bcq.update, still, state, WORLD) == {
        "vae": {"vae.network"},
        "critic": {"critic.network", "critic.target", "vae.network", "actor.target"},
        "actor": {"actor.network", "critic.network", "vae.network"},
    }
    assert taught_by_moved(bcq.update, still, state, WORLD) == {"critic", "actor"}


def test_an_update_moves_all_three_and_the_slow_copies_behind_them() -> None:
    state = bcq.init(jax.random.key(0), Sizes(S, A), CFG)
    after, facts = jax.jit(bcq.update)(state, BATCH, WORLD, jax.random.key(1), CFG)
    for before, moved in ((state.actor, after.actor), (state.critic, after.critic)):
        for old, new, slow in zip(*map(jax.tree.leaves, (before.target, moved.network, moved.target)), strict=True):
            np.testing.assert_allclose(slow, 0.995 * np.asarray(old) + 0.005 * np.asarray(new), rtol=1e-5, atol=1e-7)
    moved = zip(jax.tree.leaves(state.vae.network), jax.tree.leaves(after.vae.network), strict=True)
    assert not any(np.array_equal(*each) for each in moved)
    assert after.phi == state.phi == np.float32(0.3) and after.vae.target is None
    assert set(facts) == {
        *("vae_loss", "reconstruction", "divergence", "critic_loss", "q", "target", "actor_loss", "q_policy"),
    }


class Told:
    """A generator of random numbers that gives what it was told."""

    def __init__(self, values: Float64s) -> None:
        self.values = values

    def standard_normal(self, shape: tuple[int, ...], dtype: Any) -> Any:
        assert shape == self.values.shape
        return self.values.astype(dtype)


def test_acting_is_the_networks_best_of_a_hundred_within_the_bounds() -> None:
    state = state_of()
    found = bcq.policy(plain(state), SPACE)
    assert isinstance(found, ChosenPolicy) and (found.samples, found.latent_clip) == (100, 0.5)
    rng = np.random.default_rng(4)
    s, noise = rng.normal(size=(6, S)).astype(np.float32), rng.normal(size=(6, 100, Z))
    acted = found(s, Told(noise))  # type: ignore[arg-type]
    z = jnp.clip(jnp.asarray(noise, jnp.float32), -0.5, 0.5)
    there = jnp.asarray(s)
    a = bcq.corrected(state.actor.network, there, bcq.proposed(state.vae.network.decoder, there, z), CFG.phi)
    critic, a = plain(state.critic.network, a)
    for i in range(6):
        best = max(a[i], key=lambda each: q_of(critic, 0, s[i], each))
        np.testing.assert_allclose(acted[i], -1 + (best + 1) * 2, rtol=1e-4, atol=1e-4)


def test_the_value_of_acting_is_the_smaller_critic_of_the_action_that_is_chosen() -> None:
    state, s = state_of(), np.random.default_rng(4).normal(size=(5, S)).astype(np.float32)
    found = bcq.value(state, jnp.asarray(s), WORLD, CFG)
    state = plain(state)
    z = np.asarray(bcq.latents(state.vae.network.decoder, jnp.asarray(s), jax.random.key(0), 100))
    for i in range(5):
        tried = [candidate(state.vae.network.decoder, state.actor.network, s[i], each) for each in z[i]]
        q = [(q_of(state.critic.network, 0, s[i], a), q_of(state.critic.network, 1, s[i], a)) for a in tried]
        np.testing.assert_allclose(found[i], min(max(q)), **CLOSE)


@pytest.mark.parametrize("name", ["hopper-medium-v2", "walker2d-random-v2", "halfcheetah-medium-expert-v2", "mine"])
def test_published_settings_are_one_for_all(name: str) -> None:
    found = settings.preset(bcq.ALGORITHM, name)
    cfg: bcq.Config = found.config
    assert (cfg.hidden, cfg.vae_hidden, cfg.batch, cfg.steps) == ((400, 300), (750, 750), 100, 10**6)
    assert (cfg.learning_rate, cfg.tau, cfg.discount) == (1e-3, 0.005, 0.99)
    assert (cfg.phi, cfg.min_weight, cfg.samples) == (0.05, 0.75, 10)
    assert (found.shown.normalise, found.shown.reward_shift, found.shown.reward_scale) == (False, 0.0, "none")


def test_of_antmaze_the_steps_cost_one() -> None:
    found = settings.preset(bcq.ALGORITHM, "antmaze-medium-play-v2")
    assert (found.shown.normalise, found.shown.reward_shift, found.config) == (False, -1.0, bcq.Config())


@cache
def bandit_policy(better: float) -> ChosenPolicy:
    """Half of the rows act near -0.8, half near 0.8; one of the two modes pays 1, all else nothing."""
    rng = np.random.default_rng(0)
    mode = np.where(np.arange(400) % 2 == 0, 0.8, -0.8)
    a = np.stack([mode + rng.normal(0, 0.03, 400), rng.normal(0, 0.03, 400)], axis=1)
    s = rng.uniform(-1, 1, (400, 2))
    rewards = (mode == better)[:, None].astype(float)
    data = recording([np.stack([x, x]) for x in s], list(a[:, None]), list(rewards), terminal=[True] * 400)
    cfg = bcq.Config(steps=1500, batch=64, hidden=(32, 32), vae_hidden=(32, 32), learning_rate=3e-3)
    state = train("bcq", make_world(data, Normaliser.identity(2)), cfg)
    bounds = np.full(2, -1, np.float32), np.full(2, 1, np.float32)
    found = bcq.policy(plain(state), Space(Normaliser.identity(2), *bounds))
    assert isinstance(found, ChosenPolicy)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("better", [-0.8, 0.8])
def test_the_better_of_two_modes_is_taken_and_never_their_mean(better: float) -> None:
    """Cloning by least squares would act at 0, where no row is."""
    policy = bandit_policy(better)
    s = np.random.default_rng(9).uniform(-0.9, 0.9, (200, 2))
    acted = policy(s, np.random.default_rng(1)).astype(np.float64)
    assert np.abs(acted[:, 0] - better).max() < 0.25
    assert np.abs(acted[:, 1]).max() < 0.25


@pytest.mark.slow
def test_without_a_choice_both_modes_are_acted() -> None:
    """The probe's answer is the choice's doing: one sample instead of a hundred takes either mode."""
    alone = replace(bandit_policy(0.8), samples=1)
    acted = alone(np.random.default_rng(9).uniform(-0.9, 0.9, (200, 2)), np.random.default_rng(1))[:, 0]
    assert min((acted > 0.3).mean(), (acted < -0.3).mean()) > 0.2

"""RAMBO: its equations against float64 loops, who learns from whom, what it imagines, and a problem with an answer."""

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from algo_cases import A, S, batch_of, joined, net, plain, q_of, random_net, small_world
from teaching import same, taught_by

from stacq.algos import rambo
from stacq.algos.algorithm import Sizes
from stacq.algos.ensemble_fit import best_first, best_members, bootstrap_rows
from stacq.algos.imagined import (
    Imagined,
    Surroundings,
    advantage,
    fitting_rows,
    imagined_step,
    random_actions,
    rollouts,
    split_rows,
    surroundings,
)
from stacq.algos.settings import preset
from stacq.algos.soft import actor_loss, clone_loss, critic_loss, glorot, soft_target, temperature_loss
from stacq.algos.world import World, pack_rows
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Float64s
from stacq.data.maze import maze_dataset
from stacq.envs.termination import ends, never
from stacq.nn.gaussian_ensemble import (
    GaussianEnsemble,
    init_gaussian_ensemble,
    likelihood_loss,
    predicted,
    squared_errors,
)
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.pool import empty_pool
from stacq.policies import Space
from stacq.tabular.maze import load

KEY = jax.random.key(7)
ROWS = (0, 4, 6, 8, 9, 4)  # the end of the task is among them, twice
CFG = rambo.Config(
    batch=len(ROWS),
    hidden=(7, 6),
    model_hidden=(6, 5),
    members=3,
    elites=2,
    rollouts=4,
    rollout_every=3,
    rollout_length=2,
    model_steps=4,
)
CLOSE: dict[str, Any] = {"rtol": 5e-5, "atol": 5e-6}
LOG_2PI = float(np.log(2 * np.pi))


@cache
def world() -> World:
    """A body that has fallen where its first number is below -1.5."""
    rng, found = np.random.default_rng(1), small_world()
    ending = never(S)._replace(low=np.array([-1.5, -np.inf, -np.inf], np.float32))
    near = Surroundings(
        training=np.array([0, 1, 2, 3, 4, 5, 7, 8, 9, 10], np.int32),
        held_out=np.array([6], np.int32),
        input_mean=rng.normal(size=S + A).astype(np.float32),
        input_scale=rng.uniform(0.5, 2, S + A).astype(np.float32),
        mean=rng.normal(0, 0.3, S).astype(np.float32),
        scale=rng.uniform(0.5, 2, S).astype(np.float32),
        ending=ending,
    )
    return replace(found, prepared=jax.tree.map(jnp.asarray, near))


@cache
def state() -> rambo.State:
    """Fresh, but with a pool of rows that could be told from those of the data."""
    fresh = rambo.init(jax.random.key(0), Sizes(S, A), CFG)
    rows = np.random.default_rng(2).normal(size=fresh.pool.table.shape).astype(np.float32)
    rows[:, -1] = rows[:, -1] > 0.5
    return fresh._replace(pool=fresh.pool._replace(table=jnp.asarray(rows), size=jnp.asarray(len(rows), jnp.int32)))


def networks(seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return random_net(rng, (S, 7, 6, 2 * A)), random_net(rng, (S + A, 7, 6, 1), 3)


def normals(*shape: int, seed: int = 4) -> Float64s:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(np.float64)


def drawn(actor: Any, s: Any, noise: Float64s) -> tuple[Float64s, float]:
    """An action of the policy from its standard normals, and its log density by the change of variables."""
    told = net(actor, s)
    mean, log_std = told[:A], np.clip(told[A:], -20, 2)
    u = mean + np.exp(log_std) * noise
    a = np.tanh(u)
    log_pi = sum(
        -0.5 * e * e - ls - 0.5 * LOG_2PI - np.log(1 - x * x) for e, ls, x in zip(noise, log_std, a, strict=True)
    )
    return a, float(log_pi)


def least(critic: Any, *parts: Any) -> float:
    return min(q_of(critic, member, *parts) for member in range(3))


def test_the_critics_target_and_loss() -> None:
    (actor, critic), batch, noise = networks(), batch_of(world(), ROWS), normals(len(ROWS), A)
    wanted = []
    for row in range(len(ROWS)):
        a, log_pi = drawn(actor, batch.s_next[row], noise[row])
        soft = least(critic, batch.s_next[row], a) - np.exp(-0.7) * log_pi
        wanted.append(float(batch.r[row]) + 0.9 * (1 - float(batch.done[row])) * soft)
    y = jax.jit(soft_target)(critic, actor, jnp.asarray(-0.7), batch, jnp.asarray(noise, jnp.float32), 0.9)
    np.testing.assert_allclose(y, wanted, **CLOSE)
    loss, told = jax.jit(critic_loss)(critic, batch, y)
    q = [[q_of(critic, m, batch.s[row], batch.a[row]) for row in range(len(ROWS))] for m in range(3)]
    half = sum(0.5 * np.mean([(one - goal) ** 2 for one, goal in zip(each, wanted, strict=True)]) for each in q)
    np.testing.assert_allclose([loss, told["q"], told["target"]], [half, np.mean(q), np.mean(wanted)], **CLOSE)


def test_the_policys_loss_and_the_entropys() -> None:
    (actor, critic), batch, noise = networks(), batch_of(world(), ROWS), normals(len(ROWS), A)
    values, logs = [], []
    for row in range(len(ROWS)):
        a, log_pi = drawn(actor, batch.s[row], noise[row])
        values.append(least(critic, batch.s[row], a))
        logs.append(log_pi)
    loss, told = jax.jit(actor_loss)(actor, critic, jnp.asarray(-0.7), batch, jnp.asarray(noise, jnp.float32))
    wanted = np.mean([np.exp(-0.7) * log_pi - q for log_pi, q in zip(logs, values, strict=True)])
    found = [loss, told["q_policy"], told["entropy"]]
    np.testing.assert_allclose(found, [wanted, np.mean(values), -np.mean(logs)], **CLOSE)
    weight, more = temperature_loss(jnp.asarray(-0.7), told["entropy"], A)
    np.testing.assert_allclose([weight, more["alpha"]], [-0.7 * (-np.mean(logs) + A), np.exp(-0.7)], **CLOSE)


def test_too_little_entropy_raises_its_weight() -> None:
    slope = jax.grad(lambda log_alpha, entropy: temperature_loss(log_alpha, entropy, A)[0])
    assert slope(0.0, -A - 1.0) < 0 < slope(0.0, -A + 1.0)


def test_cloning_is_by_likelihood_of_actions_within_the_bounds() -> None:
    (actor, _), batch = networks(), batch_of(world(), ROWS)
    batch = batch._replace(a=batch.a.at[2, 1].set(1.0).at[3, 0].set(-1.0))
    wanted = []
    for row in (0, 1, 4, 5):
        told, a = net(actor, batch.s[row]), np.asarray(batch.a[row], np.float64)
        mean, log_std = told[:A], np.clip(told[A:], -20, 2)
        noise = (np.arctanh(a) - mean) / np.exp(log_std)
        wanted.append(-drawn(actor, batch.s[row], noise)[1])
    both = jax.jit(jax.value_and_grad(clone_loss, has_aux=True))
    (loss, _), slope = both(actor, batch)
    np.testing.assert_allclose(loss, np.mean(wanted), **CLOSE)
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(slope))
    assert both(actor, batch._replace(a=jnp.ones_like(batch.a)))[0][0] == 0


def test_the_advantage_is_standardised_and_ends_with_the_task() -> None:
    r, after, q = normals(5), normals(5, seed=5), normals(5, seed=6)
    over = np.array([False, True, False, False, True])
    raw = [r[i] + (0.0 if over[i] else 0.9 * after[i]) - q[i] for i in range(5)]
    wanted = [(each - np.mean(raw)) / np.std(raw) for each in raw]
    given = [jnp.asarray(each, jnp.float32) for each in (r, over, after, q)]
    found = advantage(given[0], given[1], given[2], given[3], 0.9)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def members_by_hand(model: GaussianEnsemble, x: Any) -> list[tuple[Float64s, Float64s]]:
    """Mean and log variance of every member at one input."""
    found = []
    low, high = (np.asarray(each, np.float64) for each in (model.low, model.high))
    for member in range(model.members):
        values = np.asarray(x, np.float64)
        for layer, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
            values = values / (1 + np.exp(-values)) if layer else values
            values = values @ np.asarray(weight[member], np.float64) + np.asarray(bias[member], np.float64)
        raw = high - np.log1p(np.exp(high - values[1 + S :]))
        found.append((values[: 1 + S], low + np.log1p(np.exp(raw - low))))
    return found


def raw_input(s: Any, a: Any) -> Float64s:
    near = world().prepared
    return (joined(s, a) - np.asarray(near.input_mean, np.float64)) / np.asarray(near.input_scale, np.float64)


@cache
def imagined() -> tuple[jax.Array, Imagined]:
    """Many states, and a step from each."""
    (actor, critic), s = networks(), jnp.asarray(normals(200, S), jnp.float32)
    elites = rambo.elites_of(state().model.network, CFG)
    return s, jax.jit(imagined_step)(elites, actor, critic, s, world(), KEY, 0.9)


@pytest.mark.slow
def test_an_imagined_step_is_a_draw_of_one_elite() -> None:
    """Its noise is taken back out of what it gives: for one of the elites, standard normals are left."""
    (actor, critic), (s, step) = plain(networks(), imagined())
    elites = plain(rambo.elites_of(state().model.network, CFG))
    k_noise, _ = jax.random.split(KEY)
    noise = np.asarray(jax.random.normal(k_noise, (200, A + 1 + S)), np.float64)
    near, met, raw = plain(world().prepared), list[int](), list[float]()
    for row in range(200):
        a, _ = drawn(actor, s[row], noise[row, :A])
        np.testing.assert_allclose(step.x[row], raw_input(s[row], a), rtol=2e-4, atol=2e-4)
        told = members_by_hand(elites, step.x[row])
        left = [(np.asarray(step.y[row]) - mean) / np.exp(log / 2) - noise[row, A:] for mean, log in told]
        met.append(int(np.argmin([np.abs(each).max() for each in left])))
        assert np.abs(left[met[-1]]).max() < 1e-3
        s_next = np.asarray(s[row], np.float64) + np.asarray(step.y[row, 1:], np.float64)
        np.testing.assert_allclose(step.s_next[row], s_next, **CLOSE)
        over = float(np.asarray(near.mean)[0] + np.asarray(near.scale)[0] * s_next[0]) <= -1.5
        assert bool(step.over[row]) == over
        after = least(critic, s_next, np.tanh(net(actor, s_next)[:A]))
        raw.append(float(step.y[row, 0]) + (0 if over else 0.9 * after) - least(critic, s[row], a))
    np.testing.assert_allclose(step.advantage, (np.array(raw) - np.mean(raw)) / np.std(raw), rtol=2e-3, atol=2e-3)
    assert 0.35 < np.mean(met) < 0.65 and 0 < np.asarray(step.over).mean() < 1


def test_the_adversarys_loss() -> None:
    """lambda mean A log (mean of the elites' densities), and the likelihood of all members."""
    model = state().model.network
    step = jax.tree.map(lambda each: each[: len(ROWS)], imagined()[1])
    x, y = fitting_rows(world(), jnp.asarray([[0, 3], [5, 7], [2, 2]]))
    terms = []
    for row in range(len(ROWS)):
        goal, densities = np.asarray(step.y[row], np.float64), []
        for mean, log in members_by_hand(model, step.x[row])[: CFG.elites]:
            densities.append(
                np.prod(np.exp(-((goal - mean) ** 2) / (2 * np.exp(log))) / np.sqrt(2 * np.pi * np.exp(log)))
            )
        terms.append(float(step.advantage[row]) * np.log(np.mean(densities)))
    own = float(jax.jit(likelihood_loss)(model, x, y))
    both = jax.jit(jax.value_and_grad(rambo.adversarial_loss, has_aux=True))
    (loss, told), _ = both(model, step, x, y, replace(CFG, adversary=0.25))
    np.testing.assert_allclose([loss, told["against"]], [0.25 * np.mean(terms) + own, np.mean(terms)], rtol=1e-4)
    assert told["likelihood_loss"] == pytest.approx(own, rel=1e-5)
    _, nothing = both(model, step, x, y, replace(CFG, adversary=0.0))
    assert not any(np.asarray(each).any() for each in jax.tree.leaves(nothing))


def test_model_rows_are_inputs_and_what_follows() -> None:
    x, y = fitting_rows(world(), jnp.asarray([3, 8]))
    batch = batch_of(world(), [3, 8])
    for row in range(2):
        np.testing.assert_allclose(x[row], raw_input(batch.s[row], batch.a[row]), **CLOSE)
        step = np.asarray(batch.s_next[row], np.float64) - np.asarray(batch.s[row], np.float64)
        np.testing.assert_allclose(y[row], joined([batch.r[row]], step), **CLOSE)


@pytest.mark.slow
def test_half_of_a_batch_is_imagined() -> None:
    batch = batch_of(world(), ROWS)
    for ratio, real in ((0.5, 3), (1 / 6, 1)):
        found = jax.jit(rambo.mixed)(batch, state().pool, world(), KEY, replace(CFG, real_ratio=ratio))
        assert found.row.tolist() == [*ROWS[:real], *[-1] * (len(ROWS) - real)]
        assert all(np.array_equal(own[:real], data[:real]) for own, data in zip(found, batch, strict=True))
        table = {tuple(row) for row in np.asarray(state().pool.table).tolist()}
        for row in range(real, len(ROWS)):
            own = np.concatenate([np.asarray(part[row]).reshape(-1) for part in found[1:]])
            assert tuple(own.tolist()) in table


STEPS = 3


def known_model() -> GaussianEnsemble:
    """Two members without chance: each moves all numbers by -0.4 and pays its own number."""
    fresh = init_gaussian_ensemble(jax.random.key(0), 2, S + A, (), 1 + S)
    biases = np.zeros((2, 2 * (1 + S)), np.float32)
    biases[:, 1 : 1 + S], biases[1, 0] = -0.4, 1.0
    still = jnp.full(1 + S, -60.0)
    return GaussianEnsemble((jnp.zeros_like(fresh.weights[0]),), (jnp.asarray(biases),), still, still)


@pytest.mark.slow
def test_branches_go_on_until_they_end() -> None:
    count = 100
    roll = jax.jit(partial(rollouts, count=count, length=STEPS, act=random_actions))
    pool = roll(empty_pool(count * STEPS, 2 * S + A + 2), known_model(), world=world(), key=KEY)
    rows = world().rows.split(pool.table[: int(pool.size)])
    near, starts = world().prepared, {tuple(row) for row in np.asarray(world().rows.all.s).tolist()}
    assert {tuple(row) for row in np.asarray(rows.s[:count]).tolist()} <= starts
    np.testing.assert_allclose(rows.s_next - rows.s, -0.4, atol=1e-5)
    raw = np.asarray(near.mean + near.scale * rows.s_next)
    np.testing.assert_array_equal(np.asarray(rows.done), ends(plain(near.ending), raw))
    assert np.asarray(rows.done).sum() > 0
    first = 0
    alive = ~np.asarray(rows.done[:count], bool)
    for _ in range(STEPS - 1):  # the rows of a step follow those of the step before, without the branches that ended
        last = np.asarray(rows.s_next)[first : first + len(alive)][alive]
        first += len(alive)
        np.testing.assert_array_equal(np.asarray(rows.s)[first : first + len(last)], last)
        alive = ~np.asarray(rows.done[first : first + len(last)], bool)
    assert first + len(alive) == int(pool.size) < count * STEPS
    paid = np.asarray(rows.r).round(3)
    assert set(paid.tolist()) == {0.0, 1.0} and (paid[:count] == 1).sum() == count / 2
    assert np.abs(np.asarray(rows.a)).max() <= 1 and np.asarray(rows.a).std() > 0.3


def test_random_actions_are_uniform() -> None:
    found = np.sort(np.asarray(random_actions(jnp.zeros(1), jnp.asarray(normals(2000, 1), jnp.float32)))[:, 0])
    assert np.abs(found - np.linspace(-1, 1, 2000)).max() < 0.08


def test_every_member_has_a_resample_of_its_own() -> None:
    total, members = 50, 3
    seen = [np.asarray(bootstrap_rows(jax.random.key(k), members, 400, total)) for k in range(2)]
    for member in range(members):
        own = [set(each[member].tolist()) for each in seen]
        assert own[0] == own[1] and max(own[0]) < total and 0.45 < len(own[0]) / total < 0.8  # 63 % in the mean
    assert len({frozenset(each.tolist()) for each in seen[0]}) == members


def test_the_best_of_every_member_is_kept_and_elites_come_first() -> None:
    now, best = (init_gaussian_ensemble(jax.random.key(k), 3, 2, (4,), 1) for k in range(2))
    chosen = best_members(jnp.asarray([True, False, True]), now, best)
    for member, wanted in enumerate((now, best, now)):
        assert np.array_equal(chosen.weights[0][member], wanted.weights[0][member])
    adam = optax.adam(1e-3)
    learner = new_learner(now, adam)._replace(target=best)
    fit = state().fit._replace(error=jnp.asarray([3.0, 1.0, 2.0]))
    settled, fit = best_first((learner, fit), CFG)
    assert fit.error.tolist() == [1, 2, 3]
    for member, old in enumerate((1, 2, 0)):
        assert np.array_equal(settled.network.weights[0][member], best.weights[0][old])
    assert same(settled.moments, adam.init(best))


@cache
def fit_once() -> Any:
    return jax.jit(rambo.fit_model)


@pytest.mark.slow
def test_fitting_stops_where_nothing_improves_and_ends_in_the_best() -> None:
    """With a single row held out and one batch per epoch every step is judged."""
    now, errors, before = state(), [], state()
    for step in range(CFG.model_steps):
        now, told = fit_once()(before := now, batch_of(world(), ROWS), world(), jax.random.key(step), CFG)
        x, y = fitting_rows(world(), world().prepared.held_out)
        errors.append(np.asarray(squared_errors(now.model.network, x, y)))
        assert np.isfinite(list(told.values())).all()
    np.testing.assert_allclose(squared_errors(now.model.network, x, y), now.fit.error, rtol=1e-4)
    assert (np.diff(now.fit.error) >= 0).all() and (now.fit.error <= np.min(errors[:-1], axis=0).max() + 1e-6).all()
    tired = before._replace(
        fit=before.fit._replace(stale=jnp.asarray(CFG.patience + 1, jnp.int32), steps=before.fit.steps * 0)
    )
    after, _ = fit_once()(tired, batch_of(world(), ROWS), world(), KEY, CFG)
    assert same(after.model, tired.model) and int(after.fit.steps) == 1


STILL = replace(CFG, learning_rate=0.0, actor_rate=0.0)


@pytest.mark.slow
def test_who_learns_from_whom() -> None:
    """Rollouts are not due at this step, so the model teaches nobody but itself: the pool is what it is."""
    now = state()._replace(clock=jnp.asarray(1, jnp.int32))
    assert taught_by(rambo.fit_model, STILL, now, world()) == {
        "model": {"model.network"},
        "actor": set(),
        "critic": set(),
        "temperature": set(),
    }
    assert taught_by(rambo.clone, STILL, now, world())["actor"] == {"actor.network"}
    assert taught_by(rambo.update, STILL, now, world()) == {
        "model": {"model.network", "actor.network", "critic.network"},
        "actor": {"actor.network", "critic.network", "temperature.network"},
        "critic": {"critic.network", "critic.target", "actor.network", "temperature.network"},
        "temperature": {"actor.network"},
    }


@cache
def updated(due: bool = True) -> tuple[rambo.State, rambo.State]:
    """Before and after a step; rollouts are due at the third, sixth ... one."""
    before = state()._replace(clock=jnp.asarray(3 if due else 4, jnp.int32))
    after, _ = jax.jit(rambo.update)(before, batch_of(world(), ROWS), world(), KEY, CFG)
    return before, after


@pytest.mark.slow
def test_rollouts_are_made_when_they_are_due() -> None:
    before, after = updated()
    assert int(after.clock) == 4 and not same(before.pool, after.pool)
    before, after = updated(due=False)
    assert int(after.clock) == 5 and same(before.pool, after.pool)


@pytest.mark.slow
def test_chains_go_on_or_begin_again() -> None:
    """A chain has two steps here; one that fell begins anew."""
    _, after = updated()
    near = world().prepared
    over = np.asarray(ends(near.ending, near.mean + near.scale * after.chain.s))
    assert after.chain.age.tolist() == np.where(over, 0, 1).tolist()
    again, _ = jax.jit(rambo.update)(after, batch_of(world(), ROWS), world(), KEY, CFG)
    assert (np.asarray(again.chain.age)[~over] == 0).all()


def test_a_step_changes_no_type() -> None:
    """A weak one would compile every program twice."""
    fresh = jax.eval_shape(lambda: rambo.init(KEY, Sizes(S, A), CFG))
    for update in (rambo.fit_model, rambo.clone, rambo.update):
        then = jax.eval_shape(update, fresh, batch_of(world(), ROWS), world(), KEY, CFG)[0]
        for ours, theirs in zip(jax.tree.leaves(fresh), jax.tree.leaves(then), strict=True):
            assert (ours.shape, ours.dtype, ours.weak_type) == (theirs.shape, theirs.dtype, theirs.weak_type)


def test_without_weight_the_agent_learns_alone() -> None:
    last = [rambo.phases(replace(CFG, adversary=weight))[-1].updates for weight in (0.0, 1e-4)]
    assert last == [(rambo.update_agent,), (rambo.update,)]
    assert rambo.phases(replace(CFG, adversary=np.array([0.0, 1e-4])))[-1].updates == (rambo.update,)  # type: ignore[arg-type]
    assert [len(rambo.phases(replace(CFG, clone=clone))) for clone in (True, False)] == [3, 2]


ARMS = 400


def bandit() -> World:
    """One step, a reward of 1 whatever is done; nobody ever did anything above 0."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=(ARMS, 1))
    rows = pack_rows(s, rng.uniform(-1, 0, (ARMS, 1)), 1 + rng.normal(0, 0.1, ARMS), s, np.ones(ARMS))
    every = np.arange(ARMS, dtype=np.int32)
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    near = Surroundings(every[40:], every[:40], np.zeros(2), np.ones(2), zero, one, never(1))
    yes = jnp.ones(ARMS, bool)
    return World(rows, jnp.asarray(every), yes, yes, None, None, prepared=jax.tree.map(jnp.asarray, near))


@pytest.mark.slow
def test_the_adversary_lowers_values_where_data_is_missing() -> None:
    """Both actions are tried equally often; the likelihood holds the model where there are rows, and only there."""
    cfg = replace(CFG, batch=64, adversary=0.5, learning_rate=3e-3)
    rng, arms, adam = np.random.default_rng(1), bandit(), optax.adam(3e-3)
    critic, actor = random_net(rng, (2, 4, 1), 2), random_net(rng, (1, 4, 2))
    critic = jax.tree.map(jnp.zeros_like, critic)
    actor = jax.tree.map(jnp.zeros_like, actor)

    def one(model: Learner[Any], key: jax.Array, against: bool) -> Learner[Any]:
        k_rows, k_s, k_step = jax.random.split(key, 3)
        x, y = fitting_rows(arms, arms.prepared.training[jax.random.randint(k_rows, (3, 64), 0, ARMS - 40)])
        step = imagined_step(
            rambo.elites_of(model.network, cfg), actor, critic, jax.random.normal(k_s, (64, 1)), arms, k_step, 0.9
        )
        weight: Any = jnp.where(against, 0.5, 1e-9)
        return descend(
            model, lambda net: rambo.adversarial_loss(net, step, x, y, replace(cfg, adversary=weight)), adam
        )[0]

    @jax.jit
    def run(model: Learner[Any], key: jax.Array, against: bool) -> Learner[Any]:
        return jax.lax.scan(lambda now, key: (one(now, key, against), None), model, jax.random.split(key, 600))[0]

    def rewards(model: Learner[Any]) -> tuple[float, float]:
        s = jnp.linspace(-1, 1, 20)[:, None]
        told = [
            predicted(
                rambo.elites_of(model.network, cfg), jnp.broadcast_to(jnp.concatenate([s, s * 0 + a], 1), (2, 20, 2))
            )
            for a in (-0.5, 0.7)
        ]
        return float(told[0].mean[..., 0].mean()), float(told[1].mean[..., 0].mean())

    fitted = run(
        new_learner(init_gaussian_ensemble(jax.random.key(0), 3, 2, (16, 16), 2), adam), jax.random.key(1), False
    )
    moved = run(fitted, jax.random.key(2), True)
    (dense, missing), (dense_then, missing_then) = rewards(fitted), rewards(moved)
    assert abs(dense - 1) < 0.05 and abs(dense_then - dense) < 0.1
    assert missing_then < missing - 0.5


def test_the_split_and_the_scales_are_of_rows_with_a_successor() -> None:
    training, held_out = split_rows(np.arange(30, 80), "")
    assert len(held_out) == 5 and sorted([*training, *held_out]) == list(range(30, 80))
    assert len(split_rows(np.arange(50_000), "")[1]) == 1000
    with pytest.raises(InputError, match="1 rows have a known successor"):
        split_rows(np.arange(1), "mine")


def test_what_is_prepared_knows_the_units_and_the_ending() -> None:
    dataset, said = maze_dataset(load("stitching"), copies=1), list[str]()
    normaliser = Normaliser.fit(dataset.observations)
    space = Space(normaliser, dataset.action_low.astype(np.float32), dataset.action_high.astype(np.float32))
    near = surroundings(dataset, space, CFG, said.append)
    seen = normaliser.apply(dataset.observations)
    np.testing.assert_allclose(near.mean + near.scale * seen, dataset.observations, atol=1e-5)
    assert not said and near.ending.inside
    inputs = (np.concatenate([seen, dataset.actions], axis=1)[near.training] - near.input_mean) / near.input_scale
    np.testing.assert_allclose([inputs.mean(axis=0), inputs.std(axis=0)], [[0] * 4, [1] * 4], atol=1e-3)
    other = surroundings(replace(dataset, name="mine"), space, CFG, said.append)
    assert len(said) == 1 and "never ends" in said[0] and not other.ending.inside


def test_networks_begin_as_keras_has_them() -> None:
    network = glorot(random_net(np.random.default_rng(0), (4, 6)))
    before = random_net(np.random.default_rng(0), (4, 6))
    np.testing.assert_allclose(network.weights[0], before.weights[0] * np.sqrt(4) * np.sqrt(6 / 10), rtol=1e-6)
    assert not np.asarray(network.biases[0]).any()


@pytest.mark.parametrize(
    ("dataset", "length", "weight", "steps"),
    [
        ("hopper-random-v2", 2, 3e-4, 195_000),
        ("hopper-medium-v2", 5, 3e-4, 195_000),
        ("hopper-medium-replay-v2", 2, 3e-4, 78_000),
        ("hopper-medium-expert-v2", 5, 3e-4, 390_000),
        ("walker2d-random-v2", 5, 0, 195_000),
        ("walker2d-medium-v2", 5, 0, 195_000),
        ("walker2d-medium-replay-v2", 5, 0, 59_000),
        ("walker2d-medium-expert-v2", 2, 3e-4, 390_000),
        ("halfcheetah-random-v2", 5, 0, 195_000),
        ("halfcheetah-medium-v2", 5, 3e-4, 195_000),
        ("halfcheetah-medium-replay-v2", 5, 3e-4, 39_000),
        ("halfcheetah-medium-expert-v2", 5, 3e-4, 390_000),
    ],
)
def test_published_settings_of_bodies(dataset: str, length: int, weight: float, steps: int) -> None:
    config = preset(rambo.ALGORITHM, dataset).config
    assert (config.rollout_length, config.adversary, config.clone_steps) == (length, weight, steps)
    assert config.clone and not config.random_rollouts


@pytest.mark.parametrize(
    ("maze", "weight", "random"),
    [
        ("umaze", 3e-4, False),
        ("umaze-diverse", 0, True),
        ("medium-play", 0, True),
        ("medium-diverse", 0, True),
        ("large-play", 3e-4, True),
        ("large-diverse", 0, True),
    ],
)
def test_published_settings_of_antmazes(maze: str, weight: float, random: bool) -> None:
    found = preset(rambo.ALGORITHM, f"antmaze-{maze}-v0")
    assert (found.config.adversary, found.config.random_rollouts, found.config.clone) == (weight, random, False)
    assert found.config.rollout_length == 5
    assert found.shown.normalise and found.shown.reward_shift == -1


def test_rewards_where_imagined_steps_pass_the_goal() -> None:
    """No rule ends them there. So being at the goal is worth 0, and every other step costs 1."""
    assert preset(rambo.ALGORITHM, "stacq/pointmaze-umaze-v0").shown.reward_shift == -1


def test_the_other_published_settings() -> None:
    config = preset(rambo.ALGORITHM, "hopper-medium-v2").config
    assert (config.steps, config.batch, config.hidden, config.critics) == (2_000_000, 256, (256, 256), 2)
    assert (config.model_hidden, config.members, config.elites, config.patience) == ((200,) * 4, 7, 5, 10)
    assert (config.rollouts, config.rollout_every, config.rounds_kept, config.real_ratio) == (50_000, 1000, 5, 0.5)
    assert (config.learning_rate, config.actor_rate, config.discount, config.tau) == (3e-4, 1e-4, 0.99, 0.005)
    assert config.tune_entropy and config.entropy_weight == 1


def test_the_saved_policy_takes_the_networks_mean() -> None:
    one = Normaliser(np.array([0.5, 0, -1], np.float32), np.array([2, 1, 0.5], np.float32))
    space = Space(one, np.array([-1, -2], np.float32), np.array([1, 0], np.float32))
    actor, _ = networks()
    acting = rambo.policy(state()._replace(actor=Learner(actor, None, None)), space)
    seen = normals(4, S)
    for row in seen:
        share = np.tanh(net(actor, (row - one.mean) / one.scale)[:A])
        wanted = space.action_low + (share + 1) / 2 * (space.action_high - space.action_low)
        np.testing.assert_allclose(acting(row, np.random.default_rng(0)), wanted, rtol=1e-5, atol=1e-6)
    value = rambo.value(state(), jnp.asarray(seen, jnp.float32), world(), CFG)
    now = state()
    told = [
        min(q_of(now.critic.network, m, row, np.tanh(net(now.actor.network, row)[:A])) for m in range(2))
        for row in seen
    ]
    np.testing.assert_allclose(value, told, **CLOSE)

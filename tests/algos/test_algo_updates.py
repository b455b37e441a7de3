"""Updates are pure functions of state, batch and key: seeds do not meet, chunks leave no trace, schedules hold."""

import signal
import threading
from collections import deque
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import A, S, batch_of, random_net, small_world
from teaching import same, strange, strange_state, taught_by, taught_by_moved

from stacq import algos
from stacq.algos import bc, onestep, stacq, td3bc
from stacq.algos.algorithm import Sizes
from stacq.algos.common import overflow_of
from stacq.algos.pairs import draw_pairs
from stacq.nn.learner import Learner, follow
from stacq.training import loop
from stacq.training.loop import Carry, advance, chance, init_states, per_seed, seed_keys, zero_sums

STEPS, RATE, TAU = 9, 3e-3, 0.1
TINY: dict[str, Any] = {"hidden": (8,), "batch": 16, "steps": STEPS, "learning_rate": RATE}
CONFIGS: dict[str, Any] = {
    "stacq": stacq.Config(**TINY, critics=2, slots=16, tau=TAU),
    "onestep-stacq": onestep.Config(**TINY, slots=16, tau=TAU),
    "td3bc": td3bc.Config(**TINY, tau=TAU),
    "bc": bc.Config(**TINY),
}
MODULES: dict[str, Any] = {"stacq": stacq, "onestep-stacq": onestep, "td3bc": td3bc, "bc": bc}
ADVANCE = jax.jit(advance, static_argnames="updates")


@cache
def started(name: str, seeds: tuple[int, ...]) -> Any:
    return _starter(name)(jnp.asarray(seeds))


@cache
def _starter(name: str) -> Any:
    return jax.jit(lambda seeds: init_states(algos.find(name), seeds, Sizes(S, A), CONFIGS[name]))


@cache
def trained(name: str, seeds: tuple[int, ...], turns: tuple[int, ...], alphas: tuple[float, ...] = (1.0, 1.0)) -> Any:
    """Every seed's state after chunks of so many turns in every phase, and the sums of the metrics.

    One program per algorithm, phase and number of seeds serves all tests.
    """
    world, numbers, cfg = small_world(sizes=[3] * 12), jnp.asarray(seeds), CONFIGS[name]
    if name != "bc":
        cfg = replace(cfg, alpha=jnp.asarray(alphas[: len(seeds)], jnp.float32))
    state, sums = started(name, seeds), dict[str, Any]()
    for phase in algos.find(name).phases(CONFIGS[name]):
        carry = Carry(state, zero_sums(phase.updates, state, world, numbers, cfg), jnp.asarray(0, jnp.int32))
        for count in turns:
            carry = ADVANCE(carry, world, numbers, cfg, updates=phase.updates, turns=count)
        assert int(carry.step) == sum(turns) * len(phase.updates)
        state, sums = carry.state, {**sums, **carry.sums}
    return state, sums


def of_seed(tree: Any, place: int) -> Any:
    return jax.tree.map(lambda each: np.asarray(each[place]), tree)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_is_decided_by_its_seed_and_config_alone(name: str) -> None:
    """Bit for bit: however it is cut into chunks, whoever its companions are, and whatever their configs."""
    ours = trained(name, (3, 5), (7,))
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(ours))
    jax.tree.map(np.testing.assert_array_equal, ours, trained(name, (3, 5), (3, 4)))
    jax.tree.map(np.testing.assert_array_equal, of_seed(ours, 1), of_seed(trained(name, (5, 8), (7,)), 0))
    assert not same(of_seed(ours[0], 0), of_seed(ours[0], 1))
    if name != "bc":
        mixed, others = (trained(name, (3, 5), (7,), alphas) for alphas in ((1.0, 4.0), (4.0, 4.0)))
        jax.tree.map(np.testing.assert_array_equal, of_seed(mixed, 0), of_seed(ours, 0))
        jax.tree.map(np.testing.assert_array_equal, of_seed(mixed, 1), of_seed(others, 1))
        assert not same(of_seed(mixed[0], 1), of_seed(ours[0], 1))


def test_draws_made_beforehand_are_those_of_each_step() -> None:
    """On a GPU the number of turns is known when the program is made; the run is the same."""
    world, seeds, cfg = small_world(sizes=[3] * 12), jnp.asarray((3, 5)), CONFIGS["bc"]
    updates = 2 * algos.find("bc").phases(cfg)[0].updates
    state = started("bc", (3, 5))
    start = Carry(state, zero_sums(updates, state, world, seeds, cfg), jnp.asarray(4, jnp.int32))
    known = jax.jit(advance, static_argnames=("updates", "turns"))
    ours = known(start, world, seeds, cfg, updates=updates, turns=3)
    theirs = ADVANCE(start, world, seeds, cfg, updates=updates, turns=3)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize(
    ("cores", "turns"),
    [
        pytest.param(1, 7, marks=pytest.mark.slow),
        pytest.param(2, 1, marks=pytest.mark.slow),
        (2, 2),
        (2, 7),
        (4, 7),
        (8, 7),
    ],
)
def test_cores_that_share_the_seeds_change_nothing(cores: int, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit what each of three seeds does alone, with a setting of its own; never in the caller's thread."""
    monkeypatch.setattr(loop, "available_cores", lambda: cores)
    world, seeds, updates = (
        small_world(sizes=[3] * 12),
        (3, 5, 8),
        algos.find("td3bc").phases(CONFIGS["td3bc"])[0].updates,
    )
    cfg = replace(CONFIGS["td3bc"], alpha=jnp.asarray((1.0, 4.0, 2.0)))
    asked: list[tuple[int, int, int]] = []

    def program(carry: Carry, world: Any, seed: Any, cfg: Any, updates: Any, turns: int) -> Any:
        asked.append((int(seed[0]), turns, threading.get_ident()))
        return ADVANCE(carry, world, seed, cfg, updates=updates, turns=turns)

    def start(chosen: tuple[int, ...]) -> Carry:
        state, numbers = started("td3bc", chosen), jnp.asarray(chosen)
        return Carry(state, zero_sums(updates, state, world, numbers, CONFIGS["td3bc"]), jnp.asarray(0, jnp.int32))

    found = loop.by_cores(program, start(seeds), world, jnp.asarray(seeds), cfg, updates, turns)
    assert int(found.step) == turns * len(updates)
    for place, seed in enumerate(seeds):
        mine = replace(cfg, alpha=cfg.alpha[place])
        alone = ADVANCE(start((seed,)), world, jnp.asarray((seed,)), mine, updates=updates, turns=turns)
        jax.tree.map(np.testing.assert_array_equal, of_seed(found.state, place), of_seed(alone.state, 0))
        jax.tree.map(np.testing.assert_array_equal, of_seed(found.sums, place), of_seed(alone.sums, 0))
    parts = {(2, 2): 2, (2, 7): 2}.get((cores, turns), 1)
    assert sorted((seed, count) for seed, count, _ in asked) == sorted(
        (seed, count) for seed in seeds for count in loop.even_parts(turns, parts)
    )
    assert threading.get_ident() not in {each[2] for each in asked}


def test_what_goes_wrong_on_a_core_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "available_cores", lambda: 2)
    world, seeds = small_world(sizes=[3] * 12), jnp.asarray((3, 5))
    state = started("bc", (3, 5))

    def program(carry: Carry, world: Any, seed: Any, *_: Any) -> Carry:
        if int(seed[0]) == 5:
            raise MemoryError("no room for seed 5")
        return carry

    with pytest.raises(MemoryError, match="seed 5"):
        loop.by_cores(program, Carry(state, {}, jnp.asarray(0)), world, seeds, CONFIGS["bc"], (), 4)


def test_an_interrupt_waits_for_no_thread() -> None:
    """The threads end with what they are at; nothing is begun any more."""
    todo, begun, free = deque(range(100)), list[int](), threading.Event()

    def work() -> None:
        while todo:
            begun.append(todo.popleft())
            free.wait(30)

    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        loop.in_threads(work, 2, give_up=todo.clear)
    free.set()
    assert len(begun) == 2 and not todo


@pytest.mark.parametrize(("whole", "count"), [(1, 1), (7, 2), (8, 4), (5, 5), (1000, 7)])
def test_parts_are_even(whole: int, count: int) -> None:
    parts = loop.even_parts(whole, count)
    assert len(parts) == count and sum(parts) == whole and max(parts) - min(parts) <= 1 and min(parts) > 0


def test_chance_is_the_same_for_many_steps_and_seeds_at_once() -> None:
    world, keys, steps = small_world(), seed_keys(jnp.asarray((3, 5))), jnp.arange(7)
    at_once = jax.vmap(lambda key: jax.vmap(lambda step: chance(world, key, step, 8))(steps))(keys)
    for k, key in enumerate(keys):
        for step in range(len(steps)):
            alone = chance(world, key, jnp.asarray(step), 8)
            np.testing.assert_array_equal(at_once.rows[k, step], alone.rows)
            assert jax.random.key_data(at_once.key[k, step]).tolist() == jax.random.key_data(alone.key).tolist()


@pytest.mark.parametrize(
    "name", ["bc", *(pytest.param(each, marks=pytest.mark.slow) for each in ("stacq", "onestep-stacq", "td3bc"))]
)
def test_a_seed_alone_is_the_same_up_to_rounding(name: str) -> None:
    """Sums are formed in another order for another number of seeds; one digit in seven."""
    alone, among = trained(name, (5,), (7,)), trained(name, (3, 5), (7,))
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6),
        of_seed(alone, 0),
        of_seed(among, 1),
    )


def test_one_number_or_one_for_each_seed() -> None:
    cfg = per_seed(stacq.Config(alpha=jnp.asarray([1.0, 2.0, 3.0])), jnp.arange(3))  # type: ignore[arg-type]
    assert cfg.alpha.tolist() == [1, 2, 3] and cfg.tau.shape == (3,) and len(set(cfg.tau.tolist())) == 1
    assert cfg.batch == 256 and cfg.pairs == "cross"


def test_the_same_seed_starts_the_same_whatever_the_others() -> None:
    for name in CONFIGS:
        jax.tree.map(
            np.testing.assert_array_equal, of_seed(started(name, (3, 5)), 1), of_seed(started(name, (5, 8)), 0)
        )


def test_slow_copies_follow_by_the_rate() -> None:
    rng = np.random.default_rng(0)
    fast, slow = random_net(rng, (3, 4, 1), 2), random_net(rng, (3, 4, 1), 2)
    found = follow(Learner(fast, slow, None), 0.2)
    assert found.target is not None
    for moved, ours, theirs in zip(found.target.weights, fast.weights, slow.weights, strict=True):
        np.testing.assert_allclose(moved, 0.2 * np.asarray(ours) + 0.8 * np.asarray(theirs), rtol=1e-5, atol=1e-7)
    jax.tree.map(np.testing.assert_array_equal, found.network, fast)


def learners(state: Any) -> dict[str, Learner[Any]]:
    return {name: learner for name, learner in state._asdict().items() if learner.target is not None}


@pytest.mark.parametrize(("name", "which"), [("stacq", {"actor", "critic"}), ("onestep-stacq", {"critic"})])
def test_every_step_moves_the_slow_copies(name: str, which: set[str]) -> None:
    before, once, twice = started(name, (3, 5)), trained(name, (3, 5), (1,))[0], trained(name, (3, 5), (1, 1))[0]
    assert set(learners(once)) == which
    for part in which:
        first, second, third = (learners(each)[part] for each in (before, once, twice))
        moved = np.asarray(first.network.weights[0]) * (1 - TAU) + np.asarray(second.network.weights[0]) * TAU
        again = moved * (1 - TAU) + np.asarray(third.network.weights[0]) * TAU
        assert second.target is not None and third.target is not None
        np.testing.assert_allclose(second.target.weights[0], moved, atol=1e-6)
        np.testing.assert_allclose(third.target.weights[0], again, atol=1e-6)


def steps_of(learner: Learner[Any]) -> int:
    """How many updates Adam has counted."""
    counts = [each for each in jax.tree.leaves(learner.moments) if each.dtype == jnp.int32]
    assert len({int(count.ravel()[0]) for count in counts}) == 1
    return int(counts[0].ravel()[0])


def test_td3bc_moves_actor_and_slow_copies_every_second_step() -> None:
    assert td3bc.phases(td3bc.Config(steps=10))[0].updates == (td3bc.update_critic, td3bc.update)
    assert td3bc.phases(td3bc.Config(steps=9, actor_every=3))[0].updates == (td3bc.update_critic,) * 2 + (td3bc.update,)
    before, after = started("td3bc", (3, 5)), trained("td3bc", (3, 5), (1,))[0]
    assert (steps_of(after.critic), steps_of(after.actor)) == (2, 1)
    for part, learner in learners(after).items():
        old, new = learners(before)[part].network, learner.network
        moved = np.asarray(old.biases[0]) * (1 - TAU) + np.asarray(new.biases[0]) * TAU
        assert learner.target is not None
        np.testing.assert_allclose(learner.target.biases[0], moved, atol=1e-6)  # once, not twice
    world, state = small_world(), of_seed(before, 0)
    half, _ = jax.jit(td3bc.update_critic)(state, batch_of(world, range(8)), world, jax.random.key(0), CONFIGS["td3bc"])
    jax.tree.map(np.testing.assert_array_equal, half.actor, state.actor)
    jax.tree.map(np.testing.assert_array_equal, half.critic.target, state.critic.target)
    assert not same(half.critic.network, state.critic.network)


@pytest.mark.parametrize("module", [stacq, onestep])
def test_the_actors_rate_falls_along_a_cosine_to_zero(module: Any) -> None:
    """Adam moves by the rate itself while the gradient stays the same."""
    optimiser = module.actor_optimiser(module.Config(steps=20, learning_rate=0.5))
    gradient, found = jnp.ones(()), []
    moments = optimiser.init(gradient)
    step = jax.jit(optimiser.update)
    for _ in range(25):
        update, moments = step(gradient, moments)
        found.append(-float(update))
    wanted = [0.5 * 0.5 * (1 + np.cos(np.pi * min(count, 20) / 20)) for count in range(25)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert found[0] == pytest.approx(0.5, rel=1e-5) and found[20:] == [0.0] * 5


def moves(part: str, turns: int) -> float:
    """The largest move of a bias in the last of so many turns of StaCQ."""
    last = trained("stacq", (3, 5), (turns,))[0]
    before = trained("stacq", (3, 5), (turns - 1,))[0] if turns > 1 else started("stacq", (3, 5))
    ours, theirs = (np.asarray(getattr(each, part).network.biases[0]) for each in (last, before))
    return float(np.abs(ours - theirs).max())


def test_only_the_actors_rate_falls() -> None:
    """The first step of Adam is its rate, whatever the gradient; later ones are of that order."""
    for part in ("actor", "critic", "reward"):
        assert moves(part, 1) == pytest.approx(RATE, rel=0.05)
    # The cosine leaves 3 percent of the actor's rate to the last of nine steps, and nothing after it.
    assert 0 < moves("actor", STEPS) < 0.06 * RATE and moves("actor", STEPS + 1) == 0
    assert moves("critic", STEPS + 1) > 0.2 * RATE and moves("reward", STEPS + 1) > 0.2 * RATE


# By algorithm and update: which networks the gradient of each may depend on, before anything has moved.
TAUGHT_BY: dict[tuple[str, str], dict[str, set[str]]] = {
    ("stacq", "update"): {
        "reward": {"reward.network"},
        "critic": {"critic.network", "critic.target", "actor.target", "reward.network"},
        "actor": {"actor.network", "critic.network"},
    },
    ("onestep-stacq", "update_critic"): {
        "reward": {"reward.network"},
        "critic": {"critic.network", "critic.target", "reward.network"},
        "actor": set(),
    },
    ("onestep-stacq", "update"): {
        "reward": set(),
        "critic": set(),
        "actor": {"actor.network", "critic.network", "reward.network"},
    },
    ("td3bc", "update_critic"): {"critic": {"critic.network", "critic.target", "actor.target"}, "actor": set()},
    ("td3bc", "update"): {
        "critic": {"critic.network", "critic.target", "actor.target"},
        "actor": {"actor.network", "critic.network"},
    },
    ("bc", "update"): {"actor": {"actor.network"}},
}
# Whose gradient must be taken at networks that others have just moved in the same update.
TAUGHT_BY_NEW: dict[tuple[str, str], set[str]] = {
    ("stacq", "update"): {"critic", "actor"},
    ("onestep-stacq", "update_critic"): {"critic"},
    ("td3bc", "update"): {"actor"},
}


def first_state(name: str) -> Any:
    return jax.tree.map(lambda each: each[0], started(name, (3,)))


@pytest.mark.parametrize(("name", "update"), TAUGHT_BY)
def test_each_network_learns_from_those_of_the_algorithm_and_no_others(name: str, update: str) -> None:
    step, state, still = getattr(MODULES[name], update), first_state(name), replace(CONFIGS[name], learning_rate=0.0)
    assert taught_by(step, still, state) == TAUGHT_BY[name, update]
    for extra in (3, 0):  # without extra states, nothing but the loss itself can tell a new critic from an old one
        changed = taught_by_moved(step, CONFIGS[name], state, small_world(sizes=[extra] * 12))
        assert changed == TAUGHT_BY_NEW.get((name, update), set())


@pytest.mark.parametrize(("name", "update"), [taught for taught in TAUGHT_BY if "reward" in TAUGHT_BY[taught]])
def test_where_rewards_are_those_of_rows_nothing_knows_of_a_model(name: str, update: str) -> None:
    state = strange_state(first_state(name), np.random.default_rng(6))
    other = state.reward._replace(network=strange(state.reward.network, np.random.default_rng(7)))
    world, cfg = small_world(sizes=[3] * 12), replace(CONFIGS[name], reward="row")
    batch, step = batch_of(world, (0, 4, 6, 8, 9, 4)), jax.jit(getattr(MODULES[name], update))
    (done, facts), (same_way, _) = (
        step(each, batch, world, jax.random.key(7), cfg) for each in (state, state._replace(reward=other))
    )
    assert same(done.reward, state.reward) and "reward_loss" not in facts
    assert same((done.actor, done.critic), (same_way.actor, same_way.critic))


@pytest.mark.parametrize("slots", [4, 17, 18, 64])
def test_pairs_and_overflows_are_counted(slots: int) -> None:
    extras = small_world(sizes=[3] * 12).extras
    assert extras is not None
    facts = overflow_of(draw_pairs(extras, jnp.arange(6), jax.random.key(1), slots), slots)
    assert (float(facts["pairs"]), float(facts["overflow"])) == (18, float(slots < 18))


@pytest.mark.parametrize("name", ["stacq", "onestep-stacq"])
def test_every_update_with_pairs_reports_them(name: str) -> None:
    world, cfg, key = small_world(), CONFIGS[name], jax.random.key(0)
    state = jax.tree.map(lambda each: each[0], started(name, (3,)))
    for phase in algos.find(name).phases(cfg):
        for update in phase.updates:
            facts = jax.eval_shape(update, state, batch_of(world, (0, 4)), world, key, cfg)[1]
            assert {"pairs", "overflow"} <= set(facts)

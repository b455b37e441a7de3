"""The compiled part: many updates of many seeds in one call, with the data on the device."""

import math
import threading
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stacq.algos.algorithm import Algorithm, Metrics, Sizes, Update
from stacq.algos.world import World, draw_rows, gather
from stacq.core.workers import available_cores


class Carry(NamedTuple):
    """All that a run is, between two chunks; every leaf but `step` has a leading seed axis [K]."""

    state: Any
    sums: Metrics  # of every metric since they were last written down: chunks may be cut anywhere
    step: jax.Array  # updates done


def seed_keys(seeds: jax.Array) -> jax.Array:
    """One random stream per seed, whatever the other seeds are, [K]."""
    return jax.vmap(jax.random.key)(seeds)


def per_seed(cfg: Any, seeds: jax.Array) -> Any:
    """The config with a seed axis on its numbers: a field may hold one value for all seeds, or one for each."""
    return jax.tree.map(lambda value: jnp.broadcast_to(jnp.asarray(value, jnp.float32), seeds.shape), cfg)


def init_states(algorithm: Algorithm, seeds: jax.Array, sizes: Sizes, cfg: Any) -> Any:
    """The initial state of every seed, [K, ...]."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(seed_keys(seeds))
    return jax.jit(jax.vmap(lambda key, cfg: algorithm.init(key, sizes, cfg)))(keys, per_seed(cfg, seeds))


def zero_sums(updates: tuple[Update, ...], state: Any, world: World, seeds: jax.Array, cfg: Any) -> Metrics:
    """Metrics of the right names and shapes, all zero."""

    def facts(state: Any, cfg: Any) -> Metrics:
        key = jax.random.key(0)
        batch = gather(world.rows, draw_rows(world, key, cfg.batch))
        return {name: each for update in updates for name, each in update(state, batch, world, key, cfg)[1].items()}

    found = jax.eval_shape(jax.vmap(facts), state, per_seed(cfg, seeds))
    return {name: jnp.zeros(each.shape, jnp.float32) for name, each in found.items()}


class Chance(NamedTuple):
    """What chance gives a step: the rows of its batch, [B], and a key for the update's own draws."""

    rows: jax.Array
    key: jax.Array


def chance(world: World, key: jax.Array, step: jax.Array, size: int) -> Chance:
    """Depends on the seed's key and the number of the step alone."""
    k_batch, k_update = jax.random.split(jax.random.fold_in(key, step + 1))
    return Chance(draw_rows(world, k_batch, size), k_update)


def advance(
    carry: Carry, world: World, seeds: jax.Array, cfg: Any, updates: tuple[Update, ...], turns: int | jax.Array
) -> Carry:
    """`turns` rounds of `updates`, for all seeds.

    What a step draws depends on its seed and number alone, so a run may be cut into chunks of any length,
    stopped and continued, and still be the same run. Where the number of turns is known beforehand, all batches are
    drawn beforehand, at once: step by step that is several small kernels each time.
    """

    def one(state: Any, sums: Metrics, key: jax.Array, cfg: Any) -> tuple[Any, Metrics]:
        def round_(now: Carry, given: list[Chance]) -> Carry:
            state, sums, step = now
            for update, (rows, k_update) in zip(updates, given, strict=True):
                state, facts = update(state, gather(world.rows, rows), world, k_update, cfg)
                sums = {name: total + facts.get(name, 0.0) for name, total in sums.items()}
            return Carry(state, sums, step + len(updates))

        def given_from(step: jax.Array) -> list[Chance]:
            """For every update of the round that begins at `step`."""
            return [chance(world, key, step + place, cfg.batch) for place in range(len(updates))]

        start = Carry(state, sums, carry.step)
        if isinstance(turns, int):
            beforehand = jax.vmap(given_from)(carry.step + len(updates) * jnp.arange(turns))
            done, _ = jax.lax.scan(lambda now, given: (round_(now, given), None), start, beforehand)
        else:
            done = jax.lax.fori_loop(0, turns, lambda _, now: round_(now, given_from(now.step)), start)
        return done.state, done.sums

    state, sums = _over_seeds(one)(carry.state, carry.sums, seed_keys(seeds), per_seed(cfg, seeds))
    return Carry(state, sums, carry.step + turns * len(updates))


def _over_seeds(one: Callable[..., Any]) -> Callable[..., Any]:
    """`one` for every seed: all at once on a GPU, which needs the work; in turn on a CPU, whose cache fits one."""
    if jax.default_backend() == "cpu":
        return lambda *arguments: jax.lax.map(lambda each: one(*each), arguments)
    return jax.vmap(one)


@cache
def compiled_advance() -> Callable[..., Carry]:
    """`advance` as a program: for all seeds on a GPU; on a CPU for one at a time, and for several on several cores.

    On a GPU the number of turns is part of the program, which spares a question per turn.
    """
    if jax.default_backend() == "cpu":
        return partial(by_cores, jax.jit(advance, static_argnames="updates", donate_argnames="carry"))
    return jax.jit(advance, static_argnames=("updates", "turns"), donate_argnames="carry")


def by_cores(
    program: Callable[..., Carry],
    carry: Carry,
    world: World,
    seeds: jax.Array,
    cfg: Any,
    updates: tuple[Update, ...],
    turns: int,
) -> Carry:
    """`advance` of every seed by itself, as many at the same time as there are cores.

    Cores that share the products of one small network gain nothing by it; seeds have nothing to share. Each seed's
    turns are cut into as many parts as give every core the same work, and its next part waits behind the other seeds.
    What a seed learns depends on none of this.
    """
    count = len(seeds)
    crew = min(available_cores(), count) if turns > 1 else 1  # a single turn compiles, which is done once
    parts = min(crew // math.gcd(count, crew), turns)
    whole = carry.state, carry.sums, seeds, per_seed(cfg, seeds)
    own = [one_of(whole, place) for place in range(count)]
    carries = [Carry(state, sums, jnp.array(carry.step)) for state, sums, _, _ in own]  # each gives its own up
    todo, left = deque(range(count)), [deque(even_parts(turns, parts)) for _ in range(count)]

    def work() -> None:
        while todo:
            try:
                place = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            _, _, seed, mine = own[place]
            done = program(carries[place], world, seed, mine, updates, left[place].popleft())
            carries[place] = jax.block_until_ready(done)  # type: ignore[no-untyped-call]
            if left[place]:
                todo.append(place)

    in_threads(work, crew, give_up=todo.clear)
    state, sums = together([(each.state, each.sums) for each in carries])
    return Carry(state, sums, carries[0].step)


def in_threads(work: Callable[[], None], count: int, *, give_up: Callable[[], None]) -> None:
    """`work` in so many threads, never in the caller's: JAX keeps settings by thread, and all parts must share them.

    An error of one ends the others through `give_up`, and so does an interrupt of the caller, which waits for none.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            give_up()

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        give_up()
        raise
    if errors:
        raise errors[0]


def even_parts(whole: int, count: int) -> list[int]:
    """`whole` in `count` parts that differ by one at most."""
    return [whole * (place + 1) // count - whole * place // count for place in range(count)]


@jax.jit
def one_of(tree: Any, place: int) -> Any:
    """What belongs to one seed, with a seed axis of one."""
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, place, 1), tree)


@jax.jit
def together(trees: list[Any]) -> Any:
    """The seeds of all trees in one."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)

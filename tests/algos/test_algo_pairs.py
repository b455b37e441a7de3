"""The pair budget: every pair where they fit, an even and unbiased choice where they do not."""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from stacq.algos.pairs import Pairs, _spread_out, best_extra, draw_pairs
from stacq.algos.world import Extras
from stacq.core.types import Array

DRAW = jax.jit(draw_pairs, static_argnums=3)
SPREAD = jax.jit(_spread_out, static_argnums=2)
OFFSET = jax.jit(lambda key, total: jax.random.bits(key) % total.astype(jnp.uint32))
BATCH, ROWS = 6, 9  # one shape, one program


def extras_of(sizes: list[int]) -> Extras:
    """Anchor i has so many extras; no two entries of the flat list name the same row. One shape for all."""
    start, rows = np.cumsum([0, *sizes[:-1]]), np.arange(1000)[::-1]
    flat: list[Any] = [np.array(each, np.int32) for each in (start, sizes, rows)]
    return Extras(flat[0], flat[1], flat[2], np.zeros((1000, 2), np.float32))  # type: ignore[arg-type]


def all_pairs(extras: Extras, index: list[int]) -> list[tuple[int, int]]:
    """(place in the batch, entry) of every pair, in order."""
    found = []
    for place, row in enumerate(index):
        first = int(extras.start[row])
        found += [(place, entry) for entry in range(first, first + int(extras.size[row]))]
    return found


sizes_of_sets = st.lists(st.integers(0, 40), min_size=ROWS, max_size=ROWS)
anchors = st.lists(st.integers(0, ROWS - 1), min_size=BATCH, max_size=BATCH)


@settings(max_examples=150)
@given(sizes=sizes_of_sets, index=anchors, slots=st.sampled_from([1, 7, 16, 64, 240]), seed=st.integers(0, 2**31 - 1))
@example(sizes=[0] * ROWS, index=[0] * BATCH, slots=7, seed=0)
@example(sizes=[1] + [0] * (ROWS - 1), index=[1, 1, 0, 1, 1, 1], slots=1, seed=0)
@example(sizes=[7] + [0] * (ROWS - 1), index=[1, 1, 1, 1, 1, 0], slots=7, seed=0)  # exactly full
@example(sizes=[8] + [0] * (ROWS - 1), index=[0, 1, 1, 1, 1, 1], slots=7, seed=0)  # one too many
def test_pairs_are_all_there_or_evenly_thinned(sizes: list[int], index: list[int], slots: int, seed: int) -> None:
    extras = extras_of(sizes)
    pairs = DRAW(extras, np.array(index, np.int32), jax.random.key(seed), slots)
    wanted = all_pairs(extras, index)
    anchor, entry, weight = (np.asarray(each) for each in (pairs.anchor, pairs.entry, pairs.weight))
    used = anchor < BATCH
    found = list(zip(anchor[used].tolist(), entry[used].tolist(), strict=True))
    assert int(pairs.total) == len(wanted)
    if len(wanted) <= slots:
        assert found == wanted
    else:
        assert len(found) == len(set(found)) == slots and set(found) <= set(wanted)
        assert found == sorted(found, key=wanted.index)
    assert (anchor[~used] == BATCH).all() and (weight[~used] == 0).all()
    np.testing.assert_allclose(weight.sum(dtype=np.float64), len(wanted), rtol=1e-5)
    assert (weight[used] >= 1).all() and len(set(weight[used].tolist())) <= 1
    np.testing.assert_array_equal(np.asarray(pairs.member)[used], np.asarray(extras.rows)[entry[used]])


@pytest.mark.parametrize(("sizes", "slots"), [([5, 0, 9, 3, 0, 0, 0, 0, 0], 7), ([1, 0, 2, 30, 0, 0, 0, 0, 0], 31)])
def test_every_pair_is_kept_equally_often(sizes: list[int], slots: int) -> None:
    """Chi-square over many keys, with the variance of a draw without replacement."""
    extras, index = extras_of(sizes), jnp.asarray([0, 1, 2, 3, 1, 5], jnp.int32)
    keys = jax.random.split(jax.random.key(1), 4000)
    entries = np.asarray(
        jax.jit(jax.vmap(lambda key: draw_pairs(jax.tree.map(jnp.asarray, extras), index, key, slots).entry))(keys)
    )
    total = sum(sizes)
    counts = np.bincount(entries.ravel(), minlength=total)[:total]
    share = slots / total
    expected, variance = 4000 * share, 4000 * share * (1 - share)
    # Kept or not is a coin of the same share for each pair, though neighbours' coins are not independent.
    assert (np.abs(counts - expected) < 5 * np.sqrt(variance)).all()
    assert stats.chi2.sf(((counts - expected) ** 2 / variance).sum(), total - 1) > 1e-4


def test_a_biased_choice_would_be_noticed() -> None:
    """The first ones, or every k-th without a random start, fail the counts above."""
    total, slots = 17, 7
    share = slots / total
    for chosen in (np.arange(slots), np.arange(slots) * total // slots):
        counts = 4000 * np.bincount(chosen, minlength=total)
        assert (np.abs(counts - 4000 * share) >= 5 * np.sqrt(4000 * share * (1 - share))).any()


@settings(max_examples=200)
@given(
    total=st.one_of(st.integers(0, 2**31 - 1), st.integers(2**31 - 300, 2**31 - 1), st.integers(0, 600)),
    slots=st.sampled_from([1, 3, 64, 256, 1000, 4096]),
    seed=st.integers(0, 2**31 - 1),
)
@example(total=2**31 - 1, slots=4096, seed=0)
@example(total=2**31 - 1, slots=1, seed=0)
@example(total=4097, slots=4096, seed=3)
@example(total=4096, slots=4096, seed=3)
def test_places_are_exact_up_to_the_largest_total(total: int, slots: int, seed: int) -> None:
    """Python's integers do not overflow; the places must be those of floor((k total + u) / slots) for one u."""
    key = jax.random.key(seed)
    found = np.asarray(SPREAD(jnp.asarray(total, jnp.int32), key, slots)).tolist()
    if total <= slots:
        assert found == list(range(slots))
        return
    offset = int(OFFSET(key, jnp.asarray(total)))
    assert 0 <= offset < total
    assert found == [(k * total + offset) // slots for k in range(slots)]
    assert found[0] >= 0 and found[-1] < total and all(a < b for a, b in pairwise(found))


def pairs_with(anchor: Array) -> Pairs:
    nothing = jnp.zeros(len(anchor), jnp.int32)
    return Pairs(jnp.asarray(anchor, jnp.int32), nothing, nothing, jnp.ones(len(anchor)), jnp.asarray(len(anchor)))


@settings(max_examples=150)
@given(
    anchor=st.lists(st.integers(0, BATCH), min_size=12, max_size=12),
    values=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0, float("-inf")]), min_size=12, max_size=12),
)
def test_the_best_extra_of_every_anchor(anchor: list[int], values: list[float]) -> None:
    most, slot = jax.jit(best_extra, static_argnums=2)(pairs_with(np.array(anchor)), jnp.asarray(values), BATCH)
    for place in range(BATCH):
        mine = [values[e] for e in range(12) if anchor[e] == place]
        wanted = max(mine, default=-np.inf)
        assert float(most[place]) == wanted
        if np.isfinite(wanted):
            chosen = int(slot[place])
            assert anchor[chosen] == place and values[chosen] == wanted
            assert chosen == min(e for e in range(12) if anchor[e] == place and values[e] == wanted)

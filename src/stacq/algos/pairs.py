"""Reachable pairs of a batch, in a fixed number of slots: how many slots, which pairs, and the best of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos.world import Extras
from stacq.core.types import Ints
from stacq.reach.sets import ReachableSets, extra_sizes


class Pairs(NamedTuple):
    """Reachable pairs of a batch in addition to the own ones, in a fixed number of slots."""

    anchor: jax.Array  # [E] place of the anchor in the batch, B in unused slots
    member: jax.Array  # [E] row whose next state is reachable from it
    entry: jax.Array  # [E] its place in `Extras`
    weight: jax.Array  # [E] 0 in unused slots, above 1 where a pair stands for others that were left out
    total: jax.Array  # pairs there were; more than E is an overflow


def draw_pairs(extras: Extras, index: jax.Array, key: jax.Array, slots: int) -> Pairs:
    """The reachable pairs of the anchors `index`, [B], without the own ones.

    More than `slots` of them are thinned to exactly `slots`: every k-th from a random start, so that each pair is
    kept with the same probability and none twice, and counts for those left out. Padding every set to the longest
    would waste nearly all work.
    """
    count = extras.size[index]
    ends = _cumulative(count)
    total = ends[-1]
    place = _spread_out(total, key, slots)
    anchor = jnp.searchsorted(ends, place, side="right", method="compare_all")
    used = jnp.arange(slots) < total
    inside = jnp.minimum(anchor, index.shape[0] - 1)
    first = extras.start[index] - (ends - count)
    entry = jnp.where(used, first[inside] + place, 0)
    weight = jnp.where(used, jnp.maximum(total / slots, 1.0), 0.0)
    return Pairs(jnp.where(used, anchor, index.shape[0]), extras.rows[entry], entry, weight, total)


def _cumulative(count: jax.Array) -> jax.Array:
    """Running sums by a dense comparison: at a few hundred numbers it is several times faster on a GPU than a scan."""
    place = jnp.arange(count.shape[0])
    return jnp.where(place[:, None] >= place[None, :], count[None, :], 0).sum(axis=1)


def _spread_out(total: jax.Array, key: jax.Array, slots: int) -> jax.Array:
    """0, 1, 2, ... if `total` fits into the slots, else floor((k total + u) / slots) for k = 0, 1, ..., exactly.

    u is uniform below `total` to within total / 2^32, far less than a batch could show.
    """
    k = jnp.arange(slots, dtype=jnp.uint32)
    whole = total.astype(jnp.uint32)
    offset = jax.random.bits(key) % jnp.maximum(whole, 1)
    thinned = k * (whole // slots) + (k * (whole % slots) + offset) // slots
    return jnp.where(total > slots, thinned, k).astype(jnp.int32)


def best_extra(pairs: Pairs, values: jax.Array, batch: int) -> tuple[jax.Array, jax.Array]:
    """The largest of `values` [E] for each anchor, [B], and its slot; minus infinity for an anchor without pairs.

    A dense comparison: at these sizes it is cheaper than a scatter, and repeats bit for bit on a GPU.
    """
    mine = pairs.anchor[None, :] == jnp.arange(batch)[:, None]  # [B, E]
    masked = jnp.where(mine, values[None, :], -jnp.inf)
    return masked.max(axis=1), masked.argmax(axis=1)


def charged(values: jax.Array, pairs: Pairs, extras: Extras) -> jax.Array:
    """Values or rewards of the own successors and then of the pairs in the slots, [B + E], less what the pairs cost."""
    if extras.prices is None:
        return values
    return values.at[-pairs.entry.shape[0] :].add(-extras.prices[pairs.entry])


def pair_slots(sets: ReachableSets, batch: int, *, seed: int = 0, draws: int = 2000) -> int:
    """The slots, without the own pairs, that 95 of 100 batches need, but no more than the batch; rounded up to 64s.

    What does not fit is thinned without bias (`draw_pairs`), and every slot costs time in every step.
    """
    totals = np.random.default_rng(seed).choice(extra_sizes(sets), size=(draws, batch)).sum(axis=1)
    wanted = min(int(np.quantile(totals, 0.95)), batch)
    return max(-(-wanted // 64), 1) * 64


def own_only(sets: ReachableSets) -> ReachableSets:
    """The same with every set reduced to the own successor: what does reachability itself buy?"""
    keep = sets.anchors == sets.indices
    counts = np.bincount(sets.anchors[keep], minlength=len(sets))
    indptr: Ints = np.concatenate([[0], np.cumsum(counts)])
    return ReachableSets(indptr, sets.indices[keep], {**sets.config, "own_only": True}, sets.parents, sets.facts)

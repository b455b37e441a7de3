"""The box join's search on an accelerator, in plain JAX: tiles of 32 boxes by 32 points, one bit per pair.

Two rounds of the same comparison. The first asks which leaves of the tree the common bounds of 32 neighbouring
boxes meet, the second which points of such a leaf are in which of the boxes. Both answer in words of 32 bits,
few enough to be unpacked on the host, so that no shape on the device depends on the number of hits.

Coordinates travel as integers of the same order, because XLA takes tiny (subnormal) floats for zero.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Array, Float32s, Ints
from stacq.reach.join_tree import Tree, Uint32s

WORD = 32  # bits, and points in a leaf
BOXES = 32  # boxes in a tile
TILES = 1 << 15  # tiles compared in one call, at most
LEAST, GREATEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max


@jax.jit
def ordered(bits: jax.Array) -> jax.Array:
    """Integers that compare like the floats with these bits: both zeros become 0, and NaN comes last."""
    mirrored = (bits ^ GREATEST) + (bits == LEAST).astype(jnp.int32)
    return jnp.where(bits < 0, mirrored, bits)


def keys(floats: Float32s) -> jax.Array:
    found: jax.Array = ordered(jnp.asarray(floats.view(np.int32)))
    return found


def meeting(least: jax.Array, greatest: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Bits of the intervals least..greatest [D, ..., WORD] that meet low..high [D, ..., 1] in every dimension.

    The loop over dimensions is unrolled: XLA makes one kernel of it, and no array of D truths per pair exists.
    """
    met = (greatest[0] >= low[0]) & (least[0] <= high[0])
    for d in range(1, len(low)):
        met &= (greatest[d] >= low[d]) & (least[d] <= high[d])
    return jnp.sum(met.astype(jnp.uint32) << jnp.arange(WORD, dtype=jnp.uint32), axis=-1, dtype=jnp.uint32)


@jax.jit
def leaf_bounds(points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Least and greatest coordinates of the leaves, in words: each [D, 1, leaves / WORD, WORD]."""
    least, greatest = points.min(axis=2).T, points.max(axis=2).T
    shape = len(least), 1, -1, WORD
    return least.reshape(shape), greatest.reshape(shape)


@jax.jit
def leaf_words(bounds: tuple[jax.Array, jax.Array], low: jax.Array, high: jax.Array) -> jax.Array:
    """Which leaves the common bounds of each group of boxes [groups, D, BOXES] meet: [groups, leaves / WORD]."""
    low, high = low.min(axis=2).T, high.max(axis=2).T
    return meeting(*bounds, low[:, :, None, None], high[:, :, None, None])


@jax.jit
def point_words(points: jax.Array, low: jax.Array, high: jax.Array, group: jax.Array, leaf: jax.Array) -> jax.Array:
    """Which points of the leaf are in which boxes of the group, for each tile: [tiles, BOXES]."""
    x = jnp.moveaxis(points[leaf], 1, 0)[:, :, None, :]  # [D, tiles, 1, WORD]
    low, high = (jnp.moveaxis(face[group], 1, 0)[:, :, :, None] for face in (low, high))
    return meeting(x, x, low, high)


def unpacked(words: Uint32s) -> tuple[Ints, Ints]:
    """Row and bit number of every set bit in words [rows, n], row by row."""
    flat = np.flatnonzero(words.reshape(-1) != 0)
    octets = words.reshape(-1)[flat].astype("<u4").view(np.uint8).reshape(-1, 4)
    which, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    row, word = np.divmod(flat[which], words.shape[1])
    return row, word * WORD + bit


class Searcher:
    """Holds the points on the device; called with boxes, it answers like `join_cpu.search`."""

    def __init__(self, tree: Tree) -> None:
        self._dims, self._ids = tree.dims, tree.ids
        words = max(1, -(-len(tree.blocks) // WORD))
        self._points = keys(_padded(tree.blocks, words * WORD, np.nan))
        self._bounds = leaf_bounds(self._points)

    def __call__(self, low: Float32s, high: Float32s) -> tuple[Ints, Uint32s]:
        faces = self._groups(low, np.inf), self._groups(high, -np.inf)
        hits = np.concatenate([np.zeros(0, dtype=np.int64), *self._hits(*faces)])
        hits.sort()
        indptr = np.searchsorted(hits, np.arange(len(low) + 1) << 32)
        return indptr, hits.astype(np.uint32)

    def _groups(self, face: Float32s, filler: float) -> jax.Array:
        """[groups, D, BOXES], with boxes added that hold nothing: few shapes mean few compilations."""
        filled = _padded(face[:, self._dims], BOXES * _power(2, -(-len(face) // BOXES)), filler)
        return keys(np.ascontiguousarray(filled.reshape(-1, BOXES, face.shape[1]).swapaxes(1, 2)))

    def _hits(self, low: jax.Array, high: jax.Array) -> Iterator[Ints]:
        """Box number in the upper half and point number in the lower half of each integer, in no order."""
        group, leaf = unpacked(np.asarray(leaf_words(self._bounds, low, high)))
        for i in range(0, len(group), TILES):
            g, l = group[i : i + TILES], leaf[i : i + TILES]
            tiles = [_padded(x.astype(np.int32), _power(WORD, len(g)), 0) for x in (g, l)]
            words = np.asarray(point_words(self._points, low, high, *tiles))[: len(g)]
            slot, bit = unpacked(words.reshape(-1, 1))
            tile, box = np.divmod(slot, BOXES)
            yield (g[tile] * BOXES + box << 32) + self._ids[l[tile], bit]


def _padded(array: Array, length: int, filler: float) -> Array:
    extra = np.full((length - len(array), *array.shape[1:]), filler, dtype=array.dtype)
    return np.concatenate([array, extra])


def _power(base: int, n: int) -> int:
    """The smallest power of `base` that is at least n."""
    power = 1
    while power < n:
        power *= base
    return power

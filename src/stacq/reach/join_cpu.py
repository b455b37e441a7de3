"""The box join's tree, and its search on the CPU. Import this module late: importing numba costs most of a second.

The k-d tree's leaves hold exactly LEAF points each (the last one fewer). Nodes stand in preorder, so a search
needs no stack: from a node it goes into it (the next node) or past it (`node + skip[node]`). A leaf keeps its
points dimension by dimension: a vector instruction compares many at once, and a failed dimension saves
reading the rest. Indices are unsigned: numba tests every signed one for being negative.
"""

import numba
import numpy as np

from stacq.core.types import Float32s, Ints
from stacq.reach.join_tree import LEAF, Tree, Uint32s, compiled, parallel, prange

SLOTS = 32  # hits kept while counting; a box with more is searched twice

BITS = np.uint32(1) << np.arange(LEAF, dtype=np.uint32)
NONE = np.uint32(0)


@parallel
def locate(split: Uint32s, pivot: Float32s, skip: Uint32s, leaf: Uint32s, low: Float32s, high: Float32s) -> Uint32s:
    """A leaf near the middle of each box: boxes in this order read the same parts of the tree in turn."""
    near = np.zeros(len(low), dtype=np.uint32)
    for i in prange(len(low)):
        node = np.int64(0)
        while len(skip) > 0 and skip[node] > 1:
            d = split[node]
            right = low[i, d] / 2 + high[i, d] / 2 > pivot[node]
            node += np.int64(1 + skip[node + 1] if right else 1)
        near[i] = leaf[node] if len(leaf) > 0 else NONE
    return near


def visiting_order(tree: Tree, low: Float32s, high: Float32s) -> Ints:
    near = locate(tree.split, tree.pivot, tree.skip, tree.leaf, low, high)
    return np.argsort(near, kind="stable")


@compiled
def overlaps(bounds: Float32s, node: np.uint64, low: Float32s, high: Float32s) -> bool:
    d, dims = np.uint64(0), np.uint64(len(low))
    while d < dims and bounds[node, d, 0] <= high[d] and bounds[node, d, 1] >= low[d]:
        d += np.uint64(1)
    return bool(d == dims)


@compiled
def inside(blocks: Float32s, leaf: np.uint32, low: Float32s, high: Float32s) -> np.uint32:
    """A bit for each of the leaf's points, set if the point is in the box.

    Bits come from a table and every step is cast back to 32 bits: only then are all points compared at once.
    """
    mask = np.uint32(0xFFFFFFFF)
    for d in range(np.uint32(len(low))):
        least, greatest, passed = low[d], high[d], NONE
        for k in range(np.uint32(LEAF)):
            x = blocks[leaf, d, k]
            passed = np.uint32(passed | (BITS[k] if (x >= least) & (x <= greatest) else NONE))
        mask = np.uint32(mask & passed)
        if mask == 0:
            break
    return mask


@compiled
def keep(mask: np.uint32, ids: Uint32s, found: Uint32s, count: int) -> int:
    """Append the row numbers whose bits are set, as far as there is room; return the new count."""
    for k in range(np.uint32(LEAF)):
        if mask & BITS[k]:
            if count < len(found):
                found[count] = ids[k]
            count += 1
    return count


@compiled
def collect(tree: Tree, low: Float32s, high: Float32s, found: Uint32s) -> int:
    """Write the points of one box, as many as there is room for, and return how many there are."""
    blocks, ids, bounds, skip, leaf = tree.blocks, tree.ids, tree.bounds, tree.skip, tree.leaf
    count, node = 0, np.uint64(0)
    while node < np.uint64(len(skip)):
        if not overlaps(bounds, node, low, high):
            node += np.uint64(skip[node])
            continue
        if skip[node] == 1:
            mask = inside(blocks, leaf[node], low, high)
            if mask:
                count = keep(mask, ids[leaf[node]], found, count)
        node += np.uint64(1)
    return count


@parallel
def count_hits(cores: int, tree: Tree, low: Float32s, high: Float32s, slots: Uint32s, counts: Ints) -> None:
    """Count each box's hits and keep the first of them in its slots.

    Boxes are dealt out one by one: neighbours cost alike, so equal stretches would not be equal work.
    """
    for core in prange(cores):
        for i in range(core, len(low), cores):
            counts[i] = collect(tree, low[i], high[i], slots[i])


@parallel
def write_hits(
    cores: int, tree: Tree, low: Float32s, high: Float32s, slots: Uint32s, indptr: Ints, indices: Uint32s
) -> None:
    """Take each box's hits from its slots, or search again where they did not fit, and sort them."""
    for core in prange(cores):
        for i in range(core, len(low), cores):
            row = indices[indptr[i] : indptr[i + 1]]
            if len(row) <= slots.shape[1]:
                row[:] = slots[i, : len(row)]
            else:
                collect(tree, low[i], high[i], row)
            row.sort()


def search(tree: Tree, low: Float32s, high: Float32s) -> tuple[Ints, Uint32s]:
    """The hits of each box in CSR form; boxes that are near should be next to each other in the order."""
    low, high = (np.ascontiguousarray(face[:, tree.dims]) for face in (low, high))
    cores = numba.get_num_threads()
    slots = np.empty((len(low), SLOTS), dtype=np.uint32)
    indptr = np.zeros(len(low) + 1, dtype=np.int64)
    count_hits(cores, tree, low, high, slots, indptr[1:])
    indptr.cumsum(out=indptr)
    indices = np.empty(indptr[-1], dtype=np.uint32)
    write_hits(cores, tree, low, high, slots, indptr, indices)
    return indptr, indices


def count(tree: Tree, low: Float32s, high: Float32s) -> Ints:
    """The number of hits of each box, none of which is kept."""
    low, high = (np.ascontiguousarray(face[:, tree.dims]) for face in (low, high))
    counts = np.zeros(len(low), dtype=np.int64)
    count_hits(numba.get_num_threads(), tree, low, high, np.empty((len(low), 0), dtype=np.uint32), counts)
    return counts


@parallel
def scatter(rows: Ints, start: Ints, part: Uint32s, indptr: Ints, indices: Ints) -> None:
    """Copy the rows of a part to their places in the whole."""
    for i in prange(len(rows)):
        indices[indptr[rows[i]] : indptr[rows[i] + 1]] = part[start[i] : start[i + 1]]

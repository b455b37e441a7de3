"""The tree of the box join, and how numba compiles the loops over it. Import it late, as numba itself."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from stacq.core.types import Float32s, Float64s, Ints

Tasks = Ints  # [n, 3] a node, its first leaf, the leaf after its last


Function = TypeVar("Function", bound=Callable[..., object])

Uint32s = NDArray[np.uint32]

LEAF = 32  # points in a leaf, and bits in the mask that says which of them are in a box

SAMPLE = 128  # points that stand for all of a node when its splitting dimension is chosen

prange = numba.prange


def compiled(function: Function, **options: Any) -> Function:
    """`numba.njit`, cached on disk where that is possible (a read-only installation has no such place)."""
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(Function, numba.njit(**options)(function))


def parallel(function: Function) -> Function:
    """Compiled, with the `prange` loops spread over the cores."""
    return compiled(function, parallel=True)


class Tree(NamedTuple):
    """Points in leaf order. The D axes of `blocks` and `bounds` stand in the order in which they are tested."""

    dims: Ints  # [D] the dimension behind each axis, the most selective first
    blocks: Float32s  # [leaves, D, LEAF] points; NaN, which is in no box, fills up the last leaf
    ids: Uint32s  # [leaves, LEAF] row numbers of the points
    bounds: Float32s  # [nodes, D, 2] least and greatest coordinate in the subtree
    skip: Uint32s  # [nodes] nodes in the subtree
    leaf: Uint32s  # [nodes] the first leaf of the subtree
    split: Uint32s  # [nodes] the dimension that separates the children
    pivot: Float32s  # [nodes] the left child lies at or below it, the right child at or above


def build(points: Float32s, widths: Float64s) -> Tree:
    """Split at medians until a leaf is left, always where the points spread widest in units of box widths."""
    scale = 1 / np.maximum(widths, np.finfo(np.float32).tiny)
    leaves = -(-len(points) // LEAF)
    skip, leaf, split = (np.zeros(max(0, 2 * leaves - 1), dtype=np.uint32) for _ in range(3))
    pivot = np.zeros(len(skip), dtype=np.float32)
    ids = np.arange(len(points), dtype=np.uint32)
    keys = np.empty(len(points), dtype=np.float32)
    tasks = np.array([[0, 0, leaves]] if leaves else np.empty((0, 3)), dtype=np.int64)
    while len(tasks):
        node, first, end = tasks.T
        skip[node], leaf[node] = 2 * (end - first) - 1, first
        tasks = tasks[end - first > 1]
        split_nodes(points, scale, tasks, ids, keys, split, pivot)
        tasks = children(tasks)
    dims = np.argsort(-_spread(points) * scale, kind="stable")
    blocks = fill_leaves(points, dims, ids)
    rows = np.zeros((leaves, LEAF), dtype=np.uint32)
    rows.reshape(-1)[: len(ids)] = ids
    return Tree(dims, blocks, rows, fill_bounds(blocks, skip, leaf), skip, leaf, split, pivot)


def _spread(points: Float32s) -> Float64s:
    sample = points[:: max(1, len(points) // 10_000)].astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite coordinates have no spread, and sort last
        return sample.std(axis=0) if len(sample) else np.zeros(points.shape[1])


def children(tasks: Tasks) -> Tasks:
    node, first, end = tasks.T
    middle = (first + end) // 2
    left = np.stack([node + 1, first, middle], axis=1)
    return np.concatenate([left, np.stack([node + 2 * (middle - first), middle, end], axis=1)])


@compiled
def select(keys: Float32s, ids: Uint32s, first: int, last: int, place: int) -> None:
    """Quickselect among first..last: afterwards nothing before `place` exceeds anything from there on."""
    random = np.uint32(12345)
    while first < last:
        random = np.uint32(random * np.uint32(1664525) + np.uint32(1013904223))
        pivot = keys[first + (np.int64(random) * (last - first) >> 32)]
        i, j = first, last
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                ids[i], ids[j] = ids[j], ids[i]
                i, j = i + 1, j - 1
        if place <= j:
            last = j
        elif place >= i:
            first = i
        else:
            return


@compiled
def widest(points: Float32s, ids: Uint32s, scale: Float64s) -> int:
    """The dimension in which a sample of these points has the largest variance, in units of boxes."""
    step = max(1, len(ids) // SAMPLE)
    best, dimension = 0.0, 0
    for d in range(points.shape[1]):
        total, squares, count = 0.0, 0.0, 0
        for i in range(0, len(ids), step):
            offset = (np.float64(points[ids[i], d]) - points[ids[0], d]) * scale[d]
            total += offset
            squares += offset * offset
            count += 1
        variance = squares - total * total / count
        if variance > best:
            best, dimension = variance, d
    return dimension


@parallel
def split_nodes(
    points: Float32s,  # [M, D]
    scale: Float64s,  # [D] one over the typical width of a box
    tasks: Tasks,
    ids: Uint32s,  # [M], rearranged
    keys: Float32s,  # [M], scratch
    split: Uint32s,
    pivot: Float32s,
) -> None:
    """Split each node in the middle, so that whole leaves stand on both sides."""
    for t in prange(len(tasks)):
        node, first, end = tasks[t]
        start, middle, stop = first * LEAF, (first + end) // 2 * LEAF, min(end * LEAF, len(ids))
        d = widest(points, ids[start:stop], scale)
        for i in range(start, stop):
            keys[i] = points[ids[i], d]
        select(keys, ids, start, stop - 1, middle)
        split[node], pivot[node] = d, keys[middle]


@parallel
def fill_leaves(points: Float32s, dims: Ints, ids: Uint32s) -> Float32s:
    blocks = np.full((-(-len(ids) // LEAF), len(dims), LEAF), np.nan, dtype=np.float32)
    for leaf in prange(len(blocks)):
        for k in range(min(LEAF, len(ids) - leaf * LEAF)):
            for d in range(len(dims)):
                blocks[leaf, d, k] = points[ids[leaf * LEAF + k], dims[d]]
    return blocks


@compiled
def fill_bounds(blocks: Float32s, skip: Uint32s, leaf: Uint32s) -> Float32s:
    """Least and greatest coordinates, children before parents."""
    bounds = np.empty((len(skip), blocks.shape[1], 2), dtype=np.float32)
    for node in range(len(skip) - 1, -1, -1):
        for d in range(blocks.shape[1]):
            if skip[node] == 1:
                bounds[node, d, 0] = np.nanmin(blocks[leaf[node], d])
                bounds[node, d, 1] = np.nanmax(blocks[leaf[node], d])
            else:
                left, right = bounds[node + 1, d], bounds[node + 1 + skip[node + 1], d]
                bounds[node, d, 0] = min(left[0], right[0])
                bounds[node, d, 1] = max(left[1], right[1])
    return bounds

"""The exact box join: all pairs of a box and a point in it, for millions of both."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Array, Float32s, Float64s, Floats, Ints
from stacq.reach.config import Engine

CHUNK = 65_536  # boxes searched at a time: their copies and their hits are all the memory that a query adds
SAMPLE = 10_000  # boxes whose widths stand for all
CELLS = 1 << 24  # comparisons that brute force holds at a time


def box_join(points: Float32s, low: Float32s, high: Float32s, *, engine: Engine = "cpu") -> tuple[Ints, Ints]:
    """All pairs (i, j) with low[i] <= points[j] <= high[i] in every dimension, as `(indptr, indices)`.

    Row i's points are `indices[indptr[i]:indptr[i + 1]]`, ascending. Faces belong to their box, infinite
    faces are welcome, and a box with low > high anywhere holds nothing. Both engines give the same arrays.
    """
    points, low, high = _checked_points(points), *_checked_boxes(low, high, np.shape(points)[-1])
    return BoxIndex(points, widths=typical_widths(low, high), engine=engine).query(low, high)


def typical_widths(low: Float32s, high: Float32s) -> Float64s:
    """The median width of a box in each dimension, from a sample; empty boxes count as flat."""
    step = max(1, len(low) // SAMPLE)
    with np.errstate(invalid="ignore"):  # inf - inf, where both faces are the same infinity
        widths = high[::step].astype(np.float64) - low[::step]
    widths = np.maximum(np.nan_to_num(widths, nan=0.0, posinf=np.inf), 0.0)
    return np.median(widths, axis=0) if len(widths) else np.ones(low.shape[1])


class BoxIndex:
    """A k-d tree over points, built once and asked for the contents of many boxes.

    `widths` [D] says how wide boxes typically are, and decides which dimensions are split: a good guess
    makes queries fast, no guess makes them wrong. The points are copied; the originals are free to go.
    """

    def __init__(self, points: Float32s, *, widths: Floats, engine: Engine = "cpu") -> None:
        from stacq.reach import join_tree

        points = _checked_points(points)
        self.shape = points.shape
        self._tree = join_tree.build(points, _checked_widths(widths, points.shape[1]))
        self._search = _engine(engine, self._tree)

    def query(self, low: Float32s, high: Float32s) -> tuple[Ints, Ints]:
        """`(indptr, indices)` as in `box_join`; several calls with parts of the boxes give parts of the rows."""
        from stacq.reach import join_cpu

        low, high = _checked_boxes(low, high, self.shape[1])
        order = join_cpu.visiting_order(self._tree, low, high)
        chunks = [order[i : i + CHUNK] for i in range(0, len(order), CHUNK)]
        return assemble(chunks, [self._search(low[rows], high[rows]) for rows in chunks])

    def count(self, low: Float32s, high: Float32s) -> Ints:
        """How many points each box holds, [N]: what a query would take, at little cost and by the CPU's engine."""
        from stacq.reach import join_cpu

        low, high = _checked_boxes(low, high, self.shape[1])
        order = join_cpu.visiting_order(self._tree, low, high)
        counts = np.empty(len(low), dtype=np.int64)
        counts[order] = join_cpu.count(self._tree, low[order], high[order])
        return counts


def _engine(name: str, tree: Any) -> Callable[[Float32s, Float32s], tuple[Ints, Array]]:
    if name == "cpu":
        from stacq.reach import join_cpu

        return partial(join_cpu.search, tree)
    if name == "gpu":
        from stacq.reach import join_gpu

        return join_gpu.Searcher(tree)
    raise InputError(f"there is no engine {name!r}", where="box join", expected="'cpu' or 'gpu'")


def assemble(chunks: Sequence[Ints], parts: list[tuple[Ints, Array]]) -> tuple[Ints, Ints]:
    """One CSR pair from those of groups of rows; takes the parts one by one off the list to free their memory."""
    from stacq.reach import join_cpu

    indptr = np.zeros(sum(map(len, chunks)) + 1, dtype=np.int64)
    for rows, (start, _) in zip(chunks, parts, strict=True):
        indptr[rows + 1] = np.diff(start)
    indptr.cumsum(out=indptr)
    indices = np.empty(indptr[-1], dtype=np.int64)
    for rows in reversed(chunks):
        join_cpu.scatter(rows, *parts.pop(), indptr, indices)
    return indptr, indices


def brute_force(points: Float32s, low: Float32s, high: Float32s) -> tuple[Ints, Ints]:
    """The same by comparing everything with everything: the definition, for tests and small data."""
    points, low, high = _checked_points(points), *_checked_boxes(low, high, np.shape(points)[-1])
    step = max(1, CELLS // max(1, points.size))
    counts, indices = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for i in range(0, len(low), step):
        above = points[None] >= low[i : i + step, None]  # [step, M, D]
        within = (above & (points[None] <= high[i : i + step, None])).all(axis=2)
        counts.append(within.sum(axis=1))
        indices.append(np.nonzero(within)[1])
    return np.concatenate(counts).cumsum(), np.concatenate(indices)


def _checked_points(points: Float32s) -> Float32s:
    points = _numbers("points", points)
    if points.shape[1] == 0:
        raise InputError("points have no dimensions", where="box join", expected="[M, D] with D >= 1")
    return points


def _checked_boxes(low: Float32s, high: Float32s, dims: int) -> tuple[Float32s, Float32s]:
    low, high = _numbers("low", low), _numbers("high", high)
    if low.shape != high.shape or low.shape[1] != dims:
        raise InputError(
            f"low has shape {low.shape} and high {high.shape}",
            where="box join",
            expected=f"both [N, {dims}], as the points have {dims} dimensions",
        )
    return low, high


def _checked_widths(widths: Floats, dims: int) -> Float64s:
    checked = np.asarray(widths, dtype=np.float64)
    if checked.shape != (dims,) or not (checked >= 0).all():
        raise InputError(
            f"widths is {checked.tolist()}", where="box join", expected=f"{dims} numbers, none negative and none NaN"
        )
    return checked


def _numbers(name: str, array: Float32s) -> Float32s:
    """A contiguous float32 matrix without NaN. Other types are refused: rounding would move faces and points."""
    array = np.asarray(array)
    if array.dtype != np.float32 or array.ndim != 2:
        raise InputError(
            f"{name} is {array.dtype} with {array.ndim} axes",
            where="box join",
            expected="float32 with 2 axes",
            fix=f"round {name} with .astype(np.float32) where it is made",
        )
    if array.size and np.isnan(array.min()):
        row, column = np.argwhere(np.isnan(array))[0]
        raise InputError(
            f"{name}[{row}, {column}] is NaN",
            where="box join",
            expected="numbers; faces may be infinite",
            fix="leave out the rows without a known state",
        )
    return np.ascontiguousarray(array)

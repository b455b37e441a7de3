"""The box join against brute force and an R-tree, where ties, faces and degenerate data are common."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rtree import index

from stacq.core.errors import InputError
from stacq.core.types import Float32s, Ints
from stacq.reach import join, join_gpu, join_tree
from stacq.reach.config import Engine
from stacq.reach.join import BoxIndex, box_join, brute_force, typical_widths

Problem = tuple[Float32s, Float32s, Float32s]  # points, low, high
Join = tuple[Ints, Ints]

engines = pytest.mark.parametrize("engine", ["cpu", "gpu"])


def assert_same(found: Join, expected: Join) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == np.int64


def rtree_join(points: Float32s, low: Float32s, high: Float32s) -> Join:
    dims = points.shape[1]
    if dims == 1:  # libspatialindex knows no line: put it into a plane
        points, low, high = (np.repeat(x, 2, axis=1) for x in (points, low, high))
    tree = index.Index(properties=index.Property(dimension=max(2, dims)))
    for i, point in enumerate(points.astype(np.float64)):
        tree.insert(i, np.concatenate([point, point]))
    boxes = np.concatenate([low, high], axis=1).astype(np.float64)
    rows = [sorted(tree.intersection(box)) for box in boxes]
    return np.cumsum([0, *map(len, rows)]), np.array([j for row in rows for j in row], dtype=np.int64)


def around(points: Float32s, widths: object, rng: np.random.Generator) -> Problem:
    """A box about every point, and the point not in its middle."""
    low = (points - np.asarray(widths) * rng.uniform(0, 1, points.shape)).astype(np.float32)
    return points, low, np.maximum(points, (low + np.asarray(widths)).astype(np.float32))


def uniform(rng: np.random.Generator, m: int = 700, dims: int = 3, width: float = 0.2) -> Problem:
    return around(rng.uniform(0, 1, (m, dims)).astype(np.float32), width, rng)


def first_boxes(case: Problem, n: int) -> Problem:
    return case[0], case[1][:n], case[2][:n]


def clustered(rng: np.random.Generator) -> Problem:
    centres = rng.normal(0, 3, (9, 1, 11))
    points = (centres + rng.normal(0, 0.1, (9, 150, 11))).reshape(-1, 11).astype(np.float32)
    return around(points, np.geomspace(0.1, 3, 11), rng)


def duplicated(rng: np.random.Generator) -> Problem:
    points, low, high = uniform(rng, m=100)
    return np.repeat(points, 9, axis=0)[rng.permutation(900)], low, high


def on_points(rng: np.random.Generator) -> Problem:
    points = duplicated(rng)[0]
    return points, points, points


def grid(rng: np.random.Generator, m: int, n: int, dims: int) -> Problem:
    """Small whole numbers, so that faces touch points all the time; some boxes are empty."""
    points, low, high = (rng.integers(0, 5, (rows, dims)).astype(np.float32) for rows in (m, n, n))
    return points, low, np.where(rng.random(high.shape) < 0.8, np.maximum(low, high), high)


def touching(rng: np.random.Generator) -> Problem:
    """Half of the boxes end exactly at their point, half one float before it."""
    points, low, high = uniform(rng, m=400)
    high[::2] = points[::2]
    low[1::2] = np.nextafter(points[1::2], np.float32(np.inf))
    return points, low, np.maximum(low, high)


def all_equal(rng: np.random.Generator) -> Problem:
    points = np.full((1000, 5), 0.1, dtype=np.float32)
    return points, *grid(rng, 1, 50, 5)[1:]


def thin_and_wide(rng: np.random.Generator) -> Problem:
    phase = rng.uniform(0, 6, (2000, 1))
    points = np.sin(phase * np.arange(1, 18) + np.arange(17)) + rng.normal(0, 0.01, (2000, 17))
    return around(points.astype(np.float32), np.append(np.geomspace(0.02, 0.2, 8), np.linspace(1, 3, 9)), rng)


REGULAR: dict[str, Callable[[np.random.Generator], Problem]] = {
    "uniform": uniform,
    "clustered": clustered,
    "duplicated": duplicated,
    "flat boxes on points": on_points,
    "touching faces": touching,
    "thin and wide": thin_and_wide,
    "one dimension": lambda rng: uniform(rng, dims=1, width=0.01),
    "thirty dimensions": lambda rng: uniform(rng, dims=30, width=1.4),
    "many hits": lambda rng: uniform(rng, m=600, dims=2, width=1.0),
    "one point": lambda rng: (uniform(rng, m=1)[0], *uniform(rng)[1:]),
    "one box": lambda rng: first_boxes(uniform(rng), 1),
}


def infinite_faces(rng: np.random.Generator) -> Problem:
    points, low, high = uniform(rng, dims=4)
    low[rng.random(low.shape) < 0.5] = -np.inf
    high[rng.random(high.shape) < 0.5] = np.inf
    low[0], high[0] = -np.inf, np.inf
    low[1], high[1] = np.inf, -np.inf
    return points, low, high


def only_empty(rng: np.random.Generator) -> Problem:
    points, low, high = uniform(rng)
    return points, high + 1, low


def infinite_points(rng: np.random.Generator) -> Problem:
    points, low, high = infinite_faces(rng)
    points[rng.random(points.shape) < 0.3] = np.inf
    points[rng.random(points.shape) < 0.3] = -np.inf
    return points, low, high


def subnormal(rng: np.random.Generator) -> Problem:
    """Numbers so small that flushing them to zero would make them all equal; zeros of both signs among them."""
    case = [(x - 2) * np.float32(1e-45) for x in grid(rng, 300, 100, 2)]
    points, low, high = (np.where((x == 0) & (rng.random(x.shape) < 0.5), -x, x) for x in case)
    return points, low, high


IRREGULAR: dict[str, Callable[[np.random.Generator], Problem]] = {
    "all points equal": all_equal,
    "whole numbers": lambda rng: grid(rng, 500, 200, 3),
    "only empty boxes": only_empty,
    "infinite faces": infinite_faces,
    "infinite points": infinite_points,
    "subnormal": subnormal,
    "no boxes": lambda rng: first_boxes(uniform(rng), 0),
    "no points": lambda rng: (uniform(rng)[0][:0], *uniform(rng)[1:]),
    "111 dimensions": lambda rng: uniform(rng, m=40, dims=111, width=1.5),
}


@engines
@pytest.mark.parametrize("name", [*REGULAR, *IRREGULAR])
def test_equals_brute_force(name: str, engine: Engine) -> None:
    case = (REGULAR | IRREGULAR)[name](np.random.default_rng(0))
    assert_same(box_join(*case, engine=engine), brute_force(*case))


@engines
@pytest.mark.parametrize("name", REGULAR)
def test_counts_are_those_of_the_query(name: str, engine: Engine) -> None:
    points, low, high = REGULAR[name](np.random.default_rng(2))
    index = BoxIndex(points, widths=typical_widths(low, high), engine=engine)
    np.testing.assert_array_equal(index.count(low, high), np.diff(index.query(low, high)[0]))


@engines
@pytest.mark.parametrize("name", REGULAR)
def test_equals_an_r_tree(name: str, engine: Engine) -> None:
    case = REGULAR[name](np.random.default_rng(1))
    assert_same(box_join(*case, engine=engine), rtree_join(*case))


def whole(draw: st.DrawFn, rows: int, dims: int) -> Float32s:
    return draw(arrays(np.float32, (rows, dims), elements=st.integers(-2, 3).map(float)))


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    dims = draw(st.integers(1, 4))
    points, n = whole(draw, draw(st.sampled_from([0, 1, 31, 32, 33, 100])), dims), draw(st.integers(0, 12))
    return points, whole(draw, n, dims), whole(draw, n, dims) + draw(st.integers(0, 2))


@engines
@settings(max_examples=40)
@given(case=small_problems())
def test_any_small_problem_with_ties(case: Problem, engine: Engine) -> None:
    assert_same(box_join(*case, engine=engine), brute_force(*case))


@settings(max_examples=40)
@given(st.lists(st.floats(0, np.inf), min_size=3, max_size=3), st.integers(0, 2**32 - 1))
@example([0.0, 0.0, 0.0], 0)
@example([np.inf, np.inf, np.inf], 0)
def test_widths_change_the_tree_but_not_the_answer(widths: list[float], seed: int) -> None:
    points, low, high = grid(np.random.default_rng(seed), 150, 30, 3)
    found = BoxIndex(points, widths=np.array(widths)).query(low, high)
    assert_same(found, brute_force(points, low, high))


@engines
def test_rows_are_sorted_and_unique(engine: Engine) -> None:
    indptr, indices = box_join(*duplicated(np.random.default_rng(2)), engine=engine)
    assert len(indices) > 1000
    within = np.ones(len(indices), dtype=bool)
    within[indptr[:-1][indptr[:-1] < len(indices)]] = False
    assert (np.diff(indices, prepend=-1)[within] > 0).all()


@engines
@pytest.mark.parametrize("chunk", [pytest.param(1, marks=pytest.mark.slow), 7, 100])
def test_chunks_of_boxes_give_the_rows_of_the_whole(
    chunk: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, low, high = uniform(np.random.default_rng(3), m=250)
    tree = BoxIndex(points, widths=typical_widths(low, high), engine=engine)
    indptr, indices = tree.query(low, high)
    parts = [tree.query(low[i : i + chunk], high[i : i + chunk]) for i in range(0, len(low), chunk)]
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), indices)
    np.testing.assert_array_equal(np.concatenate([np.diff(part[0]) for part in parts]), np.diff(indptr))
    monkeypatch.setattr(join, "CHUNK", chunk)
    assert_same(tree.query(low, high), (indptr, indices))


@engines
def test_the_order_of_boxes_does_not_matter(engine: Engine) -> None:
    points, low, high = thin_and_wide(np.random.default_rng(4))
    order = np.random.default_rng(5).permutation(len(low))
    straight, shuffled = (box_join(points, low[rows], high[rows], engine=engine) for rows in (slice(None), order))
    np.testing.assert_array_equal(np.diff(straight[0])[order], np.diff(shuffled[0]))
    for place, i in enumerate(order[:200]):
        ours = shuffled[1][shuffled[0][place] : shuffled[0][place + 1]]
        np.testing.assert_array_equal(ours, straight[1][straight[0][i] : straight[0][i + 1]])


@pytest.mark.parametrize("tiles", [1, 3, 64])
def test_more_tiles_than_fit_into_one_call(tiles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_gpu, "TILES", tiles)
    case = uniform(np.random.default_rng(6), m=300)
    assert_same(box_join(*case, engine="gpu"), brute_force(*case))


def test_the_tree_holds_every_point_once_within_its_bounds() -> None:
    points, low, high = clustered(np.random.default_rng(7))
    tree = join_tree.build(points, typical_widths(low, high))
    m = len(points)
    rows = tree.ids.reshape(-1)[:m]
    np.testing.assert_array_equal(np.sort(rows), np.arange(m))
    np.testing.assert_array_equal(
        tree.blocks.swapaxes(1, 2).reshape(-1, points.shape[1])[:m], points[rows][:, tree.dims]
    )
    np.testing.assert_array_equal(tree.bounds[0], np.stack([points.min(axis=0), points.max(axis=0)], axis=1)[tree.dims])


def test_inputs_stay_as_they_are_and_need_not_be_contiguous() -> None:
    wide = np.random.default_rng(8).uniform(0, 1, (300, 9)).astype(np.float32)
    kept = wide.copy()
    points, low, high = wide[:, ::3], wide[::-1, ::3], wide[::-1, ::3]
    assert_same(box_join(points, low, high), brute_force(points, low, high))
    np.testing.assert_array_equal(wide, kept)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_nan_is_refused(which: int) -> None:
    case = uniform(np.random.default_rng(9))
    case[which][5, 2] = np.nan
    with pytest.raises(InputError, match=r"(points|low|high)\[5, 2\] is NaN"):
        box_join(*case)


def test_other_mistakes_are_refused() -> None:
    points, low, high = uniform(np.random.default_rng(10))
    with pytest.raises(InputError, match="float64"):
        box_join(points.astype(np.float64), low, high)
    with pytest.raises(InputError, match="1 axes"):
        box_join(points[0], low, high)
    with pytest.raises(InputError, match=r"\[N, 3\]"):
        box_join(points, low[:, :2], high[:, :2])
    with pytest.raises(InputError, match="low has shape"):
        box_join(points, low[1:], high)
    with pytest.raises(InputError, match="no dimensions"):
        box_join(points[:, :0], low[:, :0], high[:, :0])
    with pytest.raises(InputError, match="3 numbers"):
        BoxIndex(points, widths=np.array([1.0, np.nan, 1.0]))
    with pytest.raises(InputError, match="no engine 'tpu'"):
        box_join(points, low, high, engine="tpu")  # type: ignore[arg-type]

"""A maze on a page: the data with its stitches, policies as arrows, and rollouts that play."""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from stacq.core.types import Float64s, Floats
from stacq.report.page_data import Cell, MazePicture
from stacq.report.page_svg import Markup, el, join, path_of, place, thinned
from stacq.report.tables import plural

UNIT = 40.0  # drawn size of a cell
MOST_STITCHES = 700
FEW = 80  # stitches that are drawn with thick strokes
MOST_TRAJECTORY_POINTS = 20_000
MOST_ARROWS = 2_500
MOST_NUMBERS = 260_000  # coordinates in the player's data: about one megabyte of text
PRECISION = 100  # the player's coordinates are whole hundredths of a cell
ARROW = 0.62  # of the distance between neighbouring arrows


def data_figure(maze: MazePicture) -> Markup:
    """The maze with what was logged in it, and the stitches on top."""
    label = f"maze with logged trajectories: {len(maze.trajectories)}, and stitches: {len(maze.stitches)}"
    return _svg(
        maze,
        label,
        _ground(maze),
        _trajectories(maze),
        el("g", _stitches(maze), class_="stitches few" if len(maze.stitches) <= FEW else "stitches"),
        _star(maze),
    )


def drawn_stitches(maze: MazePicture) -> Float64s:
    """Those that are drawn: all, or an even sample."""
    return thinned(np.asarray(maze.stitches, dtype=np.float64).reshape(-1, 4), MOST_STITCHES)


def policy_figure(maze: MazePicture, label: str, slot: int) -> Markup:
    """Arrows on cells that are tinted by how often a rollout from there arrives."""
    arrows = np.asarray(maze.policies[label], dtype=np.float64).reshape(-1, 4)
    arrows = thinned(arrows[np.isfinite(arrows).all(axis=1)], MOST_ARROWS)
    shares = success_by_cell(maze.rollouts.get(label, ()))
    name = f"policy of {label}: {plural(len(arrows), 'arrow')}"
    return _svg(maze, name, _ground(maze), _tints(shares), _arrows(maze, arrows, slot), _star(maze))


def data_legend(maze: MazePicture) -> Markup:
    """The marks of `data_figure`, each with its meaning."""
    items = [("goal", _star_at(20.0, 12.0, 11.0))]
    if maze.ring is not None:
        ring = el("circle", class_="ring", cx=20, cy=12, r=11)
        items = [("goal; within the ring counts as there", join(ring, _star_at(20.0, 12.0, 6.6)))]
    if len(maze.stitches):
        stroke = [el("path", class_="stitch", d="M4 12H34"), el("path", class_="stitch-end", d="M34 12L34 12")]
        items.insert(0, ("stitch: a step that nobody took", el("g", *stroke, class_="few")))
    if maze.trajectories:
        items = [
            ("a logged trajectory", el("path", class_="logged", d="M3 14L12 9L20 14L28 9L37 12")),
            ("where it begins", el("circle", class_="first", cx=20, cy=12, r=5.2)),
            ("where it ends", el("circle", class_="last", cx=20, cy=12, r=4)),
            *items,
        ]
    rows = (
        el("li", el("svg", mark, class_="maze", viewBox="0 0 40 24", aria_hidden="true"), text) for text, mark in items
    )
    return el("ul", *rows, class_="legend tall")


def success_by_cell(rollouts: Sequence[tuple[Cell, Floats, bool]]) -> dict[Cell, float]:
    found: dict[Cell, list[bool]] = {}
    for cell, _, success in rollouts:
        found.setdefault((int(cell[0]), int(cell[1])), []).append(bool(success))
    return {cell: sum(each) / len(each) for cell, each in found.items()}


def player_figure(maze: MazePicture, label: str) -> Markup:
    """The ground of one method's rollouts, which page.js draws on a canvas above it."""
    return _svg(maze, f"rollouts of {label}", _ground(maze), _star(maze))


def player_data(maze: MazePicture, slots: Mapping[str, int]) -> Markup:
    """All rollouts as JSON for page.js: whole numbers, each path as its start and its differences."""
    labels = [label for label, rollouts in maze.rollouts.items() if rollouts]
    paths = {label: [_centred(maze, positions) for _, positions, _ in maze.rollouts[label]] for label in labels}
    numbers = sum(path.size for each in paths.values() for path in each)
    stride = max(1, math.ceil(numbers / MOST_NUMBERS))
    methods = [
        {
            "label": label,
            "slot": slots[label],
            "paths": [_encoded(path, stride) for path in paths[label]],
            "arrives": [int(bool(success)) for _, _, success in maze.rollouts[label]],
        }
        for label in labels
    ]
    size = {"width": maze.width, "height": maze.height, "precision": PRECISION, "stride": stride}
    text = json.dumps({**size, "methods": methods}, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _centred(maze: MazePicture, positions: Floats) -> Float64s:
    """[T, 2] finite positions from the top left corner of the maze."""
    path = np.asarray(positions, dtype=np.float64).reshape(-1, 2)
    return path[np.isfinite(path).all(axis=1)] + 0.5 - maze.centre


def _encoded(path: Float64s, stride: int) -> list[int]:
    kept = path[::stride]
    if len(path) and (len(path) - 1) % stride:
        kept = np.vstack([kept, path[-1]])
    whole = np.rint(kept * PRECISION).astype(np.int64)
    return [int(value) for value in np.diff(whole, axis=0, prepend=np.zeros((1, 2), np.int64)).ravel()]


def _svg(maze: MazePicture, label: str, *parts: object) -> Markup:
    box = f"-2 -2 {maze.width * UNIT + 4:g} {maze.height * UNIT + 4:g}"
    return el("svg", *parts, class_="maze", viewBox=box, role="img", aria_label=label)


def _ground(maze: MazePicture) -> Markup:
    walls = "".join(
        f"M{x * UNIT:g} {y * UNIT:g}h{UNIT:g}v{UNIT:g}h{-UNIT:g}z"
        for y, row in enumerate(maze.rows)
        for x, kind in enumerate(row)
        if kind == "#"
    )
    width, height = maze.width * UNIT, maze.height * UNIT
    lines = "".join(f"M{x * UNIT:g} 0V{height:g}" for x in range(1, maze.width))
    lines += "".join(f"M0 {y * UNIT:g}H{width:g}" for y in range(1, maze.height))
    return join(
        el("rect", class_="floor", width=width, height=height, rx=3),
        el("path", class_="lattice", d=lines),
        el("path", class_="wall", d=walls),
        el("rect", class_="outline", width=width, height=height, rx=3),
    )


def _star(maze: MazePicture) -> Markup:
    """The goal, with a ring around what counts as there if that is not the whole cell."""
    if maze.ring is None:
        x, y = ((coordinate + 0.5) * UNIT for coordinate in maze.goal)
        return _star_at(x, y, 0.4 * UNIT)
    x, y = _drawn(maze, np.array(maze.ring.place)).tolist()
    radius = maze.ring.radius * UNIT
    return join(el("circle", class_="ring", cx=x, cy=y, r=radius), _star_at(x, y, min(0.4 * UNIT, 0.6 * radius)))


def _star_at(x: float, y: float, radius: float) -> Markup:
    radii = (radius, 0.42 * radius)
    turns = [(radii[i % 2], math.pi * (i / 5 - 0.5)) for i in range(10)]
    points = " ".join(f"{place(x + r * math.cos(a))},{place(y + r * math.sin(a))}" for r, a in turns)
    return el("polygon", class_="goal", points=points)


def _drawn(maze: MazePicture, points: Floats) -> Float64s:
    """Coordinates in the drawing, of [..., 2] positions."""
    return (np.asarray(points, dtype=np.float64) + 0.5 - maze.centre) * UNIT


def _trajectories(maze: MazePicture) -> Markup:
    total = sum(len(path) for path in maze.trajectories)
    stride = max(1, math.ceil(total / MOST_TRAJECTORY_POINTS))
    paths = [_drawn(maze, np.asarray(path).reshape(-1, 2)) for path in maze.trajectories if len(path)]
    ways = (el("path", class_="logged", d=path_of(thinned(way, max(2, len(way) // stride)).tolist())) for way in paths)
    ends = (
        join(
            el("circle", class_="first", cx=float(way[0, 0]), cy=float(way[0, 1]), r=UNIT * 0.13),
            el("circle", class_="last", cx=float(way[-1, 0]), cy=float(way[-1, 1]), r=UNIT * 0.1),
        )
        for way in paths
    )
    return el("g", *ways, *ends, class_="trajectories")


def _stitches(maze: MazePicture) -> Markup:
    """From white ring to dot: short lines whose end is marked, in two paths for all of them."""
    stitches = drawn_stitches(maze)
    stitches = _drawn(maze, stitches[np.isfinite(stitches).all(axis=1)].reshape(-1, 2, 2))
    lines = "".join(path_of(pair.tolist()) for pair in stitches)
    heads = "".join(path_of([*pair[1:].tolist(), *pair[1:].tolist()]) for pair in stitches)
    return join(el("path", class_="stitch", d=lines), el("path", class_="stitch-end", d=heads))


def _tints(shares: Mapping[Cell, float]) -> Markup:
    return join(
        *(
            el(
                "rect",
                class_="arrives" if share >= 0.5 else "fails",
                x=x * UNIT + 1,
                y=y * UNIT + 1,
                width=UNIT - 2,
                height=UNIT - 2,
                opacity=round(0.25 + 0.75 * abs(2 * share - 1), 2),
            )
            for (x, y), share in shares.items()
        )
    )


def _arrows(maze: MazePicture, arrows: Float64s, slot: int) -> Markup:
    """Shafts and heads in one path each. Directions count, not lengths: the longest arrows set the scale."""
    if not len(arrows):
        return Markup("")
    reach = ARROW * UNIT * min(1.0, _spacing(maze, len(arrows)))
    lengths = np.hypot(arrows[:, 2], arrows[:, 3])
    typical = float(np.quantile(lengths, 0.9)) or 1.0
    shafts, heads = [], []
    for (x, y), (dx, dy), length in zip(_drawn(maze, arrows[:, :2]), arrows[:, 2:], lengths, strict=True):
        if length < 1e-9:
            continue
        size = reach * (0.35 + 0.65 * min(1.0, length / typical))
        ux, uy = dx / length, dy / length
        tip = np.array([x + ux * size / 2, y + uy * size / 2])
        head = 0.42 * reach
        base = tip - head * np.array([ux, uy])
        side = 0.26 * reach * np.array([-uy, ux])
        shafts.append(path_of([(x - ux * size / 2, y - uy * size / 2), tuple(base)]))
        heads.append(path_of([tuple(tip), tuple(base + side), tuple(base - side)]) + "Z")
    width = place(0.16 * reach)
    return el(
        "g",
        el("path", class_="shaft", stroke_width=width, d="".join(shafts)),
        el("path", class_="head", d="".join(heads)),
        class_=f"arrows s{slot}",
    )


def _spacing(maze: MazePicture, arrows: int) -> float:
    """The usual distance between so many arrows on the free cells."""
    free = sum(kind != "#" for row in maze.rows for kind in row)
    return math.sqrt(free / arrows)

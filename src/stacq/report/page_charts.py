"""Charts as inline SVG. Colours and type come from page.css, so that they follow the reader's theme."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stacq.core.types import Float64s
from stacq.report.page_svg import (
    Markup,
    Scale,
    decimals_for,
    el,
    join,
    nice_ticks,
    padded,
    path_of,
    percent,
    shown,
    thinned,
    tick_text,
)
from stacq.report.statistics import Estimate, Profile, describe
from stacq.report.tables import doubling_bins
from stacq.runs.summary import Curve, RunSummary, finite

WIDTH, HEIGHT = 520.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 80.0, 14.0, 12.0, 50.0
MOST_BARS = 20  # of set sizes that are shown one by one
MOST_DOTS = 60  # of one seed
MOST_NAMES = 9  # dimensions whose names fit below the axis


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a chart; bounds of NaN draw no band, and `points` are drawn one by one."""

    label: str
    slot: int
    x: Float64s
    y: Float64s
    low: Float64s
    high: Float64s
    faint: bool = False  # a thin dashed line, the companion of another one
    points: Float64s | None = None  # [K, P]

    @property
    def extent(self) -> Float64s:
        """What the axis must show."""
        points = np.empty(0) if self.points is None else self.points.ravel()
        return np.concatenate([self.y, self.low, self.high, points])


def band(label: str, slot: int, curve: Curve) -> Line:
    """Mean over seeds and Student's 95 percent interval at every step; of two seeds, both as points."""
    rows = [describe(values) if np.isfinite(values).all() else None for values in curve.values]
    mean, low, high = np.array([(row.mean, row.low, row.high) if row else (math.nan,) * 3 for row in rows]).T
    steps = curve.steps.astype(np.float64)
    if curve.values.shape[1] == 2:
        unknown = np.full(len(steps), math.nan)
        return Line(label, slot, steps, mean, unknown, unknown, points=curve.values)
    return Line(label, slot, steps, mean, low, high)


def of_pairs(runs: Sequence[RunSummary]) -> str:
    """What to say of bands where some runs have two seeds."""
    if not any(len(run.seeds) == 2 for run in runs):
        return ""
    return " Where there are two seeds, both are shown as points: their interval would say nothing."


def companion(label: str, slot: int, curve: Curve) -> Line:
    """The mean alone, as a dashed line."""
    unknown = np.full(len(curve.steps), np.nan)
    return Line(label, slot, curve.steps.astype(np.float64), curve.values.mean(axis=1), unknown, unknown, faint=True)


def profile_line(label: str, slot: int, profile: Profile) -> Line:
    """A share falls at once, so the line goes across before it goes down."""
    across = np.repeat(profile.thresholds, 2)[1:]
    share, low, high = (np.repeat(values, 2)[:-1] for values in (profile.share, profile.low, profile.high))
    return Line(label, slot, across, share, low, high)


def drawable(lines: Sequence[Line]) -> bool:
    """Whether any of them has two points to join."""
    return any(np.isfinite(line.y).sum() > 1 for line in lines)


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str] | None = None,
    shares: bool = False,
) -> Markup:
    """Lines with bands; with `shares` the y axis goes from 0 to 100 percent."""
    x_low, x_high = _ends(np.concatenate([line.x for line in lines]))
    x = Scale(x_low, x_high, LEFT, WIDTH - RIGHT)
    low, high = (-0.02, 1.02) if shares else padded(np.concatenate([l.extent for l in lines]).tolist())
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    marks = [*(draw(line, x, y) for draw in (_band, _points, _line) for line in lines)]
    y_text = (lambda value: percent(value, 0)) if shares else None
    return _svg(title, _frame(x, y, x_label, y_label, x_text, y_text), *marks)


def _ends(values: Float64s) -> tuple[float, float]:
    """The whole x axis; a single point stands in its middle."""
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 1, high + 1)


def _band(line: Line, x: Scale, y: Scale) -> Markup | None:
    """Cut at the ends of the axis: the interval of a share may go far beyond 0 and 1."""
    rows = thinned(np.column_stack([line.x, np.clip(line.low, y.low, y.high), np.clip(line.high, y.low, y.high)]))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if not len(rows):
        return None
    if len(rows) == 1:
        (at, low, high) = rows[0]
        return el("line", class_=f"whisker s{line.slot}", x1=x(at), x2=x(at), y1=y(low), y2=y(high))
    there = [(x(at), y(high)) for at, _, high in rows]
    back = [(x(at), y(low)) for at, low, _ in rows[::-1]]
    return el("path", class_=f"band s{line.slot}", d=path_of([*there, *back]) + "Z")


def _points(line: Line, x: Scale, y: Scale) -> Markup | None:
    if line.points is None:
        return None
    rows = thinned(np.column_stack([line.x, line.points]), MOST_DOTS)
    dots = [(x(row[0]), y(value)) for row in rows for value in row[1:] if math.isfinite(value)]
    return join(*(el("circle", class_=f"seed s{line.slot}", cx=across, cy=up, r=2.4) for across, up in dots))


def _line(line: Line, x: Scale, y: Scale) -> Markup:
    rows = thinned(np.column_stack([line.x, line.y]))
    kind = "line faint" if line.faint else "line"
    marks = [el("path", class_=f"{kind} s{line.slot}", d=path_of((x(at), y(value)) for at, value in rows))]
    known = rows[np.isfinite(rows).all(axis=1)]
    if len(known) and not line.faint:
        at, value = known[-1]
        marks.append(el("circle", class_=f"end s{line.slot}", cx=x(at), cy=y(value), r=3.6))
    return join(*marks)


def _svg(title: str, *parts: object) -> Markup:
    return el("svg", *parts, class_="chart", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label=title)


def _frame(
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    x_text: Callable[[float], str] | None = None,
    y_text: Callable[[float], str] | None = None,
) -> Markup:
    across, up = x.ticks(5), y.ticks(5)
    x_text, y_text = x_text or tick_text(across), y_text or tick_text(up)
    return join(
        *(el("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick)) for tick in up),
        *(_text(y_text(tick), LEFT - 8, y(tick), "end", dy=".35em") for tick in up),
        *(_text(x_text(tick), x(tick), HEIGHT - BOTTOM + 20, "middle") for tick in across),
        el("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM),
        _axis_names(x_label, y_label),
    )


def _axis_names(x_label: str, y_label: str) -> Markup:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return join(
        _text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", class_="name"),
        el("text", y_label, class_="name", text_anchor="middle", transform=f"translate(12 {middle:g}) rotate(-90)"),
    )


def _text(text: str, x: float, y: float, anchor: str, *, dy: str | None = None, class_: str = "tick") -> Markup:
    return el("text", text, x=x, y=y, dy=dy, text_anchor=anchor, class_=class_)


def legend(slots: Mapping[str, int]) -> Markup:
    """Names next to their colours."""
    items = (el("li", el("i", class_=f"key s{slot}", aria_hidden="true"), label) for label, slot in slots.items())
    return el("ul", *items, class_="legend")


def interval_bar(
    estimate: Estimate,
    low: float,
    high: float,
    slot: int | None,
    reference: float | None = None,
    points: Sequence[float] = (),
) -> Markup:
    """An interval, or the two points of two seeds, on the scale that a column of a table shares; the numbers are next
    to it."""
    scale = Scale(low, high, 1.0, 99.0)
    colour = "plain" if slot is None else f"s{slot}"
    ends = [scale(min(max(v, low), high)) for v in (estimate.low, estimate.high) if math.isfinite(v)]
    marks = []
    if reference is not None:
        marks.append(el("line", class_="reference", x1=scale(reference), x2=scale(reference), y1=0, y2=20))
    if len(ends) == 2:
        marks.append(el("line", class_=f"range {colour}", x1=ends[0], x2=ends[1], y1=10, y2=10))
    for at in (scale(min(max(point, low), high)) for point in points):
        marks.append(el("line", class_=f"seed {colour}", x1=at, x2=at, y1=10, y2=10))
    if math.isfinite(estimate.value):
        middle = scale(min(max(estimate.value, low), high))
        kind, half = ("mark", 6) if ends or len(points) else ("dot", 0)
        marks.append(el("line", class_=f"{kind} {colour}", x1=middle, x2=middle, y1=10 - half, y2=10 + half))
    frame = {"viewBox": "0 0 100 20", "preserveAspectRatio": "none", "aria_hidden": "true"}
    return el("svg", el("line", class_="rail", x1=0, x2=100, y1=10, y2=10), *marks, class_="interval", **frame)


def scale_around(estimates: Sequence[Estimate], reference: float | None = None) -> tuple[float, float]:
    """Ends that hold every interval, and the reference."""
    values = [value for estimate in estimates for value in estimate]
    return padded([*values, *([] if reference is None else [reference])], 0.08)


def size_bins(sizes: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Counts of states by set size: one bar for each size, or for each doubling where sizes are large."""
    counts = {int(size): finite(count) for size, count in sizes.items() if size.isdecimal() and finite(count) > 0}
    return doubling_bins(counts, MOST_BARS)


def histogram(bins: Sequence[tuple[str, float]], *, title: str, x_label: str) -> Markup:
    """Bars of shares; every n-th is named where names would run into each other."""
    total = sum(count for _, count in bins)
    shares = [count / total for _, count in bins]
    y = Scale(0.0, max(shares) * 1.06, HEIGHT - BOTTOM, TOP)
    x = Scale(-0.5, len(bins) - 0.5, LEFT, WIDTH - RIGHT)
    width = (x(1) - x(0)) * 0.78
    every = max(1, round(len(bins) * max(len(name) for name, _ in bins) / 40))
    floor = HEIGHT - BOTTOM
    return _svg(
        title,
        _bare_frame(y, x_label, "share of states", lambda v: percent(v, 0 if y.high > 0.1 else 1)),
        *(
            el("rect", class_="bar", x=x(i) - width / 2, y=y(share), width=width, height=floor - y(share), rx=1.5)
            for i, share in enumerate(shares)
            if share > 0
        ),
        *(_text(name, x(i), floor + 20, "middle") for i, (name, _) in enumerate(bins) if i % every == 0),
    )


def _bare_frame(y: Scale, x_label: str, y_label: str, text: Callable[[float], str]) -> Markup:
    """A frame whose x axis has no numbers of its own."""
    ticks = y.ticks(5)
    return join(
        *(el("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y(tick), y2=y(tick)) for tick in ticks),
        *(_text(text(tick), LEFT - 8, y(tick), "end", dy=".35em") for tick in ticks),
        el("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM),
        _axis_names(x_label, y_label),
    )


def error_chart(names: Sequence[str], errors: Mapping[str, Sequence[float]], *, title: str) -> Markup | None:
    """Errors by state dimension on a logarithmic axis: `ensemble`, and `member` and `persistence` if known."""
    known = [value for values in errors.values() for value in values if value > 0]
    if not known:
        return None
    y = Scale(min(known) / 1.4, max(known) * 1.4, HEIGHT - BOTTOM, TOP)
    y = Scale(y.low, y.high, y.start, y.end, log=True)
    x = Scale(-0.7, len(names) - 0.3, LEFT, WIDTH - RIGHT)
    return _svg(
        title,
        _bare_frame(y, "state dimension", "error, normalised units", lambda value: f"{value:g}"),
        _spans(errors, x, y),
        *(_error_marks(kind, values, x, y) for kind, values in errors.items()),
        _dimension_names(names, x),
    )


def _spans(errors: Mapping[str, Sequence[float]], x: Scale, y: Scale) -> Markup:
    pairs = zip(errors.get("ensemble", ()), errors.get("persistence", ()), strict=False)
    both = [(x(i), y(a), y(b)) for i, (a, b) in enumerate(pairs) if a > 0 and b > 0]
    return join(*(el("line", class_="gain", x1=at, x2=at, y1=low, y2=high) for at, low, high in both))


def _error_marks(kind: str, values: Sequence[float], x: Scale, y: Scale) -> Markup:
    size = min(5.0, max(2.0, 100 / len(values)))
    places = [(x(i), y(value)) for i, value in enumerate(values) if value > 0]
    if kind == "persistence":
        return join(*(el("line", class_=kind, x1=a - size, x2=a + size, y1=b, y2=b) for a, b in places))
    return join(*(el("circle", class_=kind, cx=a, cy=b, r=size) for a, b in places))


def _dimension_names(names: Sequence[str], x: Scale) -> Markup:
    every = max(1, math.ceil(len(names) / (MOST_NAMES if max(map(len, names)) <= 5 else 5)))
    marks = ((i, name if len(name) <= 9 else f"{name[:8]}…") for i, name in enumerate(names) if i % every == 0)
    return join(*(_text(name, x(i), HEIGHT - BOTTOM + 20, "middle") for i, name in marks))


def last_values(lines: Sequence[Line]) -> str:
    """What a chart shows, for those who do not see it."""
    decimals = decimals_for([value for line in lines for value in line.y.tolist()])
    return "; ".join(f"{line.label} ends at {shown(float(line.y[-1]), decimals)}" for line in lines if len(line.y))


def thresholds_for(values: Sequence[float], count: int = 121) -> Float64s:
    """Levels at which a performance profile is drawn."""
    low, high = padded(values, 0.04)
    ticks = nice_ticks(low, high)
    return np.linspace(min(low, ticks[0]), max(high, ticks[-1]), count)

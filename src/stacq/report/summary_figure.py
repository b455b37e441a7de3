"""How a dataset's summary looks as one page of pictures."""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from stacq.core.printable import printable
from stacq.core.types import Bools, Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.data.inspect import Column, Summary, histogram, sample_rows, summarise
from stacq.data.tasks import TASKS, Task
from stacq.report.panels import (
    BLUE,
    DASHED,
    FAINT,
    GREY,
    INK,
    ORANGE,
    PLAIN_TICKS,
    SKY,
    dimension_axis,
    legend_above,
    page,
    panel,
    shortened,
    whole_ticks,
)
from stacq.report.plan_panel import draw_plan
from stacq.report.summary_text import shape_line
from stacq.report.tables import plural

END_COLOURS = {"terminal": ORANGE, "timeout": BLUE, "cut": "#999999"}
DRAWABLE = 1e100
MOST_BINS = 48  # of a histogram of episodes
MOST_NAMES = 6  # dimensions whose names fit below the axis
MOST_ACTIONS = 16  # ridges that stay readable
ACTION_BINS = 80
RIDGE = 0.84  # height of a ridge; the next one begins at 1
PATH_ROWS = 12_000  # rows whose paths are drawn, in about as many episodes as that takes
MOST_PATHS = 200
FIT_ROWS = 5_000  # rows behind the principal components
WIDE_SCALES = 30.0  # greatest extent over the median one, from which a linear axis hides dimensions
MOST_SCALES = 1e6  # what a logarithmic axis still shows well


def draw_summary(dataset: Dataset, summary: Summary) -> Figure:
    """One page: returns, lengths, how they go together, actions, observations and the paths of states."""
    if _beyond_drawing(summary):
        dataset = _clipped(dataset)
        summary = summarise(dataset)
    figure = page(shortened(summary.name or "unnamed dataset"), _subtitle(summary))
    axes = figure.subplot_mosaic([["returns", "lengths", "both"], ["actions", "observations", "states"]])
    ends = _end_kinds(dataset)
    _draw_returns(axes["returns"], dataset, summary, ends)
    _draw_lengths(axes["lengths"], dataset, ends)
    _draw_both(axes["both"], dataset, ends)
    _draw_actions(axes["actions"], dataset, summary)
    _draw_observations(axes["observations"], summary)
    if summary.tour is None:
        _draw_states(axes["states"], dataset)
    else:
        draw_plan(axes["states"], dataset, summary.tour)
    return figure


def _beyond_drawing(summary: Summary) -> bool:
    columns = summary.observations
    lows = [summary.returns.low, summary.rewards.low, *(column.low for column in columns)]
    highs = [summary.returns.high, summary.rewards.high, *(column.high for column in columns)]
    return min(lows) < -DRAWABLE or max(highs) > DRAWABLE


def _clipped(dataset: Dataset) -> Dataset:
    """Absurd numbers cut down, for the picture alone: matplotlib's arithmetic would overflow with them."""
    observations = dataset.observations.astype(np.float64).clip(-DRAWABLE, DRAWABLE)
    rewards = dataset.rewards.astype(np.float64).clip(-DRAWABLE, DRAWABLE)
    return replace(dataset, observations=observations, rewards=rewards)


def _subtitle(summary: Summary) -> str:
    parts = [printable(summary.env_id or ""), shape_line(summary)]
    if summary.duplicates:
        parts.append(f"{summary.duplicates / summary.rows:.1%} repeated states")
    return "   |   ".join(part for part in parts if part)


def _end_kinds(dataset: Dataset) -> dict[str, Bools]:
    terminal = dataset.terminals[dataset.last_rows]
    return {"terminal": terminal, "timeout": ~terminal & ~dataset.cut, "cut": dataset.cut}


def _draw_returns(ax: Axes, dataset: Dataset, summary: Summary, ends: dict[str, Bools]) -> None:
    panel(ax, "Returns", "episodes by return; dashed: median")
    _stacked(ax, dataset.returns, _edges(dataset.returns), ends)
    ax.axvline(summary.returns.median, color=INK, linewidth=1, linestyle=DASHED)
    ax.set(xlabel="return", ylabel="episodes")
    if summary.task:
        _score_axis(ax, TASKS[summary.task])


def _score_axis(ax: Axes, task: Task) -> None:
    scale = (task.expert_return - task.random_return) / 100

    def score(value: ArrayLike) -> Float64s:
        return (np.asarray(value, dtype=np.float64) - task.random_return) / scale

    def value(score: ArrayLike) -> Float64s:
        return np.asarray(score, dtype=np.float64) * scale + task.random_return

    second = ax.secondary_xaxis(-0.18, functions=(score, value))
    second.set_xlabel("normalised score (0 random, 100 expert)", color=GREY, size=10)
    second.tick_params(colors=GREY, labelsize=9, length=3)
    second.spines["bottom"].set_color(FAINT)


def _draw_lengths(ax: Axes, dataset: Dataset, ends: dict[str, Bools]) -> None:
    panel(ax, "Episode lengths", "episodes by number of rows")
    _stacked(ax, dataset.lengths, _whole_edges(dataset.lengths), ends)
    ax.xaxis.set_major_locator(whole_ticks())
    ax.set(xlabel="rows", ylabel="episodes")


def _stacked(ax: Axes, values: Floats | Ints, edges: Float64s, ends: dict[str, Bools]) -> None:
    base = np.zeros(len(edges) - 1)
    for kind, chosen in ends.items():
        if chosen.any():
            counts = histogram(values[chosen], len(base), float(edges[0]), float(edges[-1])).counts
            look: dict[str, Any] = {"color": END_COLOURS[kind], "edgecolor": "white", "linewidth": 0.5}
            ax.bar(edges[:-1], counts, np.diff(edges), base.copy(), align="edge", **look)
            base += counts
    ax.yaxis.set_major_locator(whole_ticks())
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.06 * base.max()))


def _edges(values: Floats) -> Float64s:
    """As many bins as the episodes can fill, and of some width where all values are equal."""
    low, high = _limits(values)
    return np.linspace(low, high, int(np.clip(3 * np.sqrt(len(values)), 9, MOST_BINS)) + 1)


def _whole_edges(values: Ints) -> Float64s:
    """Bins as wide as a whole number; where few numbers occur, each bin is centred on its own."""
    low, high = int(values.min()), int(values.max())
    width = -(-(high - low + 1) // MOST_BINS)
    bins = max(5, -(-(high - low + 1) // width))
    start = max(0, low - (bins * width - (high - low + 1)) // 2)
    return np.arange(bins + 1, dtype=np.float64) * width + start - 0.5


def _draw_both(ax: Axes, dataset: Dataset, ends: dict[str, Bools]) -> None:
    panel(ax, "Return and length")
    alpha = float(np.clip(30 / np.sqrt(dataset.episodes), 0.15, 0.8))
    look: dict[str, Any] = {"s": 26, "alpha": alpha, "linewidths": 0, "rasterized": True, "zorder": 3}
    for kind, chosen in ends.items():
        if chosen.any():
            colour, label = END_COLOURS[kind], f"{kind} ({chosen.sum():,})"
            ax.scatter(dataset.lengths[chosen], dataset.returns[chosen], color=colour, label=label, **look)
    ax.xaxis.set_major_locator(whole_ticks())
    ax.set(xlabel="rows", ylabel="return")
    legend_above(ax)


def _draw_actions(ax: Axes, dataset: Dataset, summary: Summary) -> None:
    shown = min(dataset.action_size, MOST_ACTIONS)
    which = "per dimension" if shown == dataset.action_size else f"first {shown} of {dataset.action_size} dimensions"
    panel(ax, "Actions", f"{which}, root scale; dashed: bounds; right: share at a bound")
    low, high = dataset.action_low, dataset.action_high
    shared = bool((low == low[0]).all() and (high == high[0]).all())
    left, right = (float(low[0]), float(high[0])) if shared else (-1.0, 1.0)
    rows = sample_rows(len(dataset))
    for d in range(shown):
        counts = histogram(dataset.actions[rows, d], ACTION_BINS, float(low[d]), float(high[d])).counts
        _ridge(ax, -d, np.sqrt(counts), np.linspace(left, right, ACTION_BINS + 1))
        share, place = f"{summary.saturation[d]:.1%}", ax.get_yaxis_transform()
        ax.text(1.01, 0.3 - d, share, transform=place, size=9, color=GREY, va="center")
    for bound in (left, right):
        ax.axvline(bound, color=INK, linewidth=1, linestyle=DASHED, zorder=1)
    _ridge_axes(
        ax, [shortened(name, 12) for name in summary.action_names[:shown]] or [f"$a_{{{d}}}$" for d in range(shown)]
    )
    ax.set_xlabel("action" if shared else "action, scaled so that its bounds are -1 and 1")


def _ridge(ax: Axes, base: float, heights: Float64s, edges: Float64s) -> None:
    top = base + RIDGE * heights / heights.max()
    ax.stairs(top, edges, baseline=base, fill=True, color=SKY, zorder=2)
    ax.stairs(top, edges, baseline=base, color=BLUE, linewidth=0.9, zorder=3)


def _ridge_axes(ax: Axes, names: list[str]) -> None:
    ax.set_yticks([0.3 - d for d in range(len(names))], names)
    ax.set_ylim(0.9 - len(names), 1.0)
    ax.margins(x=0.04)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.grid(False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _draw_observations(ax: Axes, summary: Summary) -> None:
    panel(ax, "Observations", "per dimension; light: min to max, dark: 1% to 99%, dot: mean")
    columns = summary.observations
    place = np.arange(len(columns))
    width = float(np.clip(220 / len(columns), 1.6, 12))
    ax.vlines(place, [c.low for c in columns], [c.high for c in columns], color=SKY, linewidth=width)
    ax.vlines(place, [c.p1 for c in columns], [c.p99 for c in columns], color=BLUE, linewidth=width)
    dot: dict[str, Any] = {"color": "white", "edgecolors": INK, "linewidths": 0.4, "zorder": 3}
    ax.scatter(place, [c.mean for c in columns], s=1.6 * width + 2, **dot)
    _fit_scale(ax, columns)
    dimension_axis(ax, len(columns), "dimension")
    if 0 < len(summary.observation_names) <= MOST_NAMES:
        ax.set_xticks(place, [shortened(name, 12) for name in summary.observation_names])


def _fit_scale(ax: Axes, columns: tuple[Column, ...]) -> None:
    """Logarithmic to both sides of zero where one scale would hide the smaller dimensions."""
    extents = np.array([max(abs(c.low), abs(c.high)) for c in columns])
    extents = extents[extents > 0]
    if len(extents) and extents.max() > WIDE_SCALES * np.median(extents):
        smallest = max(np.quantile(extents, 0.1), extents.max() / MOST_SCALES, np.finfo(np.float64).tiny)
        ax.set_yscale("symlog", linthresh=float(10.0 ** np.floor(np.log10(smallest))))
    ax.axhline(0, color=FAINT, linewidth=1, zorder=0)


def _draw_states(ax: Axes, dataset: Dataset) -> None:
    paths = _paths(dataset)
    panel(ax, "Paths of states", f"{len(paths):,} of {plural(dataset.episodes, 'episode')}; circles: first states")
    points, labels = _project(dataset, paths)
    values, meaning = _path_colours(dataset, paths)
    everything = np.concatenate(points)  # [R, 2]
    scale = Normalize(*_limits(np.concatenate(values)))
    width = float(np.clip(30 / np.sqrt(len(everything)), 0.8, 2.5))
    segments = [np.stack([xy[:-1], xy[1:]], axis=1) for xy in points]
    lines = LineCollection(list(np.concatenate(segments)), norm=scale, linewidths=width, alpha=0.75, rasterized=True)
    lines.set(array=np.concatenate([value[:-1] for value in values]), cmap="viridis")
    ax.add_collection(lines)
    starts = np.array([xy[0] for xy in points])
    ax.scatter(starts[:, 0], starts[:, 1], s=16, facecolors="white", edgecolors=INK, linewidths=0.8, zorder=3)
    ax.set(xlim=_limits(everything[:, 0], 0.04), ylim=_limits(everything[:, 1], 0.04))
    ax.set(xlabel=labels[0], ylabel=labels[1])
    _colour_bar(ax, ScalarMappable(scale, "viridis"), meaning)


def _colour_bar(ax: Axes, colours: ScalarMappable, label: str) -> None:
    bar = ax.figure.colorbar(colours, ax=ax, aspect=40, pad=0.02, format=PLAIN_TICKS)
    bar.set_label(label, color=GREY, size=10)
    bar.ax.tick_params(colors=GREY, labelsize=9, length=3)
    bar.outline.set_visible(False)


def _paths(dataset: Dataset) -> list[slice]:
    """Episodes evenly from the worst to the best return, as many as stay legible; very long ones are cut."""
    count = int(np.clip(PATH_ROWS / dataset.lengths.mean(), 1, min(dataset.episodes, MOST_PATHS)))
    ranks = np.linspace(0, dataset.episodes - 1, count).round().astype(int)
    rows = [dataset.episode(index) for index in np.argsort(dataset.returns, kind="stable")[ranks]]
    return [slice(each.start, min(each.stop, each.start + PATH_ROWS)) for each in rows]


def _project(dataset: Dataset, paths: list[slice]) -> tuple[list[Float64s], tuple[str, str]]:
    """Two coordinates per row: principal components of standardised states, or state and time if there is but one."""
    sample = dataset.observations[sample_rows(len(dataset), FIT_ROWS)].astype(np.float64)
    mean, std = sample.mean(axis=0), sample.std(axis=0)
    std[~(std > 0)] = 1.0
    if dataset.observation_size == 1:
        points = [np.column_stack([dataset.observations[rows], np.arange(rows.stop - rows.start)]) for rows in paths]
        return points, ("observation", "row in the episode")
    _, sizes, directions = np.linalg.svd((sample - mean) / std, full_matrices=False)
    shares = sizes**2 / max((sizes**2).sum(), np.finfo(np.float64).tiny)
    points = [((dataset.observations[rows] - mean) / std @ directions[:2].T).round(9) for rows in paths]
    return points, (f"first component ({shares[0]:.0%} of variance)", f"second component ({shares[1]:.0%})")


def _path_colours(dataset: Dataset, paths: list[slice]) -> tuple[list[Float64s], str]:
    """Reward to go along each path; time, where there is no reward at all."""
    if not dataset.rewards.any():
        return [np.arange(rows.stop - rows.start, dtype=np.float64) for rows in paths], "row in the episode"
    rewards = [dataset.rewards[rows].astype(np.float64) for rows in paths]
    return [np.cumsum(each[::-1])[::-1] for each in rewards], "reward still to come in the episode"


def _limits(values: Floats, margin: float = 0.0) -> tuple[float, float]:
    """The extremes, moved apart where they are equal up to rounding: an axis needs some length."""
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    pad = margin * (high - low) if high - low > 1e-9 * size else max(0.5, 0.05 * size)
    return low - pad, high + pad

"""How the quality of fitted dynamics looks as one page of pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from stacq.core.types import Float64s
from stacq.dynamics.fit import Curve
from stacq.reach.quality_facts import Quality
from stacq.report.dynamics_text import members_line, rows_line
from stacq.report.panels import (
    BLUE,
    DASHED,
    FAINT,
    GREY,
    INK,
    ORANGE,
    SAND,
    SKY,
    dimension_axis,
    legend_above,
    page,
    panel,
    shortened,
    whole_ticks,
)

FEW_DECADES = 2.0
SMALLEST = 1e-8  # errors below are drawn there: a logarithmic axis has no zero


def draw_quality(quality: Quality, curves: Sequence[Curve]) -> Figure:
    """One page: how both ensembles learned, how far and where they err, and whether they know it."""
    figure = page(f"Dynamics of {shortened(quality.name or 'unnamed dataset')}", _subtitle(quality))
    axes = figure.subplot_mosaic([["forward", "inverse", "loop"], ["errors", "calibration", "trip"]])
    _draw_curves(axes["forward"], "Forward ensemble", _losses(curves, "forward"))
    _draw_curves(axes["inverse"], "Inverse ensemble", _losses(curves, "inverse"))
    _draw_loop(axes["loop"], quality)
    _draw_errors(axes["errors"], quality)
    _draw_calibration(axes["calibration"], quality)
    _draw_trip(axes["trip"], quality)
    return figure


def _subtitle(quality: Quality) -> str:
    trip = quality.round_trip
    passing = f"{trip.recall[0]:.1%} of true successors pass at epsilon {trip.epsilons[0]:g}"
    return "   |   ".join((members_line(quality), rows_line(quality), passing))


def _losses(curves: Sequence[Curve], ensemble: str) -> tuple[Float64s, Float64s]:
    """Training and validation losses, each [epochs, members]."""
    training, validation = (
        np.array([getattr(curve, f"{ensemble}_{kind}") for curve in curves], dtype=np.float64)
        for kind in ("training", "validation")
    )
    return training, validation


def _draw_curves(ax: Axes, title: str, losses: tuple[Float64s, Float64s]) -> None:
    training, validation = losses
    panel(ax, title, "" if len(training) else "its learning curves were not kept")
    if not len(training):
        ax.set_axis_off()
        return
    epochs = np.arange(1, len(training) + 1)
    best = validation.argmin(axis=0)
    for member, chosen in enumerate(best):
        first = member == 0
        label = ("training", "validation", "best epoch") if first else (None, None, None)
        ax.plot(epochs, training[:, member], color=SKY, linewidth=1.2, label=label[0])
        ax.plot(epochs, validation[:, member], color=BLUE, linewidth=1.0, alpha=0.75, label=label[1])
        dot: dict[str, Any] = {"s": 34, "color": ORANGE, "edgecolors": "white", "linewidths": 0.8, "zorder": 4}
        ax.scatter(epochs[chosen], validation[chosen, member], label=label[2], **dot)
    _log_scale(ax)
    ax.xaxis.set_major_locator(whole_ticks())
    ax.set(xlabel="epoch", ylabel="loss (mean square)")
    legend_above(ax)


def _draw_errors(ax: Axes, quality: Quality) -> None:
    panel(ax, "Error by state dimension")
    errors = quality.normalised
    place = np.arange(len(errors.ensemble))
    size = float(np.clip(900 / len(place), 8, 52))
    ensemble, member, identity = (_drawable(each) for each in (errors.ensemble, errors.member, errors.identity))
    ax.vlines(place, ensemble, identity, color=FAINT, linewidth=1.5, zorder=1)
    look: dict[str, Any] = {"s": size, "zorder": 3, "linewidths": 0.9}
    ax.scatter(place, identity, color=GREY, marker="_", label="next state = this state", **{**look, "linewidths": 1.8})
    ax.scatter(place, member, facecolors="white", edgecolors=BLUE, label="one member", **look)
    ax.scatter(place, ensemble, color=BLUE, label="ensemble", **look)
    _log_scale(ax)
    dimension_axis(ax, len(place), "state dimension")
    ax.set_ylabel("RMSE, normalised units")
    legend_above(ax)


def _draw_loop(ax: Axes, quality: Quality) -> None:
    panel(ax, "Open loop", "" if quality.open_loop else "no held-out row has enough rows after it")
    if not quality.open_loop:
        return
    longest = max(quality.open_loop, key=lambda loop: loop.steps)
    steps = np.arange(1, longest.steps + 1)
    ax.plot(steps, longest.identity_path, color=GREY, linewidth=1.4, linestyle=DASHED, label="stay at the start")
    ax.plot(steps, longest.path, color=BLUE, linewidth=2, label="ensemble")
    for index, loop in enumerate(quality.open_loop):
        label = "one dimension" if index == 0 else None
        _dots(ax, np.full(len(loop.ensemble), loop.steps), loop.ensemble, label)
    _log_scale(ax)
    ticks = [f"{loop.steps}\n({loop.starts:,})" for loop in quality.open_loop]
    ax.set_xticks([loop.steps for loop in quality.open_loop], ticks)
    ax.set(xlabel="steps under the logged actions (starts)", ylabel="RMSE, normalised units")
    ax.margins(x=0.1)
    legend_above(ax)


def _dots(ax: Axes, x: Float64s, y: Sequence[float], label: str | None) -> None:
    ax.scatter(x, _drawable(y), s=18, color=SKY, edgecolors=BLUE, linewidths=0.6, alpha=0.9, label=label, zorder=3)


def _draw_calibration(ax: Axes, quality: Quality) -> None:
    within = [float(np.mean(share)) for share in (quality.calibration.within_one, quality.calibration.within_two)]
    panel(ax, "Does the ensemble know its errors?")
    for index, bins in enumerate(quality.calibration.per_dimension):
        label = "one dimension" if index == 0 else None
        ax.plot(_drawable(bins.spread), _drawable(bins.error), color=SKY, linewidth=1, label=label)
    pooled = quality.calibration.pooled
    look: dict[str, Any] = {"markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 4}
    x, y = _drawable(pooled.spread), _drawable(pooled.error)
    ax.plot(x, y, color=BLUE, linewidth=2, marker="o", label="all dimensions", **look)
    low, high = min(x.min(), y.min()) / 1.5, max(x.max(), y.max()) * 1.5
    ax.plot([low, high], [low, high], color=INK, linewidth=1, linestyle=DASHED, label="error = spread", zorder=1)
    _log_scale(ax)
    ax.set_xscale("log")
    _plain_log(ax.xaxis)
    text = f"within 1 standard deviation: {within[0]:.0%}\nwithin 2: {within[1]:.0%}"
    ax.text(0.03, 0.97, text, transform=ax.transAxes, va="top", size=9.5, color=GREY, linespacing=1.5)
    ax.set(xlabel="spread of the members, in units of the dimension's RMSE", ylabel="error, in the same units")
    legend_above(ax)


def _draw_trip(ax: Axes, quality: Quality) -> None:
    trip = quality.round_trip
    panel(ax, "True successors that fail the round trip")
    place = np.arange(len(trip.failing[0]))
    for index, (epsilon, failing, recall) in enumerate(zip(trip.epsilons, trip.failing, trip.recall, strict=True)):
        label = f"epsilon {epsilon:g} ({1 - recall:.1%} in all)"
        ax.bar(place, failing, (0.5, 0.8)[index], color=(ORANGE, SAND)[index], label=label, zorder=3 - index)
    ax.set_ylim(0, max(0.02, 1.08 * max(map(max, trip.failing))))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    dimension_axis(ax, len(place), "state dimension")
    ax.set_ylabel(f"rows that fail in a dimension, of {trip.rows:,}")
    legend_above(ax)


def _log_scale(ax: Axes) -> None:
    ax.set_yscale("log")
    _plain_log(ax.yaxis)


def _plain_log(axis: Any) -> None:
    """Plain numbers at 1, 2 and 5 of each decade over few decades, at whole decades over many."""
    low, high = axis.get_view_interval()
    few = np.log10(high / low) < FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _drawable(values: Sequence[float]) -> Float64s:
    return np.maximum(np.array(values, dtype=np.float64), SMALLEST)

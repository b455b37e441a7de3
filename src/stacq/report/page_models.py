"""What a page says about the learned models: critics, dynamics and reachable sets."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stacq.core.types import Float64s
from stacq.report.page_charts import (
    Line,
    band,
    companion,
    drawable,
    error_chart,
    histogram,
    last_values,
    legend,
    line_chart,
    of_pairs,
    size_bins,
)
from stacq.report.page_critic import gaps_table
from stacq.report.page_data import by_dataset
from stacq.report.page_html import Section, blocks, figure, grid, group_row, head_row, lede, named, pairs, row, table
from stacq.report.page_results import Slots, dataset_name, described, spread_cell
from stacq.report.page_svg import Markup, decimals_for, el, percent, shown, steps_text
from stacq.report.tables import weakest_dimension
from stacq.runs.summary import RunSummary, curve, finite, training_curve

COURSES = {"critic_loss": "Loss of the critics", "actor_loss": "Loss of the policy", "q": "Values of the critics"}


def training_section(runs: Sequence[RunSummary], slots: Slots) -> Section | None:
    """Losses and values of runs that were never scored, which is all there is to see of them."""
    unscored = [run for run in runs if curve(run, "return") is None and curve(run, "score") is None]
    charts = [
        chart
        for dataset, group in by_dataset(unscored).items()
        for key, title in COURSES.items()
        if (chart := _course_chart(dataset, group, key, title, slots))
    ]
    if not charts:
        return None
    text = (
        "Means over the steps between two lines of the log, then over seeds, with 95 percent bands. Losses of "
        "different methods are different things: read each line by itself. A value that keeps growing past any "
        "possible return is a critic that runs away."
    )
    text += of_pairs(unscored)
    labels = {run.label: slots[run.label] for run in unscored}
    return Section("training", "Training", "The course of training", blocks(lede(text), legend(labels), grid(charts)))


def _course_chart(dataset: str, runs: Sequence[RunSummary], key: str, title: str, slots: Slots) -> Markup | None:
    lines = [band(run.label, slots[run.label], each) for run in runs if (each := training_curve(run, key))]
    if not drawable(lines):
        return None
    words = f"{title} on {dataset_name(dataset)} over training: {last_values(lines)}"
    chart = line_chart(lines, title=words, x_label="training steps", y_label=key, x_text=steps_text)
    return figure(title, chart, dataset_name(dataset))


def critic_section(runs: Sequence[RunSummary], slots: Slots) -> Section | None:
    """What critics promise at the starts of episodes against what was then measured."""
    groups = by_dataset(runs)
    charts = [chart for dataset, group in groups.items() if (chart := _critic_chart(dataset, group, slots))]
    if not charts:
        return None
    text = (
        "Solid lines: the critic’s value at the starts of the evaluation episodes, with 95 percent bands over seeds. "
        "Thin dashed lines: the discounted return then measured. A solid line far above its dashed one is "
        "over-estimation."
    )
    text += of_pairs(runs)
    labels = {run.label: slots[run.label] for run in runs if curve(run, "value")}
    tables = [rows for dataset, group in groups.items() if (rows := _critic_rows(dataset, group, slots))]
    head = head_row("Method", "Seeds", "Critic’s value", "Measured", "Difference", "95% interval")
    numbers = table("At the last evaluation, mean over seeds", head, *tables)
    gaps = gaps_table(runs, slots)
    drawn = el("div", legend(labels), grid(charts), class_="critic stack")
    body = blocks(lede(text), drawn, numbers, *([] if gaps is None else [gaps]))
    return Section("critic", "Critic", "Does the critic promise too much?", body)


def _critic_chart(dataset: str, runs: Sequence[RunSummary], slots: Slots) -> Markup | None:
    lines: list[Line] = []
    for run in runs:
        value, measured = curve(run, "value"), curve(run, "discounted_return")
        if value is not None and measured is not None:
            lines.append(companion(f"{run.label}, measured", slots[run.label], measured))
            lines.append(band(f"{run.label}, critic", slots[run.label], value))
    if not drawable(lines):
        return None
    chart = line_chart(
        lines,
        title=f"Critic’s value and discounted return on {dataset_name(dataset)}: {last_values(lines)}",
        x_label="training steps",
        y_label="discounted return",
        x_text=steps_text,
    )
    return figure(dataset_name(dataset), chart, "value and discounted return")


def _critic_rows(dataset: str, runs: Sequence[RunSummary], slots: Slots) -> list[Markup]:
    """Value, return and their difference seed by seed, at the last step that has both."""
    found = {run.label: both for run in runs if (both := _last_promises(run)) is not None}
    decimals = decimals_for([float(value) for both in found.values() for value in both.ravel()])
    rows = []
    for label, (values, measured) in found.items():
        seeds, mean, *_ = described(values - measured)
        promised, kept = (shown(float(each.mean()), decimals) for each in (values, measured))
        strong = el("strong", shown(mean, decimals))
        sure = spread_cell(values - measured, decimals)
        rows.append(row(named(label, slots[label]), str(seeds), promised, kept, strong, sure))
    return [group_row(dataset_name(dataset), "discounted return", 6), *rows] if rows else []


def _last_promises(run: RunSummary) -> Float64s | None:
    """[2, seeds]: value and measured return at the last step where both are known for the same seeds."""
    value, measured = curve(run, "value"), curve(run, "discounted_return")
    if value is None or measured is None or value.seeds != measured.seeds:
        return None
    _, i, j = np.intersect1d(value.steps, measured.steps, return_indices=True)
    return np.stack([value.values[i[-1]], measured.values[j[-1]]]) if len(i) else None


def models_section(runs: Sequence[RunSummary]) -> Section | None:
    """How well the dynamics were learned, and what they hold to be reachable."""
    errors = [card for dataset, found in unique(runs, "dynamics") if (card := _dynamics_card(dataset, found))]
    sets = [card for dataset, found in unique(runs, "reach") if (card := _reach_card(dataset, found))]
    if not errors and not sets:
        return None
    about_errors = (
        "Error is the root mean square error of the predicted next state on rows that no model saw. The bar is the "
        "error of predicting that nothing changes: the further a dot lies below it, the more was learned."
    )
    about_sets = (
        "A set holds the states of the data that one step can reach, by these dynamics. A set of one holds only the "
        "successor that was logged; whatever exceeds it is where trajectories can be stitched."
    )
    words = " ".join(text for text, cards in ((about_errors, errors), (about_sets, sets)) if cards)
    title = "Learned dynamics" if not sets else "Reachable sets" if not errors else "Dynamics and reachable sets"
    return Section("models", "Models", title, blocks(lede(words), grid([*errors, *sets])))


def unique(runs: Sequence[RunSummary], field: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Contents of an optional file with their dataset: algorithms that share data share them too."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        value = getattr(run, field)
        if value:
            found.setdefault((run.dataset, json.dumps(value, sort_keys=True, default=str)), value)
    return [(dataset, value) for (dataset, _), value in found.items()]


def _reach_card(dataset: str, reach: Mapping[str, Any]) -> Markup | None:
    sizes = reach.get("set_sizes")
    bins = size_bins(sizes) if isinstance(sizes, Mapping) else []
    recall = finite(reach.get("recall"))
    known = {
        "extra states per state": shown(finite(reach.get("extra_per_state")), 2),
        "criterion": str(reach["criterion"]) if reach.get("criterion") else None,
        "epsilon": f"{reach['epsilon']:g}" if math.isfinite(finite(reach.get("epsilon"))) else None,
        "true successors that pass": percent(recall) if math.isfinite(recall) else None,
        weakest_dimension(recall): f"dimension {reach['worst_dimension']}"
        if reach.get("worst_dimension") is not None
        else None,
    }
    if not bins:
        return None
    total = sum(count for _, count in bins)
    title = f"Set sizes on {dataset_name(dataset)}: {percent(bins[0][1] / total)} of states have {bins[0][0]}"
    chart = histogram(bins, title=title, x_label="states in a set")
    body = blocks(chart, pairs({key: value for key, value in known.items() if value}))
    return figure("Size of the sets", body, dataset_name(dataset), "card stack")


def _dynamics_card(dataset: str, found: Mapping[str, Any]) -> Markup | None:
    kinds = {"persistence": "persistence_error", "member": "single_member_error", "ensemble": "normalised_error"}
    errors = {kind: [finite(v) for v in found[key]] for kind, key in kinds.items() if isinstance(found.get(key), list)}
    errors = {kind: values for kind, values in errors.items() if any(value > 0 for value in values)}
    if "ensemble" not in errors:
        return None
    count = len(errors["ensemble"])
    stored = found.get("dimensions")
    named = stored if isinstance(stored, list) and len(stored) == count else range(count)
    names = [str(name) for name in named]
    chart = error_chart(names, errors, title=f"Error by dimension of {count} on {dataset_name(dataset)}")
    return (
        None
        if chart is None
        else figure("Error by dimension", blocks(_error_legend(errors), chart), dataset_name(dataset))
    )


def _error_legend(errors: Mapping[str, Sequence[float]]) -> Markup:
    shapes = {
        "ensemble": ("ensemble", el("circle", class_="ensemble", cx=10, cy=6, r=4.5)),
        "member": ("one member", el("circle", class_="member", cx=10, cy=6, r=4.5)),
        "persistence": ("next state = this state", el("line", class_="persistence", x1=4, x2=16, y1=6, y2=6)),
    }
    items = (
        el("li", el("svg", shape, class_="chart", viewBox="0 0 20 12", aria_hidden="true"), text)
        for kind, (text, shape) in shapes.items()
        if kind in errors
    )
    return el("ul", *items, class_="legend")

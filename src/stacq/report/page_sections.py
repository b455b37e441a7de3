"""What a page says about runs: curves, tables, comparisons, critics, reachable sets and dynamics."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from stacq.core.types import Float64s
from stacq.report.page_charts import (
    band,
    drawable,
    interval_bar,
    last_values,
    legend,
    line_chart,
    of_pairs,
    profile_line,
    scale_around,
    thresholds_for,
)
from stacq.report.page_data import MazePicture, by_dataset
from stacq.report.page_html import (
    Section,
    blocks,
    figure,
    grid,
    head_row,
    lede,
    named,
    pairs,
    row,
    scale_head,
    sentence_list,
    table,
)
from stacq.report.page_results import MEASURES, Slots, dataset_name, described, spread_cell
from stacq.report.page_svg import Markup, decimals_for, el, percent, shown, span, steps_text
from stacq.report.statistics import (
    Estimate,
    aggregates,
    interquartile_mean,
    is_pair,
    performance_profile,
    probability_of_improvement,
)
from stacq.report.tables import plural
from stacq.runs.summary import RunSummary, aggregate, curve, measure_of

MOST_PAIRED = 4  # methods of which every two are compared; of more, each with the first
TOO_NARROW = (
    "These bootstrap intervals resample the seeds within each dataset. With five seeds they are too narrow: "
    "in simulations they held the truth 88 times in 100, not 95. Read them as a lower bound of the doubt."
)


def headline(runs: Sequence[RunSummary], maze: MazePicture | None) -> str:
    """The result in one sentence; empty where nothing was measured."""
    if maze is not None and maze.success:
        return _maze_headline(maze)
    groups = by_dataset(runs)
    if len(groups) == 1:
        return _single_headline(runs)
    scores = shared_scores(runs)
    if not scores:
        measured = any(aggregate(run, "return") or aggregate(run, "score") for run in runs)
        return f"Results on {len(groups)} datasets, which cannot be pooled: each has its own rows." if measured else ""
    tasks = len(next(iter(scores.values())))
    parts = [f"{shown(interquartile_mean(each))} for {label}" for label, each in scores.items()]
    return f"Over {plural(tasks, 'dataset')}, the interquartile mean of the final score is {sentence_list(parts)}."


def _maze_headline(maze: MazePicture) -> str:
    (first, shares), *others = maze.success.items()
    found = described(np.asarray(shares, dtype=np.float64))
    low, high = max(found.low, 0.0), min(found.high, 1.0)
    sure = plural(found.runs, "seed")
    if math.isfinite(found.low):
        sure = f"95% interval {span(100 * low, 100 * high)}, {sure}"
    if is_pair(shares):
        sure = spread_cell(100 * np.asarray(shares, dtype=np.float64), unit="%")
    text = f"{first} reaches the goal from {percent(found.mean)} of the start cells ({sure})"
    rest = [f"{label} from {percent(float(np.mean(each)))}" for label, each in others]
    return f"{text}{', ' + sentence_list(rest) if rest else ''}."


def _single_headline(runs: Sequence[RunSummary]) -> str:
    measure = measure_of(runs)
    found = [(run.label, each) for run in runs if (each := aggregate(run, measure))]
    if not found:
        return _nothing_scored(runs)
    decimals = decimals_for([value for _, each in found for value in each.final])
    ends = "is" if any(run.wanted for run in runs) else "ends"
    parts: list[str] = []
    for label, each in found:
        _, mean, _, low, high = described(each.final)
        sure = f" ({'' if parts else '95% interval '}{span(low, high, decimals)})" if math.isfinite(low) else ""
        sure = f" ({spread_cell(each.final, decimals).removeprefix('two seeds: ')})" if is_pair(each.final) else sure
        verb = "at" if parts else f"{ends} at a {MEASURES[measure]} of"
        parts.append(f"{label} {verb} {shown(mean, decimals)}{sure}")
    seeds = sorted({len(each.final) for _, each in found})
    count = plural(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    where = f"On {runs[0].dataset}, " if runs[0].dataset else ""
    text = f"{where}{sentence_list(parts)}, {'over' if count != '1 seed' else 'with'} {count}."
    return " ".join([text, *_unfinished(runs, measure)])


def _unfinished(runs: Sequence[RunSummary], measure: str) -> list[str]:
    """A sentence about the runs that are not at their end: still going on, or killed."""
    parts = []
    for run in (run for run in runs if run.wanted):
        found = aggregate(run, measure)
        step = max((line["step"] for line in run.metrics), default=0) if found is None else found.step
        done = "trained" if found is None else "evaluated"
        parts.append(f"{run.label} was {done} up to step {step:,} of {run.wanted:,}")
    return [f"Not finished: {sentence_list(parts)}."] if parts else []


def _nothing_scored(runs: Sequence[RunSummary]) -> str:
    if not any(run.metrics for run in runs):
        return ""
    known = any(run.config.get("env") for run in runs)
    why = " yet" if known else f": no environment is known for {runs[0].dataset or 'this data'}"
    return " ".join([f"Nothing was scored{why}. What training itself measured is below.", *_unfinished(runs, "return")])


def facts(runs: Sequence[RunSummary], maze: MazePicture | None) -> Markup | None:
    """What this page is about, in a line."""
    found: dict[str, object] = {}
    names = list(dict.fromkeys(run.dataset for run in runs if run.dataset))
    if maze is not None and maze.name:
        found["maze"] = maze.name
    if names:
        found["data"] = names[0] if len(names) == 1 else f"{len(names)} datasets"
    methods = list(dict.fromkeys([*(run.label for run in runs), *(maze.success if maze else ())]))
    if methods:
        found["methods" if len(methods) > 1 else "method"] = ", ".join(methods)
    if seeds := sorted({len(run.seeds) for run in runs if run.seeds}):
        found["seeds"] = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    devices = list(dict.fromkeys(str(run.environment["device"]) for run in runs if run.environment.get("device")))
    if devices:
        found["device"] = ", ".join("CPU" if "cpu" in device.lower() else device for device in devices)
    return pairs(found, "facts") if found else None


def curves_section(runs: Sequence[RunSummary], slots: Slots) -> Section | None:
    """A chart for each dataset, of the score or else the return, and of success where it is known."""
    charts = [
        chart
        for dataset, group in by_dataset(runs).items()
        for measure in (measure_of(group), "success")
        if (chart := _curve_chart(dataset, group, measure, slots, alone=len(by_dataset(runs)) == 1))
    ]
    if not charts:
        return None
    text = "Lines are means over seeds, bands Student’s 95 percent intervals of these means, at each step by itself."
    shown_slots = {run.label: slots[run.label] for run in runs}
    text += of_pairs(runs)
    return Section("curves", "Learning", "Learning curves", blocks(lede(text), legend(shown_slots), grid(charts)))


def _curve_chart(dataset: str, runs: Sequence[RunSummary], measure: str, slots: Slots, *, alone: bool) -> Markup | None:
    lines = [band(run.label, slots[run.label], each) for run in runs if (each := curve(run, measure))]
    if not drawable(lines):
        return None
    title = MEASURES[measure].capitalize()
    chart = line_chart(
        lines,
        title=f"{title} on {dataset_name(dataset)} over training: {last_values(lines)}",
        x_label="training steps",
        y_label=measure,
        x_text=steps_text,
        shares=measure == "success",
    )
    return figure(title, chart) if alone else figure(dataset_name(dataset), chart, MEASURES[measure])


def shared_scores(runs: Sequence[RunSummary]) -> dict[str, dict[str, Float64s]]:
    """Final numbers by label and dataset, on the datasets that every label has; empty where they cannot be pooled.

    Returns of different environments have no common unit, so several datasets are pooled only by their scores.
    """
    groups = by_dataset(runs)
    measures = {dataset: measure_of(group) for dataset, group in groups.items()}
    found: dict[str, dict[str, Float64s]] = {}
    for run in runs:
        each = aggregate(run, measures[run.dataset])
        if each is not None and np.isfinite(each.final).all():
            found.setdefault(run.label, {})[run.dataset] = each.final
    if not found:
        return {}
    shared = [dataset for dataset in groups if all(dataset in tasks for tasks in found.values())]
    if len(shared) > 1:
        shared = [dataset for dataset in shared if measures[dataset] == "score"]
    return {label: {dataset: tasks[dataset] for dataset in shared} for label, tasks in found.items()} if shared else {}


def comparison_section(runs: Sequence[RunSummary], slots: Slots) -> Section | None:
    """Interquartile means, performance profiles and probabilities of improvement, of the final evaluations."""
    scores = shared_scores(runs)
    if not scores or sum(len(tasks) for tasks in scores.values()) < 2:
        return None
    tasks = list(next(iter(scores.values())))
    where = dataset_name(tasks[0]) if len(tasks) == 1 else f"the {len(tasks)} datasets that all methods have"
    measure = measure_of([run for run in runs if run.dataset in tasks])
    body = blocks(
        lede(f"Final {MEASURES[measure]} on {where}. {TOO_NARROW}"),
        _interquartile_table(scores, slots),
        _improvements(scores, slots),
        _profile_chart(scores, measure, slots),
    )
    return Section("comparison", "Comparison", "Methods compared", body)


def _interquartile_table(scores: Mapping[str, Mapping[str, Float64s]], slots: Slots) -> Markup:
    found = {label: _without_pair(aggregates(tasks).interquartile_mean, tasks) for label, tasks in scores.items()}
    runs = {label: sum(len(values) for values in tasks.values()) for label, tasks in scores.items()}
    low, high = scale_around(list(found.values()))
    decimals = decimals_for([each.value for each in found.values()])
    rows = [
        row(
            named(label, slots[label]),
            el("strong", shown(each.value, decimals)),
            _sureness(each, (scores[label],), decimals),
            str(runs[label]),
            el("td", interval_bar(each, low, high, slots[label]), class_="bar-cell"),
        )
        for label, each in found.items()
    ]
    head = head_row("Method", "IQM", "95% bootstrap interval", "Runs", _ends(low, high, decimals))
    return table("Interquartile mean: the mean of the middle half of all runs", head, rows)


def _one_pair(tasks: Mapping[str, Float64s]) -> bool:
    """Whether two seeds on one dataset are all there is."""
    return len(tasks) == 1 and all(map(is_pair, tasks.values()))


def _without_pair(found: Estimate, *sides: Mapping[str, Float64s]) -> Estimate:
    """Resampled, two runs say nothing of their spread."""
    return Estimate(found.value, math.nan, math.nan) if any(map(_one_pair, sides)) else found


def _sureness(found: Estimate, sides: Sequence[Mapping[str, Float64s]], decimals: int, unit: str = "") -> str:
    factor = 100 if unit else 1
    return "two seeds" if any(map(_one_pair, sides)) else span(factor * found.low, factor * found.high, decimals, unit)


def _ends(low: float, high: float, decimals: int) -> Markup:
    return scale_head(shown(low, decimals), shown(high, decimals))


def _profile_chart(scores: Mapping[str, Mapping[str, Float64s]], measure: str, slots: Slots) -> Markup | None:
    every = [float(value) for tasks in scores.values() for values in tasks.values() for value in values]
    if len(set(every)) < 2:
        return None
    levels = thresholds_for(every)
    lines = [profile_line(label, slots[label], performance_profile(tasks, levels)) for label, tasks in scores.items()]
    chart = line_chart(
        lines,
        title="Share of runs above each level, for " + sentence_list(list(scores)),
        x_label=f"{MEASURES[measure]} above",
        y_label="share of runs",
        shares=True,
    )
    words = "The share of runs above each level. A line further to the right is better wherever it is."
    body = blocks(legend({label: slots[label] for label in scores}), chart)
    return el("div", figure("Performance profiles", body, words, "card stack"), class_="solo")


def _improvements(scores: Mapping[str, Mapping[str, Float64s]], slots: Slots) -> Markup | None:
    labels = list(scores)
    chosen = list(itertools.combinations(labels, 2))
    if len(labels) > MOST_PAIRED:
        chosen = [(labels[0], other) for other in labels[1:]]
    if not chosen:
        return None
    sides = {(x, y): (scores[x], scores[y]) for x, y in chosen}
    found = [(x, y, _without_pair(probability_of_improvement(*both), *both)) for (x, y), both in sides.items()]
    rows = [
        row(
            el("span", named(x, slots[x]), f" over {y}", class_="duel"),
            el("strong", percent(each.value, 0)),
            _sureness(each, sides[x, y], 0, "%"),
            el("td", interval_bar(each, 0, 1, slots[x], 0.5), class_="bar-cell"),
        )
        for x, y, each in found
    ]
    head = head_row("A run of", "Probability", "95% interval", scale_head("0", "100%"))
    text = "Probability of improvement: how likely a run beats one of the other method on the same dataset"
    return table(text, head, rows)

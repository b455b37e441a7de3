"""The page's table of results: every algorithm on every dataset, and the seeds that were lost."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stacq.core.types import Float64s
from stacq.report.page_data import by_dataset
from stacq.report.page_html import (
    Section,
    blocks,
    group_row,
    lede,
    named,
    note,
    row,
    table,
)
from stacq.report.page_svg import Markup, decimals_for, el, shown, span, steps_text
from stacq.report.statistics import Description, describe, is_pair
from stacq.report.tables import plural
from stacq.runs.summary import LAST, Aggregate, RunSummary, aggregate, measure_of

Slots = Mapping[str, int]

MEASURES = {"score": "normalised score", "return": "return", "success": "share of successful episodes"}

UNNAMED = "unnamed dataset"


COLUMNS = 12  # of the table of results


def results_section(runs: Sequence[RunSummary], slots: Slots) -> Section | None:
    """The table: every algorithm on every dataset, in three ways that are never mixed."""
    groups = [rows for dataset, group in by_dataset(runs).items() if (rows := _result_rows(dataset, group, slots))]
    if not groups:
        return None
    text = (
        "“Final” is the evaluation at the last step that every seed reached, but for seeds that were lost. “Best” is "
        "the highest evaluation of each seed: only someone who may try policies in the environment could choose it, so "
        f"it flatters. “Last ten” is the mean of each seed’s last {LAST} evaluations, or of all where there are fewer. "
        "Intervals are Student’s, over seeds, for one dataset at a time."
    )
    head = blocks(
        el(
            "tr",
            *(el("th", name, scope="col", rowspan=2) for name in ("Method", "Seeds", "Steps")),
            *(el("th", name, scope="colgroup", colspan=3, class_="group") for name in ("Final", "Best", "Last ten")),
        ),
        el("tr", *(_sub_head(name, i) for _ in range(3) for i, name in enumerate(("mean", "std", "95% interval")))),
    )
    caption = "Mean, sample standard deviation and 95 percent interval"
    body = blocks(lede(text), table(caption, head, *groups), _lost_note(runs))
    return Section("results", "Results", "Results", body)


def _lost_note(runs: Sequence[RunSummary]) -> Markup | None:
    """Lost seeds would have lowered the means, so they are named."""
    lost = [
        f"{run.label} on {dataset_name(run.dataset)} lost {len(run.lost)} of {plural(len(run.seeds), 'seed')} "
        f"({', '.join(map(str, run.lost))})"
        for run in runs
        if run.lost
    ]
    return note(f"In training {'; '.join(lost)}. Numbers are of the other seeds, which flatters.") if lost else None


def _sub_head(name: str, index: int) -> Markup:
    return el("th", name, scope="col", class_=None if index else "group")


def _result_rows(dataset: str, runs: Sequence[RunSummary], slots: Slots) -> list[Markup]:
    measure = measure_of(runs)
    found = [(run, each) for run in runs if (each := aggregate(run, measure))]
    values = [value for _, each in found for column in (each.final, each.best, each.last_ten) for value in column]
    decimals = decimals_for(values)
    rows = [
        row(
            named(run.label, slots[run.label]),
            _seeds_text(run, each),
            _steps_text(run, each) + ("*" if run.stopped else ""),
            *(cell for column in (each.final, each.best, each.last_ten) for cell in _description(column, decimals)),
        )
        for run, each in found
    ]
    return [group_row(dataset_name(dataset), MEASURES[measure], COLUMNS), *rows] if rows else []


def _steps_text(run: RunSummary, found: Aggregate) -> str:
    return steps_text(found.step) + (f" of {steps_text(run.wanted)}" if run.wanted else "")


def _seeds_text(run: RunSummary, found: Aggregate) -> str:
    known, wanted = len(found.seeds), len(run.seeds)
    return f"{known} of {wanted}" if wanted > known else str(known)


def _description(values: Float64s, decimals: int) -> list[Markup]:
    _, mean, std, _, _ = described(values)
    strong = el("strong", shown(mean, decimals))
    return [el("td", strong, class_="group"), el("td", shown(std, decimals)), el("td", spread_cell(values, decimals))]


def spread_cell(values: Float64s, decimals: int = 1, unit: str = "") -> str:
    """The interval of the mean; of two seeds, both numbers."""
    if is_pair(values):
        return f"two seeds: {shown(values[0], decimals)} and {shown(values[1], decimals)}{unit}"
    _, _, _, low, high = described(values)
    return span(low, high, decimals, unit)


def described(values: Float64s) -> Description:
    """As `describe`, with everything unknown where a seed has no finite number: none is quietly left out."""
    if np.isfinite(values).all():
        return describe(values)
    return Description(len(values), math.nan, math.nan, math.nan, math.nan)


def dataset_name(dataset: str) -> str:
    return dataset or UNNAMED

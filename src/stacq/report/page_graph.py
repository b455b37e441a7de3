"""What a page says about a graph of logged states: its numbers, and values along one episode."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stacq.report.page_charts import Line, drawable, legend, line_chart
from stacq.report.page_html import Section, blocks, figure, grid, lede, pairs
from stacq.report.page_models import unique
from stacq.report.page_results import dataset_name
from stacq.report.page_svg import Markup, percent, shown
from stacq.runs.summary import RunSummary, finite

LINES = {"value": "by the graph", "usual": "of the logged behaviour"}
MOST = 1e30  # a larger value is damage, and an axis up to it has no numbers
KEYS = ("rows", "neighbours", "moved", "value", "usual_value")  # without these it is no graph


def graph_section(runs: Sequence[RunSummary]) -> Section | None:
    """The graphs that runs learned from."""
    cards = [card for dataset, found in unique(runs, "prepared") for card in _cards(dataset, found)]
    if not cards:
        return None
    text = (
        "Rows take the actions of near rows, or actions that lead to reachable states, at a price that grows with how "
        "far off they arrive. Exact values say which is best. A value far above that of the logged behaviour is a "
        "promise, not a measurement: compare it with the returns above."
    )
    return Section("graph", "Graph", "The graph of logged states", blocks(lede(text), grid(cards)))


def _cards(dataset: str, found: Mapping[str, Any]) -> list[Markup]:
    if not all(math.isfinite(finite(found.get(key))) for key in KEYS):
        return []
    numbers = {key: finite(value) for key, value in found.items()}
    longest = numbers.get("longest", math.nan)
    told = {
        "how far off one may arrive, in steps of the data": shown(numbers.get("reach", math.nan), 2),
        "near rows that were found": _share(numbers.get("recall", math.nan)),
        "price of the usual distance, in deviations": shown(numbers.get("usual_price", math.nan), 2),
        "temperature": shown(numbers.get("temperature", math.nan), 2),
        "rows that prefer another's action": _share(numbers["moved"]),
        "longest chain without an own step": "endless" if longest < 0 else shown(longest, 0),
        "mean value": f"{shown(numbers['value'], 1)}, of the logged behaviour {shown(numbers['usual_value'], 1)}",
        "value of the best logged row": shown(numbers.get("best_logged", math.nan), 1),
        "exact to": shown(numbers.get("bound", math.nan), 4),
    }
    listed = found.get("warnings")
    warnings = [str(each) for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    body = blocks(pairs(told), *(lede(each) for each in warnings))
    cards = [figure("Numbers of the graph", body, dataset_name(dataset), "card stack")]
    return [*cards, *_episode(dataset, found.get("episode"))]


def _share(value: float) -> str:
    return percent(value) if math.isfinite(value) else shown(value)


def _episode(dataset: str, episode: Any) -> list[Markup]:
    """Both values along the episode of median return."""
    if not isinstance(episode, Mapping):
        return []
    lines = []
    for slot, (key, label) in enumerate(LINES.items()):
        raw = episode.get(key)
        values = np.array([finite(each) for each in raw]) if isinstance(raw, list) else np.empty(0)
        values = np.where(np.abs(values) < MOST, values, np.nan)
        unknown = np.full(len(values), np.nan)
        if len(values):
            lines.append(Line(label, slot, np.arange(len(values), dtype=np.float64), values, unknown, unknown))
    if len(lines) < len(LINES) or not drawable(lines):
        return []
    chart = line_chart(lines, title="Values along one episode", x_label="step shown", y_label="value")
    keys = legend({line.label: line.slot for line in lines})
    moved = episode.get("moved")
    count = (
        f"; {sum(each is True for each in moved)} of {len(moved)} steps change trains"
        if isinstance(moved, list)
        else ""
    )
    return [figure("Values along an episode", blocks(keys, chart), f"{dataset_name(dataset)}{count}")]

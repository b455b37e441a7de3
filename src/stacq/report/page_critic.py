"""Critics beside exact values on the page: by how much they differ, state by state."""

from collections.abc import Sequence

import numpy as np

from stacq.core.outside import has_shape
from stacq.core.types import Float64s
from stacq.report.page_data import by_dataset
from stacq.report.page_html import blocks, group_row, head_row, lede, named, row, table
from stacq.report.page_results import Slots, dataset_name
from stacq.report.page_svg import Markup, decimals_for, shown
from stacq.runs.summary import RunSummary

SHAPE = {"rows": int, "quantiles": [float], "seeds": [[float]]}
TEXT = (
    "The critics’ value less the exact value of the graph of logged states, over states of the data; mean over seeds. "
    "The graph’s values are optimistic themselves: a wide spread says where to look, not who is right."
)


def gaps_table(runs: Sequence[RunSummary], slots: Slots) -> Markup | None:
    """Quantiles over states for every run that was compared with a graph."""
    levels = next((run.critic["quantiles"] for run in runs if run.critic and _gaps(run) is not None), None)
    if levels is None:
        return None
    parts = []
    for dataset, group in by_dataset(runs).items():
        found = {run.label: gaps for run in group if (gaps := _gaps(run)) is not None and gaps.shape[1] == len(levels)}
        decimals = decimals_for([float(value) for gaps in found.values() for value in gaps.ravel()])
        rows = [
            row(
                named(label, slots[label]),
                str(len(gaps)),
                *(shown(float(each), decimals) for each in gaps.mean(axis=0)),
            )
            for label, gaps in found.items()
        ]
        parts += [[group_row(dataset_name(dataset), "discounted return", 2 + len(levels)), *rows]] if rows else []
    head = head_row("Method", "Seeds", *(f"{level:.0%}" for level in levels))
    return blocks(table("Critic less graph, by state", head, *parts), lede(TEXT))


def _gaps(run: RunSummary) -> Float64s | None:
    """[seeds, quantiles]; none where the file holds something else."""
    if not run.critic or not has_shape(run.critic, SHAPE) or not run.critic["seeds"]:
        return None
    count = len(run.critic["quantiles"])
    if not count or any(len(each) != count for each in run.critic["seeds"]):
        return None
    found = np.array(run.critic["seeds"], dtype=np.float64)
    return found if np.isfinite(found).all() and np.abs(found).max() < 1e30 else None

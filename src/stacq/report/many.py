"""Very many runs on one page: a row for each, from the result that it wrote when it ended, and curves of the best.

Reading every evaluation of ten thousand runs would take minutes, and drawing them all would show nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s
from stacq.report.differences import told_apart
from stacq.report.page_html import Section, blocks, group_row, head_row, lede, note, row, table
from stacq.report.page_results import MEASURES, dataset_name
from stacq.report.page_svg import Markup, decimals_for, shown
from stacq.report.statistics import describe
from stacq.runs.finished import read_result
from stacq.runs.summary import RunSummary, aggregate, measure_of, read_run, run_of

MANY = 200  # runs from which on the page is of this kind
MOST_WHOLE = 30  # runs about which everything is shown
MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Brief:
    """Runs of one label and dataset, in the numbers of their results; none where nothing was scored."""

    label: str
    dataset: str
    measure: str
    directories: tuple[Path, ...]
    final: Float64s
    best: Float64s
    last_ten: Float64s

    @property
    def mean(self) -> float:
        return float(self.final.mean()) if len(self.final) else -np.inf


def read_briefs(directories: Sequence[Path]) -> list[Brief]:
    """All runs, those that differ in their seeds alone put together."""
    found = [_brief(directory) for directory in directories]
    runs = told_apart([run for run, _ in found])
    groups: dict[tuple[str, str, str], list[tuple[Path, Brief]]] = {}
    for run, directory, (_, brief) in zip(runs, directories, found, strict=True):
        groups.setdefault((run.label, run.dataset, brief.measure), []).append((directory, brief))
    return [_joined(label, [brief for _, brief in group]) for (label, _, _), group in groups.items()]


def _brief(directory: Path) -> tuple[RunSummary, Brief]:
    """From its result, or of an unfinished run from all that it has."""
    try:
        result = read_result(directory)
        run = run_of(directory)
        run = replace(run, label=run.label or directory.name)
    except InputError:
        run = read_run(directory)
        measure, found = measure_of([run]), aggregate(run, measure_of([run]))
        numbers = () if found is None else (found.final, found.best, found.last_ten)
        return run, _of(directory, run, measure, numbers)
    numbers = () if result["final"] is None else tuple(result[name] for name in ("final", "best", "last_ten"))
    return run, _of(directory, run, str(result["measure"]), numbers)


def _of(directory: Path, run: RunSummary, measure: str, numbers: Sequence[object]) -> Brief:
    columns = [np.asarray(each, dtype=np.float64) for each in numbers] or [np.empty(0)] * 3
    return Brief(run.label, run.dataset, measure, (directory,), *columns)


def _joined(label: str, briefs: Sequence[Brief]) -> Brief:
    final, best, last_ten = (
        np.concatenate([getattr(each, name) for each in briefs]) for name in ("final", "best", "last_ten")
    )
    directories = tuple(directory for each in briefs for directory in each.directories)
    return Brief(label, briefs[0].dataset, briefs[0].measure, directories, final, best, last_ten)


def best_of(briefs: Sequence[Brief]) -> list[Brief]:
    """As many of each dataset, the best by their final evaluation."""
    groups = _by_dataset(briefs)
    each = max(1, MOST_WHOLE // len(groups))
    return [brief for group in list(groups.values())[:MOST_WHOLE] for brief in group[:each]]


def _by_dataset(briefs: Sequence[Brief]) -> dict[str, list[Brief]]:
    """Best first."""
    groups: dict[str, list[Brief]] = {}
    for brief in sorted(briefs, key=lambda each: -each.mean):
        groups.setdefault(brief.dataset, []).append(brief)
    return dict(sorted(groups.items()))


def all_section(briefs: Sequence[Brief], runs: int) -> Section:
    """A row for each, dataset after dataset, best first."""
    groups = [
        [group_row(dataset_name(dataset), MEASURES.get(group[0].measure, "not scored"), COLUMNS), *map(_row, group)]
        for dataset, group in _by_dataset(briefs[:MOST_ROWS]).items()
    ]
    text = (
        f"{runs:,} runs, best first by their final evaluation. Curves and comparisons below are of the "
        f"{len(best_of(briefs))} best alone, of each dataset as many: what is best of many was partly lucky."
    )
    head = head_row("Method", "Seeds", "Final, mean", "std", "Best", "Last ten")
    left = len(briefs) - MOST_ROWS
    more = note(f"{left:,} more are not shown.") if left > 0 else None
    return Section("all", "All runs", "All runs", blocks(lede(text), table("All runs", head, *groups), more))


COLUMNS = 6


def _row(brief: Brief) -> Markup:
    if not len(brief.final):
        return row(brief.label, "0", "", "", "", "")
    found, decimals = describe(brief.final), decimals_for(brief.final)
    numbers = (found.mean, found.std, float(brief.best.mean()), float(brief.last_ten.mean()))
    return row(brief.label, str(found.runs), *(shown(number, decimals) for number in numbers))

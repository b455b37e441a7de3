"""What a page shows: runs, pooled or separate, and a maze with what happened in it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from stacq.core.types import Floats
from stacq.runs.summary import RunSummary

Cell = tuple[int, int]  # x, y with 0, 0 at the top left


class Ring(NamedTuple):
    """A goal that is a place within a cell, and how near to it counts as there, in cells."""

    place: tuple[float, float]
    radius: float


class Rollout(NamedTuple):
    """One episode in a maze; a plain tuple of the same three does as well."""

    cell: Cell  # where it starts
    positions: Floats  # [T, 2]
    success: bool


@dataclass(frozen=True, eq=False)
class MazePicture:
    """A maze and what happened in it. Positions are measured in cells, x to the right and y downwards."""

    rows: Sequence[str]  # the drawing: "#" is a wall
    goal: Cell
    trajectories: Sequence[Floats] = ()  # of the data, each [T, 2]
    recordings: int = 0  # how many trajectories the data has, if not all are given
    stitches: Floats = field(default_factory=lambda: np.empty((0, 4)))  # [M, 4] from x, y to x, y
    policies: Mapping[str, Floats] = field(default_factory=dict)  # by label, [..., 4] arrows x, y, dx, dy
    rollouts: Mapping[str, Sequence[tuple[Cell, Floats, bool]]] = field(default_factory=dict)
    success: Mapping[str, Sequence[float]] = field(default_factory=dict)  # by label, a share for each seed
    tabular: Mapping[str, float] = field(default_factory=dict)  # exact answers: shares by name
    centre: float = 0.5  # coordinate of the middle of cell 0: 0.5 where cells span whole numbers, else 0
    name: str = ""
    ring: Ring | None = None  # where the goal is not a whole cell

    @property
    def width(self) -> int:
        return max(map(len, self.rows))

    @property
    def height(self) -> int:
        return len(self.rows)


def arranged(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Runs as the page shows them: one per label and dataset.

    A directory with records of several algorithms counts as several runs. Runs of one configuration with other
    seeds are pooled; others that share label and dataset get their directory's name added.
    """
    shown: dict[tuple[str, str], RunSummary] = {}
    for run in (part for each in runs for part in _split(each)):
        key = run.label, run.dataset
        if key in shown and _poolable(shown[key], run):
            run = _pooled(shown[key], run)
        elif key in shown:
            run = _renamed(run, {label for label, dataset in shown if dataset == run.dataset})
        shown[run.label, run.dataset] = run
    return list(shown.values())


def by_dataset(runs: Iterable[RunSummary]) -> dict[str, list[RunSummary]]:
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(run.dataset, []).append(run)
    return groups


def _split(run: RunSummary) -> list[RunSummary]:
    kinds = dict.fromkeys((record.algorithm, record.dataset) for record in run.records)
    own = {(name, run.dataset) for name in (run.algorithm, run.label)}  # a run's records may call it either
    if len(kinds) < 2 or own.issuperset(kinds):
        return [run]
    return [
        replace(
            run,
            label=algorithm or run.label,
            algorithm=algorithm,
            dataset=dataset,
            records=[record for record in run.records if (record.algorithm, record.dataset) == (algorithm, dataset)],
            metrics=(),
            stopped=run.stopped,
        )
        for algorithm, dataset in kinds
    ]


def _poolable(first: RunSummary, second: RunSummary) -> bool:
    rest = [{key: value for key, value in run.config.items() if key != "seeds"} for run in (first, second)]
    return rest[0] == rest[1] and not _seen(first) & _seen(second)


def _pooled(first: RunSummary, second: RunSummary) -> RunSummary:
    seeds = tuple(sorted({*first.seeds, *second.seeds}))
    return replace(
        first,
        config={**first.config, "seeds": list(seeds)} if seeds else first.config,
        seeds=seeds,
        records=[*first.records, *second.records],
        metrics=[*first.metrics, *second.metrics],
        stopped=first.stopped or second.stopped,
        wanted=max(first.wanted, second.wanted),
        lost=(*first.lost, *second.lost),
    )


def _seen(run: RunSummary) -> set[int]:
    lines = {line["seed"] for line in run.metrics if isinstance(line.get("seed"), int)}
    return {*run.seeds, *lines, *(record.seed for record in run.records)}


def _renamed(run: RunSummary, taken: set[str]) -> RunSummary:
    candidates = (f"{run.label} ({run.name})" if run.name and not n else f"{run.label} ({n + 2})" for n in range(999))
    return replace(run, label=next(label for label in candidates if label not in taken))

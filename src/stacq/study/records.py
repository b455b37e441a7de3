"""A finished cell in one line of JSON: everything that a table or a curve needs, and what the numbers depend on."""

import itertools
import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import LINES, read_text
from stacq.runs.summary import Curve, RunSummary, curve, measure_of, read_run
from stacq.study.cells import Cell

Record = Mapping[str, Any]
SHAPE = {
    **{"dataset": str, "method": str, "algorithm": str, "label": str, "measure": str | None, "seeds": [int]},
    **{"lost": [int], "evaluated": [int], "scores": [[float]], "steps": int, "seconds": float},
}
PLACES = 3  # decimals of a score
ESTIMATES = ("value", "discounted_return")


def record_of(cell: Cell, directory: Path, cores: int, *, all_lost: bool = False) -> dict[str, Any]:
    """From the run directory, however long ago and by whomever it was made.

    `value` and `discounted_return` are of the same evaluations as the scores: what the critics expect of the starts of
    the episodes, and what these brought. Scores of a run that lost every seed are of policies that nobody would take,
    so its record has none.
    """
    run = read_run(directory)
    measure = measure_of([run])
    found = None if all_lost else curve(run, measure)
    config = run.config
    return {
        "dataset": cell.source.label,
        "source": cell.source.name,
        "full_name": cell.source.full_name,
        "method": cell.label,
        "algorithm": run.algorithm,
        "label": run.label,
        "variant": config.get("variant"),
        "settings": list(cell.options.settings),
        "small": cell.options.small,
        "measure": None if found is None else measure,
        "seeds": [] if found is None else list(found.seeds),
        "lost": list(cell.seeds if all_lost else run.lost),
        "evaluated": [] if found is None else found.steps.tolist(),
        "scores": [] if found is None else np.round(found.values.T, PLACES).tolist(),
        **{name: None if found is None else _beside(found, curve(run, name)) for name in ESTIMATES},
        "steps": config.get("total_steps"),
        "episodes": config.get("episodes"),
        "config": config.get("config"),
        "reach": config.get("reach"),
        "sets": {name: (run.reach or {}).get(name) for name in ("extra_per_state", "recall")},
        "dataset_hash": config.get("dataset_hash"),
        "dynamics_hash": config.get("dynamics_hash"),
        "seconds": training_seconds(run),
        "cores": cores,
        "directory": directory.name,
        **{name: run.environment.get(name) for name in ("device", "versions", "git_revision")},
    }


def _beside(scores: Curve, found: Curve | None) -> list[list[float]] | None:
    """Another measure of the same evaluations, by seed; None where not every one of them has it."""
    if found is None or (found.seeds, found.steps.tolist()) != (scores.seeds, scores.steps.tolist()):
        return None
    rounded: list[list[float]] = np.round(found.values.T, PLACES).tolist()
    return rounded


def training_seconds(run: RunSummary) -> float:
    """All its steps at the usual time of a step: a run that was stopped and went on has pauses between its lines."""
    marks = sorted({(int(line["step"]), float(line["time"])) for line in run.metrics if "time" in line})
    paces = [(t - s) / (b - a) for (a, s), (b, t) in itertools.pairwise(marks) if b > a and t > s]
    steps = run.config.get("total_steps")
    return round(statistics.median(paces) * steps, 2) if paces and isinstance(steps, int) else 0.0


def read_records(path: Path) -> list[dict[str, Any]]:
    """A file of records, one a line."""
    try:
        lines = read_text(path, LINES).splitlines()
        found = [json_object(line) for line in lines if line.strip()]
        for number, record in enumerate(found, 1):
            if not has_shape(record, SHAPE):
                raise ValueError(f"line {number} is no record of a cell")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}", where=path, expected="records.jsonl of a study", fix="check the file"
        ) from error
    return found


def lines_of(records: Iterable[Record]) -> str:
    return "".join(f"{json.dumps(record, sort_keys=True)}\n" for record in records)

"""What a page is made from: plain facts of runs and of a maze, read from files or handed over by the caller."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from stacq.errors import InputError
from stacq.evaluation import EpisodeRecord
from stacq.reading import LINES, read_text
from stacq.runs import read_metrics, read_records
from stacq.training.finished import NAMES, RESULT
from stacq.types import Float64s, Floats, Ints

Cell = tuple[int, int]  # x, y with 0, 0 at the top left

LAST = 10  # evaluations in the third column of the results


@dataclass(frozen=True, eq=False)
class RunSummary:
    """One algorithm on one dataset, with any number of seeds."""

    label: str
    algorithm: str
    dataset: str
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)  # versions, device, command
    seeds: tuple[int, ...] = ()  # as asked for; a stopped run may have results of fewer
    records: Sequence[EpisodeRecord] = ()
    metrics: Sequence[Mapping[str, Any]] = ()  # lines of training and of evaluation; any key may be missing
    reach: Mapping[str, Any] | None = None
    dynamics: Mapping[str, Any] | None = None
    name: str = ""  # of its directory: tells runs of one label apart
    stopped: str = ""  # why it ended early, if its log says so
    wanted: int = 0  # steps that it was to have, as long as it is not finished
    lost: tuple[int, ...] = ()  # seeds that were given up in training, of a finished run


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
    stitches: Floats = field(default_factory=lambda: np.empty((0, 4)))  # [M, 4] from x, y to x, y
    policies: Mapping[str, Floats] = field(default_factory=dict)  # by label, [..., 4] arrows x, y, dx, dy
    rollouts: Mapping[str, Sequence[tuple[Cell, Floats, bool]]] = field(default_factory=dict)
    success: Mapping[str, Sequence[float]] = field(default_factory=dict)  # by label, a share for each seed
    tabular: Mapping[str, float] = field(default_factory=dict)  # exact answers: shares by name
    centre: float = 0.5  # coordinate of the middle of cell 0: 0.5 where cells span whole numbers, else 0
    name: str = ""

    @property
    def width(self) -> int:
        return max(map(len, self.rows))

    @property
    def height(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Curve:
    """One measure over training, of the seeds that lasted, at the steps where each of them was evaluated."""

    steps: Ints  # [K]
    seeds: tuple[int, ...]
    values: Float64s  # [K, seeds]


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Three answers to "how good is it", a number for each seed in each; they are never mixed."""

    seeds: tuple[int, ...]
    step: int  # of the last evaluation
    final: Float64s  # at that step
    best: Float64s  # over all steps, which only an evaluation in the environment could choose
    last_ten: Float64s  # mean of the last ten evaluations, or of all if there are fewer


def read_run(directory: Path, label: str | None = None) -> RunSummary:
    """What a run directory holds so far: of an unfinished run, everything that was written whole."""
    directory = Path(directory)
    config = _json(directory / "config.json")
    if config is None:
        raise _no_run(directory, "there is no config.json" if directory.is_dir() else "there is no such directory")
    records = read_records(directory) if (directory / "records.csv").exists() else []
    algorithm = str(config.get("algorithm") or (records[0].algorithm if records else ""))
    dataset = str(config.get("dataset") or (records[0].dataset if records else ""))
    chosen = label or config.get("label") or NAMES.get(algorithm, algorithm) or directory.name
    return RunSummary(
        label=str(chosen),
        algorithm=algorithm,
        dataset=dataset,
        config=config,
        environment=_json(directory / "environment.json") or {},
        seeds=_seeds(config.get("seeds")),
        records=records,
        metrics=read_metrics(directory) if (directory / "metrics.jsonl").exists() else [],
        reach=_json(directory / "reach.json"),
        dynamics=_json(directory / "dynamics.json"),
        name=directory.name,
        stopped=_stopped(directory / "log.txt"),
        wanted=0 if (directory / RESULT).exists() else _steps(config.get("config")),
        lost=_seeds((_json(directory / RESULT) or {}).get("lost")),
    )


def curve(run: RunSummary, measure: str) -> Curve | None:
    """ "score", "return", "success" or any other `eval/` metric over training; None if it was never measured."""
    return _curve(_evaluations(run, measure), ended=not run.wanted)


def training_curve(run: RunSummary, key: str) -> Curve | None:
    """A loss or another mean of the training itself, such as "q"; None if the algorithm has none of that name."""
    return _curve(_logged(run, key), ended=not run.wanted)


def _curve(found: Mapping[tuple[int, int], float], *, ended: bool) -> Curve | None:
    """From numbers by seed and step, of the seeds that came as far as the last one.

    While a run goes on, the last step may still be missing of some: then the step before it counts as well.
    """
    steps = sorted({step for _, step in found})
    last = steps[-1:] if ended else steps[-2:]
    seeds = tuple(sorted({seed for seed, step in found if step in last}))
    shared = [step for step in steps if all((seed, step) in found for seed in seeds)]
    if not shared:
        return None
    values = np.array([[found[seed, step] for seed in seeds] for step in shared], dtype=np.float64)
    return Curve(np.array(shared, dtype=np.int64), seeds, values)


def aggregate(run: RunSummary, measure: str = "score") -> Aggregate | None:
    """The three summaries of a run; None if the measure is unknown."""
    found = curve(run, measure)
    if found is None:
        return None
    values = found.values
    return Aggregate(found.seeds, int(found.steps[-1]), values[-1], values.max(axis=0), values[-LAST:].mean(axis=0))


def measure_of(runs: Iterable[RunSummary]) -> str:
    """The score where all evaluated runs have one, else the return: one column never mixes the two."""
    evaluated = [run for run in runs if curve(run, "score") or curve(run, "return")]
    return "score" if evaluated and all(curve(run, "score") for run in evaluated) else "return"


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
            label=NAMES.get(algorithm, algorithm) or run.label,
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


def _evaluations(run: RunSummary, measure: str) -> dict[tuple[int, int], float]:
    """By seed and step. Means over records count; lines of metrics fill in where no records were kept."""
    found = _logged(run, f"eval/{measure}")
    episodes: dict[tuple[int, int], list[float]] = {}
    for record in run.records:
        if (value := _value(record, measure)) is not None:
            episodes.setdefault((record.seed, record.step), []).append(value)
    return found | {key: float(np.mean(values)) for key, values in episodes.items()}


def _logged(run: RunSummary, key: str) -> dict[tuple[int, int], float]:
    """One number of the metrics, by seed and step."""
    found: dict[tuple[int, int], float] = {}
    for line in run.metrics:
        value, step = line.get(key), line.get("step")
        seed = line.get("seed", run.seeds[0] if len(run.seeds) == 1 else None)
        if _is_number(value) and _is_number(step) and _is_number(seed):
            found[int(seed), int(step)] = float(value)
    return found


def _value(record: EpisodeRecord, measure: str) -> float | None:
    known = {"score": record.score, "return": record.episode_return, "success": record.success}
    value = known.get(measure)
    return None if value is None else float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: object) -> float:
    """A number from a file, NaN for whatever is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def _steps(settings: object) -> int:
    """All steps of a training, those of a critic beforehand too; 0 where the directory is of something else."""
    counts = [settings.get(name, 0) for name in ("steps", "critic_steps")] if isinstance(settings, dict) else []
    return sum(int(count) for count in counts if _is_number(count))


def _seeds(value: object) -> tuple[int, ...]:
    """A list of seeds, or how many there are."""
    if isinstance(value, int) and not isinstance(value, bool):
        return tuple(range(value))
    return tuple(int(seed) for seed in value if _is_number(seed)) if isinstance(value, list) else ()


def _json(path: Path) -> dict[str, Any] | None:
    """An object from a file; None if there is no such file."""
    try:
        value = json.loads(read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix="check its permissions") from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", where=path, expected="a file that stacq wrote") from error
    if not isinstance(value, dict):
        raise InputError(f"holds a {type(value).__name__}", where=path, expected="a JSON object")
    return value


def _stopped(path: Path) -> str:
    """The reason in the last line of a log that ends with one."""
    try:
        lines = read_text(path, LINES, errors="replace").splitlines()
    except OSError:
        return ""
    _, found, reason = lines[-1].partition(" stopped by ") if lines else ("", "", "")
    return reason if found else ""


def _no_run(directory: Path, problem: str) -> InputError:
    return InputError(
        problem,
        where=directory,
        expected="a run directory, with config.json, records.csv and metrics.jsonl",
        fix="give a directory that stacq made, such as one under runs/",
    )

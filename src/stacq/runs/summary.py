"""What a run directory says, and the statistics of one run: the same for a table, a page and result.json."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from stacq.core.errors import InputError
from stacq.core.outside import json_object
from stacq.core.reading import LINES, read_text
from stacq.core.types import Float64s, Ints
from stacq.evaluation.records import EpisodeRecord
from stacq.runs.directory import read_metrics, read_records
from stacq.runs.finished import RESULT, final_policies

LAST = 10  # evaluations in the third column of the results
CRITIC = "critic.json"  # quantiles of critic less graph, written at the end of a training
MOST_SEEDS = 10_000  # whatever a file says


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
    prepared: Mapping[str, Any] | None = None  # facts of what the algorithm made from the whole data
    critic: Mapping[str, Any] | None = None  # its critics beside exact values
    name: str = ""  # of its directory: tells runs of one label apart
    stopped: str = ""  # why it ended early, if its log says so
    wanted: int = 0  # steps that it was to have, as long as it is not finished
    lost: tuple[int, ...] = ()  # seeds that were given up in training, of a finished run


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
    run = run_of(directory, label)
    records = read_records(directory) if (directory / "records.csv").exists() else []
    algorithm = run.algorithm or (records[0].algorithm if records else "")
    return replace(
        run,
        label=run.label or algorithm or directory.name,
        algorithm=algorithm,
        dataset=run.dataset or (records[0].dataset if records else ""),
        environment=_json(directory / "environment.json") or {},
        records=records,
        metrics=read_metrics(directory) if (directory / "metrics.jsonl").exists() else [],
        reach=_json(directory / "reach.json"),
        dynamics=_json(directory / "dynamics.json"),
        prepared=_json(directory / "prepared.json"),
        critic=_json(directory / CRITIC),
        stopped=_stopped(directory / "log.txt"),
        wanted=0 if (directory / RESULT).exists() else _count(run.config.get("total_steps")),
        lost=_seeds((_json(directory / RESULT) or {}).get("lost")),
    )


def run_of(directory: Path, label: str | None = None) -> RunSummary:
    """What its configuration says of it, and nothing that it measured."""
    config = _json(directory / "config.json")
    if config is None:
        raise _no_run(directory, "there is no config.json" if directory.is_dir() else "there is no such directory")
    algorithm = str(config.get("algorithm") or "")
    return RunSummary(
        label=str(label or config.get("label") or algorithm),
        algorithm=algorithm,
        dataset=str(config.get("dataset") or ""),
        config=config,
        seeds=_seeds(config.get("seeds")),
        name=directory.name,
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
        if _is_number(value) and _is_whole(step) and _is_whole(seed):
            found[seed, step] = float(value)
    return found


def _value(record: EpisodeRecord, measure: str) -> float | None:
    known = {"score": record.score, "return": record.episode_return, "success": record.success}
    value = known.get(measure)
    return None if value is None else float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def nothing_to_stitch(runs: Sequence[RunSummary]) -> str:
    """A sentence about runs whose reachable sets hold the own successors alone, unless that was asked for."""
    found = [
        run.label
        for run in runs
        if run.reach and finite(run.reach.get("extra_per_state")) == 0 and not run.config.get("own_only")
    ]
    if not found:
        return ""
    return (
        f"{' and '.join(dict.fromkeys(found))} had nothing to stitch: no state reaches anything but its own successor, "
        "so the training saw the recorded steps alone. More data, or `--criterion calibrated`, may join some."
    )


def finite(value: object) -> float:
    """A number from a file, NaN for whatever is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def _count(value: object) -> int:
    """All steps of a training; 0 where the directory is of something else."""
    return value if _is_whole(value) else 0


def _seeds(value: object) -> tuple[int, ...]:
    """A list of seeds, or how many there are."""
    if _is_whole(value):
        return tuple(range(min(value, MOST_SEEDS)))
    return tuple(seed for seed in value if _is_whole(seed)) if isinstance(value, list) else ()


def _json(path: Path) -> dict[str, Any] | None:
    """An object from a file; None if there is no such file."""
    try:
        return json_object(read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix="check its permissions") from error
    except ValueError as error:
        raise InputError(f"not JSON: {error}", where=path, expected="a JSON object that stacq wrote") from error


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


def result_of(directory: Path) -> dict[str, Any]:
    """Of a run that has come to its end: final, best and mean of the last ten, each by seed and never mixed.

    They are of the seeds that were trained to the end, and None where nothing was scored. The others are named, since
    leaving them out flatters.
    """
    summary = replace(read_run(directory), wanted=0)
    seeds = sorted(final_policies(directory))
    lost = sorted({*summary.seeds} - {*seeds})
    measure = measure_of([summary])
    found = aggregate(summary, measure)
    if found is None:
        return {"measure": None, "seeds": seeds, "lost": lost, "final": None, "best": None, "last_ten": None}
    return {
        "measure": measure,
        "step": found.step,
        "seeds": list(found.seeds),
        "lost": lost,
        "final": found.final.tolist(),
        "best": found.best.tolist(),
        "last_ten": found.last_ten.tolist(),
    }

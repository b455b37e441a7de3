"""What a study would do, before it does it: cells, what exists, and how long the rest takes by measured rates."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any, NamedTuple

from stacq import algos
from stacq.algos.settings import changed, preset, recommended
from stacq.pipeline.options import RECOMMENDED
from stacq.study.cells import Cell
from stacq.study.jobs import Job
from stacq.study.states import Places, State, read_state
from stacq.training.task import total_steps

HOUR = 3600.0


class Guess(NamedTuple):
    """Seconds of a job on the cores it gets, and where the number comes from; None where nothing was measured."""

    seconds: float | None
    source: str


class Rates:
    """Seconds by what was measured before: the same kind of job in this study, else the package's own records."""

    def __init__(self, states: Mapping[str, tuple[Job, State]]) -> None:
        self.here: dict[tuple[str, ...], list[float]] = {}
        for job, state in states.values():
            if state.state == "done":
                self._note(job, state)
        text = (resources.files("stacq.study") / "rates.json").read_text("utf-8")
        self.shipped: dict[str, float] = json.loads(text)

    def _note(self, job: Job, state: State) -> None:
        if job.kind != "cell":
            self.here.setdefault((job.kind,), []).append(state.seconds)
        elif seconds := state.record.get("seconds"):
            self.here.setdefault(_kind(job.cell), []).append(seconds / (_steps(job.cell) * job.cell.options.seeds))

    def guess(self, job: Job) -> Guess:
        cell, kind = job.cell, (job.kind,) if job.kind != "cell" else _kind(job.cell)
        work = _steps(cell) * cell.options.seeds if job.kind == "cell" else 1
        if found := self.here.get(kind):
            return Guess(sum(found) / len(found) * work, "measured in this study")
        per_unit = self.shipped.get("/".join(kind))
        return Guess(None, "not measured yet") if per_unit is None else Guess(per_unit * work, "the package's records")


def _kind(cell: Cell) -> tuple[str, ...]:
    """What the speed of a step depends on most."""
    return cell.options.algorithm, "small" if cell.options.small else "full"


def _steps(cell: Cell) -> int:
    """All updates of a run, as its plan would count them."""
    options, name = cell.options, cell.source.known_as or cell.source.name
    algorithm = algos.find(options.algorithm)
    variant = recommended(algorithm, name) if options.variant == RECOMMENDED else options.variant
    config = preset(algorithm, name, variant=variant, small=options.small).config
    if options.steps is not None:
        config = type(config)(**{**_values(config), **dict.fromkeys(algorithm.counts, options.steps)})
    return total_steps(algorithm.phases(changed(config, tuple(options.settings))))


def _values(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in asdict(config)}


def states_of(places: Places, jobs: Iterable[Job]) -> dict[str, tuple[Job, State]]:
    """By key, of the jobs of which something is known."""
    found = ((job, read_state(places, job.key)) for job in jobs)
    return {job.key: (job, state) for job, state in found if state is not None}


class Forecast(NamedTuple):
    """Of the jobs that are left."""

    seconds: float  # of all of them, one after the other
    unknown: int  # jobs without a measured rate
    hours: float  # of wall-clock time with so many at once


def forecast(rates: Rates, jobs: Sequence[Job], at_once: int) -> Forecast:
    """The longest of: all work shared evenly, and the longest single chain of jobs."""
    guesses = {job.key: rates.guess(job).seconds for job in jobs}
    known = [seconds for seconds in guesses.values() if seconds is not None]
    ends: dict[str, float] = {}
    for job in jobs:  # stages come before what needs them
        ends[job.key] = ends.get(job.needs or "", 0.0) + (guesses[job.key] or 0.0)
    longest = max(ends.values(), default=0.0)
    return Forecast(sum(known), len(guesses) - len(known), max(sum(known) / max(1, at_once), longest) / HOUR)


def forecast_text(found: Forecast, jobs: int, at_once: int, price: float | None) -> str:
    """In a sentence, with the cost if an hour of a process has a price."""
    if not jobs:
        return "nothing is left to do"
    parts = [f"about {_time(found.hours)} with {at_once} at once, {_time(found.seconds / HOUR)} of work in all"]
    if price is not None:
        parts.append(f"about {price * found.seconds / HOUR:,.2f} at {price:g} for an hour of one process")
    if found.unknown:
        parts.append(f"{found.unknown} of {jobs} jobs have no measured rate and are not counted")
    return "; ".join(parts)


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"

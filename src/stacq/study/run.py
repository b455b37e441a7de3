"""The verb: from a study's name to its runs and its tables."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from stacq.core.errors import InputError, check_whole
from stacq.core.files import check_writable
from stacq.core.terminal import Console
from stacq.core.unsaid import UNSAID, Count, Number, Place, Text
from stacq.core.workers import MOST_WORKERS, available_cores
from stacq.report.tables import plural
from stacq.runs.failed import StudyFailed
from stacq.study.plan import MOST_SEEDS, Origin, Scale, Study, read_study, shipped


@dataclass(frozen=True)
class Request:
    """Run a study: many trainings from one file, and the tables that come out. `stacq study list` names those that
    come with the package. The same command goes on with a study that was stopped.
    """

    source: Positional[str]
    """A study that comes with the package, a .toml file of your own (docs/study.md), or `list`."""
    scale: Annotated[Scale | None, UNSAID] = None
    """Sizes: `small` for a laptop, `full` as published; by default as the study says."""
    origin: Annotated[Origin | None, arg(name="data", help_behavior_hint="")] = None
    """Whose data: regenerated here (`stacq`), or D4RL's own files (`d4rl`), which must be in the cache."""
    only: Annotated[tuple[str, ...], UNSAID] = ()
    """Words that a cell's dataset and method must hold: `--only hopper td3bc,bc`."""
    seeds: Count = None
    """Of every cell, instead of the study's."""
    dry_run: bool = False
    """Say what would be done and how long it would take, and do nothing."""
    tables: bool = False
    """Write tables and page from what is there, and run nothing."""
    records: Place = None
    """Write tables and page from this file of records, such as one that a study left, and run nothing."""
    processes: Count = None
    """Cells at once; by default as many as cores and memory allow."""
    cores: Count = None
    """Of each process; by default one, or more where there are fewer cells than cores."""
    ray: Text = None
    """Address of a Ray cluster that runs the jobs, such as auto (needs the ray extra)."""
    gpu: Number = None
    """Share of a GPU for each process on a Ray cluster; by default a sixth where it has any."""
    store: Annotated[str, UNSAID] = ""
    """With --ray: where machines exchange files, a directory that all see or such as s3://bucket/folder."""
    print_commands: bool = False
    """Print a command for each job that is left, for array jobs of a cluster, and run nothing."""
    job: Text = None
    """Do this job alone, in this process: what `--print-commands` prints."""
    price: Number = None
    """Of an hour of one process, for the estimate of --dry-run."""
    runs: Path = Path("runs")
    """Folder for the run directories."""
    out: Place = None
    """Folder of the study itself; by default one under runs/studies/."""


def study(request: Request) -> None:
    """Do what was asked for."""
    console = Console()
    if request.source == "list":
        print_studies(console)
        return
    check_request(request)
    chosen = read_study(request.source, request.scale, request.origin)
    if request.seeds is not None:
        chosen = replace(chosen, protocol=replace(chosen.protocol, seeds=request.seeds))
    from stacq.study.course import Course  # loads JAX

    course = Course.of(chosen, request, console)
    if request.job is not None:
        course.do_one(request.job)
    elif request.dry_run:
        course.describe()
    elif request.print_commands:
        course.print_commands(_words(request))
    else:
        check_writable(course.places.folder / "table.md")
        failed = 0 if request.tables or request.records else course.run()
        course.write_tables()
        if failed:
            raise StudyFailed(f"{plural(failed, 'cell')} failed, see above and {course.places.folder / 'logs'}")


def check_request(request: Request) -> None:
    """Numbers within bounds, before anything is made."""
    there = available_cores()
    bounds = (
        ("--seeds", request.seeds, MOST_SEEDS),
        ("--processes", request.processes, MOST_WORKERS),
        ("--cores", request.cores, there if request.ray is None else MOST_WORKERS),
    )
    for name, value, most in bounds:
        if value is not None:
            check_whole(f"{name} {value}", value, 1, most, where="stacq study", fix="choose another, or leave it out")
    if request.store and request.ray is None:
        raise InputError("a store was named", where="stacq study", expected="--ray with it", fix="leave --store out")
    for name, number in (("--gpu", request.gpu), ("--price", request.price)):
        if number is not None and not (math.isfinite(number) and number >= 0):
            raise InputError(
                f"{name} {number}", where="stacq study", expected="a finite number from 0", fix="correct it"
            )


def print_studies(console: Console) -> None:
    """Every study of the package, with what it holds."""
    for name in shipped():
        found = read_study(name)
        console.print(f"{name}: {found.about}", soft_wrap=True)
        sizes = f"{plural(len(found.sources), 'dataset')}, {plural(len(found.methods), 'method')}"
        console.print(f"    {sizes}, {plural(found.protocol.seeds, 'seed')}, scale {found.scale}", soft_wrap=True)


def _words(request: Request) -> list[str]:
    """The options that decide what the jobs of a study are, and where they go."""
    words = [request.source]
    for name, value in (("--scale", request.scale), ("--data", request.origin), ("--seeds", request.seeds)):
        words += [] if value is None else [name, str(value)]
    words += ["--cores", str(request.cores)] if request.cores else []
    words += ["--runs", str(request.runs)] if request.runs != Path("runs") else []
    return [*words, "--out", str(request.out)] if request.out else words


def folder(chosen: Study, request: Request) -> Path:
    """Where a study's own files lie; its scale and its data belong to the name."""
    if request.out is not None:
        return request.out
    words = [chosen.name, chosen.scale, *([request.origin] if request.origin else [])]
    return request.runs / "studies" / "-".join(words)


def unknown_job(key: str) -> InputError:
    return InputError(
        f"there is no job {key!r}",
        where="--job",
        expected="a job of this study, at this scale and with these seeds",
        fix="print the commands again: `--print-commands`",
    )

"""One job, done in this process: by a child of an executor, by a task of a cluster, or by a command of its own."""

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from stacq.core.errors import InputError
from stacq.core.interrupts import terminate_as_interrupt
from stacq.data.registry import find
from stacq.pipeline.console import ConsoleReporter
from stacq.pipeline.plan import make_plan
from stacq.pipeline.stages import Work
from stacq.pipeline.train import keep_compiled, train
from stacq.runs.failed import TrainingFailed
from stacq.study.cells import Cell
from stacq.study.jobs import STAGES, Job
from stacq.study.records import record_of
from stacq.study.resolved import resolved
from stacq.study.states import Places, State, write_state

STOPPED = 143  # exit code of a child that was asked to stop


class Task(NamedTuple):
    """A job with all that its process must know."""

    job: Job
    places: Places
    cores: int = 1


def do(task: Task) -> State:
    """Do it, and write down how it ended; errors that would come again are a state too."""
    started = time.monotonic()
    try:
        state = _done(task)
    except InputError as error:
        state = State("failed", reason=str(error))
    state = State(**{**vars(state), "seconds": time.monotonic() - started})
    write_state(task.places, task.job.key, state)
    return state


def _done(task: Task) -> State:
    job, places = task.job, task.places
    _bring(job.cell)
    if job.kind == "cell":
        return _cell(job.cell, places, task.cores)
    if job.kind != "data":
        keep_compiled()
        cell = job.cell
        work = Work(make_plan(cell.load(), cell.options), cell.stages, ConsoleReporter(), None, places.runs)
        for stage in STAGES[job.kind]:
            work = stage(work)
    return State("done")


def _cell(cell: Cell, places: Places, cores: int) -> State:
    """A method that loses every seed has a result as well, and its table says so."""
    reporter, data = ConsoleReporter(), cell.load()
    try:
        directory = train(data, cell.options, cell.stages, root=places.runs, workers=cores, reporter=reporter).directory
        record = record_of(cell, directory, cores)
    except TrainingFailed as failure:
        print(failure, flush=True)
        directory = failure.directory
        record = record_of(cell, directory, cores, all_lost=True)
    return State("done", run=str(directory), record=record, resolved=resolved(cell))


def _bring(cell: Cell) -> None:
    """Regenerated data is made where it is missing; other data is never fetched unasked."""
    from stacq.data.generate import generate

    name = cell.source.name
    if not Path(name).suffix and find(name).source == "stacq":
        generate(name)


def serve() -> None:
    """Life of a child: a task from standard input, which stays open as long as the parent lives."""
    calls = sys.stdin.buffer
    task: Task = pickle.load(calls)
    threading.Thread(target=_outlive_nobody, args=(calls,), daemon=True).start()
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {task.job.title}", flush=True)
    code = 0
    try:
        with terminate_as_interrupt():
            state = do(task)
        if state.state == "failed":
            print(f"failed: {state.reason}", flush=True)
    except KeyboardInterrupt:
        code = STOPPED
    except Exception:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)  # at once: threads of JAX may still be busy


def _outlive_nobody(stream: IO[bytes]) -> None:
    """End with the parent, however it ended: what goes on without one would keep the run from the next."""
    stream.read()
    os.killpg(0, signal.SIGKILL)

"""The loop between a schedule and an executor, the same for every kind of executor."""

import queue
import time
from collections.abc import Callable
from typing import Protocol

from stacq.core.printable import printable
from stacq.study.children import Ended
from stacq.study.jobs import Job
from stacq.study.schedule import Schedule

TELL_EVERY = 60.0  # seconds between two lines that say how far it is


class Executor(Protocol):
    """Where jobs run."""

    ended: "queue.SimpleQueue[Ended]"

    @property
    def room(self) -> int: ...

    @property
    def about(self) -> str: ...

    def start(self, job: Job) -> None: ...

    def stop(self) -> None: ...


def execute(schedule: Schedule, executor: Executor, say: Callable[[str], None]) -> None:
    """Until every job is done or given up; Ctrl-C stops what runs, and leaves the rest as it is."""
    told = time.monotonic()
    try:
        while not schedule.over:
            _fill(schedule, executor)
            try:
                ended = executor.ended.get(timeout=TELL_EVERY)
            except queue.Empty:
                ended = None
            if ended is not None:
                _take(schedule, ended, say)
            if time.monotonic() - told >= TELL_EVERY:
                told = time.monotonic()
                say(progress_text(schedule))
    finally:
        executor.stop()


def _fill(schedule: Schedule, executor: Executor) -> None:
    while executor.room > 0 and (job := schedule.next()) is not None:
        executor.start(job)


def _take(schedule: Schedule, ended: Ended, say: Callable[[str], None]) -> None:
    """A job has ended: done, failed by itself, or killed, which is tried again."""
    job, state = schedule.jobs[ended.key], ended.state
    if state is None:
        again = schedule.lose(job.key)
        say(f"lost: {job.title}: its process was killed{'; it goes on from its last checkpoint' if again else ''}")
        if not again:
            _give_up(schedule, job, "its process was killed again and again", say)
    elif state.state == "failed":
        _give_up(schedule, job, state.reason, say)
    else:
        schedule.finish(job.key)
        counts = f"{len(schedule.done) + len(schedule.failed)}/{len(schedule.jobs)}"
        end = ", every seed was lost" if state.all_lost else _score(state.record)
        say(f"{counts} {job.title}: {state.seconds:.0f} s{end}")


def _give_up(schedule: Schedule, job: Job, reason: str, say: Callable[[str], None]) -> None:
    left_out = schedule.fail(job.key, reason)
    say(f"failed: {job.title}: {printable(reason.splitlines()[0] if reason else 'no reason was given')}")
    if left_out:
        say(f"  left out with it: {', '.join(each.title for each in left_out)}")


def _score(record: object) -> str:
    scores = record.get("scores") if hasattr(record, "get") else None
    if not scores:
        return ""
    last = [values[-1] for values in scores]
    return f", {record.get('measure')} {sum(last) / len(last):.1f}"  # type: ignore[attr-defined]


def progress_text(schedule: Schedule) -> str:
    counts = {
        "done": len(schedule.done),
        "running": len(schedule.running),
        "ready": schedule.ready,
        "failed": len(schedule.failed),
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{told}, of {len(schedule.jobs)} jobs"

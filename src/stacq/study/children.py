"""A child process for one job: started, pinned to its cores, asked to stop, and understood when it ends."""

import contextlib
import os
import pickle
import signal
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from stacq.core.launch import worker_command
from stacq.study.states import State, read_state, write_state
from stacq.study.work import STOPPED, Task

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
TAIL = 2_000  # characters of a log that say why a process failed
PATIENCE = 10.0  # seconds for a child to write what it has


class Ended(NamedTuple):
    """How a child ended: with a state, or killed by something from outside."""

    key: str
    state: State | None


class Child:
    """One process. It ends with its parent, and what it prints goes to the job's log."""

    def __init__(self, task: Task, cores: Collection[int] = ()) -> None:
        self.task = task
        log = task.places.log(task.job.key)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                worker_command("stacq.study.work"),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **threads(task.cores)},
                start_new_session=True,
            )
        if cores and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.process.pid, cores)
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it died already: `wait` says so
            self.process.stdin.write(pickle.dumps(task))
            self.process.stdin.flush()

    def wait(self) -> Ended:
        """Until it ends. One that raised has said why in its log; one that was killed has no state."""
        key = self.task.job.key
        code = self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if code == 0:
            return Ended(key, read_state(self.task.places, key))
        if code < 0 or code == STOPPED:
            return Ended(key, None)
        state = State("failed", reason=last_words(self.task.places.log(key)))
        write_state(self.task.places, key, state)
        return Ended(key, state)

    def stop(self) -> None:
        """Ask it to write what it has; `end` does not ask."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def threads(cores: int) -> dict[str, str]:
    """Settings of a process that has so many cores to itself, and no more of a GPU than it uses."""
    flags = os.environ.get("XLA_FLAGS", "")
    if cores == 1 and "multi_thread_eigen" not in flags:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    chosen = {**dict.fromkeys(THREADS, str(cores)), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    chosen["XLA_PYTHON_CLIENT_PREALLOCATE"] = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return {**chosen, "XLA_FLAGS": flags} if flags else chosen


def last_words(log: Path) -> str:
    """The end of a log, from the last error on."""
    with contextlib.suppress(OSError):
        text = log.read_text(encoding="utf-8", errors="replace")[-TAIL:]
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing"
    return "it left no log"

"""A handful of fresh Python processes that call functions for us.

Not `multiprocessing`: its children re-import the user's script (which then needs a main guard) or
inherit a forked JAX. Ours start from `python -c`, hold one BLAS thread each, never import JAX, and end
when the pipe to their parent closes, however the parent died. Each leads a process group, and whatever it has
started itself ends with it: importing a simulator may already start helpers, which would complain about the loss.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, NamedTuple, TypeVar

from stacq.core.errors import InputError
from stacq.core.launch import worker_command

T = TypeVar("T")
R = TypeVar("R")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
AHEAD = 4  # tasks handed out per worker and not yet taken back: a long one must not starve the others
READY = b"stacq worker ready\n"  # what start-up files print before it is skipped
MOST_WORKERS = 1024  # beyond that a slip of the finger is likelier than a machine of that size


class Failure(NamedTuple):
    """An exception in a worker, as text: its class may not exist in the parent."""

    summary: str
    details: str
    error: InputError | None


class WorkerFailed(RuntimeError):
    """A task ended in an exception, or its process died; `task` is what it was working on."""

    def __init__(self, task: object, summary: str, details: str = "") -> None:
        self.task = task
        self.summary = summary
        self.details = details
        super().__init__(summary)


def available_cores() -> int:
    """Cores this process may use, which containers and schedulers make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerPool:
    """Processes that stay warm between calls of `map`; a context manager, and closing is never optional."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and not 1 <= workers <= MOST_WORKERS:
            expected = f"at least one worker process and at most {MOST_WORKERS:,}"
            raise InputError(f"{workers} workers", expected=expected, fix="use --workers 1, or leave it out")
        self.size = available_cores() if workers is None else workers
        self._workers = _started(self.size)
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max_workers=self.size, thread_name_prefix="stacq-worker")

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process now, idle or busy."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.process.wait()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def map(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """`function` of every task, in the order of the tasks. The first failure ends the pool.

        Tasks are drawn only a few ahead of the results, so an iterator may decide on the next one late.
        """
        source = iter(tasks)
        pending: deque[Future[R]] = deque()
        try:
            while True:
                while len(pending) < self.size * AHEAD and (task := next(source, _NONE)) is not _NONE:
                    pending.append(self._threads.submit(self._call, function, task))
                if not pending:
                    return
                yield pending.popleft().result()
        except GeneratorExit:  # the caller has enough; what is under way ends by itself
            for future in pending:
                future.cancel()
            raise
        except BaseException:
            self.close()
            raise

    def _call(self, function: Callable[[T], R], task: T) -> R:
        worker = self._idle.get()
        try:
            answer = worker.ask(function, task)
        finally:
            self._idle.put(worker)  # even a dead one: the next caller must not wait for it
        if isinstance(answer, Failure):
            if answer.error is not None:
                raise answer.error
            raise WorkerFailed(task, answer.summary, answer.details)
        return answer  # type: ignore[no-any-return]


_NONE: Any = object()


def _started(count: int) -> "list[_Worker]":
    """As many as asked for, or none: the system may not have room for all."""
    workers: list[_Worker] = []
    try:
        for _ in range(count):
            workers.append(_Worker())
    except OSError as error:
        for worker in workers:
            worker.kill()
            worker.process.wait()
            worker.close()
        raise InputError(
            f"worker process {len(workers) + 1} of {count} cannot be started: {error.strerror or error}",
            expected="room for every process that was asked for",
            fix="use fewer --workers",
        ) from error
    return workers


class _Worker:
    """One process and the two pipes to it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            worker_command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, "PYTHONSAFEPATH": "1"},  # what it starts looks nowhere else either
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.calls, self.answers = self.process.stdin, self.process.stdout
        self.greeted = False

    def ask(self, function: Callable[[T], R], task: T) -> Any:
        message = _dumps((function, task))
        try:
            self.calls.write(message)
            self.calls.flush()
            self._await_greeting()
            return pickle.load(self.answers)
        except (EOFError, OSError, pickle.UnpicklingError, ValueError):
            raise WorkerFailed(task, f"the worker process died ({self._cause_of_death()})") from None

    def _await_greeting(self) -> None:
        """Skip what start-up files of the Python installation print before our own code runs."""
        while not self.greeted:
            line = self.answers.readline()
            if not line:
                raise EOFError
            self.greeted = line.endswith(READY)

    def _cause_of_death(self) -> str:
        """How the process ended by itself; one that answers nonsense but lives on is ended here."""
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
            return "it answered nonsense"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def kill(self) -> None:
        """End the process and all that it started. One already waited for is left alone: its number may be reused."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # ended already; macOS says the second
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        for pipe in (self.calls, self.answers):
            with contextlib.suppress(OSError):
                pipe.close()


def _dumps(value: object) -> bytes:
    """Pickle by value what lives in the user's script or notebook, if cloudpickle is there to do it."""
    try:
        import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return pickle.dumps(value)
    try:
        return bytes(cloudpickle.dumps(value))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(
            f"cannot be sent to a worker process: {error}",
            expected="functions, policies and environments that can be pickled",
            fix="build open files, locks and simulators inside the function, not outside it",
        ) from error


def serve() -> None:
    """The worker's life: answer calls from standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not land between the answers
    with contextlib.suppress(BrokenPipeError):  # a parent may be gone before it could count us among its workers
        answers.write(READY)
        answers.flush()
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, calls), daemon=True).start()
    while True:
        message = _packed(_answer(calls.get()))
        with contextlib.suppress(BrokenPipeError):
            answers.write(message)
            answers.flush()


def _receive(stream: IO[bytes], calls: "queue.SimpleQueue[Any]") -> None:
    """Runs at the same time as the work, so that a parent's death ends even a busy worker."""
    while True:
        try:
            calls.put(pickle.load(stream))
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)
        except BaseException as error:
            calls.put(error)


def _packed(answer: Any) -> bytes:
    try:
        return _dumps(answer)
    except Exception as error:
        return _dumps(Failure(f"the result cannot be sent back: {error}", traceback.format_exc(), None))


def _answer(call: Any) -> Any:
    try:
        if isinstance(call, BaseException):
            raise call
        function, task = call
        return function(task)
    except InputError as error:
        return Failure(str(error), "", error)
    except BaseException as error:
        summary = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Failure(summary, traceback.format_exc(), None)

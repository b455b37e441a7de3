"""The processes that open outside HDF5 files: started, asked, kept for the next file, and ended.

Not `workers.py`, whose processes import what a task needs and have no time limit.
"""

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from stacq.core.errors import InputError
from stacq.core.workers import ONE_THREAD
from stacq.data import hdf5_child
from stacq.data.hdf5_child import FACTS, FRAME

PATIENCE = 10  # times as long by the clock as by the processor, for slow disks and busy machines
CLOSING = 5  # seconds of computing
REASON = 200  # characters

_idle: dict[int, list["Server"]] = {}  # by the process that started them: a fork must not use its parent's pipes


class Unreadable(RuntimeError):
    """The file is damaged: the C library said so, or did not survive it."""


class Retired(Exception):
    """The process had nothing to do for a while, and ended."""


def begin(request: dict[str, Any], seconds: int, path: Path) -> tuple["Server", dict[str, Any]]:
    """A process that has opened a file, and what it answered; it is the caller's alone until released."""
    idle = _idle.setdefault(os.getpid(), [])
    while True:
        fresh = not idle
        server = Server() if fresh else idle.pop()
        try:
            if fresh:
                server.greet()
            return server, server.ask(request, seconds, path)
        except Retired:
            server.kill()
        except BaseException:
            server.release()
            raise


class Server:
    """A running `hdf5_child.py`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(hdf5_child.__file__), *_folders()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD},
            cwd="/",
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._requests: IO[bytes] = self.process.stdin
        self._answers: IO[bytes] = self.process.stdout
        self._owed = True  # an answer, or the rest of one
        self._late = False
        self._over = False  # it reported damage, and closed the file itself

    def greet(self) -> None:
        try:
            self._facts()
        except (EOFError, OSError):
            raise InputError(
                f"the process that reads HDF5 files did not start (exit code {self.process.wait()})",
                expected="a Python that imports numpy and h5py",
                fix=f"try `{sys.executable} -c 'import h5py'`",
            ) from None
        self._owed = False

    def ask(self, request: dict[str, Any], seconds: int, path: Path) -> dict[str, Any]:
        with self._asking(request, seconds):
            answer = self._facts()
        self._check(answer, path)
        return answer

    def fill(self, request: dict[str, Any], seconds: int, targets: Sequence[memoryview], path: Path) -> None:
        """The answer is values, in the order of the targets."""
        complaint = None
        with self._asking(request, seconds):
            for target in targets:
                complaint = complaint or self._values(target)
        self._check(complaint or {}, path)

    @contextlib.contextmanager
    def _asking(self, request: dict[str, Any] | None, seconds: int) -> Iterator[None]:
        """The child counts the processor's time by itself; the clock is watched from here."""
        self._owed = True
        watch = threading.Timer(PATIENCE * seconds, self._give_up)
        watch.daemon = True
        watch.start()
        try:
            if request is not None:
                self._send({**request, "seconds": seconds})
            yield
        except (EOFError, BrokenPipeError):
            raise self._end(seconds) from None
        finally:
            watch.cancel()
        self._owed = False

    def _give_up(self) -> None:
        self._late = True
        self._kill()

    def _send(self, request: dict[str, Any]) -> None:
        data = json.dumps(request).encode("ascii")
        self._requests.write(FRAME.pack(FACTS, len(data)) + data)
        self._requests.flush()

    def _facts(self) -> dict[str, Any]:
        return json.loads(self._taken(self._head()[1]))  # type: ignore[no-any-return]

    def _values(self, target: memoryview) -> dict[str, Any] | None:
        """Fill the target; returns an error message that came instead of values."""
        while target:
            kind, count = self._head()
            if kind == FACTS:
                return json.loads(self._taken(count))  # type: ignore[no-any-return]
            self._exactly(target[:count])
            target = target[count:]
        return None

    def _head(self) -> tuple[bytes, int]:
        kind, count = FRAME.unpack(self._taken(FRAME.size))
        return kind, count

    def _taken(self, count: int) -> bytearray:
        data = bytearray(count)
        self._exactly(memoryview(data))
        return data

    def _exactly(self, target: memoryview) -> None:
        while target:
            count = self._answers.readinto(target)  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            target = target[count:]

    def _check(self, answer: dict[str, Any], path: Path) -> None:
        self._over = "refused" in answer or "broken" in answer
        if "refused" in answer:
            raise InputError(
                f"{answer['refused']}, and what lies in other files is not read",
                where=path,
                expected="an HDF5 file that holds all its values itself",
                fix="write the values themselves into the file",
            )
        if "broken" in answer:
            raise Unreadable(answer["broken"][:REASON])

    def _end(self, seconds: int) -> Exception:
        """Why there is no answer, of a process that is gone."""
        code = self.process.wait()
        if code == 0 and not self._late:
            return Retired()
        number = -code if code < 0 else code - 128
        if self._late or number == signal.SIGXCPU:
            return Unreadable(f"reading it did not end within {seconds * (PATIENCE if self._late else 1)} seconds")
        with contextlib.suppress(ValueError):
            return Unreadable(f"the HDF5 library does not survive reading it ({signal.Signals(number).name})")
        return Unreadable(f"the HDF5 library does not survive reading it (exit code {code})")

    def release(self) -> None:
        """Wait until the file is closed, and with it its lock; keep the process for the next one, if it is well."""
        if not self._owed:
            with contextlib.suppress(Unreadable, Retired):
                self._close()
        if self._owed:
            self.kill()
            return
        _idle.setdefault(os.getpid(), []).append(self)
        _tidy_at_exit()

    def _close(self) -> None:
        with self._asking(None if self._over else {"do": "close"}, CLOSING):
            self._facts()
        self._over = False

    def kill(self) -> None:
        self._kill()
        self.process.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    def _kill(self) -> None:
        """One already waited for is left alone: its number may be reused."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # ended already; macOS says the second
                os.killpg(self.process.pid, signal.SIGKILL)


@cache
def _folders() -> tuple[str, ...]:
    """Where NumPy and h5py lie: the process may import only from there and from Python's own modules."""
    found = [importlib.util.find_spec(name) for name in ("numpy", "h5py")]
    places = [os.path.abspath(spec.origin) for spec in found if spec and spec.origin]
    return tuple(dict.fromkeys(str(Path(place).parent.parent) for place in places))


@cache
def _tidy_at_exit() -> None:
    """They would end by themselves, when their pipes close; Python complains of a child that it has not seen end."""
    atexit.register(_end_idle)


def _end_idle() -> None:
    for server in _idle.pop(os.getpid(), []):
        server.kill()

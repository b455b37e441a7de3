"""A process that has imported what commands need, and forks one child for each: `python -m attack.fork_server`.

Requests come as lines of JSON on standard input, answers go to standard output. A child leaves Python in the usual
way, so that what happens at the very end of a process is seen too.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.killing import watch
from attack.loopback import stay_home
from attack.processes import ADDRESSES, GRACE, Answer, Request, as_json, case_environment

PRELOADED = (
    "stacq.cli",
    "stacq.data.convert",
    "stacq.data.download",
    "stacq.data.minari",
    "stacq.pipeline.score",
    "stacq.pipeline.compare",
    "stacq.report.page",
    "stacq.report.inspect",
    "stacq.report.catalogue",
    "stacq.tabular.command",
    "stacq.tabular.figures",
    "stacq.runs.finished",
    "stacq.shipping.export",
    "attack.hostile",
)
ORPHAN_SECONDS = 10.0


def serve() -> Callable[[], object]:
    """Answer requests for ever; in each child, return what it has to do."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in PRELOADED:
        importlib.import_module(name)
    sys.modules["stacq.cli"].parse(["data", "list"])  # loads what the parser loads late
    stay_home()
    gc.freeze()
    warnings.filterwarnings("ignore", message=".*fork")
    while line := sys.stdin.readline():
        request = Request(**json.loads(line))
        out, err = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            answers.close()
            return child(request, out, err)
        os.close(out[1])
        os.close(err[1])
        answers.write(json.dumps(as_json(watched(pid, request, out[0], err[0]))) + "\n")
        answers.flush()
    return lambda: None


def child(request: Request, out: tuple[int, int], err: tuple[int, int]) -> Callable[[], object]:
    """Take the case's places and limits, then hand over to the command."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((nothing, 0), (out[1], 1), (err[1], 2)):
        os.dup2(descriptor, place)
    for descriptor in (nothing, *out, *err):
        os.close(descriptor)
    os.environ.update(case_environment(request.folder))
    tempfile.tempdir = None
    os.chdir(Path(request.folder) / "work")
    sys.argv = ["stacq", *request.arguments]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    if request.watched:
        watch(request.watched, request.kill_at, request.tally)
    if request.file_size:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if request.size_kills else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (request.file_size - 1, request.file_size - 1))
    module, _, name = request.entry.partition(":")
    entry: Callable[[], object] = getattr(importlib.import_module(module), name)
    return entry


def watched(pid: int, request: Request, out: int, err: int) -> Answer:
    """Read what the child says until it ends; Ctrl-C when its time is up, and SIGKILL if that does not end it."""
    began = time.monotonic()
    texts: dict[int, bytearray] = {out: bytearray(), err: bytearray()}
    blows = [(began + request.seconds + GRACE, signal.SIGKILL), (began + request.seconds, signal.SIGINT)]
    sent: list[signal.Signals] = []
    ended = None
    while ended is None:
        if blows and time.monotonic() > blows[-1][0]:
            sent.append(blows.pop()[1])
            os.kill(pid, sent[-1])
        drain(texts, 0.02)
        gone, status, usage = os.wait4(pid, os.WNOHANG)
        ended = (status, usage) if gone else None
    drain(texts, 0.0)
    for descriptor in (out, err):
        os.close(descriptor)
    orphans = wait_for_orphans(request.folder)
    told = [bytes(texts[each]).decode("utf-8", "backslashreplace") for each in (out, err)]
    return Answer(
        code=os.waitstatus_to_exitcode(ended[0]),
        out=told[0][-20_000:],
        err=told[1][-20_000:],
        seconds=time.monotonic() - began,
        memory=ended[1].ru_maxrss * 1024,
        interrupted=signal.SIGINT in sent,
        hung=signal.SIGKILL in sent,
        orphans=orphans,
    )


def drain(texts: dict[int, bytearray], seconds: float) -> None:
    """Take what is there; a pipe that only an orphan holds open is not waited for."""
    ready, _, _ = select.select(list(texts), [], [], seconds)
    for descriptor in ready:
        data = os.read(descriptor, 1 << 16)
        texts[descriptor] += data
        if not data:
            time.sleep(0.002)


def wait_for_orphans(folder: str) -> int:
    """How many processes of a case are still there after a while; they are ended, one by one."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while (left := descendants(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def descendants(folder: str) -> list[int]:
    """Processes that were started with the case's environment."""
    mark = f"ATTACKED={folder}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes() and not _dead(entry):
                found.append(int(entry.name))
    return found


def _dead(entry: Path) -> bool:
    """Whether it has ended, and only waits to be asked how."""
    state: Any = (entry / "stat").read_text().rpartition(")")[2].split()
    return bool(state[0] == "Z")


if __name__ == "__main__":
    serve()()

"""Commands as processes: forked from a warm one, which takes milliseconds, or started afresh where the start counts."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attack import ROOT
from attack.verdict import Finding, Kind

MEMORY = 3 << 30  # what a command on small inputs may need, JAX and all
ADDRESSES = 6 << 30  # and what it can have at all: the machine must survive
GRACE = 15.0  # seconds from Ctrl-C to the end
PATIENCE = 60.0  # beyond a command's own limits: then the fork server itself hangs
NOWHERE = "http://127.0.0.1:9/{file}"  # nobody listens there: what is not told otherwise must not leave the machine
ENTRY = "stacq.__main__:main"


@dataclass(frozen=True)
class Request:
    """A command in a case's folder. After `seconds` it gets Ctrl-C, and must end."""

    arguments: tuple[str, ...]
    folder: str
    seconds: float = 90.0
    entry: str = ENTRY
    watched: str = ""  # file operations below this folder are counted into `tally`
    tally: str = ""
    kill_at: int = 0  # number of the operation before which the process kills itself
    file_size: int = 0  # bytes that a file can have, less one: 0 is no limit
    size_kills: bool = False  # whether the system kills who writes more, in the middle of the write


@dataclass(frozen=True)
class Answer:
    """How it ended."""

    code: int
    out: str
    err: str
    seconds: float
    memory: int
    interrupted: bool = False  # by us, when its time was up
    hung: bool = False  # it did not end then either
    orphans: int = 0  # processes of its own that outlived it


class ForkServer:
    """The warm process and the pipes to it; started again when it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def run(self, request: Request) -> Answer:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asdict(request)) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], request.seconds + GRACE + PATIENCE)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return Answer(-signal.SIGKILL, "", "the fork server itself ended", 0.0, 0, hung=True)
        return Answer(**json.loads(line))

    def _started(self) -> "subprocess.Popen[str]":
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "attack.fork_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=shared_environment(self.folder),
            )
        return self.process

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def shared_environment(folder: Path) -> dict[str, str]:
    """For every process of ours: caches of compiled code in one place, one thread for linear algebra, no GPU."""
    paths = [str(ROOT), *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)]
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("STACQ_", "MINARI_", "XDG_"))},
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "NUMBA_CACHE_DIR": str(folder / "compiled" / "numba"),
        "MPLCONFIGDIR": str(folder / "compiled" / "matplotlib"),
    }


def case_environment(folder: Path | str) -> dict[str, str]:
    """What a command finds as its own places."""
    return {
        "HOME": str(folder),
        "STACQ_HOME": f"{folder}/home",
        "STACQ_MIRRORS": NOWHERE,
        "MINARI_DATASETS_PATH": f"{folder}/minari",
        "TMPDIR": f"{folder}/tmp",
        "COLUMNS": "100",
        "ATTACKED": str(folder),
    }


def start_afresh(
    bench: Path, folder: Path, command: Sequence[str], *, seconds: float = 60.0, changes: Mapping[str, str | None] = {}
) -> Answer:
    """A process that shares nothing with others; a change to None takes a variable out of its environment."""
    wanted: dict[str, str | None] = {**shared_environment(bench), **case_environment(folder), **changes}
    environment = {key: value for key, value in wanted.items() if value is not None}
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder / "work",
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
        hung = False
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        hung = True
    texts = [each.decode("utf-8", "backslashreplace") for each in (out, err)]
    return Answer(process.returncode, texts[0], texts[1], time.monotonic() - began, 0, hung=hung)


def stacq_command() -> list[str]:
    """The installed command, whose search path does not begin with the working directory."""
    script = Path(sys.executable).with_name("stacq")
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "stacq"]


def judged(answer: Answer, what: str, codes: Sequence[int] = (0, 1, 2), memory: int = MEMORY) -> list[Finding]:
    """What is wrong with an ending, whatever the command was."""
    told = (answer.err or answer.out)[-3000:]
    if answer.hung:
        return [Finding(Kind.HANG, what, told)]
    findings = []
    codes = (*codes, 130, -signal.SIGINT) if answer.interrupted else codes  # the latter while Python is taken down
    if "Traceback (most recent call last)" in answer.err + answer.out:
        findings.append(Finding(Kind.TRACEBACK, what, told))
    elif (answer.code < 0 and answer.code not in codes) or "Fatal Python error" in answer.err:
        findings.append(Finding(Kind.CRASH, what, f"{told}\nended with {answer.code}"))
    elif answer.code not in codes:
        findings.append(Finding(Kind.CODE, what, f"{told}\nexit code {answer.code}"))
    if answer.memory > memory:
        findings.append(Finding(Kind.MEMORY, what, f"{answer.memory >> 20} MB"))
    if answer.orphans:
        findings.append(Finding(Kind.LEFTOVER, what, f"{answer.orphans} processes outlived it"))
    return findings


def as_json(answer: Answer) -> dict[str, Any]:
    return asdict(answer)

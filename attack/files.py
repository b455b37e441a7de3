"""Damaged and crafted files, read in a warm process with limits of time and memory for each."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from attack import ROOT
from attack.bench import Bench
from attack.processes import shared_environment
from attack.samples import samples
from attack.verdict import Finding, Kind, Outcome

BEGIN = 120.0  # seconds to start, and to make an input
SECONDS = 30.0  # for one small file, on a machine that has other work too


class Reader:
    """The process of `reading.py`, started again when a file ended it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.process: subprocess.Popen[bytes] | None = None
        self.said = b""

    def read(self, number: int) -> list[Finding]:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(b"%d\n" % number)
        process.stdin.flush()
        name = self._line(BEGIN)
        what = f"file {number} ({name})"
        found = self._line(SECONDS) if name is not None else None
        if isinstance(found, dict):
            return judged(what, found)
        code = process.poll()
        self.close()
        if code is None:
            return [Finding(Kind.HANG, what, f"nothing came in {SECONDS:.0f} s")]
        return [Finding(Kind.CRASH, what, f"the process ended with {code}")]

    def _line(self, seconds: float) -> Any:
        """What it says next; None if it says nothing in that time, or ends."""
        assert self.process is not None and self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self.said:
            left = max(deadline - time.monotonic(), 0.0)
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if ready and not data:
                self.process.wait()
            if not data:
                return None
            self.said += data
        line, _, self.said = self.said.partition(b"\n")
        return json.loads(line)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self.process is None:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "attack.reading",
                    *map(str, (self.bench.folder, self.bench.shared, self.bench.seed)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env={**shared_environment(self.bench.shared), "PYTHONFAULTHANDLER": ""},
            )
        return self.process

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process, self.said = None, b""


def judged(what: str, found: dict[str, Any]) -> list[Finding]:
    findings = []
    if found["result"] == "failed":
        kind = Kind.TRACEBACK if "Traceback" in found["detail"] else Kind.STATE
        findings.append(Finding(kind, what, found["detail"][-3000:]))
    if found["memory"] > found["limit"]:
        findings.append(Finding(Kind.MEMORY, what, f"{found['memory'] >> 20} MB for {found['size']:,} bytes"))
    return findings


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    samples(bench)
    reader = Reader(bench)
    try:
        for number in numbers:
            yield Outcome(number, tuple(reader.read(number)))
    finally:
        reader.close()

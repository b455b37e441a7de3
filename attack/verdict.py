"""What an attack can find, and how it is told."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The ways in which a program can fail an input."""

    TRACEBACK = "traceback"
    HANG = "hang"
    CRASH = "crash"
    MEMORY = "memory"
    LEFTOVER = "leftover"
    CODE = "code"
    STATE = "state"


@dataclass(frozen=True)
class Finding:
    """One failure: of which kind, on what input, and how it showed."""

    kind: Kind
    what: str
    detail: str = ""

    @property
    def signature(self) -> str:
        """The same for findings that most likely have one cause: kind, last frame of ours, kind of exception."""
        frames = re.findall(r'File "([^"]+)", line (\d+)', self.detail)
        ours = [f"{path.rpartition('/')[2]}:{line}" for path, line in frames if "stacq" in path] or [""]
        lines = [line for line in self.detail.strip().splitlines() if line.strip()] or [""]
        last = re.sub(r"0x[0-9a-f]+|\d+|'[^']*'|/\S+", "_", lines[-1])[:80]
        return f"{self.kind} {ours[-1]} {last}"


@dataclass(frozen=True)
class Outcome:
    """What came of one numbered case."""

    number: int
    findings: tuple[Finding, ...] = ()
    inputs: int = 1
    kills: int = 0


def found(kind: Kind, what: str, details: Iterable[str]) -> list[Finding]:
    """One finding for each detail."""
    return [Finding(kind, what, detail) for detail in details]

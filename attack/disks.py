"""Disks that fill up at every point: a limit on the size of files, and, where root can mount one, a small file system.

A command that does not fit says so and leaves nothing behind; with room again, it ends as it would have.
"""

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attack.bench import CASE, Bench, bring
from attack.jobs import Reference, chosen, referred
from attack.kills import spread
from attack.processes import Answer, judged
from attack.samples import samples
from attack.trees import compared, snapshot
from attack.verdict import Finding, Kind, Outcome

STEP = 2048  # bytes between two limits
MOST = 256  # limits for one job
ROOM = 64 << 20  # bytes of the small file system
BALLAST = "ballast"


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    """Number n is a limit of job n modulo the jobs; every second turn of a job has a full file system."""
    jobs, missed = chosen(bench), 0
    for number in numbers:
        reference = referred(bench, jobs[number % len(jobs)])
        limits, turn = limits_of(reference), number // len(jobs)
        missed = 0 if turn // 2 < len(limits) else missed + 1
        if turn // 2 < len(limits):
            act = filled if turn % 2 and mountable() else limited
            yield Outcome(number, tuple(act(bench, reference, limits[turn // 2])))
        elif missed > len(jobs):
            return


def limits_of(reference: Reference) -> list[int]:
    count = min(reference.largest // STEP + 2, MOST)
    return [1 + place * (reference.largest + STEP) // count for place in spread(count)]


def limited(bench: Bench, reference: Reference, limit: int) -> list[Finding]:
    folder = reference.begun(bench)
    what = f"{shlex.join(['stacq', *reference.arguments])}, files of at most {limit - 1} bytes"
    first = bench.server.run(reference.request(file_size=limit))
    return judged_twice(bench, reference, folder, first, what)


def filled(bench: Bench, reference: Reference, free: int) -> list[Finding]:
    """The case's folder becomes a file system of its own with that much room."""
    what = f"{shlex.join(['stacq', *reference.arguments])}, {free} bytes free"
    folder = bench.fresh(f"job-{reference.job.name}")
    with mounted(folder):
        for each in CASE:
            (folder / each).mkdir()
        bring(samples(bench), folder, reference.job.needs)
        left = os.statvfs(folder)
        with open(folder / BALLAST, "wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, max(left.f_bavail * left.f_bsize - free, 1))
        first = bench.server.run(reference.request())
        (folder / BALLAST).unlink()
        return judged_twice(bench, reference, folder, first, what)


def judged_twice(bench: Bench, reference: Reference, folder: Path, first: Answer, what: str) -> list[Finding]:
    """How it failed, what it left, and whether it can be done when there is room."""
    findings = judged(first, what)
    extra = snapshot(folder).keys() - reference.after.keys() - reference.before.keys()
    left = sorted(name for name in extra if not resumable(name))
    if left:
        findings.append(Finding(Kind.LEFTOVER, what, f"left behind: {', '.join(left)}"))
    second = bench.server.run(reference.request())
    again = f"{what}: again, with room"
    if "exists already" in second.err and (first.code == 0 or reference.job.keeps):
        return findings + (compared(snapshot(folder), reference.after, what) if first.code == 0 else [])
    findings += judged(second, again, codes=(0,))
    return findings + compared(snapshot(folder), reference.after, again)


def resumable(name: str) -> bool:
    """What is kept on purpose, to go on from: pieces of a download or of sets, and what a run has done."""
    path = Path(name)
    piece = not path.name.startswith(".") and path.name.endswith((".part", ".part.json"))
    of_a_run = not {"checkpoints", "snapshots"}.isdisjoint(path.parts)
    return piece or of_a_run or any(part.startswith(".partial-") for part in path.parts)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)], check=True)
    try:
        for each in folder.iterdir():
            each.rmdir()
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@cache
def mountable() -> bool:
    """Whether this process may mount a file system here."""
    if os.geteuid() != 0:
        return False
    command = "d=$(mktemp -d) && mount -t tmpfs -o size=1m tmpfs $d && umount $d && rmdir $d"
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0

"""Kills at every file operation, and in the middle of writes: the same command again must end as if nothing was.

Nothing may be half made under its final name after the kill, and nothing may be left behind after the second run.
"""

import shlex
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attack.bench import Bench
from attack.jobs import Reference, chosen, referred
from attack.processes import Answer, judged
from attack.trees import compared, snapshot, torn
from attack.verdict import Finding, Kind, Outcome

SIZES = 24  # limits of file size that kill in the middle of a write, for each job
DEAD = (-signal.SIGKILL, -signal.SIGXFSZ)


@dataclass(frozen=True)
class Point:
    """Where a process dies: before an operation, or beyond a size."""

    operation: int = 0
    size: int = 0


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    """Number n is a point of job n modulo the jobs; every job is spread over its points from the first number on."""
    jobs, missed = chosen(bench), 0
    for number in numbers:
        reference = referred(bench, jobs[number % len(jobs)])
        points, turn = points_of(reference), number // len(jobs)
        missed = 0 if turn < len(points) else missed + 1
        if turn < len(points):
            yield Outcome(number, tuple(killed(bench, reference, points[turn])), inputs=0, kills=1)
        elif missed > len(jobs):
            return


def points_of(reference: Reference) -> list[Point]:
    operations = [Point(operation=number + 1) for number in spread(len(reference.points))]
    sizes = [Point(size=2 + reference.largest * number // SIZES) for number in spread(SIZES)]
    every = max(1, len(operations) // max(len(sizes), 1))
    mixed: list[Point] = []
    for place, point in enumerate(operations):
        mixed.append(point)
        if place % every == 0 and sizes:
            mixed.append(sizes.pop(0))
    return mixed + sizes


def spread(count: int) -> list[int]:
    """Numbers below `count`, so that any first few of them lie far apart (van der Corput)."""
    bits = max(count - 1, 1).bit_length()
    reversed_ = [int(format(number, f"0{bits}b")[::-1], 2) for number in range(1 << bits)]
    return [number for number in reversed_ if number < count]


def killed(bench: Bench, reference: Reference, point: Point) -> list[Finding]:
    """Kill, look, run again, compare."""
    folder, what = reference.begun(bench), described(reference, point)
    watched = {"watched": str(folder), "tally": str(folder.with_name("tally")), "kill_at": point.operation}
    options = watched if point.operation else {"file_size": point.size, "size_kills": True}
    first = bench.server.run(reference.request(**options))
    findings = [] if first.code in DEAD else judged(first, f"{what}: the first run")
    if first.orphans:
        findings.append(Finding(Kind.LEFTOVER, what, f"{first.orphans} processes outlived the kill"))
    findings += torn(snapshot(folder), reference.before, reference.after, what)
    second = bench.server.run(reference.request())
    again = f"{what}: run again"
    findings += judged(second, again, codes=(0, 2) if in_place(reference, first, second) else (0,))
    found = snapshot(folder)
    different = compared(found, reference.after, again)
    if reference.job.keeps and second.code:
        different = [each for each in different if each.kind == Kind.LEFTOVER]
    left = sorted(found.keys() - reference.after.keys())
    if left and swept(bench, reference, left):
        different = [each for each in different if each.kind != Kind.LEFTOVER]
    return findings + different


def in_place(reference: Reference, first: Answer, second: Answer) -> bool:
    """Whether the second run was refused because of what the first had finished, or keeps."""
    return "exists already" in second.err and (first.code in (0, *DEAD) or reference.job.keeps)


def swept(bench: Bench, reference: Reference, left: list[str]) -> bool:
    """Whether the next command that writes there takes away what a killed one left.

    A command that finds everything in place writes nothing, and need not look: so the job is begun anew beside it.
    """
    aside = reference.folder.with_name("aside")
    shutil.rmtree(aside, ignore_errors=True)
    moved(left, reference.folder, aside)
    moved(left, aside, reference.begun(bench))
    third = bench.server.run(reference.request())
    return not third.code and not compared(snapshot(reference.folder), reference.after, "")


def moved(names: list[str], source: Path, target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if not (target / name).exists():
            shutil.move(source / name, target / name)


def described(reference: Reference, point: Point) -> str:
    command = shlex.join(["stacq", *reference.arguments])
    if point.operation:
        return f"{command}, killed at operation {reference.points[point.operation - 1]}"
    return f"{command}, killed when a file had {point.size - 1} bytes"

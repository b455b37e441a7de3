"""Kills at every file operation, and in the middle of writes: the same command again must end as if nothing was.

Nothing may be half made under its final name after the kill, and nothing may be left behind after the second run.
"""

import shlex
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from attack.bench import Bench
from attack.jobs import Reference, chosen, referred
from attack.processes import Answer, judged
from attack.trees import compared, snapshot, torn
from attack.verdict import Finding, Kind, Outcome

SIZES = 24  # limits of file size that kill in the middle of a write, for each job
DEAD = (-signal.SIGKILL, -signal.SIGXFSZ)
TAKEN = 2  # the exit code where the first run had finished, and a second must not write over it


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
    findings += judged(second, f"{what}: run again")
    found = snapshot(folder)
    if finished_before(second, first):
        return findings + [each for each in compared(found, reference.after, what) if each.kind == Kind.LEFTOVER]
    return findings + again(second, what) + compared(found, reference.after, what)


def finished_before(second: Answer, first: Answer) -> bool:
    """Whether the second run was refused because the first had put everything in place."""
    return second.code == TAKEN and first.code in DEAD and "exists already" in second.err


def again(second: Answer, what: str) -> list[Finding]:
    told = second.err[-2000:]
    return [Finding(Kind.CODE, what, f"run again it ends with {second.code}\n{told}")] if second.code == TAKEN else []


def described(reference: Reference, point: Point) -> str:
    command = shlex.join(["stacq", *reference.arguments])
    if point.operation:
        return f"{command}, killed at operation {reference.points[point.operation - 1]}"
    return f"{command}, killed when a file had {point.size - 1} bytes"

"""The speed of a training, and how it is reported to a listener."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax

GPU_TURNS = 1000  # per chunk: about a second of a large run
PACE_SECONDS = 60.0  # over which the speed is measured that estimates rest on
CHUNK_SECONDS = 1.0  # on a CPU, where chunks may have any length


class Report(NamedTuple):
    """What a listener gets: how far, how fast, and what is new."""

    step: int
    total: int
    until: int  # the last step of this phase: the next one may have another speed
    rate: float  # recent steps per second, waits for evaluations included
    behind: float  # seconds that the evaluations of this phase still take, as far as one was timed
    losses: Mapping[str, list[float]]  # by metric, a value per seed that goes on; empty between two evaluations
    scores: Mapping[int, float]  # by seed: the last score, or return where no score is known


Listener = Callable[[Report], None]


class Pace:
    """Steps per second: of the last chunk, and of wall-clock time over the last minute."""

    def __init__(self) -> None:
        self.marks: deque[tuple[float, int]] = deque()
        self.chunk = 0.0

    def mark(self, step: int, steps: int, seconds: float, *, compiled: bool) -> None:
        """Note a chunk that has just ended; one that compiled says nothing about the minute."""
        self.chunk = steps / max(seconds, 1e-9)
        if compiled:
            return
        self.marks.append((time.monotonic(), step))
        while len(self.marks) > 2 and self.marks[-1][0] - self.marks[1][0] > PACE_SECONDS:
            self.marks.popleft()

    @property
    def rate(self) -> float:
        """0 where nothing is known yet."""
        if len(self.marks) < 2:
            return self.chunk
        (began, first), (now, last) = self.marks[0], self.marks[-1]
        return (last - first) / max(now - began, 1e-9)

    def turns(self, left: int, whole: int, turn: int) -> int:
        """How many rounds come next. On a GPU the number is compiled in, so it is the same again and again."""
        if jax.default_backend() != "cpu":
            return min(left, even_part(whole, GPU_TURNS))
        least = 2 if self.chunk else 1  # a single turn compiles, and leaves all cores but one idle
        return min(left, max(least, int(self.chunk / turn * CHUNK_SECONDS)))


def even_part(whole: int, most: int) -> int:
    """The largest number up to `most` that divides `whole`, or, where only small ones do, the size of even parts.

    The last of these is shorter. On a GPU that is a second program to compile, which costs less than many chunks.
    """
    divisor = next(count for count in range(min(whole, most), 0, -1) if whole % count == 0)
    parts = -(-whole // most)
    return divisor if 2 * divisor >= min(whole, most) else -(-whole // parts)

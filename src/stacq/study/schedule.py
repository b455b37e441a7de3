"""Which job comes next: a heap of those that are ready, and a list of followers for those that are not.

Every job is looked at once when it becomes ready and once when it ends, so ten thousand of them take no longer per job
than ten.
"""

import heapq
from collections.abc import Iterable, Iterator

from stacq.study.jobs import Job

MOST_ATTEMPTS = 5  # of a job whose process was killed; one that fails by itself would fail again


class Schedule:
    """Jobs that wait, that are ready, that run, and that ended."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.jobs = {job.key: job for job in jobs}
        self.order = {key: place for place, key in enumerate(self.jobs)}
        self.followers: dict[str, list[str]] = {}
        self.attempts: dict[str, int] = {}
        self.running: set[str] = set()
        self.done: set[str] = set()
        self.failed: dict[str, str] = {}
        self._ready: list[tuple[int, str]] = []
        for key, job in self.jobs.items():
            if job.needs in self.jobs:
                self.followers.setdefault(str(job.needs), []).append(key)
            else:
                self._push(key)

    def _push(self, key: str) -> None:
        heapq.heappush(self._ready, (self.order[key], key))

    def next(self) -> Job | None:
        """The first one that waits for nothing; from here on it runs."""
        if not self._ready:
            return None
        _, key = heapq.heappop(self._ready)
        self.running.add(key)
        self.attempts[key] = self.attempts.get(key, 0) + 1
        return self.jobs[key]

    def finish(self, key: str) -> None:
        self.running.discard(key)
        self.done.add(key)
        for follower in self.followers.get(key, ()):
            self._push(follower)

    def lose(self, key: str) -> bool:
        """Its process was killed: whether it is tried again."""
        self.running.discard(key)
        again = self.attempts[key] < MOST_ATTEMPTS
        if again:
            self._push(key)
        return again

    def fail(self, key: str, reason: str) -> list[Job]:
        """Give it up, and all that waits for it; these are returned."""
        self.running.discard(key)
        self.failed[key] = reason
        left_out = list(self._after(key))
        for job in left_out:
            self.failed[job.key] = f"left out: {self.jobs[key].title} failed"
        return left_out

    def _after(self, key: str) -> Iterator[Job]:
        for follower in self.followers.get(key, ()):
            yield self.jobs[follower]
            yield from self._after(follower)

    @property
    def over(self) -> bool:
        return not self._ready and not self.running

    @property
    def ready(self) -> int:
        return len(self._ready)

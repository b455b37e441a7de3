"""Evaluations during the training: worker processes roll out stored snapshots while the device continues."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from stacq.algos.algorithm import Algorithm
from stacq.core.workers import WorkerFailed, WorkerPool
from stacq.envs.gym import EnvSource
from stacq.evaluation.records import EpisodeRecord
from stacq.evaluation.rollouts import (
    Counting,
    Episode,
    EvaluationFailed,
    env_label,
    record_of,
    reference_task,
    run_episode,
)
from stacq.evaluation.together import act_together, run_together
from stacq.policies import Policy, Space

STREAM = 1  # keeps the starts of evaluations apart from those of other rollouts with the same seed
MOST_WAITING = 3  # snapshots; beyond that the training waits for the workers


class Scoring(NamedTuple):
    """How policies are scored during training."""

    env: EnvSource
    episodes: int
    counting: Counting  # of the critics, whose values are compared with the returns
    label: str  # of the algorithm, in the records
    dataset: str


class Snapshot(NamedTuple):
    """Parameters of all seeds at one step, on the host, and which seeds still train."""

    step: int
    state: Any  # [K, ...]
    seeds: tuple[int, ...]  # those to evaluate
    places: tuple[int, ...]  # their places along the seed axis


class Outcome(NamedTuple):
    """One seed's evaluation at one step."""

    snapshot: Snapshot
    seed: int
    place: int
    episodes: tuple[Episode, ...]


def policies_of(algorithm: Algorithm, state: Any, places: Sequence[int], space: Space) -> list[Policy]:
    """NumPy policies of some seeds of a state with a seed axis, on the host."""
    return [algorithm.policy(jax.tree.map(lambda leaf, k=place: np.asarray(leaf)[k], state), space) for place in places]


class Evaluator:
    """A thread that hands snapshots to a pool of workers, in order; a context manager."""

    def __init__(self, scoring: Scoring, pool: WorkerPool, algorithm: Algorithm, space: Space) -> None:
        self.scoring, self.pool = scoring, pool
        self.algorithm, self.space = algorithm, space
        self._todo: queue.Queue[Snapshot | None] = queue.Queue(maxsize=MOST_WAITING)
        self._done: queue.SimpleQueue[list[Outcome] | BaseException] = queue.SimpleQueue()
        self.waiting = 0  # evaluations that were submitted and not collected
        self.seconds = 0.0  # that the last one took; 0 before the second, since the first one starts the workers
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="stacq-evaluator", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Evaluator":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()
        self._ended = True
        with contextlib.suppress(queue.Full):  # a thread that is behind sees `_ended` before it waits again
            self._todo.put_nowait(None)
        self._thread.join()  # it may be computing, which must not outlast the interpreter

    def submit(self, snapshot: Snapshot) -> None:
        """Queue a snapshot; waits while too many are queued."""
        self.waiting += 1
        self._todo.put(snapshot)

    def collect(self, *, wait: bool = False) -> Iterator[list[Outcome]]:
        """Evaluations that are finished, oldest first; with `wait`, all that were submitted."""
        while self.waiting and (wait or not self._done.empty()):
            found = self._done.get()
            if isinstance(found, BaseException):
                raise found
            self.waiting -= 1
            yield found

    def _work(self) -> None:
        failed, warm = False, False
        while not self._ended:
            snapshot = self._todo.get()
            if failed or snapshot is None:
                continue  # the trainer knows of the error and will stop; it must not block on a full queue before that
            try:
                began = time.monotonic()
                outcomes = self._evaluate(snapshot)
                self.seconds, warm = (time.monotonic() - began if warm else 0.0), True
                self._done.put(outcomes)
            except BaseException as error:
                self._done.put(error)
                failed = True

    def _evaluate(self, snapshot: Snapshot) -> list[Outcome]:
        policies = policies_of(self.algorithm, snapshot.state, snapshot.places, self.space)
        here = bool(policies) and act_together(policies[0])
        try:
            found = self._here(snapshot, policies) if here else self._in_workers(snapshot, policies)
        except (WorkerFailed, EvaluationFailed) as failure:
            told = f"{failure.summary}\n{failure.details}" if isinstance(failure, WorkerFailed) else str(failure)
            raise EvaluationFailed(
                f"the evaluation at step {snapshot.step:,} in {env_label(self.scoring.env)} failed: {told}"
            ) from None
        return [
            Outcome(snapshot, seed, place, tuple(episodes))
            for seed, place, episodes in zip(snapshot.seeds, snapshot.places, found, strict=True)
        ]

    def _in_workers(self, snapshot: Snapshot, policies: Sequence[Policy]) -> list[list[Episode]]:
        p = self.scoring
        run = partial(_episode, p.env, env_label(p.env), snapshot.step, p.counting)
        tasks = [
            (policy, seed, index)
            for policy, seed in zip(policies, snapshot.seeds, strict=True)
            for index in range(p.episodes)
        ]
        episodes = list(self.pool.map(run, tasks))
        return [episodes[first : first + p.episodes] for first in range(0, len(episodes), p.episodes)]

    def _here(self, snapshot: Snapshot, policies: Sequence[Policy]) -> list[list[Episode]]:
        """In this thread: it shares cores or device with the training."""
        p = self.scoring
        streams = [[(STREAM, seed, snapshot.step, index) for index in range(p.episodes)] for seed in snapshot.seeds]
        return run_together(policies, p.env, env_label(p.env), streams, p.counting, wanted=lambda: not self._ended)


def _episode(env: EnvSource, label: str, step: int, counting: Counting, task: tuple[Policy, int, int]) -> Episode:
    policy, seed, index = task
    return run_episode(policy, env, label, (STREAM, seed, step), index, counting)


def records_of(outcome: Outcome, scoring: Scoring) -> list[EpisodeRecord]:
    task = reference_task(scoring.dataset, scoring.env)
    return [
        record_of(episode, task, scoring.label, scoring.dataset, (outcome.seed, outcome.snapshot.step, index))
        for index, episode in enumerate(outcome.episodes)
    ]

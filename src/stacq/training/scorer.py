"""From snapshots to records: a snapshot is on disk before its evaluation, and until its records are written."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos.algorithm import Algorithm
from stacq.core.artefacts import remove_artefact
from stacq.core.types import Bools
from stacq.evaluation.records import EpisodeRecord
from stacq.runs.directory import EVALUATED, Run, read_metrics
from stacq.training.checkpoints import load_tree, save_tree, stored_steps
from stacq.training.evaluations import Evaluator, Outcome, Snapshot, records_of
from stacq.training.task import Task

SNAPSHOT, SNAPSHOTS = "snapshot", "snapshots"


class Scorer:
    """Evaluations of one run: snapshots in, records and metrics out."""

    def __init__(self, task: Task, seeds: tuple[int, ...], run: Run, evaluator: Evaluator) -> None:
        self.task, self.seeds, self.run, self.evaluator = task, seeds, run, evaluator
        self.scores: dict[int, float] = {}  # the last of every seed

    def take(self, state: Any, step: int, alive: Bools) -> Snapshot:
        """Parameters alone, on disk: what is queued must survive a kill."""
        tree = jax.device_get(self.task.algorithm.kept(state))
        save_snapshot(self._path(step), tree, step, alive)
        return self._queued(step, tree, alive)

    def submit(self, snapshot: Snapshot) -> None:
        """Queue it; waits where evaluations take longer than the training."""
        self.evaluator.submit(snapshot)

    def go_on(self, state: Any) -> None:
        """Queue what an earlier process took and did not evaluate, and remember its scores."""
        if (self.run.directory / "metrics.jsonl").exists():
            for line in read_metrics(self.run.directory):
                if EVALUATED in line:
                    self.scores[line["seed"]] = line.get("eval/score", line[EVALUATED])
        like = jax.device_get(self.task.algorithm.kept(state))
        for path in stored_steps(self.run.directory / SNAPSHOTS):
            tree, facts = load_tree(path, SNAPSHOT, like)
            self.submit(self._queued(int(facts["step"]), jax.device_get(tree), np.array(facts["alive"])))

    def write(self, *, wait: bool = False) -> None:
        """Write down what has been evaluated by now; with `wait`, all that was submitted."""
        self._write(self.evaluator.collect(wait=wait))

    def seconds_behind(self, to_come: int) -> float:
        """How long the evaluations under way and `to_come` others still take."""
        return self.evaluator.seconds * (to_come + self.evaluator.waiting)

    def _write(self, finished: Iterator[list[Outcome]]) -> None:
        """Records first, then the line that says they are whole, then the snapshot goes."""
        for outcomes in finished:
            records = [records_of(outcome, self.evaluator.scoring) for outcome in outcomes]
            for record in itertools.chain(*records):
                self.run.record(record)
            values = self._values(outcomes)
            for outcome, mine, value in zip(outcomes, records, values, strict=True):
                line = evaluation_line(outcome, mine, value)
                self.scores[outcome.seed] = line.get("eval/score", line[EVALUATED])
                self.run.metrics(outcome.snapshot.step, line, seed=outcome.seed)
            if outcomes:
                remove_artefact(self._path(outcomes[0].snapshot.step))

    def _values(self, outcomes: list[Outcome]) -> list[float | None]:
        """The critics' value of each seed's policy at the starts of its episodes, averaged."""
        if not outcomes or self.task.algorithm.value is None:
            return [None] * len(outcomes)
        snapshot, normaliser = outcomes[0].snapshot, self.task.space.normaliser
        blank = np.zeros((len(self.seeds), len(outcomes[0].episodes), self.task.sizes.state), np.float32)
        for outcome in outcomes:
            blank[outcome.place] = normaliser.apply(np.stack([episode.start for episode in outcome.episodes]))
        value = _compiled_value(self.task.algorithm)
        found = np.asarray(value(snapshot.state, jnp.asarray(blank), self.task.world, self.task.config))
        return [float(found[outcome.place].mean()) for outcome in outcomes]

    def _queued(self, step: int, tree: Any, alive: Bools) -> Snapshot:
        places = tuple(np.flatnonzero(alive).tolist())
        return Snapshot(step, tree, tuple(self.seeds[place] for place in places), places)

    def _path(self, step: int) -> Path:
        return self.run.directory / SNAPSHOTS / f"{step:09d}"


def save_snapshot(path: Path, tree: Any, step: int, alive: Bools) -> None:
    save_tree(path, SNAPSHOT, tree, {"step": step, "alive": alive.tolist()})


@cache
def _compiled_value(algorithm: Algorithm) -> Callable[..., Any]:
    assert algorithm.value is not None
    return jax.jit(jax.vmap(algorithm.value, in_axes=(0, 0, None, None)))


def evaluation_line(outcome: Outcome, records: list[EpisodeRecord], value: float | None) -> dict[str, float]:
    """One seed's evaluation in numbers; value against discounted return is the critics' over-estimation."""
    line = {
        EVALUATED: float(np.mean([record.episode_return for record in records])),
        "eval/length": float(np.mean([record.length for record in records])),
        "eval/discounted_return": float(np.mean([episode.discounted_return for episode in outcome.episodes])),
    }
    if records[0].score is not None:
        line["eval/score"] = float(np.mean([record.score for record in records if record.score is not None]))
    if records[0].success is not None:
        line["eval/success"] = float(np.mean([bool(record.success) for record in records]))
    if value is not None:
        line["eval/value"] = value
    return line

"""A training run from start to end: chunks on the device, files on disk, evaluations at the same time.

A run may be killed at any instant. Started again in the same directory it goes on from its last checkpoint and ends
in the same parameters, metrics and records, because what a step draws depends on its seed and number alone. Snapshots
to be evaluated are on disk before the checkpoint that follows them, and stay until their records are.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.interrupts import Held, held_back
from stacq.core.workers import WorkerPool
from stacq.evaluation.rollouts import crew_size
from stacq.nn.precision import products_of
from stacq.runs.directory import Run
from stacq.runs.finished import POLICIES
from stacq.training.checkpoints import save_checkpoint
from stacq.training.evaluations import Evaluator, Scoring, Snapshot, policies_of
from stacq.training.loop import Carry, compiled_advance, init_states
from stacq.training.pace import Listener, Pace, Report
from stacq.training.resume import CHECKPOINTS, resume
from stacq.training.scorer import Scorer
from stacq.training.task import (
    Schedule,
    Stretch,
    Task,
    arithmetic_of,
    check_actions,
    check_schedule,
    metric_shares,
    stretches,
    total_steps,
)
from stacq.training.watchdog import Watchdog


def train(
    task: Task,
    schedule: Schedule,
    run: Run,
    *,
    scoring: Scoring | None = None,
    workers: int | None = None,
    listener: Listener | None = None,
    say: Callable[[str], None] = print,
) -> Any:
    """Train all seeds to the end, and return their final states, [K, ...]; policies are left in the run directory.

    Without `scoring` nothing is evaluated: data may come without an environment.
    """
    check_schedule(task.algorithm, task.config, schedule)
    check_actions(task)
    with products_of(task.precision):
        if scoring is None:
            return _Training(task, schedule, run, None, listener, say).go()
        pool = WorkerPool(crew_size(workers, scoring.episodes * len(schedule.seeds)))
        with Evaluator(scoring, pool, task.algorithm, task.space) as evaluator:
            scorer = Scorer(task, schedule.seeds, run, evaluator)
            return _Training(task, schedule, run, scorer, listener, say).go()


class _Training:
    """The loop on the host: stretch after stretch, each ended by metrics, a snapshot and a checkpoint."""

    def __init__(
        self,
        task: Task,
        schedule: Schedule,
        run: Run,
        scorer: Scorer | None,
        listener: Listener | None,
        say: Callable[[str], None],
    ) -> None:
        self.task, self.schedule, self.run, self.scorer = task, schedule, run, scorer
        self.listener, self.say = listener, say
        self.seeds = jnp.asarray(schedule.seeds, jnp.int32)
        self.advance = compiled_advance()
        self.stretches = stretches(task.phases, schedule.eval_every)
        self.total = total_steps(task.phases)
        self.watchdog = Watchdog(task, schedule.seeds, run, say)
        self.pace = Pace()
        self.saved = time.monotonic()
        self.stop = Held()

    def go(self) -> Any:
        state = init_states(self.task.algorithm, self.seeds, self.task.sizes, self.task.config)
        shares = {phase: metric_shares(phase, self.task, state, self.seeds) for phase in self.task.phases}
        blank = {name: jnp.zeros(len(self.seeds), jnp.float32) for names in shares.values() for name in names}
        carry = self._begin(Carry(state, blank, jnp.asarray(0, jnp.int32)))
        begun, phase = int(carry.step), None
        for stretch in self.stretches:
            if stretch.last <= begun:
                continue
            if stretch.phase is not phase:
                phase, self.pace = stretch.phase, Pace()
            with held_back() as self.stop:
                carry = self._advance(stretch, carry)
                self._log(stretch, carry, shares[stretch.phase])
                carry = carry._replace(sums=jax.tree.map(jnp.zeros_like, carry.sums))
                taken = self._snapshot(stretch, carry)
                self._save(carry, at_once=stretch.last == self.total)
            self._queue(taken, carry)
        if self.scorer is not None:
            self.scorer.write(wait=True)
        self._finish(carry.state)
        return carry.state

    def _begin(self, fresh: Carry) -> Carry:
        """Where an earlier process stopped, or at the start."""
        found = resume(self.run, fresh, self.watchdog.alive, self.task.algorithm.kept, self.say)
        carry = fresh if found is None else found.carry
        if found is not None:
            self.watchdog.alive = found.alive
            self._note_resumed(int(carry.step), found.arithmetic)
        if self.scorer is not None:
            self.scorer.go_on(carry.state)
        return carry

    def _note_resumed(self, step: int, before: str) -> None:
        self.say(f"going on from step {step:,} of {self.total:,}")
        self.run.log(f"resumed at step {step}")
        now = arithmetic_of(self.task)
        if before and before != now:
            message = f"it was trained on {before} and goes on with {now}: rounding is different from here on"
            self.say(f"note: {message}")
            self.run.log(message)

    def _advance(self, stretch: Stretch, carry: Carry) -> Carry:
        """From one evaluation to the next, or from where a killed run left off."""
        phase, first, last = stretch
        done, turn = int(carry.step), len(phase.updates)
        while done < last:
            turns = self.pace.turns((last - done) // turn, (last - first) // turn, turn)
            began = time.monotonic()
            carry = self.advance(carry, self.task.world, self.seeds, self.task.config, phase.updates, turns)
            done = int(carry.step)
            self.pace.mark(done, turns * turn, time.monotonic() - began, compiled=turns == 1)
            if self.scorer is not None:
                self.scorer.write()
            if done < last:
                self._save(carry)
            self._tell(done, {})
        return carry

    def _log(self, stretch: Stretch, carry: Carry, shares: Mapping[str, float]) -> None:
        """Write down the means since the last time, of the seeds that go on."""
        step, steps = int(carry.step), stretch.last - stretch.first
        means = {name: np.asarray(carry.sums[name], np.float64) / (steps * share) for name, share in shares.items()}
        for seed, mine in self.watchdog.judge(step, carry.state, means).items():
            self.run.metrics(step, mine, seed=seed)
        self.watchdog.check_left(step)
        self._tell(step, {name: values[self.watchdog.alive].tolist() for name, values in means.items()})

    def _snapshot(self, stretch: Stretch, carry: Carry) -> Snapshot | None:
        if self.scorer is None or not stretch.phase.acts:
            return None
        return self.scorer.take(carry.state, stretch.last, self.watchdog.alive)

    def _save(self, carry: Carry, *, at_once: bool = False) -> None:
        """A checkpoint, if it is time for one, or if the run was asked to stop; then it stops."""
        if at_once or self.stop.asked or time.monotonic() - self.saved >= self.schedule.checkpoint_seconds:
            tree = carry, jnp.asarray(self.watchdog.alive)
            save_checkpoint(self.run.directory / CHECKPOINTS, int(carry.step), tree, arithmetic_of(self.task))
            self.saved = time.monotonic()
        self.stop.deliver()

    def _queue(self, taken: Snapshot | None, carry: Carry) -> None:
        """To be evaluated; where evaluations take longer than training, this is where a run waits, and is stopped."""
        if self.scorer is None or taken is None:
            return
        try:
            self.scorer.submit(taken)
        except KeyboardInterrupt:
            self._save(carry, at_once=True)
            raise

    def _tell(self, step: int, losses: Mapping[str, list[float]]) -> None:
        if self.listener is None:
            return
        ends = np.cumsum([phase.steps for phase in self.task.phases])
        until = int(ends[np.searchsorted(ends, step)])
        scores, behind = {}, 0.0
        if self.scorer is not None:
            to_come = sum(one.phase.acts and step <= one.last <= until for one in self.stretches)
            scores, behind = dict(self.scorer.scores), self.scorer.seconds_behind(to_come)
        self.listener(Report(step, self.total, until, self.pace.rate, behind, losses, scores))

    def _finish(self, state: Any) -> None:
        places = np.flatnonzero(self.watchdog.alive).tolist()
        policies = policies_of(self.task.algorithm, jax.device_get(state), places, self.task.space)
        for place, policy in zip(places, policies, strict=True):
            policy.save(self.run.directory / POLICIES / f"seed-{self.schedule.seeds[place]}.safetensors")
        self.run.log(f"trained {len(places)} of {len(self.schedule.seeds)} seeds for {self.total} steps")

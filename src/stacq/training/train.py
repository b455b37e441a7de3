"""A training run from start to end: chunks on the device, files on disk, evaluations beside.

A run may be killed at any instant. Started again in the same directory it goes on from its last checkpoint and ends
in the same parameters, metrics and records, because what a step draws depends on its seed and number alone. Snapshots
to be evaluated are on disk before the checkpoint that follows them, and stay until their records are.
"""

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos import ALGORITHMS, Algorithm
from stacq.algos.common import Phase, Sizes, pulls_actions
from stacq.algos.world import World
from stacq.artefacts import Damaged, remove_artefact, sweep
from stacq.data.normaliser import Normaliser
from stacq.errors import SEED_END, InputError, check_whole
from stacq.evaluation import EpisodeRecord, crew_size
from stacq.files import remove_parts
from stacq.interrupts import Held, held_back
from stacq.nn.learner import stripped
from stacq.runs import EVALUATED, Run, read_metrics
from stacq.training.checkpoints import (
    KIND,
    latest_checkpoint,
    load_tree,
    save_checkpoint,
    save_tree,
    stored_steps,
)
from stacq.training.evaluations import Evaluator, Outcome, Protocol, Snapshot, policies_of, records_of
from stacq.training.failed import TrainingFailed
from stacq.training.finished import POLICIES
from stacq.training.loop import Carry, compiled_advance, init_states, zero_sums
from stacq.types import Bools, Float32s
from stacq.workers import WorkerPool, available_cores

GPU_TURNS = 1000  # per chunk: about a second of a large run
PACE_SECONDS = 60.0  # over which the speed is measured that estimates rest on
CHUNK_SECONDS = 1.0  # on a CPU, where chunks may have any length
MOST_STEPS = 2**31 - 1  # steps are 32-bit numbers to the compiled loop
MOST_EVALUATIONS = 1_000_000
EXPLODED = 100  # times the largest return that the data's rewards allow
SNAPSHOT = "snapshot"
CHECKPOINTS, SNAPSHOTS = "checkpoints", "snapshots"


@dataclass(frozen=True)
class Schedule:
    """What happens when, and who is trained."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    eval_every: int = 5_000
    checkpoint_seconds: float = 60.0


class Task(NamedTuple):
    """What is trained: an algorithm with its config, on a world."""

    name: str
    algorithm: Algorithm
    config: Any
    world: World
    sizes: Sizes
    normaliser: Normaliser
    bounds: tuple[Float32s, Float32s]


class Report(NamedTuple):
    """What a listener is told: how far, how fast, and what is new."""

    step: int
    total: int
    until: int  # the last step of this phase: the next one may have another speed
    rate: float  # steps per second of late, waits for evaluations included
    behind: float  # seconds that the evaluations of this phase still take, as far as one was timed
    losses: Mapping[str, list[float]]  # by metric, a value per seed that goes on; empty between two evaluations
    scores: Mapping[int, float]  # by seed: the last score, or return where no score is known


Listener = Callable[[Report], None]


def train(
    task: Task,
    schedule: Schedule,
    run: Run,
    *,
    protocol: Protocol | None = None,
    workers: int | None = None,
    listener: Listener | None = None,
    say: Callable[[str], None] = print,
) -> Any:
    """Train all seeds to the end, and return their final states, [K, ...]; policies are left in the run directory.

    Without a `protocol` nothing is evaluated: data may come without an environment.
    """
    check_schedule(task.name, task.config, schedule)
    check_actions(task)
    trainer = _Trainer(task, schedule, run, protocol, listener, say)
    if protocol is None:
        return trainer.go(None)
    episodes = protocol.episodes * len(schedule.seeds)
    pool = WorkerPool(crew_size(workers, episodes))
    with Evaluator(protocol, pool, task.normaliser, task.bounds) as evaluator:
        return trainer.go(evaluator)


def check_schedule(name: str, config: Any, schedule: Schedule) -> None:
    """Refuse what would end in the middle: no seeds, no steps, intervals that cut a round of updates."""
    seeds = schedule.seeds
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= SEED_END:
        raise InputError(f"seeds {seeds}", expected=f"different whole numbers from 0 below {SEED_END:,}", fix="use 0")
    phases = ALGORITHMS[name].phases(config)
    steps = sum(phase.steps for phase in phases)
    check_whole(f"{steps} steps", steps, 1, MOST_STEPS, where=name, fix="choose other --steps")
    for phase in phases:
        turn = len(phase.updates)
        if phase.steps < 1 or phase.steps % turn or schedule.eval_every < 1 or schedule.eval_every % turn:
            raise InputError(
                f"{phase.steps} steps, evaluated every {schedule.eval_every}",
                where=name,
                expected=f"multiples of {turn}, at least {turn}",
                fix="choose other --steps or --eval-every",
            )
        count = phase.steps // schedule.eval_every
        check_whole(f"{count} evaluations", count, 0, MOST_EVALUATIONS, where=name, fix="choose a larger --eval-every")


def check_actions(task: Task) -> None:
    """Refuse a pull to actions in a world that was made without them: it would be left out without a word."""
    extras = task.world.extras
    if pulls_actions(task.config) and extras is not None and extras.actions is None:
        raise InputError(
            "the policy's action is to be pulled, but the world has no actions to pull it to",
            where="config.action_pull",
            expected="an action_pull and an alpha other than 0 in the plan that the task was made from",
            fix="give them to make_plan, as a variant or with Options(settings=...)",
        )


def stops(phases: tuple[Phase, ...], every: int) -> list[tuple[Phase, int, int]]:
    """The stretches between two evaluations: phase, first step, last step."""
    found, start = [], 0
    for phase in phases:
        end = start + phase.steps
        inner = range(start - start % every + every, end, every)
        found += [(phase, a, b) for a, b in itertools.pairwise([start, *inner, end])]
        start = end
    return found


def even_part(whole: int, most: int) -> int:
    """The largest number up to `most` that divides `whole`, or, where only small ones do, the size of even parts.

    The last of these is shorter. On a GPU that is a second program to compile, which costs less than many chunks.
    """
    divisor = next(count for count in range(min(whole, most), 0, -1) if whole % count == 0)
    parts = -(-whole // most)
    return divisor if 2 * divisor >= min(whole, most) else -(-whole // parts)


class _Pace:
    """Steps per second of wall-clock time over the last minute; the first chunk that is marked is left out."""

    def __init__(self) -> None:
        self.marks: deque[tuple[float, int]] = deque()

    def mark(self, step: int) -> None:
        self.marks.append((time.monotonic(), step))
        while len(self.marks) > 2 and self.marks[-1][0] - self.marks[1][0] > PACE_SECONDS:
            self.marks.popleft()

    @property
    def rate(self) -> float:
        """0 where nothing is known yet."""
        if len(self.marks) < 2:
            return 0.0
        (began, first), (now, last) = self.marks[0], self.marks[-1]
        return (last - first) / max(now - began, 1e-9)


class _Trainer:
    def __init__(
        self,
        task: Task,
        schedule: Schedule,
        run: Run,
        protocol: Protocol | None,
        listener: Listener | None,
        say: Callable[[str], None],
    ) -> None:
        self.task, self.schedule, self.run = task, schedule, run
        self.protocol, self.listener, self.say = protocol, listener, say
        self.seeds = jnp.asarray(schedule.seeds, jnp.int32)
        self.advance = compiled_advance()
        self.value = _compiled_value(task.name)
        self.phases = task.algorithm.phases(task.config)
        self.ends = dict(zip(self.phases, itertools.accumulate(phase.steps for phase in self.phases), strict=True))
        self.total = self.until = self.ends[self.phases[-1]]
        self.evaluated = [last for phase, _, last in stops(self.phases, schedule.eval_every) if phase.acts]
        self.alive: Bools = np.ones(len(schedule.seeds), dtype=np.bool_)
        self.scores: dict[int, float] = {}
        self.rate = 0.0
        self.saved = time.monotonic()
        self.limit = value_limit(task)
        self.doubted: set[int] = set()
        self.evaluator: Evaluator | None = None
        self.pace = _Pace()
        self.stop = Held()

    def go(self, evaluator: Evaluator | None) -> Any:
        self.evaluator = evaluator
        state = init_states(self.task.algorithm, self.seeds, self.task.sizes, self.task.config)
        names = {phase: _reported(phase, self.task, state, self.seeds) for phase in self.phases}
        blank = {name: jnp.zeros(len(self.seeds), jnp.float32) for each in names.values() for name in each}
        carry = self._resume(Carry(state, blank, jnp.asarray(0, jnp.int32)))
        begun = int(carry.step)
        if evaluator is not None:
            for snapshot in self._unevaluated(carry.state):
                evaluator.submit(snapshot)
        for phase, first, last in stops(self.phases, self.schedule.eval_every):
            if last > begun:
                with held_back() as self.stop:
                    carry = self._stretch(phase, carry, first, last)
                    self._log(carry, last - first, names[phase])
                    carry = carry._replace(sums=jax.tree.map(jnp.zeros_like, carry.sums))
                    taken = self._snapshot(carry.state, last) if evaluator is not None and phase.acts else None
                    self._save(carry, at_once=last == self.total)
                if evaluator is not None and taken is not None:
                    self._queue(evaluator, taken, carry)
        if evaluator is not None:
            self._write(evaluator.collect(wait=True))
        self._finish(carry.state)
        return carry.state

    def _queue(self, evaluator: Evaluator, taken: Snapshot, carry: Carry) -> None:
        """To be evaluated; where evaluations take longer than training, this is where a run waits, and is stopped."""
        try:
            evaluator.submit(taken)
        except KeyboardInterrupt:
            self._save(carry, at_once=True)
            raise

    def _stretch(self, phase: Phase, carry: Carry, first: int, last: int) -> Carry:
        """From one evaluation to the next, or from where a killed run left off."""
        if self.until != self.ends[phase]:
            self.until, self.pace, self.rate = self.ends[phase], _Pace(), 0.0
        done, turn = int(carry.step), len(phase.updates)
        while done < last:
            turns = self._turns((last - done) // turn, (last - first) // turn, turn)
            began = time.monotonic()
            carry = self.advance(carry, self.task.world, self.seeds, self.task.config, phase.updates, turns)
            done = int(carry.step)
            self.rate = turns * turn / max(time.monotonic() - began, 1e-9)
            if self.evaluator is not None:
                self._write(self.evaluator.collect())
            if done < last:
                self._save(carry)
            if turns > 1:
                self.pace.mark(done)
            self._tell(done, {})
        return carry

    def _turns(self, left: int, whole: int, turn: int) -> int:
        """How many rounds come next. On a GPU the number is compiled in, so it is the same again and again."""
        if jax.default_backend() != "cpu":
            return min(left, even_part(whole, GPU_TURNS))
        least = 2 if self.rate else 1  # a single turn compiles, and leaves all cores but one idle
        return min(left, max(least, int(self.rate / turn * CHUNK_SECONDS)))

    def _save(self, carry: Carry, *, at_once: bool = False) -> None:
        """A checkpoint, if it is time for one; whoever asked the run to stop gets one, and then it stops."""
        if at_once or self.stop.asked or time.monotonic() - self.saved >= self.schedule.checkpoint_seconds:
            folder = self.run.directory / CHECKPOINTS
            tree = carry, jnp.asarray(self.alive)
            save_checkpoint(folder, int(carry.step), tree, arithmetic_of(self.task.world))
            self.saved = time.monotonic()
        self.stop.deliver()

    def _log(self, carry: Carry, steps: int, names: Mapping[str, float]) -> None:
        """Write down the means since the last time; stop seeds whose numbers are no numbers any more."""
        step = int(carry.step)
        means = {name: np.asarray(carry.sums[name], np.float64) / (steps * share) for name, share in names.items()}
        whole = np.asarray(_finite_seeds(stripped(carry.state)))  # metrics are of before the last update
        for place, seed in enumerate(self.schedule.seeds):
            if not self.alive[place]:
                continue
            mine = {name: float(values[place]) for name, values in means.items()}
            reason = self._lost(mine) or ("" if whole[place] else "its networks hold NaN or infinity")
            if reason:
                self.alive[place] = False
                rest = "; the other seeds go on" if self.alive.any() else ""
                self.say(f"seed {seed} is stopped at step {step:,}: {reason}{rest}")
                self.run.log(f"seed {seed} stopped at step {step}: {reason}")
                continue
            self.run.metrics(step, mine, seed=seed)
            self._doubt(seed, step, mine)
        if not self.alive.any():
            often = [f"`--set {name}=...`" for name in ("alpha", "learning_rate") if hasattr(self.task.config, name)]
            raise TrainingFailed(
                f"every seed was lost by step {step:,}; metrics.jsonl in {self.run.directory} shows how.\n"
                f"A smaller {' or '.join(often)} often helps."
            )
        self._tell(step, {name: values[self.alive].tolist() for name, values in means.items()})

    def _lost(self, metrics: Mapping[str, float]) -> str:
        for name, value in metrics.items():
            if not math.isfinite(value):
                return f"{name} is {value}"
        name, value = _largest(metrics)
        if abs(value) > EXPLODED * self.limit:
            return f"the critics' mean value, {name}, is {value:.3g}, {EXPLODED} times any return of these rewards"
        return ""

    def _doubt(self, seed: int, step: int, metrics: Mapping[str, float]) -> None:
        """Say once for every seed that its critics promise what cannot be: it may recover, and often does not."""
        name, value = _largest(metrics)
        if abs(value) > self.limit and seed not in self.doubted:
            self.doubted.add(seed)
            told = (
                f"{name}, the critics' mean value, is {value:.3g}; no return of these rewards exceeds {self.limit:.3g}"
            )
            self.say(f"warning: seed {seed} at step {step:,}: {told}")
            self.run.log(f"seed {seed} at step {step}: {told}")

    def _snapshot(self, state: Any, step: int) -> Snapshot:
        """Parameters alone, on disk first: what is queued must survive a kill."""
        tree = jax.device_get(stripped(state))
        save_tree(self._snapshot_path(step), SNAPSHOT, tree, {"step": step, "alive": self.alive.tolist()})
        return self._queued(step, tree, self.alive)

    def _queued(self, step: int, tree: Any, alive: Bools) -> Snapshot:
        places = tuple(np.flatnonzero(alive).tolist())
        return Snapshot(step, tree, tuple(self.schedule.seeds[place] for place in places), places)

    def _snapshot_path(self, step: int) -> Path:
        return self.run.directory / SNAPSHOTS / f"{step:09d}"

    def _write(self, finished: Iterator[list[Outcome]]) -> None:
        """Records first, then the line that says they are whole, then the snapshot goes."""
        for outcomes in finished:
            assert self.protocol is not None
            records = [records_of(outcome, self.protocol) for outcome in outcomes]
            for record in itertools.chain(*records):
                self.run.record(record)
            values = self._values(outcomes)
            for outcome, mine, value in zip(outcomes, records, values, strict=True):
                line = evaluation_line(outcome, mine, value)
                self.scores[outcome.seed] = line.get("eval/score", line[EVALUATED])
                self.run.metrics(outcome.snapshot.step, line, seed=outcome.seed)
            if outcomes:
                remove_artefact(self._snapshot_path(outcomes[0].snapshot.step))

    def _values(self, outcomes: list[Outcome]) -> list[float | None]:
        """The critics' value of each seed's policy at the starts of its episodes, averaged."""
        if not outcomes:
            return []
        snapshot = outcomes[0].snapshot
        blank = np.zeros((len(self.schedule.seeds), len(outcomes[0].episodes), self.task.sizes.state), np.float32)
        for outcome in outcomes:
            blank[outcome.place] = self.task.normaliser.apply(np.stack([each.start for each in outcome.episodes]))
        found = self.value(snapshot.state, jnp.asarray(blank), self.task.world, self.task.config)
        if found is None:
            return [None] * len(outcomes)
        return [float(np.asarray(found)[outcome.place].mean()) for outcome in outcomes]

    def _resume(self, fresh: Carry) -> Carry:
        """The last whole checkpoint, with the files brought back to its step; else a fresh start."""
        if not self.run.resumed:
            return fresh
        for name in (CHECKPOINTS, SNAPSHOTS):
            sweep(self.run.directory / name)
        for name in ("", POLICIES):
            remove_parts(self.run.directory / name)
        checkpoints, like = self.run.directory / CHECKPOINTS, (fresh, jnp.asarray(self.alive))
        found = latest_checkpoint(checkpoints, like, self.say, before=self._damaged(checkpoints, like))
        self._rewind(0 if found is None else found.step)
        if found is None:
            return fresh
        carry, alive = found.tree
        self.alive = np.array(alive)
        self.say(f"going on from step {found.step:,} of {self.total:,}")
        self.run.log(f"resumed at step {found.step}")
        now = arithmetic_of(self.task.world)
        if found.arithmetic and found.arithmetic != now:
            told = f"it was trained on {found.arithmetic} and goes on with {now}: rounding is different from here on"
            self.say(f"note: {told}")
            self.run.log(told)
        return Carry(*carry)

    def _damaged(self, checkpoints: Path, like: tuple[Carry, jax.Array]) -> int | None:
        """The first step whose snapshot is damaged and cannot be made again from a checkpoint of that very step.

        The run must come by there once more, to be evaluated there. Where no checkpoint lies before it, that would
        cost the whole run: then whoever owns it decides.
        """
        parameters = jax.device_get(stripped(like[0].state))
        for path in self._snapshots():
            try:
                load_tree(path, SNAPSHOT, parameters)
            except Damaged as error:
                if self._made_again(path, checkpoints / path.name, like):
                    continue
                if not any(int(each.name) < int(path.name) for each in stored_steps(checkpoints)):
                    raise InputError(
                        "this snapshot, which was to be evaluated, is damaged, and no checkpoint before it is left",
                        where=path,
                        expected="arrays as they were written",
                        fix="delete it to go on without this evaluation, or start anew with another --out",
                    ) from error
                self.say(f"going back to before step {int(path.name):,}: its snapshot is damaged, and is made again")
                return int(path.name)
        return None

    def _made_again(self, path: Path, checkpoint: Path, like: tuple[Carry, jax.Array]) -> bool:
        """Whether a checkpoint of the same step could stand in for a snapshot."""
        if not checkpoint.exists():
            return False
        try:
            (carry, alive), _ = load_tree(checkpoint, KIND, like)
        except Damaged:
            return False
        facts = {"step": int(path.name), "alive": np.asarray(alive).tolist()}
        remove_artefact(path)
        save_tree(path, SNAPSHOT, jax.device_get(stripped(Carry(*carry).state)), facts)
        return True

    def _rewind(self, step: int) -> None:
        """Later checkpoints go before the snapshots, lest a damaged one be forgotten while they lie beyond it."""
        for path in [*stored_steps(self.run.directory / CHECKPOINTS), *self._snapshots()]:
            if int(path.name) > step:
                remove_artefact(path)
        pending = {int(path.name) for path in self._snapshots()}
        self.run.rewind(step, lambda evaluated: evaluated not in pending)
        if (self.run.directory / "metrics.jsonl").exists():
            for line in read_metrics(self.run.directory):
                if EVALUATED in line:
                    self.scores[line["seed"]] = line.get("eval/score", line[EVALUATED])

    def _snapshots(self) -> list[Path]:
        return stored_steps(self.run.directory / SNAPSHOTS)

    def _unevaluated(self, state: Any) -> Iterator[Snapshot]:
        like = jax.device_get(stripped(state))
        for path in self._snapshots():
            tree, facts = load_tree(path, SNAPSHOT, like)
            yield self._queued(int(facts["step"]), jax.device_get(tree), np.array(facts["alive"]))

    def _tell(self, step: int, losses: Mapping[str, list[float]]) -> None:
        if self.listener:
            to_come = sum(step <= last <= self.until for last in self.evaluated)  # that of this step comes right after
            beside = self.evaluator
            behind = 0.0 if beside is None else beside.seconds * (to_come + beside.waiting)
            rate = self.pace.rate or self.rate
            self.listener(Report(step, self.total, self.until, rate, behind, losses, dict(self.scores)))

    def _finish(self, state: Any) -> None:
        places = np.flatnonzero(self.alive).tolist()
        folder = self.run.directory / POLICIES
        actors = policies_of(jax.device_get(state.actor.network), places, self.task.normaliser, self.task.bounds)
        for place, policy in zip(places, actors, strict=True):
            policy.save(folder / f"seed-{self.schedule.seeds[place]}.safetensors")
        self.run.log(f"trained {len(places)} of {len(self.schedule.seeds)} seeds for {self.total} steps")


@cache
def _compiled_value(algorithm: str) -> Callable[..., Any]:
    return jax.jit(jax.vmap(ALGORITHMS[algorithm].value, in_axes=(0, 0, None, None)))


def _reported(phase: Phase, task: Task, state: Any, seeds: jax.Array) -> dict[str, float]:
    """The metrics of a phase, and the share of its updates that report each: a delayed actor reports now and then."""
    names = [zero_sums((update,), state, task.world, seeds, task.config) for update in phase.updates]
    return {name: sum(name in each for each in names) / len(names) for each in names for name in each}


def arithmetic_of(world: World) -> str:
    """What decides how sums and products round: runs repeat bit for bit only where it is the same."""
    kind = "none" if world.ensemble is None else str(world.ensemble.weights[-1].dtype)
    cores = f", cores: {available_cores()}" if jax.default_backend() == "cpu" else ""  # they share large products
    return f"{jax.devices()[0].device_kind}{cores}, frozen ensemble: {kind}"


def value_limit(task: Task) -> float:
    """The largest discounted return that the data's rewards allow, in size, and at least 1."""
    discount = float(np.max(getattr(task.config, "discount", 0.0)))
    return max(float(jnp.abs(task.world.rows.all.r).max()) / max(1 - discount, 1e-3), 1.0)


def _largest(metrics: Mapping[str, float]) -> tuple[str, float]:
    """The mean value of greatest size: of the pairs learned from, or of what the policy does."""
    return max(((name, metrics.get(name, 0.0)) for name in ("q", "q_policy")), key=lambda each: abs(each[1]))


@jax.jit
def _finite_seeds(networks: Any) -> jax.Array:
    """Which seeds have nothing but numbers in their networks, [K]."""
    leaves = jax.tree.leaves(networks)
    return jnp.stack([jnp.isfinite(leaf).all(axis=range(1, leaf.ndim)) for leaf in leaves]).all(axis=0)


def evaluation_line(outcome: Outcome, records: list[EpisodeRecord], value: float | None) -> dict[str, float]:
    """One seed's evaluation in numbers; value against discounted return is the critics' over-estimation."""
    line = {
        EVALUATED: float(np.mean([record.episode_return for record in records])),
        "eval/length": float(np.mean([record.length for record in records])),
        "eval/discounted_return": float(np.mean([each.discounted_return for each in outcome.episodes])),
    }
    if records[0].score is not None:
        line["eval/score"] = float(np.mean([record.score for record in records if record.score is not None]))
    if records[0].success is not None:
        line["eval/success"] = float(np.mean([bool(record.success) for record in records]))
    if value is not None:
        line["eval/value"] = value
    return line

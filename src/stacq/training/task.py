"""What is trained and when: an algorithm on a world, its seeds, and the stretches between two evaluations."""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stacq.algos.algorithm import Algorithm, Phase, Sizes
from stacq.algos.world import World
from stacq.core.errors import SEED_END, InputError, check_whole
from stacq.core.types import Precision
from stacq.core.workers import available_cores
from stacq.nn.precision import rounds_models
from stacq.policies import Space
from stacq.training.loop import zero_sums

MOST_STEPS = 2**31 - 1  # steps are 32-bit numbers to the compiled loop
MOST_EVALUATIONS = 1_000_000


@dataclass(frozen=True)
class Schedule:
    """What happens when, and who is trained."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    eval_every: int = 5_000
    checkpoint_seconds: float = 60.0


class Task(NamedTuple):
    """What is trained: an algorithm with its config, on a world."""

    algorithm: Algorithm
    config: Any
    world: World
    space: Space
    precision: Precision = "auto"  # that of the world too

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.space.normaliser.mean), len(self.space.action_low))

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.algorithm.phases(self.config)


class Stretch(NamedTuple):
    """The updates between two evaluations."""

    phase: Phase
    first: int  # step
    last: int


def stretches(phases: tuple[Phase, ...], every: int) -> list[Stretch]:
    """A training cut at its evaluations, and at the ends of its phases."""
    found, start = [], 0
    for phase in phases:
        end = start + phase.steps
        inner = range(start - start % every + every, end, every)
        found += [Stretch(phase, a, b) for a, b in itertools.pairwise([start, *inner, end])]
        start = end
    return found


def total_steps(phases: tuple[Phase, ...]) -> int:
    return sum(phase.steps for phase in phases)


def check_schedule(algorithm: Algorithm, config: Any, schedule: Schedule) -> None:
    """Refuse what would end in the middle: no seeds, no steps, intervals that cut a round of updates."""
    seeds = schedule.seeds
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= SEED_END:
        raise InputError(f"seeds {seeds}", expected=f"different whole numbers from 0 below {SEED_END:,}", fix="use 0")
    phases, where = algorithm.phases(config), algorithm.name
    steps = total_steps(phases)
    check_whole(f"{steps} steps", steps, 1, MOST_STEPS, where=where, fix="choose other --steps")
    for phase in phases:
        turn = len(phase.updates)
        if phase.steps < 1 or phase.steps % turn or schedule.eval_every < 1 or schedule.eval_every % turn:
            raise InputError(
                f"{phase.steps} steps, evaluated every {schedule.eval_every}",
                where=where,
                expected=f"multiples of {turn}, at least {turn}",
                fix="choose other --steps or --eval-every",
            )
        count, fix = phase.steps // schedule.eval_every, "choose a larger --eval-every"
        check_whole(f"{count} evaluations", count, 0, MOST_EVALUATIONS, where=where, fix=fix)


def check_actions(task: Task) -> None:
    """Refuse a pull to actions in a world that was made without them: it would be left out without a warning."""
    extras = task.world.extras
    if task.algorithm.needs.leading_actions(task.config) and extras is not None and extras.actions is None:
        raise InputError(
            "the policy's action is to be pulled, but the world has no actions to pull it to",
            where="config.action_pull",
            expected="an action_pull and an alpha other than 0 in the plan that the task was made from",
            fix="give them to make_plan, as a variant or with Options(settings=...)",
        )


def metric_shares(phase: Phase, task: Task, state: Any, seeds: jax.Array) -> dict[str, float]:
    """The metrics of a phase, and the share of its updates that report each: a delayed actor reports now and then."""
    names = [zero_sums((update,), state, task.world, seeds, task.config) for update in phase.updates]
    return {name: sum(name in found for found in names) / len(names) for found in names for name in found}


def arithmetic_of(task: Task) -> str:
    """What decides how sums and products round: runs repeat bit for bit only where it is the same."""
    rounded = rounds_models(task.world.precision, jax.default_backend())
    kind = ("bfloat16" if rounded else "float32") if task.algorithm.needs.rounds else "none"
    cores = f", cores: {available_cores()}" if jax.default_backend() == "cpu" else ""  # they share large products
    return f"{jax.devices()[0].device_kind}{cores}, frozen ensemble: {kind}"


def value_limit(task: Task) -> float:
    """The largest discounted return that the data's rewards allow, in size, and at least 1."""
    discount = task.algorithm.discount(task.config) if task.algorithm.value else 0.0
    return max(float(jnp.abs(task.world.rows.all.r).max()) / max(1 - discount, 1e-3), 1.0)

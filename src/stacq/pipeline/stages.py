"""The stages of a training, each of one shape: work in, the same work with one more thing made out.

What a page shows of a stage is written into the run directory as soon as there is one, so that the page of a killed
run has it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stacq.algos.algorithm import Solved
from stacq.algos.world import make_world
from stacq.core.artefacts import Damaged
from stacq.core.files import write_json
from stacq.core.staging import sweep
from stacq.core.types import Float32s
from stacq.graph.sets import lent_actions
from stacq.pipeline.critic import against_graph
from stacq.pipeline.models import Fitted, dynamics_report, find_reachable, made_dynamics, reach_report
from stacq.pipeline.options import Stages
from stacq.pipeline.plan import Plan, run_directory
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.trained import Trained, read_trained
from stacq.policies import Space
from stacq.reach.actions import leading_actions
from stacq.reach.reachable import Reachable
from stacq.runs.directory import RUNS, Run
from stacq.runs.finished import RESULT
from stacq.runs.summary import CRITIC, result_of
from stacq.runs.trackers import Log
from stacq.training.pace import Listener
from stacq.training.task import Task
from stacq.training.train import train as train_seeds

REPORT_EVERY = 30.0  # seconds between two words about a preparation


@dataclass(frozen=True, eq=False)
class Work:
    """A training on its way: the plan, where it goes, and what the stages have made so far."""

    plan: Plan
    stages: Stages = Stages()
    reporter: Reporter = Reporter()
    out: Path | None = None
    root: Path = RUNS
    workers: int | None = None
    logs: tuple[Log, ...] = ()
    fitted: Fitted | None = None
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # files of the run directory
    actions: Float32s | None = None  # that lead to reachable states
    prepared: Any = None  # what the algorithm computed from the whole data
    trained: Trained | None = None

    @property
    def directory(self) -> Path:
        return self.out or run_directory(self.plan, self.root)


Stage = Callable[[Work], Work]


def with_dynamics(work: Work) -> Work:
    """Fitted here, or taken from where the user says."""
    plan, stages = work.plan, work.stages
    if not plan.algorithm.needs.reachable:
        if stages.dynamics is not None:
            work.reporter.say(f"note: {plan.algorithm.name} needs no dynamics; {stages.dynamics} is not used")
        return work
    fitted = made_dynamics(plan.dataset, stages, small=plan.options.small, reporter=work.reporter)
    names = plan.dataset.observation_names
    return replace(work, fitted=fitted, facts={**work.facts, "dynamics.json": dynamics_report(fitted.directory, names)})


def with_sets(work: Work) -> Work:
    """Which states of the data one step can reach."""
    if work.fitted is None:
        return work
    plan, dynamics = work.plan, work.fitted.dynamics
    found = find_reachable(plan.dataset, dynamics, work.stages.reach, engine=work.stages.engine, reporter=work.reporter)
    facts = {**work.facts, "reach.json": reach_report(found.stitching, plan.dataset.observation_names)}
    return replace(work, plan=plan.with_models(dynamics, found.sets), facts=facts)


def with_data(work: Work) -> Work:
    """Data that the algorithm makes itself, from the dataset; a finished run needs none."""
    make, plan = work.plan.algorithm.needs.data, work.plan
    if make is None or (work.directory / RESULT).exists():
        return work
    made = make(plan.dataset, plan.config, work.reporter.say)
    return replace(work, plan=replace(plan, dataset=made, source=plan.dataset))


def with_actions(work: Work) -> Work:
    """The actions that lead to reachable states, where they are pulled to: on a CPU they take minutes to find."""
    plan = work.plan
    if plan.dynamics is None or plan.sets is None or not plan.algorithm.needs.leading_actions(plan.config):
        return work
    if (work.directory / RESULT).exists():
        return work
    reported = time.monotonic()

    def found(count: int, wanted: int) -> None:
        nonlocal reported
        if count < wanted and time.monotonic() - reported >= REPORT_EVERY:
            reported = time.monotonic()
            work.reporter.say(f"found {count:,} of {wanted:,} actions")

    if plan.sets.prices is not None:
        return replace(work, actions=lent_actions(plan.dataset, plan.sets))
    actions = leading_actions(plan.dataset, plan.dynamics, plan.sets, progress=found, log=work.reporter.say)
    return replace(work, actions=actions)


def with_prepared(work: Work) -> Work:
    """What the algorithm computes from the whole data, and what a page shows of it; a finished run needs none."""
    plan, needs = work.plan, work.plan.algorithm.needs
    if (work.directory / RESULT).exists():
        return work
    made = _prepared(plan, work.actions, work.reporter.say)
    told = made.facts if needs.facts is None else needs.facts(plan.dataset, plan.config)
    return replace(work, prepared=made.arrays, facts={**work.facts, **({"prepared.json": told} if told else {})})


def _prepared(plan: Plan, actions: Float32s | None, say: Callable[[str], None]) -> Solved:
    """Nothing for an algorithm that prepares nothing."""
    needs = plan.algorithm.needs
    if needs.solved is not None:
        assert plan.dynamics is not None and plan.sets is not None and actions is not None
        return needs.solved(plan.dataset, Reachable(plan.dynamics, plan.sets, actions), plan.config, say)
    if needs.prepared is not None:
        return Solved(needs.prepared(plan.dataset, space_of(plan), plan.config, say), {})
    return Solved(None, {})


def with_policies(work: Work) -> Work:
    """Train, evaluate at the same time and sum up; or go on with a run that was stopped, or read a finished one."""
    plan, directory = work.plan, work.directory
    with Run(directory, plan.manifest(), logs=work.logs, resume=True) as run:
        for name, values in work.facts.items():
            if values:
                write_json(directory / name, values)
        if (directory / RESULT).exists():
            sweep(directory)  # what a kill between the last file's place and the end left
            work.reporter.say(f"trained before: {directory}")
        else:
            for line in filter(None, work.reporter.diagnostics(plan, directory).splitlines()):
                run.log(line)
            with work.reporter.training(plan, directory) as listener:
                task, state = _train(work, run, listener)
            result = result_of(directory)
            if told := _beside_graph(work, task, state, result["lost"]):
                write_json(directory / CRITIC, told)
            write_json(directory / RESULT, result)
    trained = read_trained(directory, plan.sets)
    work.reporter.result(plan, trained)
    return replace(work, trained=trained)


def _train(work: Work, run: Run, listener: Listener) -> tuple[Task, Any]:
    """The task, and the state of all seeds at the end."""
    plan, task = work.plan, make_task(work.plan, work.actions, work.reporter.say, work.prepared)
    state = train_seeds(
        task,
        plan.schedule,
        run,
        scoring=plan.scoring,
        workers=work.workers,
        listener=listener,
        say=work.reporter.say,
    )
    return task, state


def _beside_graph(work: Work, task: Task, state: Any, lost: Sequence[int]) -> Mapping[str, Any]:
    """What a page shows of the critics at the end: nothing beside a damaged graph, which no training waits for."""
    try:
        return against_graph(work.plan, task, state, lost)
    except Damaged as error:
        work.reporter.say(f"critics were not compared with the graph: {error}")
        return {}


def space_of(plan: Plan) -> Space:
    """Between the outside world and the networks of this plan."""
    low, high = (bound.astype(np.float32) for bound in (plan.dataset.action_low, plan.dataset.action_high))
    return Space(plan.normaliser, low, high)


def make_task(
    plan: Plan, actions: Float32s | None = None, say: Callable[[str], None] = print, prepared: Any = None
) -> Task:
    """Everything on the device; what the algorithm prepares is made here if it was not before."""
    dataset, space = plan.dataset, space_of(plan)
    if prepared is None:
        prepared = _prepared(plan, actions, say).arrays
    world = make_world(
        dataset,
        plan.normaliser,
        plan.dynamics,
        plan.sets,
        actions=actions,
        reward_scale=plan.reward_scale,
        reward_shift=plan.preset.shown.reward_shift,
        every_row=not plan.algorithm.needs.successors,
        precision=plan.options.precision,
        prepared=prepared,
    )
    return Task(plan.algorithm, plan.config, world, space, plan.options.precision)


STAGES: tuple[Stage, ...] = (with_dynamics, with_sets, with_data, with_actions, with_prepared, with_policies)

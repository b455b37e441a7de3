"""A small maze dataset with quick dynamics, and training runs on it that take seconds; also run as a script."""

import contextlib
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from stacq import algos
from stacq.core.files import content_hash
from stacq.data.dataset import Dataset
from stacq.data.maze import maze_dataset
from stacq.dynamics.fit import fit
from stacq.dynamics.models import Dynamics
from stacq.dynamics.recipes import FitConfig
from stacq.pipeline.options import Options
from stacq.pipeline.plan import Plan, make_plan
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.stages import Work, make_task, with_actions, with_data, with_policies, with_prepared
from stacq.pipeline.trained import Trained
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.sets import ReachableSets
from stacq.runs.directory import Run, read_metrics, read_records
from stacq.tabular.maze import load as load_maze
from stacq.training.evaluations import Scoring
from stacq.training.pace import Listener, Report
from stacq.training.task import Schedule, Task
from stacq.training.train import train

ALGORITHMS = tuple(algos.BUILT_IN)
# Sizes by the names that configs give them: what a run of seconds takes. Other fields keep their published values.
SIZES = {
    **{"batch": "16", "hidden": "8,8", "vae_hidden": "8,8"},
    **{"model_hidden": "8,8", "rollouts": "40", "rollout_every": "10"},
    **{"channels": "8", "horizon": "4", "noise_steps": "3", "plans": "2"},  # of planners
    **{"iterations": "2", "forward_hidden": "8", "forward_members": "2", "forward_elites": "1"},
    **{"forward_epochs": "5", "value_fit_steps": "40", "value_hidden": "8"},
    **{"inverse_fit_steps": "10", "inverse_narrow": "8", "reward_fit_steps": "10", "reward_hidden": "8"},
}
TINY = FitConfig(forward_members=2, inverse_members=2, hidden=(16,), max_epochs=2, batch=64)


@functools.cache
def dataset() -> Dataset:
    return maze_dataset(load_maze("stitching"), copies=3)


@functools.cache
def models() -> tuple[Dynamics, ReachableSets]:
    dynamics = fit(dataset(), TINY).dynamics
    return dynamics, reachable_sets(dataset(), dynamics, ReachConfig(epsilon=0.5, cap=4))


def sizes(algorithm: str) -> tuple[str, ...]:
    fields = {each.name for each in dataclasses.fields(algos.find(algorithm).Config)}
    return tuple(f"{name}={value}" for name, value in SIZES.items() if name in fields)


def options(algorithm: str, **changes: Any) -> Options:
    common = Options(
        algorithm=algorithm,
        seeds=2,
        steps=60,
        eval_every=20,
        episodes=2,
        settings=sizes(algorithm),
        checkpoint_seconds=0.0,
    )
    return dataclasses.replace(common, **changes)


def plan(chosen: Options) -> Plan:
    """With the models, where the algorithm needs them."""
    found = make_plan(dataset(), chosen)
    return found.with_models(*models()) if found.algorithm.needs.reachable else found


def made_task(chosen: Options) -> Task:
    """With data of the algorithm's own, and the actions that lead to reachable states, where they are pulled to."""
    work = with_actions(with_data(Work(plan(chosen))))
    return make_task(work.plan, work.actions)


class Told(Reporter):
    """Hands on what is said, and what the listener of a training hears."""

    def __init__(self, say: Callable[[str], None], listener: Listener | None) -> None:
        self.hear, self.listener = say, listener

    def say(self, text: str) -> None:
        self.hear(text)

    @contextlib.contextmanager
    def training(self, plan: Plan, directory: Path) -> Iterator[Listener]:
        yield self.listener or (lambda report: None)


def run_job(
    chosen: Plan,
    *,
    out: Path,
    workers: int = 1,
    listener: Listener | None = None,
    say: Callable[[str], None] = print,
) -> Trained:
    """The stages after the models; an algorithm makes its own data, and what it prepares, in silence."""
    heard = Told(say, listener)
    led = with_actions(dataclasses.replace(with_data(Work(chosen, out=out, workers=workers)), reporter=heard))
    silent = with_prepared(dataclasses.replace(led, reporter=Reporter()))
    trained = with_policies(dataclasses.replace(silent, reporter=heard)).trained
    assert trained is not None
    return trained


def run_train(directory: Path, algorithm: str, *, scoring: Scoring | None = None, **config: Any) -> list[str]:
    """Three seeds trained with fields of the config replaced; what was said."""
    task = made_task(options(algorithm))
    task = task._replace(config=dataclasses.replace(task.config, **config))
    said: list[str] = []
    with Run(directory, {}, resume=True) as run:
        train(task, Schedule((0, 1, 2), 20, 0.0), run, scoring=scoring, workers=1, say=said.append)
    return said


class Stopped(Exception):
    """The plug is pulled."""


def pull_plug_at(*steps: int) -> Any:
    """A listener that stops the run at these steps, once each."""
    left = list(steps)

    def listen(report: Report) -> None:
        if left and report.step >= left[0]:
            left.pop(0)
            raise Stopped

    return listen


def damage(artefact: Path) -> None:
    arrays = artefact / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-3] ^= 1
    arrays.write_bytes(content)


def outcome(directory: Path) -> tuple[Any, ...]:
    """All that a run leaves but wall-clock times, in key order."""
    metrics = [
        json.dumps({key: value for key, value in line.items() if key != "time"}, sort_keys=True)
        for line in read_metrics(directory)
    ]
    records = sorted(record.row() for record in read_records(directory))
    policies = {path.name: content_hash(load_file(path)) for path in (directory / "policies").iterdir()}
    last = max((directory / "checkpoints").iterdir())
    manifest = json.loads((last / "manifest.json").read_text())
    return sorted(metrics), records, policies, last.name, manifest["content"], (directory / "result.json").read_text()


def main(directory: str, algorithm: str, steps: str) -> None:
    """One run, or what is left of it."""
    every = int(steps) // 10
    run_job(plan(options(algorithm, steps=int(steps), eval_every=every)), out=Path(directory), workers=1)


if __name__ == "__main__":
    main(*sys.argv[1:])

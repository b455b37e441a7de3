"""A small maze dataset with quick dynamics, and training runs on it that take seconds; also run as a script."""

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from stacq.data.dataset import Dataset
from stacq.dynamics.fit import FitConfig, fit
from stacq.dynamics.models import Dynamics
from stacq.envs.maze import maze_dataset
from stacq.files import content_hash
from stacq.reach.config import ReachConfig
from stacq.reach.build import reachable_sets
from stacq.reach.sets import ReachableSets
from stacq.runs import read_metrics, read_records
from stacq.tabular.maze import load as load_maze
from stacq.training.job import Options, Plan, make_plan, run_job

TINY = FitConfig(forward_members=2, inverse_members=2, hidden=(16,), max_epochs=2, batch=64)


@functools.cache
def dataset() -> Dataset:
    return maze_dataset(load_maze("stitching"), copies=3)


@functools.cache
def models() -> tuple[Dynamics, ReachableSets]:
    dynamics = fit(dataset(), TINY).dynamics
    return dynamics, reachable_sets(dataset(), dynamics, ReachConfig(epsilon=0.5, cap=4))


def options(algorithm: str, **changes: Any) -> Options:
    common = Options(
        algorithm=algorithm,
        seeds=2,
        steps=60,
        eval_every=20,
        episodes=2,
        settings=("batch=16", "hidden=8,8"),
        checkpoint_seconds=0.0,
    )
    return dataclasses.replace(common, **changes)


def plan(chosen: Options) -> Plan:
    return make_plan(dataset(), chosen, *models())


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

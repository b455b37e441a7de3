"""The longer verbs: evaluations with a run directory around them, and the default job."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from stacq.data.behaviour import load_behaviour
from stacq.data.generate import generate
from stacq.data.load import load
from stacq.data.registry import TASKS, recipe
from stacq.envs.gym import EnvSource
from stacq.evaluation import EpisodeRecord, evaluate
from stacq.policy import Actor
from stacq.progress import progress
from stacq.report.inspect import show
from stacq.runs import Run, new_directory

DEMO_BODY = "hopper"
RUNS = Path("runs")


@dataclass(frozen=True)
class Scoring:
    """How a policy is scored: the part of a config that evaluations share."""

    env: EnvSource
    episodes: int = 10
    seed: int = 0
    workers: int | None = None


def score_policy(
    policy: Actor,
    scoring: Scoring,
    *,
    algorithm: str,
    dataset: str,
    out: Path | None,
    tensorboard: bool,
    config: dict[str, Any],
) -> None:
    """Evaluate one policy into a run directory of its own."""
    console = Console()
    with Run(out or new_directory(RUNS, "evaluate"), config, tensorboard=tensorboard) as run:
        console.print(f"{scoring.episodes} episodes in {scoring.env}; records go to {run.directory}", soft_wrap=True)
        console.print(_sentence(algorithm, _score(run, policy, scoring, algorithm, dataset)), soft_wrap=True)


def run_demo(size: int, episodes: int, workers: int | None, out: Path | None, config: dict[str, Any]) -> None:
    """Regenerate a little data, inspect it, then score the policy that made it beside the expert."""
    console = Console()
    plan = recipe(f"stacq/{DEMO_BODY}-medium-v0", size=size)
    console.print(
        f"[bold]1/3[/] generate {plan.info.name}: {plan.rows:,} rows, about {plan.rows // 5000} s on one core"
    )
    with progress("generating", plan.rows, "rows") as update:
        path = generate(plan.info.name, workers=workers, progress=update)
    console.print(f"    {path}\n[bold]2/3[/] inspect it", soft_wrap=True)
    with Run(out or new_directory(RUNS, "demo"), config) as run:
        show(load(path), run.directory / "inspect.png", console)
        scoring = Scoring(str(TASKS[DEMO_BODY].env_id), episodes, workers=workers)
        console.print(f"[bold]3/3[/] score the shipped policies in {scoring.env}, {episodes} episodes each")
        for tag in ("medium", "expert"):
            name = f"behaviour/{DEMO_BODY}-{tag}"
            records = _score(run, load_behaviour(DEMO_BODY, tag), scoring, name, plan.info.name)
            console.print(f"    {_sentence(name, records)}", soft_wrap=True)
        console.print(f"kept in {run.directory}: inspect.png, records.csv, metrics.jsonl, log.txt", soft_wrap=True)


def _score(run: Run, policy: Actor, scoring: Scoring, algorithm: str, dataset: str) -> list[EpisodeRecord]:
    """Evaluate with progress; every episode is on disk as soon as it ends."""
    done = 0

    def keep(record: EpisodeRecord) -> None:
        nonlocal done
        done += 1
        run.record(record)
        update(done)

    run.log(f"evaluating {algorithm} for {scoring.episodes} episodes")
    with progress(f"evaluating {algorithm}", scoring.episodes, "episodes") as update:
        records = evaluate(
            policy,
            scoring.env,
            scoring.episodes,
            scoring.seed,
            workers=scoring.workers,
            algorithm=algorithm,
            dataset=dataset,
            on_episode=keep,
        )
    run.metrics(0, _averages(algorithm, records))
    run.log(_sentence(algorithm, records))
    return records


def _averages(algorithm: str, records: Sequence[EpisodeRecord]) -> dict[str, float]:
    values = {"return": np.mean([record.episode_return for record in records])}
    values["length"] = np.mean([record.length for record in records])
    scores = [record.score for record in records if record.score is not None]
    if scores:
        values["score"] = np.mean(scores)
    return {f"{algorithm}/{key}": float(value) for key, value in values.items()}


def _sentence(algorithm: str, records: Sequence[EpisodeRecord]) -> str:
    returns = np.array([record.episode_return for record in records])
    lengths = np.array([record.length for record in records])
    text = f"{algorithm}: return {returns.mean():,.1f} (min {returns.min():,.1f}, max {returns.max():,.1f})"
    text += f", length {lengths.mean():,.0f}"
    scores = [record.score for record in records if record.score is not None]
    if scores:
        text += f", normalised score {np.mean(scores):.1f}"
    return text

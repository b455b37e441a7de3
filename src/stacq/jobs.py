"""The longer verbs: evaluations with a run directory around them, and the default job."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from stacq.data.behaviour import load_behaviour
from stacq.data.generate import generate
from stacq.data.load import cached_file, load
from stacq.data.registry import TASKS, Recipe, recipe
from stacq.envs.gym import EnvSource
from stacq.evaluation import EpisodeRecord, check_fit, check_numbers, crew_size, evaluate
from stacq.policy import Actor
from stacq.progress import progress
from stacq.report.inspect import show
from stacq.runs import Run, new_directory
from stacq.workers import WorkerPool

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
    """Evaluate one policy into a run directory of its own, which is not made before everything fits."""
    console = Console()
    with _crew(scoring) as pool:
        check_fit(policy, scoring.env, dataset, pool)
        with Run(out or new_directory(RUNS, "evaluate"), config, tensorboard=tensorboard) as run:
            console.print(
                f"{scoring.episodes} episodes in {scoring.env}; records go to {run.directory}", soft_wrap=True
            )
            records = _score(run, policy, scoring, pool, algorithm, dataset)
            console.print(_sentence(algorithm, records), soft_wrap=True)


def run_demo(size: int, episodes: int, workers: int | None, out: Path | None, config: dict[str, Any]) -> None:
    """Regenerate a little data, inspect it, then score the policy that made it beside the expert."""
    console = Console()
    scoring = Scoring(str(TASKS[DEMO_BODY].env_id), episodes, workers=workers)
    plan = recipe(f"stacq/{DEMO_BODY}-medium-v0", size=size)
    with _crew(scoring) as pool, Run(out or new_directory(RUNS, "demo"), config) as run:
        path = _generated(plan, workers, console)
        console.print(f"    {path}\n[bold]2/3[/] inspect it", soft_wrap=True)
        show(load(path), run.directory / "inspect.png", console)
        console.print(f"[bold]3/3[/] score the shipped policies in {scoring.env}, {episodes} episodes each")
        for tag in ("medium", "expert"):
            name = f"behaviour/{DEMO_BODY}-{tag}"
            records = _score(run, load_behaviour(DEMO_BODY, tag), scoring, pool, name, plan.info.name)
            console.print(f"    {_sentence(name, records)}", soft_wrap=True)
        console.print(f"kept in {run.directory}: inspect.png, records.csv, metrics.jsonl, log.txt", soft_wrap=True)


def generate_with_progress(plan: Recipe, workers: int | None, force: bool = False) -> Path:
    """Generate with a bar; a file that is there already is not announced as work."""
    if cached_file(plan.info).exists() and not force:
        return cached_file(plan.info)
    with progress(f"generating {plan.info.name}", plan.rows, "rows") as update:
        return generate(plan.info.name, seed=plan.seed, workers=workers, force=force, progress=update)


def _generated(plan: Recipe, workers: int | None, console: Console) -> Path:
    here = cached_file(plan.info).exists()
    task = "is in the cache" if here else f"{plan.rows:,} rows, about {plan.rows // 5000} s on one core"
    console.print(f"[bold]1/3[/] generate {plan.info.name}: {task}", soft_wrap=True)
    return generate_with_progress(plan, workers)


def _crew(scoring: Scoring) -> WorkerPool:
    check_numbers(scoring.episodes, scoring.seed)
    return WorkerPool(crew_size(scoring.workers, scoring.episodes))


def _score(
    run: Run, policy: Actor, scoring: Scoring, pool: WorkerPool, algorithm: str, dataset: str
) -> list[EpisodeRecord]:
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
            pool=pool,
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

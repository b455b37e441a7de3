"""The longer verbs: evaluations with a run directory around them, and data generation with progress."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import exists
from stacq.core.printable import printable
from stacq.core.progress import progress, tell
from stacq.core.terminal import Console
from stacq.core.workers import WorkerPool
from stacq.data.behaviour import PREFIX, load_behaviour, read_actor
from stacq.data.generate import generate
from stacq.data.load import cached_file
from stacq.data.registry import Recipe
from stacq.data.tasks import TASKS
from stacq.envs.gym import EnvSource
from stacq.evaluation.records import EpisodeRecord
from stacq.evaluation.rollouts import check_fit, check_numbers, crew_size, evaluate
from stacq.policies import Actor, Policy
from stacq.report.statistics import describe
from stacq.report.tables import spread_text
from stacq.runs.directory import RUNS, Run, new_directory
from stacq.runs.finished import lost_text, read_finished
from stacq.runs.trackers import Log, check_logs

ACTORS = ".npz"  # files of stochastic actors, several in one


@dataclass(frozen=True)
class Scoring:
    """How a policy is scored: the part of a config that evaluations share."""

    env: EnvSource
    episodes: int = 10
    seed: int = 0
    workers: int | None = None


class Candidate(NamedTuple):
    """A policy to be scored; one that was trained keeps its seed and step in the records."""

    policy: Actor
    seed: int | None = None
    step: int = 0


def score_policies(
    candidates: Sequence[Candidate],
    scoring: Scoring,
    *,
    algorithm: str,
    dataset: str,
    out: Path | None,
    logs: Sequence[Log],
    config: dict[str, Any],
) -> None:
    """Evaluate into a run directory of its own, which is not made before everything fits; all from the same starts."""
    console = Console()
    check_logs(logs)
    with _crew(scoring) as pool:
        for candidate in candidates:
            check_fit(candidate.policy, scoring.env, dataset, pool)
        with Run(out or new_directory(RUNS, "evaluate"), config, logs=logs) as run:
            what = f"{scoring.episodes} episodes" + (" of each seed" if len(candidates) > 1 else "")
            console.print(f"{what} in {printable(scoring.env)}; records go to {run.directory}", soft_wrap=True)
            found = []
            for candidate in candidates:
                records = _score(run, candidate, scoring, pool, algorithm, dataset)
                console.print(_sentence(_name(algorithm, candidate), records), soft_wrap=True)
                found.append(records)
            if len(found) > 1:
                console.print(_over_seeds(found), soft_wrap=True)


def generate_with_progress(plan: Recipe, workers: int | None, force: bool = False) -> Path:
    """Generate with a bar; a file that is there already is not announced as work."""
    if cached_file(plan.info).exists() and not force:
        return generate(plan.info.name, seed=plan.seed)

    def waiting() -> None:
        tell("another process is generating it: waiting for that")

    with progress(f"generating {plan.info.name}", plan.rows, "rows") as update:
        name, seed = plan.info.name, plan.seed
        return generate(name, seed=seed, workers=workers, force=force, progress=update, waiting=waiting)


def _crew(scoring: Scoring) -> WorkerPool:
    check_numbers(scoring.episodes, scoring.seed)
    return WorkerPool(crew_size(scoring.workers, scoring.episodes))


def _score(
    run: Run, candidate: Candidate, scoring: Scoring, pool: WorkerPool, algorithm: str, dataset: str
) -> list[EpisodeRecord]:
    """Evaluate with progress; every episode is on disk as soon as it ends."""
    done, name = 0, _name(algorithm, candidate)

    def keep(record: EpisodeRecord) -> None:
        nonlocal done
        done += 1
        run.record(record if candidate.seed is None else replace(record, seed=candidate.seed))
        update(done)

    run.log(f"evaluating {name} for {scoring.episodes} episodes")
    with progress(f"evaluating {name}", scoring.episodes, "episodes") as update:
        records = evaluate(
            candidate.policy,
            scoring.env,
            scoring.episodes,
            scoring.seed,
            pool=pool,
            algorithm=algorithm,
            dataset=dataset,
            step=candidate.step,
            on_episode=keep,
        )
    run.metrics(candidate.step, _averages(algorithm, records), seed=candidate.seed)
    run.log(_sentence(name, records))
    return records


def _name(algorithm: str, candidate: Candidate) -> str:
    return printable(algorithm) + ("" if candidate.seed is None else f", seed {candidate.seed}")


def _over_seeds(found: Sequence[Sequence[EpisodeRecord]]) -> str:
    """Seeds are what varies between trainings, so the interval is over them and not over episodes."""
    scored = all(record.score is not None for records in found for record in records)
    values = [np.mean([record.score if scored else record.episode_return for record in records]) for records in found]
    every = describe(values)
    measure = "normalised score" if scored else "return"
    return (
        f"over {every.runs} seeds: {measure} {every.mean:,.1f}, standard deviation {every.std:,.1f}, "
        f"{spread_text(values)}"
    )


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


def candidates_of(name: str, env: str | None) -> tuple[list[Candidate], str, str, str]:
    """What to score: policies, the algorithm's name, the environment, and the dataset if it is known."""
    if name.startswith(PREFIX):
        body, _, tag = name.removeprefix(PREFIX).partition("-")
        return [Candidate(load_behaviour(body, tag))], name, env or str(TASKS[body].env_id), ""
    if exists(Path(name)) and Path(name).is_dir():
        run = read_finished(Path(name))
        if run.lost:
            Console().print(lost_text(run.lost, len(run.lost) + len(run.policies)), soft_wrap=True)
        found = [Candidate(policy, seed, run.step) for seed, policy in run.policies.items()]
        return found, run.label, env or run.env or _no_env(name), run.dataset
    path, ending, tag = name.rpartition(ACTORS)
    if ending:
        return [Candidate(read_actor(Path(path + ACTORS), tag.removeprefix(":")))], name, env or _no_env(name), ""
    return [Candidate(Policy.load(name))], name, env or _no_env(name), ""


def _no_env(name: str) -> NoReturn:
    fix = "add --env with the id of an environment of the same sizes, such as --env Hopper-v4"
    raise InputError("it does not say its environment", where=name, expected="--env", fix=fix)

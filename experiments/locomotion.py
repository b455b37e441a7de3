"""Training on regenerated locomotion data, for the tables of docs/results.md: at full size, or at a laptop's.

    python experiments/locomotion.py --datasets hopper-medium walker2d-medium --runs stacq own-only td3bc bc
    python experiments/locomotion.py --runs robust --steps 60000 --alphas 1 2 5 --seeds 3
    python experiments/locomotion.py --small --rows 100000 --runs robust td3bc --seeds 10
    python experiments/locomotion.py --table runs/training.jsonl

Every run adds a line to `training.jsonl`: settings, scores of every evaluation and seed, the critics' value beside the
measured discounted return, speed, device. Stages and runs that were made before are reused, and a run that was killed
goes on, so the same command can be given again. With `--alphas` so many seeds are trained with each of them, all side
by side in one run; no two have the same seed. `--table` prints what the file holds. The run `stacq` is the
published variant, `paper`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq import Dataset, generate, load
from stacq.algos import ALGORITHMS
from stacq.dynamics.models import Dynamics
from stacq.files import write_json, write_text
from stacq.pipeline import fit_dynamics
from stacq.reach.build import ReachConfig, reachable_sets
from stacq.reach.sets import ReachableSets
from stacq.report.page_data import curve, read_run
from stacq.report.statistics import describe, difference
from stacq.runs import Run, environment_facts
from stacq.training.failed import TrainingFailed
from stacq.training.finished import RESULT
from stacq.training.job import (
    Options,
    Plan,
    keep_compiled,
    label,
    make_plan,
    make_task,
    protocol_of,
    result_of,
)
from stacq.training.train import Task, train

RESULTS = "training.jsonl"
RUNS: dict[str, tuple[Options, ReachConfig]] = {
    "bc": (Options("bc"), ReachConfig()),
    "td3bc": (Options("td3bc"), ReachConfig()),
    "td3bc-4": (Options("td3bc", variant="four-critics"), ReachConfig()),
    "stacq": (Options("stacq", variant="paper"), ReachConfig()),
    "layer-norm": (Options("stacq", variant="layer-norm"), ReachConfig()),
    "robust": (Options("stacq", variant="robust"), ReachConfig()),
    "own-only": (Options("stacq", variant="paper", own_only=True), ReachConfig()),
    "robust-own-only": (Options("stacq", variant="robust", own_only=True), ReachConfig()),
    "authors": (Options("stacq", variant="authors"), ReachConfig()),
    "calibrated": (Options("stacq", variant="paper"), ReachConfig(criterion="calibrated")),
    "robust-calibrated": (Options("stacq", variant="robust"), ReachConfig(criterion="calibrated")),
    "onestep": (Options("onestep-stacq", variant="paper"), ReachConfig()),
    "onestep-robust": (Options("onestep-stacq", variant="robust"), ReachConfig()),
}
REFERENCE = "td3bc"


class Stages(NamedTuple):
    """What is made once for a dataset and used by all its runs."""

    dataset: Dataset
    dynamics: Dynamics | None
    sets: dict[str, ReachableSets]  # by criterion


def stages(name: str, runs: list[str], rows: int | None, recipe: str) -> Stages:
    """Data, and for the runs that need them dynamics and reachable sets; with the seconds each took."""
    started = time.perf_counter()
    dataset = load(generate(name, size=rows))
    print(f"{name}: {len(dataset):,} rows in {time.perf_counter() - started:.0f} s", flush=True)
    wanted = [RUNS[run] for run in runs if ALGORITHMS[RUNS[run][0].algorithm].NEEDS_REACHABILITY]
    if not wanted:
        return Stages(dataset, None, {})
    started = time.perf_counter()
    dynamics = fit_dynamics(dataset, recipe).dynamics
    print(f"{name}: dynamics in {time.perf_counter() - started:.0f} s", flush=True)
    engine = "cpu" if jax.default_backend() == "cpu" else "gpu"
    sets: dict[str, ReachableSets] = {}
    for _, config in wanted:
        if config.criterion not in sets:
            started = time.perf_counter()
            sets[config.criterion] = reachable_sets(dataset, dynamics, config, engine=engine)  # type: ignore[arg-type]
            print(f"{name}: {config.criterion} sets in {time.perf_counter() - started:.0f} s", flush=True)
    return Stages(dataset, dynamics, sets)


def run_lanes(plan: Plan, alphas: list[float], directory: Path, task_of: Callable[[Plan], Task] = make_task) -> None:
    """Train some seeds with every alpha (the preset's if there are none), and leave a run directory."""
    schedule, manifest = plan.schedule, plan.manifest()
    lanes = np.repeat(alphas, len(schedule.seeds)).astype(np.float32)
    if alphas:
        schedule = replace(schedule, seeds=tuple(range(len(lanes))))
        manifest = {**manifest, "alphas": lanes.tolist(), "seeds": list(schedule.seeds)}
    with Run(directory, manifest, resume=True) as run:
        if not (directory / RESULT).exists():
            task = task_of(plan)
            if alphas:
                task = task._replace(config=replace(task.config, alpha=jnp.asarray(lanes)))
            train(task, schedule, run, protocol=protocol_of(plan))
            write_json(directory / RESULT, result_of(directory))


def summary(directory: Path, name: str, run: str, settings: list[str], seconds: float) -> dict[str, Any]:
    """One line of the results: everything a table or a curve needs, and nothing else."""
    memory = jax.devices()[0].memory_stats() or {}
    found = read_run(directory)
    scores = curve(found, "score")
    assert scores is not None
    guess, got = curve(found, "value"), curve(found, "discounted_return")
    return {
        "dataset": name,
        "run": run,
        "label": found.config["label"],
        "step": int(scores.steps[-1]),
        "settings": settings,
        "alphas": found.config.get("alphas"),
        "seeds": list(scores.seeds),
        "evaluated": scores.steps.tolist(),
        "scores": np.round(scores.values.T, 2).tolist(),
        "value": None if guess is None else np.round(guess.values.T, 1).tolist(),
        "discounted_return": None if got is None else np.round(got.values.T, 1).tolist(),
        "config": found.config["config"],
        "reach": found.config["reach"],
        "episodes": found.config["episodes"],
        "dataset_hash": found.config["dataset_hash"],
        "seconds": round(seconds, 1),  # without the attempts that were killed
        "directory": directory.name,
        "peak_bytes": memory.get("peak_bytes_in_use"),
        "device": jax.devices()[0].device_kind,
        "versions": environment_facts()["versions"],
        "revision": environment_facts()["git_revision"],
        "command": " ".join(sys.argv),
    }


def add(path: Path, line: dict[str, Any]) -> None:
    """A run that is read again replaces its line, but for the seconds that it really took."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    same = [other for other in lines if other["directory"] == line["directory"]]
    line = {**line, "seconds": sum(other["seconds"] for other in same) + line["seconds"]}
    kept = [other for other in lines if other["directory"] != line["directory"]]
    write_text(path, "".join(json.dumps(each) + "\n" for each in [*kept, line]))


def table(path: Path) -> Iterator[str]:
    """A row per dataset and run: final scores over seeds, their 95 percent interval, and the lead over TD3+BC."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    columns = "dataset, run, steps, final: mean ± sd, 95 % interval, last ten, best, lead over TD3+BC, value / return"
    yield f"| {columns.replace(', ', ' | ')} |"
    yield "|---" * len(columns.split(", ")) + "|"
    for line in lines:
        for alpha in sorted({line["alphas"][seed] for seed in line["seeds"]} if line["alphas"] else [None]):
            chosen = [k for k, seed in enumerate(line["seeds"]) if alpha is None or line["alphas"][seed] == alpha]
            scores = np.array(line["scores"])[chosen]
            final, last, best = describe(scores[:, -1]), scores[:, -10:].mean(), scores.max(axis=1).mean()
            name = ", ".join([line["run"], *line["settings"], *([] if alpha is None else [f"alpha {alpha:g}"])])
            yield (
                f"| {line['dataset']} | {name} | {line['step']:,} | {final.mean:.1f} ± {final.std:.1f} | "
                f"{final.low:.1f} to {final.high:.1f} | {last:.1f} | {best:.1f} | {_lead(line, scores, lines)} | "
                f"{_estimates(line, chosen)} |"
            )


def _lead(line: dict[str, Any], scores: Any, lines: list[dict[str, Any]]) -> str:
    """Over the baseline on the same data after as many steps, if that was run as published."""
    wanted = line["dataset"], REFERENCE, line["config"]["steps"], None
    for other in lines:
        found = other["dataset"], other["run"], other["config"]["steps"], other["alphas"]
        if line["run"] != REFERENCE and found == wanted:
            lead = difference(scores[:, -1], np.array(other["scores"])[:, -1])
            return f"{lead.value:+.1f} ({lead.low:.1f} to {lead.high:.1f})"
    return ""


def _estimates(line: dict[str, Any], chosen: list[int]) -> str:
    if line["value"] is None:
        return ""
    return " / ".join(f"{np.array(line[key])[chosen, -1].mean():.0f}" for key in ("value", "discounted_return"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["hopper-medium"])
    parser.add_argument("--runs", nargs="+", default=["stacq"], choices=RUNS)
    parser.add_argument("--small", action="store_true", help="the preset for a laptop, its recipe for dynamics too")
    parser.add_argument("--steps", type=int, help="instead of the preset's, a million or with --small 100,000")
    parser.add_argument("--eval-every", type=int)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--alphas", nargs="*", type=float, default=[])
    parser.add_argument("--set", nargs="*", default=[], help="settings, name=value")
    parser.add_argument("--rows", type=int, help="of the dataset, if fewer than all")
    parser.add_argument("--recipe", help="of the dynamics; `default` unless --small")
    parser.add_argument("--prepare", action="store_true", help="make data, models and sets, and train nothing")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--table", type=Path, help="print this file and do nothing else")
    chosen = parser.parse_args()
    if chosen.table:
        print("\n".join(table(chosen.table)))
        return
    if chosen.alphas and any(not hasattr(ALGORITHMS[RUNS[run][0].algorithm].Config(), "alpha") for run in chosen.runs):
        parser.error("--alphas is for algorithms that have an alpha")
    keep_compiled()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.datasets:
        made = stages(name, chosen.runs, chosen.rows, chosen.recipe or ("small" if chosen.small else "default"))
        for run in [] if chosen.prepare else chosen.runs:
            options, reach = RUNS[run]
            options = replace(
                options,
                small=chosen.small,
                seeds=chosen.seeds,
                first_seed=chosen.first_seed,
                steps=chosen.steps,
                eval_every=chosen.eval_every,
                episodes=chosen.episodes,
                settings=tuple(chosen.set),
            )
            plan = make_plan(made.dataset, options, made.dynamics, made.sets.get(reach.criterion))
            words = [name, run, str(plan.preset.config.steps), *map(str, chosen.alphas), *chosen.set]
            words += [f"from-{chosen.first_seed}"] if chosen.first_seed else []
            directory = chosen.out / "-".join(words)
            started = time.perf_counter()
            try:
                run_lanes(plan, chosen.alphas, directory)
            except TrainingFailed as failure:
                print(f"{name}, {label(plan.options)}: {failure}", flush=True)
                continue
            line = summary(directory, name, run, chosen.set, time.perf_counter() - started)
            add(chosen.out / RESULTS, line)
            print(f"{name}, {label(plan.options)}: {line['seconds']:.0f} s", flush=True)
    if not chosen.prepare:
        print("\n".join(table(chosen.out / RESULTS)))


if __name__ == "__main__":
    main()

"""Training on regenerated locomotion data, for the tables of docs/results.md: at full size, or at a laptop's.

    python studies/locomotion.py --datasets hopper-medium walker2d-medium --runs stacq own-only td3bc bc
    python studies/locomotion.py --runs robust --steps 60000 --alphas 1 2 5 --seeds 3
    python studies/locomotion.py --small --rows 100000 --runs robust td3bc --seeds 10
    python studies/locomotion.py --table runs/training.jsonl

Every run adds a line to `training.jsonl`: settings, scores of every evaluation and seed, the critics' value beside the
measured discounted return, speed, device. Stages and runs that were made before are reused, and a run that was killed
goes on, so the same command can be given again. With `--alphas` there is a run for each of them. `--table` prints what
the file holds; some of its lines are of sweeps that were one run, a seed for each alpha. The file may be the
`records.jsonl` of a study too. The run `stacq` is the published variant, `paper`.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from stacq import ConsoleReporter, Dataset, Options, ReachConfig, Stages, algos, generate, load, train
from stacq.core.files import write_text
from stacq.pipeline.models import reach_dataset
from stacq.pipeline.options import RecipeName
from stacq.pipeline.plan import make_plan
from stacq.report.statistics import describe, difference
from stacq.runs.directory import environment_facts
from stacq.runs.failed import TrainingFailed
from stacq.runs.summary import curve, read_run

RESULTS = "training.jsonl"
RUNS: dict[str, tuple[Options, ReachConfig]] = {
    **{name: (Options(name), ReachConfig()) for name in algos.BUILT_IN},
    "td3bc-4": (Options("td3bc", variant="four-critics"), ReachConfig()),
    "stacq": (Options("stacq", variant="paper"), ReachConfig()),
    "layer-norm": (Options("stacq", variant="layer-norm"), ReachConfig()),
    "robust": (Options("stacq", variant="robust"), ReachConfig()),
    "own-only": (Options("stacq", variant="paper", own_only=True), ReachConfig()),
    "robust-own-only": (Options("stacq", variant="robust", own_only=True), ReachConfig()),
    "authors": (Options("stacq", variant="authors"), ReachConfig()),
    "calibrated": (Options("stacq", variant="paper"), ReachConfig(criterion="calibrated")),
    "robust-priced": (Options("stacq", variant="robust"), ReachConfig(criterion="priced")),
    "robust-calibrated": (Options("stacq", variant="robust"), ReachConfig(criterion="calibrated")),
    "onestep": (Options("onestep-stacq", variant="paper"), ReachConfig()),
    "onestep-robust": (Options("onestep-stacq", variant="robust"), ReachConfig()),
}
REFERENCE = "td3bc"


def dataset_of(name: str, rows: int | None) -> Dataset:
    started = time.perf_counter()
    dataset = load(generate(name, size=rows))
    print(f"{name}: {len(dataset):,} rows in {time.perf_counter() - started:.0f} s", flush=True)
    return dataset


def prepare(dataset: Dataset, runs: list[str], recipe: RecipeName) -> None:
    """Dynamics and reachable sets for the runs that need them, in the cache; with the seconds each took."""
    wanted = {RUNS[run][1] for run in runs if algos.find(RUNS[run][0].algorithm).needs.reachable}
    for config in sorted(wanted, key=lambda each: each.criterion):
        started = time.perf_counter()
        reach_dataset(dataset, Stages(dynamics_preset=recipe, reach=config), None, ConsoleReporter())
        print(f"{dataset.name}: {config.criterion} sets in {time.perf_counter() - started:.0f} s", flush=True)


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
        "alphas": None,
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


def as_line(found: dict[str, Any]) -> dict[str, Any]:
    """A line of this program, or a record of `stacq study` in its terms: the method, which names its settings."""
    if "run" in found:
        return found
    run = REFERENCE if found["method"] == algos.find(REFERENCE).title else found["method"]
    step = found["evaluated"][-1] if found["evaluated"] else 0
    values = {name: found.get(name) for name in ("value", "discounted_return")}
    return {**found, **values, "run": run, "settings": [], "alphas": None, "step": step}


def table(path: Path) -> Iterator[str]:
    """A row per dataset and run: final scores over seeds, their 95 percent interval, and the lead over TD3+BC."""
    found = [as_line(json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in found if line["seeds"]]
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


def train_one(
    dataset: Dataset, name: str, run: str, chosen: argparse.Namespace, recipe: RecipeName, more: list[str]
) -> None:
    """One run of the table; one that was made before is read, one that was stopped goes on."""
    options, reach = RUNS[run]
    settings = [*chosen.set, *more]
    options = replace(
        options,
        small=chosen.small,
        seeds=chosen.seeds,
        first_seed=chosen.first_seed,
        steps=chosen.steps,
        eval_every=chosen.eval_every,
        episodes=chosen.episodes,
        settings=tuple(settings),
    )
    plan = make_plan(dataset, options)
    words = [name, run, str(plan.config.steps), *settings, *([f"from-{chosen.first_seed}"] * bool(chosen.first_seed))]
    started = time.perf_counter()
    try:
        stages = Stages(dynamics_preset=recipe, reach=reach)
        trained = train(dataset, options, stages, out=chosen.out / "-".join(words), reporter=ConsoleReporter())
    except TrainingFailed as failure:
        print(f"{name}, {plan.label}: {failure}", flush=True)
        return
    line = summary(trained.directory, name, run, settings, time.perf_counter() - started)
    add(chosen.out / RESULTS, line)
    print(f"{name}, {plan.label}: {line['seconds']:.0f} s", flush=True)


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
    recipe: RecipeName = chosen.recipe or ("small" if chosen.small else "default")
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.datasets:
        dataset = dataset_of(name, chosen.rows)
        if chosen.prepare:
            prepare(dataset, chosen.runs, recipe)
            continue
        for run, alpha in itertools.product(chosen.runs, chosen.alphas or [None]):
            train_one(dataset, name, run, chosen, recipe, [] if alpha is None else [f"alpha={alpha:g}"])
    if not chosen.prepare:
        print("\n".join(table(chosen.out / RESULTS)))


if __name__ == "__main__":
    main()

"""The stages from a dataset to scored policies, with progress and reports around them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
from rich.console import Console

from stacq.algos import ALGORITHMS
from stacq.algos.presets import preset
from stacq.artefacts import cache_directory, check_place
from stacq.data.dataset import Dataset
from stacq.data.inspect import summarise
from stacq.dynamics.fit import PRESETS, Curve, FitConfig, fit, lengthened
from stacq.dynamics.models import KIND, Dynamics
from stacq.dynamics.quality import Quality, measure
from stacq.errors import InputError, check_choice
from stacq.files import alone, check_writable, json_text
from stacq.progress import progress
from stacq.reach.build import ReachConfig, kept_at, reachable_sets, resolved
from stacq.reach.join import Engine
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import Stitching, stitching
from stacq.report.dynamics_figure import draw_quality
from stacq.report.dynamics_text import print_again, print_quality
from stacq.report.inspect import picture_path
from stacq.report.reach_figure import draw_stitching
from stacq.report.reach_text import print_stitching
from stacq.report.summary_figure import figure_bytes, figure_format, save_figure
from stacq.report.training_text import TrainingDisplay, describe_plan, describe_result
from stacq.runs import RUNS, check_free
from stacq.staging import sweep
from stacq.training.job import Options, Trained, check_options, make_plan, run_directory, run_job, selected

QUALITY = "quality.json"


def tell_concerns(dataset: Dataset, console: Console) -> None:
    """What `stacq data inspect` warns of, before anything is learned from the data."""
    for warning in summarise(dataset).warnings:
        console.print(f"! {warning}", soft_wrap=True)


class Fitted(NamedTuple):
    """Dynamics and the directory they lie in."""

    dynamics: Dynamics
    directory: Path


def fit_dynamics(
    dataset: Dataset, recipe: str, *, epochs: int | None = None, seed: int = 0, out: Path | None = None
) -> Fitted:
    """Fit, report, save; dynamics that were fitted before with the same data and options are reused."""
    console = Console(markup=False)
    check_choice("the recipe", recipe, PRESETS, where="dynamics")
    fitting = PRESETS[recipe] if epochs is None else replace(PRESETS[recipe], max_epochs=epochs, least_steps=0)
    config = lengthened(replace(fitting, seed=seed), dataset)
    if out is not None:
        return _fitted(dataset, config, recipe, out, console)
    directory = cache_directory(KIND, asdict(config), {"dataset": dataset.fingerprint})
    sweep(directory.parent)
    found = _fitted_before(directory, console)
    if found is not None:
        return found
    check_writable(directory)
    with alone(directory, lambda: console.print("another process is fitting these dynamics: waiting for it")):
        found = _fitted_before(directory, console)
        if found is not None:
            return found
        if directory.exists():
            console.print("fitted before, but the report or the rows held out were not kept: fitting again")
        return _fitted(dataset, config, recipe, directory, console)


def _fitted_before(directory: Path, console: Console) -> Fitted | None:
    """What the cache holds, with its report; nothing where a part of it is missing, such as the training's curves."""
    try:
        report = json.loads((directory / QUALITY).read_text(encoding="utf-8"))
        before = Dynamics.load(directory)
        if not report["curves"] or not len(before.held_out):
            return None
        console.print(f"fitted before: {directory}", soft_wrap=True)
        print_again(report, console)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fitted(before, directory)


def _fitted(dataset: Dataset, config: FitConfig, recipe: str, directory: Path, console: Console) -> Fitted:
    check_place(directory, KIND)
    check_writable(directory)
    console.print(f"{config.forward_members} forward and {config.inverse_members} inverse members, {recipe} recipe")
    with progress("fitting dynamics", config.max_epochs, "epochs") as update:
        done = fit(dataset, config, on_epoch=lambda curve: update(curve.epoch + 1, kept=curve.epoch == 0))
    quality = measure(done, dataset)
    print_quality(quality, console)
    done.dynamics.save(directory, _report_files(quality, done.curves))
    console.print(f"dynamics: {directory} (picture: fit.png, numbers: {QUALITY})", soft_wrap=True)
    return Fitted(done.dynamics, directory)


def _report_files(quality: Quality, curves: Sequence[Curve]) -> dict[str, bytes]:
    """Picture and numbers, which appear together with the models."""
    numbers = {**quality.to_json(), "curves": [curve.to_json() for curve in curves]}
    return {"fit.png": figure_bytes(draw_quality(quality, curves), "png"), QUALITY: json_text(numbers).encode()}


def find_reachable(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig,
    *,
    engine: Engine | None = None,
    picture: Path | None = None,
) -> tuple[ReachableSets, Stitching]:
    """Reachable sets with their report and picture; sets that were found before are reused."""
    console = Console(markup=False)
    directory = kept_at(dataset, dynamics, config)
    picture = picture or picture_path(dataset, f"-reach-{directory.name[:8]}")
    check_picture(picture)
    engine = engine or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    with progress("reachable sets", len(dataset), "states") as update:
        say = partial(console.print, soft_wrap=True)
        sets = reachable_sets(dataset, dynamics, config, engine=engine, progress=update, log=say)
    found = stitching(sets, dataset)
    print_stitching(found, sets.config, console)
    save_figure(draw_stitching(dataset, sets, found), picture)
    console.print(f"sets: {directory}\npicture: {picture}", soft_wrap=True)
    return sets, found


class Stages(NamedTuple):
    """How the stages before the training are made."""

    dynamics: Path | None = None  # fitted already
    preset: str | None = None  # of the dynamics; by default what fits the data and the size of the training
    reach: ReachConfig = ReachConfig()
    engine: Engine | None = None


def train(
    dataset: Dataset,
    options: Options = Options(),
    stages: Stages = Stages(),
    *,
    out: Path | str | None = None,
    root: Path | str = RUNS,
    workers: int | None = None,
    tensorboard: bool = False,
    concerns: bool = True,
) -> Trained:
    """All the way from data to scored policies; every stage that was made before is reused.

    With `concerns`, what looks wrong with the data is told first.
    """
    console = Console(markup=False)
    if not isinstance(stages, Stages) or not isinstance(stages.reach, ReachConfig):
        raise InputError(f"stages is {stages!r}", expected="stacq.Stages(..., reach=stacq.ReachConfig(...))")
    check_options(dataset, options)
    resolved(stages.reach)
    if out is not None:
        check_free(Path(out))
    if concerns:
        tell_concerns(dataset, console)
    dataset = selected(dataset, options)
    dynamics, sets, facts = None, None, {}
    if ALGORITHMS[options.algorithm].NEEDS_REACHABILITY:
        recipe = stages.preset or usual_recipe(dataset, small=options.small)
        fitted = (
            fit_dynamics(dataset, recipe)
            if stages.dynamics is None
            else Fitted(Dynamics.load(stages.dynamics), Path(stages.dynamics))
        )
        dynamics = fitted.dynamics
        sets, found = find_reachable(dataset, dynamics, stages.reach, engine=stages.engine)
        facts = {"reach.json": _reach_facts(found), "dynamics.json": _dynamics_facts(fitted.directory)}
    elif stages.dynamics is not None:
        console.print(f"note: {options.algorithm} needs no dynamics; {stages.dynamics} is not used", soft_wrap=True)
    plan = make_plan(dataset, options, dynamics, sets)
    directory = Path(out) if out is not None else run_directory(plan, Path(root))
    console.print(describe_plan(plan, directory), soft_wrap=True)
    with TrainingDisplay(plan, console) as display:
        trained = run_job(
            plan,
            out=directory,
            workers=workers,
            tensorboard=tensorboard,
            listener=display.update,
            say=display.say,
            facts={name: values for name, values in facts.items() if values},
        )
    console.print(describe_result(plan, trained), soft_wrap=True)
    return trained


def usual_recipe(dataset: Dataset, *, small: bool = False) -> str:
    """AntMaze's states are learned from as they are, and the dynamics decide about that."""
    normalise = preset("stacq", dataset.name).normalise
    if small:
        return "small" if normalise else "small-antmaze"
    return "default" if normalise else "paper-antmaze"


def check_picture(path: Path) -> None:
    """Refuse a place or a format that cannot be drawn to, before anything long begins."""
    figure_format(path)
    check_writable(path)


def _reach_facts(found: Stitching) -> dict[str, Any]:
    """What the page shows of reachable sets."""
    return {
        "set_sizes": {str(size): count for size, count in found.size_histogram},
        "extra_per_state": found.extra,
        "criterion": found.criterion,
        "recall": found.recall,
        "worst_dimension": found.known["worst_dimension"] if found.known else None,
    }


def _dynamics_facts(directory: Path) -> dict[str, Any]:
    """What the page shows of dynamics; nothing where they were fitted elsewhere."""
    try:
        found = json.loads((directory / QUALITY).read_text(encoding="utf-8"))["normalised"]
    except (OSError, ValueError, KeyError):
        return {}
    return {
        "dimensions": list(range(len(found["ensemble"]))),
        "normalised_error": found["ensemble"],
        "single_member_error": found["member"],
        "persistence_error": found["identity"],
    }

"""Dynamics and reachable sets, each with its report: the stages that are verbs of their own too."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from stacq.core.artefacts import cache_directory, check_place
from stacq.core.errors import InputError, check_choice
from stacq.core.files import alone, check_writable, json_text
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import read_text
from stacq.core.staging import sweep
from stacq.data.dataset import Dataset
from stacq.data.registry import family_of
from stacq.dynamics.fit import Curve, fit, lengthened
from stacq.dynamics.models import KIND, Dynamics
from stacq.dynamics.recipes import PRESETS, FitConfig
from stacq.graph.sets import priced_at, priced_sets
from stacq.pipeline.options import Stages
from stacq.pipeline.reporter import Reporter
from stacq.reach.build import kept_at, reachable_sets
from stacq.reach.config import Engine, ReachConfig
from stacq.reach.options import resolved
from stacq.reach.quality import measure
from stacq.reach.quality_facts import Quality
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import Stitching, stitching
from stacq.report.dynamics_figure import draw_quality
from stacq.report.figures import figure_bytes, figure_format, save_figure
from stacq.report.inspect import picture_path
from stacq.report.reach_figure import draw_stitching

QUALITY = "quality.json"


class Fitted(NamedTuple):
    """Dynamics and the directory they lie in."""

    dynamics: Dynamics
    directory: Path


class Found(NamedTuple):
    """Reachable sets, and what they join."""

    sets: ReachableSets
    stitching: Stitching


def fit_dynamics(
    dataset: Dataset,
    recipe: str,
    *,
    epochs: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    reporter: Reporter = Reporter(),
) -> Fitted:
    """Fit, report, save; dynamics that were fitted before with the same data and options are reused."""
    check_choice("the recipe", recipe, PRESETS, where="dynamics")
    fitting = PRESETS[recipe] if epochs is None else replace(PRESETS[recipe], max_epochs=epochs, least_steps=0)
    config = lengthened(replace(fitting, seed=seed), dataset)
    if out is not None:
        return _fitted(dataset, config, recipe, out, reporter)
    directory = cache_directory(KIND, asdict(config), {"dataset": dataset.fingerprint})
    sweep(directory.parent)
    found = _fitted_before(directory, reporter)
    if found is not None:
        return found
    check_writable(directory)
    with alone(directory, lambda: reporter.say("another process is fitting these dynamics: waiting for it")):
        found = _fitted_before(directory, reporter)
        if found is not None:
            return found
        if directory.exists():
            reporter.say("fitted before, but the report or the rows held out were not kept: fitting again")
        return _fitted(dataset, config, recipe, directory, reporter)


def _fitted_before(directory: Path, reporter: Reporter) -> Fitted | None:
    """What the cache holds, with its report; nothing where a part of it is missing, such as the training's curves."""
    try:
        report = json_object(read_text(directory / QUALITY))
        before = Dynamics.load(directory)
        if not report["curves"] or not len(before.held_out):
            return None
        reporter.detail(f"fitted before: {directory}")
        reporter.fitted(report, directory)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Fitted(before, directory)


def _fitted(dataset: Dataset, config: FitConfig, recipe: str, directory: Path, reporter: Reporter) -> Fitted:
    check_place(directory, KIND)
    check_writable(directory)
    reporter.detail(f"{config.forward_members} forward and {config.inverse_members} inverse members, {recipe} recipe")
    with reporter.progress("fitting dynamics", config.max_epochs, "epochs") as update:
        done = fit(dataset, config, on_epoch=lambda curve: update(curve.epoch + 1, kept=curve.epoch == 0))
    quality = measure(done, dataset)
    reporter.fitted(quality, directory)
    done.dynamics.save(directory, _report_files(quality, done.curves))
    reporter.detail(f"dynamics: {directory} (picture: fit.png, numbers: {QUALITY})")
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
    reporter: Reporter = Reporter(),
) -> Found:
    """Reachable sets with their report and picture; sets that were found before are reused."""
    resolved(config)
    priced = config.criterion == "priced"
    directory = priced_at(dataset) if priced else kept_at(dataset, dynamics, config)
    picture = picture or picture_path(dataset, f"-reach-{directory.name[:8]}")
    check_picture(picture)
    engine = engine or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    if priced:
        sets = priced_sets(dataset, reporter.detail)
    else:
        with reporter.progress("reachable sets", len(dataset), "states") as update:
            sets = reachable_sets(dataset, dynamics, config, engine=engine, progress=update, log=reporter.detail)
    found = stitching(sets, dataset)
    save_figure(draw_stitching(dataset, sets, found), picture)
    reporter.reachable(found, sets.config, directory, picture)
    return Found(sets, found)


def reach_dataset(dataset: Dataset, stages: Stages, picture: Path | None, reporter: Reporter) -> Found:
    """Reachable sets of a dataset, with dynamics that are named, or fitted first."""
    resolved(stages.reach)
    if picture:
        check_picture(picture)
    if stages.dynamics and stages.dynamics_preset:
        raise InputError(
            "both dynamics and a recipe for them were named",
            where="stacq reach",
            expected="one of --dynamics and --dynamics-preset",
            fix="leave one out",
        )
    dynamics = made_dynamics(dataset, stages, reporter=reporter).dynamics
    return find_reachable(dataset, dynamics, stages.reach, engine=stages.engine, picture=picture, reporter=reporter)


def made_dynamics(dataset: Dataset, stages: Stages, *, small: bool = False, reporter: Reporter) -> Fitted:
    """Taken from where the user says, or fitted."""
    if stages.dynamics is not None:
        return Fitted(Dynamics.load(stages.dynamics), Path(stages.dynamics))
    return fit_dynamics(dataset, stages.dynamics_preset or usual_recipe(dataset, small=small), reporter=reporter)


def usual_recipe(dataset: Dataset, *, small: bool = False) -> str:
    """The recipe of dynamics for which none is named."""
    return recipe_for(dataset.name, small=small)


def recipe_for(name: str, *, small: bool = False) -> str:
    """AntMaze's states are learned from as they are, and the dynamics decide about that."""
    as_they_are = family_of(name) == "antmaze"
    if small:
        return "small-antmaze" if as_they_are else "small"
    return "paper-antmaze" if as_they_are else "default"


def check_picture(path: Path) -> None:
    """Refuse a place or a format that cannot be drawn to, before anything long begins."""
    figure_format(path)
    check_writable(path)


def reach_report(found: Stitching, names: Sequence[str] = ()) -> dict[str, Any]:
    """What a page shows of reachable sets; a dimension by its name, if it has one."""
    worst = found.known["worst_dimension"] if found.known else None
    return {
        "set_sizes": {str(size): count for size, count in found.size_histogram},
        "extra_per_state": found.extra,
        "criterion": found.criterion,
        "recall": found.recall,
        "worst_dimension": names[worst] if names and worst is not None else worst,
    }


def dynamics_report(directory: Path, names: Sequence[str] = ()) -> Mapping[str, Any]:
    """What a page shows of dynamics, by dimensions of these names; nothing where they were fitted elsewhere."""
    try:
        quality = json_object(read_text(directory / QUALITY))
    except (OSError, ValueError):
        return {}
    if not has_shape(quality, {"normalised": {key: [float] for key in ("ensemble", "member", "identity")}}):
        return {}
    found = quality["normalised"]
    return {
        "dimensions": list(names or range(len(found["ensemble"]))),
        "normalised_error": found["ensemble"],
        "single_member_error": found["member"],
        "persistence_error": found["identity"],
    }

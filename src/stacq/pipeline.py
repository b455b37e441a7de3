"""The stages between a dataset and reachable sets, with progress and reports around them."""

from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from stacq.artefacts import cache_directory
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.dynamics.fit import PRESETS, fit
from stacq.dynamics.models import KIND, Dynamics
from stacq.dynamics.quality import measure
from stacq.errors import InputError
from stacq.files import check_writable, home, write_json
from stacq.progress import progress
from stacq.reach.build import ReachConfig, reachable_sets
from stacq.reach.join import Engine
from stacq.reach.stitching import stitching
from stacq.report.dynamics_figure import draw_quality
from stacq.report.dynamics_text import print_quality
from stacq.report.reach_figure import draw_stitching
from stacq.report.reach_text import print_stitching
from stacq.report.summary_figure import figure_format, save_figure


def fit_dynamics(source: str, preset: str, epochs: int | None, seed: int, out: Path | None) -> Dynamics:
    """Fit, report, save; dynamics that were fitted before with the same data and options are reused."""
    console = Console()
    dataset = load(source)
    recipe = PRESETS[preset]
    config = replace(recipe, seed=seed, max_epochs=epochs or recipe.max_epochs)
    directory = out or cache_directory(KIND, asdict(config), {"dataset": dataset.fingerprint})
    if out is None and directory.exists():
        console.print(f"fitted before: {directory}", soft_wrap=True)
        return Dynamics.load(directory)
    check_writable(directory)
    console.print(f"{config.forward_members} forward and {config.inverse_members} inverse members, {preset} recipe")
    with progress("fitting dynamics", config.max_epochs, "epochs") as update:
        done = fit(dataset, config, on_epoch=lambda curve: update(curve.epoch + 1))
    done.dynamics.save(directory)
    quality = measure(done, dataset)
    print_quality(quality, console)
    save_figure(draw_quality(quality, done.curves), directory / "fit.png")
    write_json(directory / "quality.json", quality.to_json())
    console.print(f"dynamics: {directory} (picture: fit.png, numbers: quality.json)", soft_wrap=True)
    return done.dynamics


def find_reachable(source: str, directory: Path, config: ReachConfig, engine: Engine, out: Path | None) -> None:
    """Reachable sets with their report and picture."""
    console = Console()
    dataset = load(source)
    picture = out or home() / "inspect" / f"{dataset.name.replace('/', '-') or 'dataset'}-reach.png"
    figure_format(picture)
    check_writable(picture)
    dynamics = Dynamics.load(directory)
    _check_sizes(dynamics, dataset)
    with progress("reachable sets", len(dataset), "states") as update:
        sets = reachable_sets(dataset, dynamics, config, engine=engine, progress=update, log=console.print)
    found = stitching(sets, dataset)
    print_stitching(found, sets.config, console)
    save_figure(draw_stitching(dataset, sets, found), picture)
    console.print(f"picture: {picture}", soft_wrap=True)


def _check_sizes(dynamics: Dynamics, dataset: Dataset) -> None:
    found = (len(dynamics.normaliser.mean), len(dynamics.action_low))
    if found != (dataset.observation_size, dataset.action_size):
        raise InputError(
            f"these dynamics are for observations of {found[0]} and actions of {found[1]} numbers",
            where=dataset.name or "dataset",
            expected=f"{dataset.observation_size} and {dataset.action_size}, the sizes of the data",
            fix="fit dynamics to this dataset: `stacq dynamics fit`",
        )

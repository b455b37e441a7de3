"""From recorded to stitched data, iteration by iteration; each leaves a dataset that can be loaded like any other."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from stacq.core.artefacts import cache_directory
from stacq.core.errors import InputError
from stacq.core.files import alone, appearing, check_writable, json_text, writing
from stacq.core.outside import json_object
from stacq.core.reading import read_text
from stacq.core.staging import sweep
from stacq.data.dataset import Dataset
from stacq.data.hdf5 import read_hdf5, write_hdf5
from stacq.dynamics.models import PRECISION
from stacq.stitch.config import StitchConfig, check_config
from stacq.stitch.inverse import Steps, made_up, unscaled
from stacq.stitch.jumps import best_jumps, usual_radius
from stacq.stitch.models import StitchModels, made_models
from stacq.stitch.paths import Made, accepted, returns_of, rewards_along, rewritten, traced, with_marks
from stacq.stitch.report import StitchReport, report_of
from stacq.stitch.value import fit_value, least_values

KIND = "stitched"
DATA, REPORT = "data.hdf5", "report.json"
Say = Callable[[str], None]


def stitched(dataset: Dataset, config: StitchConfig, say: Say = lambda text: None) -> Dataset:
    """The data after the last iteration, from the cache if it was made before.

    After a kill the same call goes on behind the last finished model or iteration, and ends in the same data.
    """
    check_config(config)
    places = [stitched_at(dataset, config, iteration) for iteration in range(1, config.iterations + 1)]
    sweep(places[0].parent)
    done = max((number for number, place in enumerate(places, 1) if place.exists()), default=0)
    now = _read(places[done - 1]) if done else with_marks(dataset)
    if done < len(places):
        check_writable(places[-1])
        with jax.default_matmul_precision(PRECISION):
            now = _remaining(now, dataset, config, done, say)
    say(f"stitched data: {places[-1] / DATA}")
    return dataclasses.replace(now, name=dataset.name)


def _remaining(now: Dataset, dataset: Dataset, config: StitchConfig, done: int, say: Say) -> Dataset:
    """The iterations that are not done yet."""
    models = made_models(dataset, config, say)
    chosen = dataclasses.replace(config, radius=config.radius or usual_radius(dataset))
    for iteration in range(done + 1, config.iterations + 1):
        now = _next_data(now, dataset, models, (config, chosen), iteration, say)
    return now


def _next_data(
    now: Dataset,
    dataset: Dataset,
    models: StitchModels,
    configs: tuple[StitchConfig, StitchConfig],
    iteration: int,
    say: Say,
) -> Dataset:
    """One iteration on top of `now`, by one process at a time; the configs are as asked for, and with a radius."""
    place = stitched_at(dataset, configs[0], iteration)
    with alone(place, lambda: say("another process is stitching this data: waiting for it")):
        if not place.exists():
            after, report = one_iteration(now, models, configs[1], iteration)
            _write(place, _described(after, dataset, configs[1], iteration), report)
            say(report.text())
    return _read(place)


def stitched_at(dataset: Dataset, config: StitchConfig, iteration: int) -> Path:
    """Where the data after that iteration lies in the cache, present or not: it does not depend on later ones."""
    return cache_directory(KIND, asdict(dataclasses.replace(config, iterations=iteration)), _parents(dataset))


def one_iteration(
    dataset: Dataset, models: StitchModels, config: StitchConfig, iteration: int
) -> tuple[Dataset, StitchReport]:
    """A new value, new trajectories, and of these the ones whose return grew enough."""
    k_value, k_made = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), iteration))
    value = fit_value(dataset, config.value, k_value)
    promised = least_values(value, dataset.next_observations)
    jumps = best_jumps(dataset, models.forward, promised, config.radius, between_only=config.between_only)
    paths = traced(dataset, jumps, config.limit)
    steps = Steps(*(
        each[which[paths.stitched]]
        for each, which in ((dataset.observations, paths.row), (dataset.next_observations, paths.to))
    ))  # fmt: skip
    actions, rewards = made_up(models.inverse, models.reward, steps, k_made)
    made = Made(unscaled(dataset, actions).astype(dataset.actions.dtype), rewards)
    returns = returns_of(rewards_along(dataset, paths, made), paths.offsets)
    keep = accepted(dataset.returns, returns, config.least_gain)
    after = rewritten(dataset, paths, made, keep)
    return after, report_of(iteration, dataset, paths, returns, keep, len(after))


def read_report(directory: Path) -> dict[str, Any]:
    """The numbers of an iteration, next to its data."""
    return json_object(read_text(directory / REPORT))


def _parents(dataset: Dataset) -> dict[str, str]:
    return {"dataset": dataset.fingerprint}


def _described(after: Dataset, dataset: Dataset, config: StitchConfig, iteration: int) -> Dataset:
    """Under a name that says what it is; whoever knows the task by the old name knows it by this one."""
    facts = {
        "stitched_from": dataset.fingerprint,
        "stitch_iteration": str(iteration),
        "stitch_config": json.dumps(asdict(config), sort_keys=True),
    }
    name = f"{dataset.name or 'dataset'}+stitched{iteration}"
    return dataclasses.replace(after, name=name, provenance={**dataset.provenance, **facts})


def _write(directory: Path, dataset: Dataset, report: StitchReport) -> None:
    """Data and report appear together, or not at all."""
    numbers = {**report.to_json(), "fingerprint": dataset.fingerprint}
    with writing(directory), appearing(directory) as beginning:
        write_hdf5(dataset, beginning / DATA)
        (beginning / REPORT).write_bytes(json_text(numbers).encode())


def _read(directory: Path) -> Dataset:
    """With all extras; refused if it is not what was written."""
    dataset = read_hdf5(directory / DATA, infos="all")
    try:
        expected = read_report(directory).get("fingerprint")
    except (OSError, ValueError) as error:
        raise _damaged(directory, str(error)) from error
    if dataset.fingerprint != expected:
        raise _damaged(directory, "its rows do not fit the hash in its report")
    return dataset


def _damaged(directory: Path, reason: str) -> InputError:
    return InputError(
        f"stitched data is damaged: {reason}",
        where=directory,
        expected="data and report as they were written",
        fix="delete the directory and run the same command again",
    )

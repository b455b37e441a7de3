"""Several trainings from one command: settings with several values, `--set alpha=1,5`."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from stacq import algos
from stacq.data.dataset import Dataset
from stacq.pipeline.options import Options, Stages
from stacq.pipeline.plan import make_plan
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.train import train
from stacq.pipeline.trained import Trained
from stacq.report.statistics import describe


def swept(options: Options) -> list[Options]:
    """One for each combination of settings with several values: alpha=1,5. Sizes such as 64,64 are one value."""
    kinds = get_type_hints(algos.find(options.algorithm).Config)
    sides = []
    for setting in options.settings:
        name, equals, value = setting.partition("=")
        several = equals and name in kinds and "tuple" not in str(kinds[name])
        sides.append([f"{name}={each}" for each in value.split(",")] if several else [setting])
    return [replace(options, settings=tuple(chosen)) for chosen in itertools.product(*sides)]


def train_swept(
    dataset: Dataset,
    found: Sequence[Options],
    stages: Stages,
    *,
    out: Path | None,
    reporter: Reporter,
    **how: Any,
) -> list[Trained]:
    """One run after the other, each in its own directory; all are checked before the first one begins."""
    for options in found:
        make_plan(dataset, options)
    reporter.concerns(dataset)
    trained, names = [], _names(found)
    for number, (options, name) in enumerate(zip(found, names, strict=True), 1):
        reporter.say(f"\n{number}/{len(found)} {name}")
        place = None if out is None else out / name.replace("/", "-")
        trained.append(train(dataset, options, stages, out=place, reporter=reporter, concerns=False, **how))
    reporter.say("\n" + "\n".join(_line(name, each) for name, each in zip(names, trained, strict=True)))
    reporter.say(f"one page about them: stacq report {' '.join(str(each.directory) for each in trained)}")
    return trained


def _names(found: Sequence[Options]) -> list[str]:
    """What differs between the runs."""
    sides = zip(*(options.settings for options in found), strict=True)
    varied = [place for place, values in enumerate(sides) if len({*values}) > 1]
    return [" ".join(options.settings[place] for place in varied) for options in found]


def _line(name: str, trained: Trained) -> str:
    final = trained.result.get("final")
    if not final:
        return f"{name}: nothing was scored"
    spread = describe(np.array(final))
    sure = f" ± {spread.std:.1f}" if spread.runs > 1 else ""
    return f"{name}: {trained.result['measure']} {spread.mean:.1f}{sure}"

"""From a study to its cells: each is one run of `stacq train`, known by a name and by what it depends on."""

import difflib
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from typing import Any

from stacq import algos
from stacq.algos.settings import changed, preset, recommended
from stacq.core.errors import InputError
from stacq.core.files import fitting
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.pipeline.options import RECOMMENDED, Options, Stages, setting_text
from stacq.pipeline.plan import label as label_of
from stacq.reach.config import ReachConfig
from stacq.study.plan import Method, Protocol, Source, Study, Values

MOST_CELLS = 100_000


@dataclass(frozen=True)
class Cell:
    """One run: the options and stages of `stacq train`, and its place in the table."""

    source: Source
    label: str  # of its column
    options: Options
    stages: Stages

    @property
    def key(self) -> str:
        """Its name in files: readable, and with a hash of everything that it depends on."""
        words = re.sub(r"[^a-z0-9.=-]+", "-", f"{self.source.label}-{self.label}".lower()).strip("-")
        text = json.dumps(
            [self.source.name, self.source.known_as, asdict(self.options), asdict(self.stages)], default=str
        )
        return f"{fitting(words)[:70]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.options.first_seed, self.options.first_seed + self.options.seeds))

    @property
    def title(self) -> str:
        return f"{self.source.label}, {self.label}"

    def load(self) -> Dataset:
        """The data, which must be there."""
        known = self.source.known_as
        return load(self.source.name, conventions=Conventions(name=known) if known else NOTHING_STATED)


def cells_of(study: Study) -> list[Cell]:
    """Every cell, dataset by dataset, checked as far as it can be without the data."""
    _check_count(study)
    found = [
        cell
        for source in study.sources
        for method in study.methods
        if not method.datasets or source.label in method.datasets
        for cell in _of_method(study, source, method)
    ]
    once = {cell.key: cell for cell in found}
    return list(once.values())


def _check_count(study: Study) -> None:
    """A grid grows with the product of its sides: one list too many is a slip, and would fill the memory."""
    sides = (
        [method.variants, method.dynamics, *method.settings.values(), *method.reach.values()]
        for method in study.methods
    )
    parts = math.ceil(study.protocol.seeds / (study.protocol.seeds_per_run or study.protocol.seeds))
    count = parts * len(study.sources) * sum(math.prod(map(len, each)) for each in sides)
    if count > MOST_CELLS:
        raise InputError(
            f"{count:,} cells",
            where=f"study {study.name}",
            expected=f"at most {MOST_CELLS:,}",
            fix="make the grid smaller: it has a cell for every combination of its lists",
        )


def _of_method(study: Study, source: Source, method: Method) -> Iterator[Cell]:
    """The grid of a method on one dataset, split by seeds."""
    sides: dict[tuple[str, ...], Values] = {
        ("variant",): method.variants,
        ("dynamics",): method.dynamics,
        **{("set", name): values for name, values in method.settings.items()},
        **{("reach", name): values for name, values in method.reach.items()},
    }
    for values in itertools.product(*sides.values()):
        chosen = dict(zip(sides, values, strict=True))
        options, stages = _chosen(study, source, method, chosen)
        varied = {key[-1]: chosen[key] for key, side in sides.items() if len(side) > 1 and key != ("variant",)}
        label = _label(method, options, source, varied)
        for part in _by_seeds(options, study.protocol):
            yield Cell(source, label, part, stages)


def _chosen(
    study: Study, source: Source, method: Method, chosen: Mapping[tuple[str, ...], Any]
) -> tuple[Options, Stages]:
    where, sizes = f"study {study.name}, {method.algorithm}", study.protocol
    settings = tuple(f"{key[1]}={setting_text(value)}" for key, value in chosen.items() if key[0] == "set")
    options = Options(
        algorithm=method.algorithm,
        variant=chosen["variant",],
        small=study.small,
        seeds=sizes.seeds,
        first_seed=sizes.first_seed,
        steps=sizes.steps,
        eval_every=sizes.eval_every,
        episodes=sizes.episodes,
        top=method.top,
        own_only=method.own_only,
        settings=settings,
    )
    check_options(options, source, where)
    reach = ReachConfig(**{key[1]: value for key, value in chosen.items() if key[0] == "reach"})
    return options, Stages(dynamics_preset=chosen["dynamics",], reach=reach)


def check_options(options: Options, source: Source, where: str) -> None:
    """Names of algorithms, variants and settings, before anything is loaded."""
    try:
        algorithm = algos.find(options.algorithm)
        name = source.known_as or source.name
        variant = recommended(algorithm, name) if options.variant == RECOMMENDED else options.variant
        changed(preset(algorithm, name, variant=variant, small=options.small).config, options.settings)
    except InputError as error:
        raise InputError(error.problem, where=where, expected=error.expected, fix=error.fix) from error


def _label(method: Method, options: Options, source: Source, varied: Mapping[str, Any]) -> str:
    """The column: a stated label, or the name that pages use, with what varies in the grid."""
    algorithm = algos.find(method.algorithm)
    name = source.known_as or source.name
    variant = recommended(algorithm, name) if options.variant == RECOMMENDED else options.variant
    first = method.label or label_of(algorithm, replace(options, variant=variant))
    if method.label and len(method.variants) > 1:
        first = f"{first} ({variant})"
    return ", ".join([first, *(f"{key}={setting_text(value)}" for key, value in varied.items())])


def _by_seeds(options: Options, sizes: Protocol) -> Iterator[Options]:
    """All seeds side by side in one run, or in several."""
    most = sizes.seeds_per_run or sizes.seeds
    for done in range(0, sizes.seeds, most):
        count = min(most, sizes.seeds - done)
        yield replace(options, seeds=count, first_seed=sizes.first_seed + done)


def only(cells: Sequence[Cell], words: Sequence[str]) -> list[Cell]:
    """Cells whose dataset, label, algorithm or key holds every word; `a,b` is either, `*` anything."""
    found = [cell for cell in cells if all(_matches(cell, word) for word in words)]
    if not found:
        known = list(dict.fromkeys(name for cell in cells for name in (cell.source.label, cell.options.algorithm)))
        near = difflib.get_close_matches(words[0], known, n=1) if words else []
        raise InputError(
            f"no cell is called {' '.join(words)!r}",
            where="--only",
            expected=f"words of datasets and methods: {', '.join(known)}",
            fix=f"did you mean {near[0]}?" if near else "look at `--dry-run`",
        )
    return found


def _matches(cell: Cell, word: str) -> bool:
    names = [each.lower() for each in (cell.source.label, cell.label, cell.options.algorithm, cell.key, cell.title)]
    return any(fnmatch(name, f"*{part}*") for part in word.lower().split(",") for name in names)

"""What is to be done for the cells of a study: stages that several of them share, once, and then the cells."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from stacq import algos
from stacq.algos.settings import changed, preset, recommended
from stacq.pipeline.models import recipe_for
from stacq.pipeline.options import RECOMMENDED
from stacq.pipeline.stages import Stage, with_actions, with_dynamics, with_sets
from stacq.study.cells import Cell

Kind = Literal["data", "dynamics", "sets", "actions", "cell"]
STAGES: dict[Kind, tuple[Stage, ...]] = {
    "dynamics": (with_dynamics,),
    "sets": (with_dynamics, with_sets),
    "actions": (with_dynamics, with_sets, with_actions),
}
"""Up to which stage of a training a shared one goes; what it leaves in the cache is found by the next."""


@dataclass(frozen=True)
class Job:
    """One piece of work, in one process. A stage is made for the first of the cells that share it."""

    key: str
    kind: Kind
    cell: Cell
    needs: str | None = None  # the job before it: stages are a chain

    @property
    def title(self) -> str:
        return self.cell.title if self.kind == "cell" else f"{self.cell.source.label}, {self.kind}"


def jobs_of(cells: Iterable[Cell]) -> list[Job]:
    """Stages before the cells that need them, each once."""
    found: dict[str, Job] = {}
    for cell in cells:
        before: str | None = None
        for kind, key in _chain(cell):
            found.setdefault(key, Job(key, kind, cell, before))
            before = key
    return sorted(found.values(), key=lambda job: job.kind == "cell")


def _chain(cell: Cell) -> Iterator[tuple[Kind, str]]:
    """What a cell passes through, each with the name of what it depends on."""
    data = _slug(cell.source.label)
    yield "data", f"data-{data}-{_digest(cell.source)}"
    algorithm = algos.find(cell.options.algorithm)
    if algorithm.needs.reachable:
        name = cell.source.known_as or cell.source.name
        small = cell.options.small
        recipe = str(cell.stages.dynamics or cell.stages.dynamics_preset or recipe_for(name, small=small))
        parts = [cell.source, cell.options.top, recipe]
        yield "dynamics", f"dynamics-{data}-{_slug(recipe)}-{_digest(parts)}"
        parts.append(asdict(cell.stages.reach))
        yield "sets", f"sets-{data}-{_digest(parts)}"
        variant = cell.options.variant
        variant = recommended(algorithm, name) if variant == RECOMMENDED else variant
        config = changed(preset(algorithm, name, variant=variant, small=small).config, cell.options.settings)
        if algorithm.needs.leading_actions(config):
            yield "actions", f"actions-{data}-{_digest([*parts, cell.options.own_only])}"
    yield "cell", cell.key


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")[:40]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:8]

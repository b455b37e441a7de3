"""Finished runs that a study has not made itself, recognised by their configuration.

The exact directory of a run is known only when its data and models are loaded. This is for the forecast: whether a run
is taken is decided when its cell comes, from the hashes of what it was made from.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stacq import algos
from stacq.core.outside import json_object
from stacq.core.reading import read_text
from stacq.pipeline.plan import named, preset_of, schedule_of
from stacq.reach.options import resolved
from stacq.runs.finished import CONFIG, RESULT
from stacq.study.cells import Cell

PLAIN = ("algorithm", "variant", "dataset", "seeds", "eval_every", "episodes", "top", "own_only", "precision")


def finished_runs(root: Path) -> dict[str, str]:
    """Names of run directories by what their configurations say."""
    found = {}
    for directory in sorted(root.glob("*")):
        try:
            if (directory / RESULT).exists():
                config = json_object(read_text(directory / CONFIG))
                found[_text(config, config.get("config"), config.get("reach"))] = directory.name
        except (OSError, ValueError):
            continue
    return found


def expected(cell: Cell) -> str:
    """What the configuration of a cell's run will say, but for hashes."""
    name = cell.source.full_name
    options, algorithm = named(cell.options, name), algos.find(cell.options.algorithm)
    chosen = preset_of(options, name)
    schedule = schedule_of(algorithm, options, chosen)
    facts = {**asdict(options), "dataset": name, "episodes": chosen.episodes}
    facts |= {"seeds": list(schedule.seeds), "eval_every": schedule.eval_every}
    reach = asdict(resolved(cell.stages.reach)) if algorithm.needs.reachable else None
    return _text(facts, asdict(chosen.config), reach)


def _text(facts: Mapping[str, Any], config: object, reach: object) -> str:
    """Slots follow from the sets."""
    plain = {name: facts.get(name) for name in PLAIN}
    sizes = {name: value for name, value in config.items() if name != "slots"} if isinstance(config, dict) else None
    return json.dumps([plain, sizes, reach], sort_keys=True)

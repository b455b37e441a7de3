"""What a cell is with every preset filled in: presets may change while the cell keeps its name."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from stacq import algos
from stacq.dynamics.recipes import PRESETS
from stacq.pipeline.models import recipe_for
from stacq.pipeline.plan import named, preset_of, schedule_of
from stacq.study.cells import Cell

MOST_TOLD = 3  # differences
ABSENT = "nothing"


def resolved(cell: Cell) -> dict[str, Any]:
    """What the cell would run now, as JSON has it.

    The test of reachability is not among it: its options are in the cell's name, and what is left open there depends
    on the machine that makes the sets. Slots follow from the sets.
    """
    name = cell.source.full_name
    options, chosen = named(cell.options, name), preset_of(cell.options, name)
    algorithm = algos.find(options.algorithm)
    recipe = cell.stages.dynamics_preset or recipe_for(name, small=options.small)
    facts = {
        "variant": options.variant,
        "config": {key: value for key, value in asdict(chosen.config).items() if key != "slots"},
        "episodes": chosen.episodes,
        "eval_every": schedule_of(algorithm, options, chosen).eval_every,
        "shown": asdict(chosen.shown),
        "dynamics": asdict(PRESETS[recipe]) if algorithm.needs.reachable else {},
    }
    found: dict[str, Any] = json.loads(json.dumps(facts))
    return found


def resolved_before(state_resolved: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """What a finished cell was run with; files of earlier versions say it in their record alone, and not all of it."""
    if state_resolved:
        return dict(state_resolved)
    found = {name: record[name] for name in ("variant", "config", "episodes") if record.get(name) is not None}
    if isinstance(found.get("config"), dict):
        found["config"] = {key: value for key, value in found["config"].items() if key != "slots"}
    return found


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What changed of that which is known of before, in words; empty if nothing did."""
    old, new = _flat(before), _flat({name: value for name, value in now.items() if name in before})
    changed = [name for name in {**old, **new} if old.get(name, ABSENT) != new.get(name, ABSENT)]
    told = [f"{name} was {old.get(name, ABSENT)} and is {new.get(name, ABSENT)}" for name in changed[:MOST_TOLD]]
    return ", ".join([*told, *([f"{len(changed) - MOST_TOLD} more"] if len(changed) > MOST_TOLD else [])])


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """By name; settings of the algorithm stand alone, others after their group."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        inner = value if isinstance(value, dict) else {"": value}
        found |= {key if name == "config" else f"{name} {key}".strip(): each for key, each in inner.items()}
    return found

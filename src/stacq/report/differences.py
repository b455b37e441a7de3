"""What differs between runs of one name: it goes into their labels, where a hash would say nothing."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stacq.runs.summary import RunSummary

LEFT_OUT = ("label", "algorithm", "variant", "dataset", "env", "seeds", "top", "own_only")  # in the label, or no choice
FOLLOWS = ("slots", "total_steps", "reward_scale", "normalise")  # from others, so named only where nothing else differs
HASHES = {"dataset_hash": "data", "dynamics_hash": "models"}


def told_apart(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Labels with the settings that differ within one dataset; runs that differ in their seeds alone share a label."""
    named: dict[str, list[RunSummary]] = {}
    for run in runs:
        named.setdefault(run.label, []).append(run)
    keys = {label: _varied(group) for label, group in named.items()}
    numbers: dict[tuple[str, str], dict[str, int]] = {}
    labelled = [replace(run, label=_label(run, keys[run.label], numbers)) for run in runs]
    return list(_unique(labelled))


def _varied(runs: Sequence[RunSummary]) -> list[str]:
    """Settings with several values on one dataset at least."""
    values: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        for key, value in flat(run.config):
            values.setdefault((run.dataset, key), set()).add(repr(value))
    found = list(dict.fromkeys(key for (_, key), each in values.items() if len(each) > 1))
    plain = [key for key in found if key not in (*FOLLOWS, *HASHES)]
    hashes = [key for key in found if key in HASHES]
    return plain or hashes or [key for key in found if key in FOLLOWS]


def flat(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that a run was told to do, by its own name."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value)
        elif key not in LEFT_OUT:
            yield key, value


def _label(run: RunSummary, keys: Sequence[str], numbers: dict[tuple[str, str], dict[str, int]]) -> str:
    known = dict(flat(run.config))
    parts = [_part(key, known[key], numbers.setdefault((run.dataset, key), {})) for key in keys if key in known]
    return ", ".join([run.label, *parts])


def _part(key: str, value: Any, seen: dict[str, int]) -> str:
    """A setting with its value; data and models by number, in the order in which they come."""
    if key in HASHES:
        return f"{HASHES[key]} {seen.setdefault(str(value), len(seen) + 1)}"
    if isinstance(value, list | tuple):
        return f"{key}={','.join(map(str, value))}"
    return f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"


def _unique(runs: Iterable[RunSummary]) -> Iterator[RunSummary]:
    """The same run made twice, and what else would share a name, gets a number."""
    seen: dict[tuple[str, str], list[tuple[str, set[int]]]] = {}
    for run in runs:
        others, whole = seen.setdefault((run.label, run.dataset), []), _whole(run)
        if not others:
            others.append((whole, {*run.seeds}))
        elif others[0][0] == whole and run.seeds and others[0][1].isdisjoint(run.seeds):
            others[0][1].update(run.seeds)
        else:
            others.append((whole, {*run.seeds}))
            run = replace(run, label=f"{run.label} ({len(others)})")
        yield run


def _whole(run: RunSummary) -> str:
    """Everything but the seeds."""
    return json.dumps({key: value for key, value in run.config.items() if key != "seeds"}, sort_keys=True, default=str)

"""A mapping of columns that a person can correct: proposed by names, and by what stands in the first rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path

import numpy as np

from stacq.core.printable import hidden, printable
from stacq.core.types import Float64s
from stacq.data import csv_table
from stacq.data.checks import ACTIONS_NEEDED, DISCRETE, NO_ACTIONS, whole_single
from stacq.data.parquet_table import SUFFIX as PARQUET
from stacq.data.parquet_table import sample as parquet_sample

ROWS = 10_000  # of the file that are looked at
LISTED = 12  # columns that are not used
END = r"(?:[._ ]?(?:id|index|idx|no|number|nr|s|ms))?"
SINGLE = {
    "episode": "episode|ep|run|traj|trajectory|trial|rollout|session|recording",
    "time": "t|time|times|timestamp|datetime|date|step|timestep|frame|sec|seconds",
    "reward": "r|rew|reward|rewards|next[._]reward",
    "terminal": "terminal|terminals|terminated|termination|done|dones|next[._]done|failed|fallen|fall|crash|crashed",
    "timeout": "timeout|timeouts|truncated|truncation|truncations|last",
}
SEVERAL = {
    "next_observations": "next[._ ]?(?:o|obs|observation|s|state)",
    "actions": "a|act|action|u|ctrl|control|cmd|command|setpoint|torque|push",
    "observations": "o|obs|observation|s|state|x|q|qpos|qvel",
}
NUMBERED = re.compile(r"[\d._\[]")  # obs_0; bare names such as x say nothing of the other columns
DONE = re.compile(r"(?:next[._])?dones?", re.IGNORECASE)
COMMA = re.compile(r"\s*-?\d+,\d+\s*")
Sample = Mapping[str, Float64s | None]  # column -> its first numbers, or None where it holds others


def proposal(path: Path) -> str:
    """TOML with remarks, to be copied, read and corrected."""
    sample, decimal = (parquet_sample(path, ROWS), ".") if path.suffix.lower() == PARQUET else _csv_sample(path)
    return "\n".join(_lines(path, sample, decimal)) + "\n"


def _csv_sample(path: Path) -> tuple[Sample, str]:
    with csv_table.opened(path) as (names, separator, lines, _):
        rows = [row for block, _ in csv_table.blocks(islice(lines, ROWS), names, separator, path) for row in block]
    columns = {name: [row[index] for row in rows] for index, name in enumerate(names) if name}
    comma = separator != "," and any(COMMA.fullmatch(cell) for row in rows for cell in row)
    decimal = "," if comma else "."
    return {name: _numbers(cells, decimal) for name, cells in columns.items()}, decimal


def _numbers(cells: list[str], decimal: str) -> Float64s | None:
    try:
        return csv_table.numbers_of(cells, decimal)
    except ValueError:
        return None


def roles(sample: Sample) -> dict[str, list[str]]:
    """Which columns seem to be what; each at most once."""
    found: dict[str, list[str]] = {}
    free = list(sample)
    for role, words in SINGLE.items():
        pattern = re.compile(rf"(?:{words}){END}", re.IGNORECASE)
        usable = (name for name in free if sample[name] is not None or role in ("episode", "time"))
        found[role] = [name for name in usable if pattern.fullmatch(name)][:1]
        free = [name for name in free if name not in found[role]]
    for role, words in SEVERAL.items():
        pattern = re.compile(rf"(?:{words})s?(?:[._ \[\d].*)?", re.IGNORECASE | re.DOTALL)
        found[role] = [name for name in free if sample[name] is not None and pattern.fullmatch(name)]
        free = [name for name in free if name not in found[role]]
    if not any(NUMBERED.search(name) for name in found["observations"]):
        numeric = ((name, sample[name]) for name in sample if name in {*free, *found["observations"]})
        found["observations"] = [name for name, each in numeric if each is not None and not np.isnan(each).any()]
    taken = {name for names in found.values() for name in names}
    return {**found, "rest": [name for name in sample if name not in taken]}


def _lines(path: Path, sample: Sample, decimal: str) -> Iterator[str]:
    found = roles(sample)
    rows = max((len(values) for values in sample.values() if values is not None), default=0)
    yield f"# Columns of {printable(path.name)}, proposed by their names and the first {rows:,} rows. Check every line."
    yield f"# Save this as columns.toml, then: stacq data inspect {printable(path.name)} --columns columns.toml"
    if decimal != ".":
        yield f"decimal = {quoted(decimal)}"
    yield _single("episode", found, "no column numbers the episodes: state where recordings end, or name one")
    yield _single("time", found, "no column of time: rows are taken to be in order, and without gaps")
    yield from _several("observations", found, sample)
    yield from _actions(found, sample)
    if found["next_observations"]:
        yield from _several("next_observations", found, sample)
    yield _single("reward", found, "a column, or a formula such as -abs(next(position))", '"..."')
    yield _single(
        "terminal", found, "where the task ended: a column, or a comparison such as abs(angle) > 0.2", '"..."'
    )
    if found["terminal"] and DONE.fullmatch(found["terminal"][0]):
        yield "# Is it true also where only time was up? Then such rows belong to timeout: nothing ends there."
    yield _single("timeout", found, "where only the recording ended; with a column of episodes this is known")
    if found["rest"]:
        listed = ", ".join(map(printable, found["rest"][:LISTED])) + (", ..." if len(found["rest"]) > LISTED else "")
        yield f"# Not used: {listed:.1000}"


def _single(role: str, found: Mapping[str, Sequence[str]], remark: str, blank: str = '""') -> str:
    return f"{role} = {quoted(found[role][0])}" if found[role] else f"# {role} = {blank}  # {remark}"


def _several(role: str, found: Mapping[str, Sequence[str]], sample: Sample) -> Iterator[str]:
    yield f"{role} = [{', '.join(map(quoted, patterns(found[role], list(sample))))}]"
    for name in found[role]:
        values = sample[name]
        if values is not None and np.isnan(values).any():
            yield f"# {printable(name):.100} has {int(np.isnan(values).sum()):,} empty cells: they are refused"


def _actions(found: Mapping[str, Sequence[str]], sample: Sample) -> Iterator[str]:
    if not found["actions"]:
        yield "actions = []  # No column looks like an action: name the columns of what was commanded."
        yield f"# Why: {NO_ACTIONS}."
        yield f"# If there are none: {ACTIONS_NEEDED}."
        return
    yield from _several("actions", found, sample)
    values = np.stack([each for name in found["actions"] if (each := sample[name]) is not None], axis=1)
    if whole_single(values):
        yield f"# {DISCRETE}"
    values = np.nan_to_num(values)
    if len(values) and np.abs(values).max() > 1:
        yield "# What was seen lies outside of [-1, 1]; state the true bounds:"
        for key, seen in (("action_low", values.min(axis=0)), ("action_high", values.max(axis=0))):
            yield f"{key} = [{', '.join(repr(float(each)) for each in seen)}]"


def patterns(names: Sequence[str], everything: Sequence[str]) -> list[str]:
    """`obs_*` for four names or more, where it means these and no others."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    start = "".join(letters[0] for letters in same).rstrip("0123456789")
    fits = len(names) > 3 and len(start) > 1 and "*" not in start
    if fits and [each for each in everything if each.startswith(start)] == list(names):
        return [f"{start}*"]
    return list(names)


def quoted(text: str) -> str:
    """Text as TOML holds it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return f"\\U{ord(character):08x}" if hidden(character) else character

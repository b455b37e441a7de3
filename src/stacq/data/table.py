"""From the columns of a table to a Dataset: which rows belong together, where recordings end, and what is rewarded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.reading import plain
from stacq.core.types import Array, Bools, Float64s, Infos
from stacq.data import csv_table
from stacq.data.border import assemble
from stacq.data.checks import ACTIONS_NEEDED, NO_ACTIONS
from stacq.data.columns import Columns, chosen, missing
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.csv_table import Table, Wanted
from stacq.data.dataset import Dataset
from stacq.data.formula import Formula, Values, parsed
from stacq.data.parquet_table import SUFFIX as PARQUET
from stacq.data.parquet_table import names_of as parquet_names
from stacq.data.parquet_table import read_parquet
from stacq.data.relabel import rewarded
from stacq.data.succession import EPISODE_CUT, SUCCESSOR_KNOWN

SUFFIXES = (*csv_table.SUFFIXES, PARQUET)
USUAL_GAP = 1.5  # times the usual step of time
MANY_GAPS = 0.1  # of all steps: then time does not pass in steps of one length


class Roles(NamedTuple):
    """What the columns of a table are, by their names in it."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    next_observations: tuple[str, ...]
    reward: Formula
    terminal: Formula | None
    timeout: Formula | None
    infos: tuple[str, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """All columns of numbers, each once."""
        formulas = [each for each in (self.reward, self.terminal, self.timeout) if each is not None]
        taken = [name for each in formulas for name in sorted(each.names | each.following)]
        listed = (*self.observations, *self.actions, *self.next_observations, *taken, *self.infos)
        return tuple(dict.fromkeys(listed))


def is_table(source: str | Path) -> bool:
    return Path(source).suffix.lower() in SUFFIXES


def names_of(path: Path) -> list[str]:
    return parquet_names(path) if path.suffix.lower() == PARQUET else csv_table.names_of(path)


def read_table(path: Path, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """A CSV or Parquet file; `conventions.columns` says what its columns are, and without that nothing is guessed."""
    columns = conventions.columns or Columns()
    roles = roles_of(columns, names_of(path), infos, path)
    wanted = Wanted(roles.numbers, columns.episode, columns.time, columns.decimal or ".")
    table = read_parquet(path, wanted) if path.suffix.lower() == PARQUET else csv_table.read_csv(path, wanted)
    notes: list[str] = []
    table = _together(table, columns, path, notes)
    _check_cells(table, roles, path)
    stated = Conventions(
        action_low=columns.action_low or None,
        action_high=columns.action_high or None,
        name=plain(path.stem),
        observation_names=roles.observations,
        action_names=roles.actions,
    )
    raw, marks = _rows(table, roles, columns, path, notes)
    extras = {name: table.numbers[name] for name in roles.infos}
    dataset = assemble(raw, {**extras, **marks}, where=str(path), conventions=conventions.over(stated))
    dataset = replace(dataset, notes=(*notes, *dataset.notes))
    seen = {name: index for index, name in enumerate(roles.observations)}
    return rewarded(dataset, roles.reward, path, columns=table.numbers, seen=seen, places=table.places, unit=table.unit)


def roles_of(columns: Columns, names: Sequence[str], infos: Infos, path: Path) -> Roles:
    """Names for patterns and formulas for texts, or what is still to be said."""
    if not columns.observations:
        raise InputError(
            "which columns are observations and actions is not said",
            where=path,
            expected="a mapping of its columns (--columns FILE.toml, or --observation-columns and the like)",
            fix=f"`stacq data inspect {path}` proposes one",
        )
    for what, name in (
        ("episode", columns.episode),
        ("time", columns.time),
        *(("infos", each) for each in _asked(infos)),
    ):
        if name is not None and name not in names:
            raise missing(name, names, what, path)
    observations = chosen(columns.observations, names, "observations", path)
    actions = chosen(columns.actions, names, "actions", path)
    successors = chosen(columns.next_observations, names, "next_observations", path)
    if not actions:
        raise InputError(
            f"no actions are named: {NO_ACTIONS}", where=path, expected="their columns", fix=ACTIONS_NEEDED
        )
    if successors and len(successors) != len(observations):
        problem = f"{len(successors)} columns are next_observations, and {len(observations)} are observations"
        raise InputError(problem, where=path, expected="as many, in the same order", fix="or leave them out")
    if columns.reward is None:
        fix = 'name its column or write a formula, such as --reward "-abs(position)"'
        raise InputError("no reward is named", where=path, expected="what is to be made large", fix=fix)
    flags = (None if text is None else parsed(text, names, path) for text in (columns.terminal, columns.timeout))
    terminal, timeout = flags
    reward = parsed(columns.reward, names, path)
    return Roles(observations, actions, successors, reward, terminal, timeout, tuple(_asked(infos)))


def _asked(infos: Infos) -> Sequence[str]:
    """Columns that are not named are not read: "all" of them are those that are named."""
    return () if infos == "all" else infos


def _together(table: Table, columns: Columns, path: Path, notes: list[str]) -> Table:
    """The rows of each episode in one piece, in the order in which episodes begin."""
    labels = table.labels
    if labels is None:
        return table
    if (labels < 0).any():
        raise _at(table, int(np.argmin(labels)), path, f"the cell of '{columns.episode}' is empty", "an episode's name")
    change = np.flatnonzero(np.diff(labels)) + 1
    back = change[labels[change] <= np.maximum.accumulate(labels)[change - 1]]
    if not len(back):
        return table
    if table.clock is None:
        problem = f"an episode of '{columns.episode}' goes on here, after rows of other episodes"
        fix = "name the column of time too, and rows are put together; if the column marks ends, it is 'timeout'"
        raise _at(table, int(back[0]), path, problem, "the rows of an episode in one piece", fix)
    notes.append(
        f"rows of different episodes alternate (first at {table.unit} {table.places[back[0]]:,}): put in order"
    )
    order = np.argsort(labels, kind="stable")
    numbers = {name: values[order] for name, values in table.numbers.items()}
    return Table(numbers, labels[order], table.clock[order], table.places[order], table.unit)


def _at(table: Table, row: int, path: Path, problem: str, expected: str, fix: str = "repair the row") -> InputError:
    return InputError(problem, where=f"{path}, {table.unit} {table.places[row]:,}", expected=expected, fix=fix)


def _check_cells(table: Table, roles: Roles, path: Path) -> None:
    """Only where a recorded successor is not known may a cell be empty."""
    for name in roles.numbers:
        if name in roles.next_observations and name not in (*roles.observations, *roles.actions):
            continue
        bad = np.flatnonzero(~np.isfinite(table.numbers[name]))
        if len(bad):
            value = table.numbers[name][bad[0]]
            problem = f"column '{name}' " + ("has no number here" if np.isnan(value) else f"holds {value}")
            raise _at(
                table,
                int(bad[0]),
                path,
                f"{problem} ({len(bad):,} such cell{'s' * (len(bad) != 1)} in all)",
                "a finite number in every row",
                "leave out the episodes with such rows, or the column; stacq does not guess missing values",
            )


def _rows(
    table: Table, roles: Roles, columns: Columns, path: Path, notes: list[str]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Arrays under D4RL's names, and our own marks of what these cannot say."""
    begins, named = _begins(table, notes)
    gap = _gaps(table, begins, columns, path, notes)
    last = np.append(begins[1:], True)
    rows = len(last)
    nothing = np.zeros(rows, dtype=np.bool_)
    timeout = nothing if roles.timeout is None else _flag(roles.timeout, table, roles, last | gap, path, "timeout")
    ends = last | gap | timeout
    terminal = nothing if roles.terminal is None else _flag(roles.terminal, table, roles, ends, path, "terminal")
    if not named and roles.terminal is not None and not roles.terminal.following:
        ends = ends | terminal  # the next row is the first one of another recording
    if named and (inside := terminal & ~ends).any():
        first = table.places[np.flatnonzero(inside)[0]]
        notes.append(
            f"{inside.sum():,} terminal rows are not the last of their recording (first: {table.unit} {first:,})"
        )
    seen = _stacked(table, roles.observations)
    raw: dict[str, Array] = {
        "observations": seen,
        "actions": _stacked(table, roles.actions),
        "rewards": np.zeros(rows),
        "terminals": terminal,
        "timeouts": timeout | (last & ~terminal & ~gap) if named else timeout,
    }
    marks: dict[str, Array] = {EPISODE_CUT: gap} if gap.any() else {}
    if roles.next_observations:
        raw["next_observations"] = _stacked(table, roles.next_observations)
    else:
        raw["next_observations"] = np.concatenate([seen[1:], seen[-1:]])
        marks[SUCCESSOR_KNOWN] = ~ends
    return raw, marks


def _stacked(table: Table, names: Sequence[str]) -> Float64s:
    return np.stack([table.numbers[name] for name in names], axis=1)


def _begins(table: Table, notes: list[str]) -> tuple[Bools, bool]:
    """First rows of recordings, and whether the table tells them: by episode, else where time starts again."""
    begins = np.zeros(len(table.places), dtype=np.bool_)
    begins[0] = True
    if table.labels is not None:
        begins[1:] = np.diff(table.labels) != 0
        return begins, True
    if table.clock is not None:
        begins[1:] = (table.clock[1:] == table.clock[0]) & (np.diff(table.clock) < 0)
        if found := int(begins.sum()) - 1:
            notes.append(f"time starts again {found:,} times: there a recording begins")
            return begins, True
    return begins, False


def _gaps(table: Table, begins: Bools, columns: Columns, path: Path, notes: list[str]) -> Bools:
    """Rows after which some are missing; time that does not rise is refused."""
    gap = np.zeros(len(begins), dtype=np.bool_)
    if table.clock is None:
        return gap
    _check_clock(table, begins, columns, path)
    inside = ~begins[1:]
    with np.errstate(over="ignore"):
        steps = np.diff(table.clock)
    if not inside.any():
        return gap
    usual = float(np.median(steps[inside]))
    gap[:-1] = inside & (steps > (columns.gap or USUAL_GAP * usual))
    if not gap.any():
        return gap
    first = int(np.flatnonzero(gap)[0])
    if columns.gap is None and gap.sum() > MANY_GAPS * inside.sum():
        problem = (
            f"time passes unevenly: {gap.sum() / inside.sum():.0%} of its steps are longer than {USUAL_GAP} times "
        )
        fix = "state the longest step that is no gap (gap = ... in the mapping), or leave the column of time out"
        raise _at(table, first, path, f"{problem}the usual {usual:g}", "steps of about one length", fix)
    begun = f"{gap.sum():,} gaps in time (first after {table.unit} {table.places[first]:,}, of {steps[first]:g})"
    notes.append(f"{begun}: the episodes are cut there")
    return gap


def _check_clock(table: Table, begins: Bools, columns: Columns, path: Path) -> None:
    clock = table.clock
    assert clock is not None
    bad = np.flatnonzero(~np.isfinite(clock))
    if len(bad):
        raise _at(table, int(bad[0]), path, f"column '{columns.time}' has no time here", "a time in every row")
    bad = np.flatnonzero(~begins[1:] & (clock[1:] <= clock[:-1])) + 1
    if len(bad):
        now, before = clock[bad[0]], clock[bad[0] - 1]
        same = "stays at" if now == before else f"goes back from {before:.10g} to"
        whole = "sort the rows by episode and time" if columns.episode else "name the column of episodes (episode)"
        problem = f"time ('{columns.time}') {same} {now:.10g}"
        raise _at(table, int(bad[0]), path, problem, "time that rises from row to row of a recording", whole)


def _flag(formula: Formula, table: Table, roles: Roles, ends: Bools, path: Path, what: str) -> Bools:
    """True where the formula is not zero; what hangs on the row after is false where there is none."""
    after = dict(_following(table.numbers, roles, ends, formula))
    values = formula(table.numbers, after, len(ends))
    known = np.ones(len(ends), dtype=np.bool_)
    for name in formula.following:
        known &= np.isfinite(after[name])
    bad = np.flatnonzero(known & (values != 0) & (values != 1))
    if len(bad):
        problem = f"'{what}' ({formula.text:.60}) is {values[bad[0]]:g} here"
        raise _at(table, int(bad[0]), path, problem, "0 or 1, or a comparison", "write a comparison, such as speed > 2")
    set_there: Bools = known & (values == 1)
    return set_there


def _following(numbers: Values, roles: Roles, ends: Bools, formula: Formula) -> Iterator[tuple[str, Float64s]]:
    """The columns of the row after, NaN where there is none; of an observation as it was recorded, if it was."""
    recorded = dict(zip(roles.observations, roles.next_observations, strict=False))
    for name in formula.following:
        if name in recorded:
            yield name, numbers[recorded[name]]
        else:
            yield name, np.where(ends, np.nan, np.append(numbers[name][1:], np.nan))

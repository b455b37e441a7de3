"""Rewards by a formula: for logs without any, or for another task than the recorded one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Bools, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.data.formula import Formula, Values, parsed

REWARD = "reward"  # the recorded one, in formulas


def relabelled(dataset: Dataset, text: str, where: object) -> Dataset:
    """The same rows with rewards by a formula over `obs_0`, `action_0` and so on, or over the dimensions' own names."""
    columns = dict(_columns(dataset))
    return rewarded(dataset, parsed(text, columns, where), where, more=columns)


def rewarded(
    dataset: Dataset,
    formula: Formula,
    where: object,
    *,
    more: Mapping[str, Float64s],
    places: Ints | None = None,
    unit: str = "row",
) -> Dataset:
    """Rows with the formula's value as their reward; `more` are the columns, row by row.

    What hangs on the row after has no value in the last row of a recording. That row is left out: it still is the
    successor of the row before.
    """
    after = dict(_following(dataset, formula, more))
    known = np.ones(len(dataset), dtype=np.bool_)
    for values in after.values():
        known &= np.isfinite(values)
    rewards = formula(more, after, len(dataset))
    bad = np.flatnonzero(known & ~np.isfinite(rewards))
    if len(bad):
        place = int(bad[0]) if places is None else int(places[bad[0]])
        raise InputError(
            f"the reward '{formula.text:.60}' is {rewards[bad[0]]} here ({len(bad):,} such rows in all)",
            where=f"{where}, {unit} {place:,}",
            expected="a finite number in every row",
            fix="keep roots, logarithms and divisors above zero, as with sqrt(max(x, 0))",
        )
    if not known.any():
        problem = f"the reward '{formula.text:.60}' needs the row after, and no recording has two rows"
        raise InputError(problem, where=where, expected="longer recordings", fix="leave next(...) out")
    found = replace(dataset, rewards=rewards, provenance={**dataset.provenance, "reward": formula.text})
    return found if known.all() else _without(found, known)


def _columns(dataset: Dataset) -> Iterator[tuple[str, Float64s]]:
    """Numbers by name: own names of dimensions come on top of the usual ones."""
    yield REWARD, dataset.rewards.astype(np.float64)
    for key, value in dataset.infos.items():
        if value.ndim == 1 and value.dtype.kind in "fiub":
            yield key, value.astype(np.float64)
    for what, values, names in _dimensions(dataset):
        for index in range(values.shape[1]):
            column = values[:, index].astype(np.float64)
            yield f"{what}_{index}", column
            if names:
                yield names[index], column


def _dimensions(dataset: Dataset) -> tuple[tuple[str, "Float64s", tuple[str, ...]], ...]:
    seen = ("obs", dataset.observations, dataset.observation_names)
    return seen, ("action", dataset.actions, dataset.action_names)  # type: ignore[return-value]


def _following(dataset: Dataset, formula: Formula, columns: Values) -> Iterator[tuple[str, Float64s]]:
    """Of the row after: an observation's successor where it is known, other columns within the recording."""
    places = {name: index for index, name in enumerate(dataset.observation_names)}
    places |= {f"obs_{index}": index for index in range(dataset.observation_size) if f"obs_{index}" not in places}
    for name in formula.following:
        if name in places and columns[name] is not None:
            yield name, dataset.next_observations[:, places[name]].astype(np.float64)
        else:
            values = np.append(columns[name][1:], np.nan)
            values[dataset.last_rows] = np.nan
            yield name, values


def _without(dataset: Dataset, known: Bools) -> Dataset:
    """Last rows left out; the row before each ends its recording then, and its successor is known."""
    left_out = np.flatnonzero(~known)
    timeouts = dataset.timeouts.copy()
    before = left_out[left_out > 0] - 1
    timeouts[np.setdiff1d(before, dataset.last_rows)] = True
    lost = int(dataset.terminals[~known].sum())
    note = f"{len(left_out):,} last rows are left out: their reward hangs on a row after them"
    kept = np.add.reduceat(known, dataset.episode_offsets[:-1], dtype=np.int64)
    rows = {key: getattr(dataset, key)[known] for key in ("observations", "actions", "rewards", "next_observations")}
    return replace(
        dataset,
        **rows,
        terminals=dataset.terminals[known],
        timeouts=timeouts[known],
        successor_known=dataset.successor_known[known],
        episode_offsets=np.concatenate([[0], np.cumsum(kept[kept > 0])]),
        infos={key: values[known] for key, values in dataset.infos.items()},
        notes=(*dataset.notes, note + (f"; {lost:,} of them were terminal" if lost else "")),
    )

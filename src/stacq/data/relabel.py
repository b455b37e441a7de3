"""Rewards by a formula: for logs without any, or for another task than the recorded one."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Bools, Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.data.formula import Formula, Values, parsed

REWARD = "reward"  # the recorded one, in formulas


def relabelled(dataset: Dataset, text: str, where: object) -> Dataset:
    """The same rows with rewards by a formula over `obs_0`, `action_0` and so on, or over the dimensions' own names."""
    columns = dict(_columns(dataset))
    places = {f"obs_{index}": index for index in range(dataset.observation_size)}
    places |= {name: index for index, name in enumerate(dataset.observation_names)}
    found = rewarded(dataset, parsed(text, columns, where), where, columns=columns, seen=places)
    note = f"rewards and returns are by the formula {text:.200}; an environment scores policies by its own"
    return replace(found, notes=(*found.notes, note))


def rewarded(
    dataset: Dataset,
    formula: Formula,
    where: object,
    *,
    columns: Values,
    seen: Mapping[str, int],
    places: Ints | None = None,
    unit: str = "row",
) -> Dataset:
    """Rows with the formula's value as their reward, over `columns`, of which `seen` are dimensions of observations.

    What hangs on the row after has no value in the last row of a recording. That row is left out: it still is the
    successor of the row before.
    """
    after = dict(_following(dataset, formula, columns, seen))
    known = np.ones(len(dataset), dtype=np.bool_)
    for values in after.values():
        known &= np.isfinite(values)
    rewards = formula(columns, after, len(dataset))
    bad = np.flatnonzero(known & ~np.isfinite(rewards))
    if len(bad):
        place = int(bad[0]) if places is None else int(places[bad[0]])
        count = f"{len(bad):,} such row{'s' * (len(bad) != 1)} in all"
        raise InputError(
            f"the reward '{formula.text:.60}' is {rewards[bad[0]]} here ({count})",
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
    yield from _dimensions("obs", dataset.observations, dataset.observation_names)
    yield from _dimensions("action", dataset.actions, dataset.action_names)


def _dimensions(what: str, values: Floats, names: tuple[str, ...]) -> Iterator[tuple[str, Float64s]]:
    usual = [f"{what}_{index}" for index in range(values.shape[1])]
    for called in (usual, names):
        yield from ((name, values[:, index].astype(np.float64)) for index, name in enumerate(called))


def _following(
    dataset: Dataset, formula: Formula, columns: Values, seen: Mapping[str, int]
) -> Iterator[tuple[str, Float64s]]:
    """Of the row after: an observation's successor where it is known, other columns within the recording."""
    for name in formula.following:
        if name in seen:
            yield name, dataset.next_observations[:, seen[name]].astype(np.float64)
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

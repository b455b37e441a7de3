"""The checks that raw arrays must pass; each failure names the key, the first bad row and the remedy."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Array, Bools, Floats, Ints

REQUIRED = ("observations", "actions", "rewards", "terminals")
OPTIONAL = ("next_observations", "timeouts")
ROW_RANK = {
    "observations": 2,
    "actions": 2,
    "next_observations": 2,
    "rewards": 1,
    "terminals": 1,
    "timeouts": 1,
}
OTHER_NAMES = {
    "obs": "observations",
    "states": "observations",
    "next_obs": "next_observations",
    "next_states": "next_observations",
    "done": "terminals",
    "dones": "terminals",
    "terminated": "terminals",
    "terminations": "terminals",
    "truncated": "timeouts",
    "truncations": "timeouts",
}
"""What other libraries call the same arrays."""
CONTINUOUS = "stacq handles continuous actions and vector states"
DISCRETE = f"the single action holds whole numbers only: are these choices from a list (discrete actions)? {CONTINUOUS}"
FEW_CHOICES = 100  # different values of an action; whole numbers beyond are a quantity
NO_ACTIONS = (
    "a policy is learned from what was done in each state, and dynamics from what came of it, so logs of states alone "
    "are not enough"
)
ACTIONS_NEEDED = "log the commands too; states alone could be used only with a part of the logs that has actions"


def row_shape(key: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """D4RL's older files store rewards and flags as (rows, 1); everything else keeps its shape."""
    return shape[:1] if key in ("rewards", "terminals", "timeouts") and shape[1:] == (1,) else shape


def misspelt(stored: Collection[str]) -> list[str]:
    """A note for every key that is not read but nearly has the name of one that would be."""
    missing = [key for key in OPTIONAL if key not in stored]
    meant = {key: name for key in stored if (name := _meant(key, missing))}
    return [f"key '{key}' is not read; did you mean {name}?" for key, name in meant.items()]


def _meant(key: str, missing: Collection[str]) -> str:
    """Which of the missing names a stored one may stand for; empty if none."""
    if OTHER_NAMES.get(key) in missing:
        return OTHER_NAMES[key]
    near = difflib.get_close_matches(key, missing, n=1, cutoff=0.85)
    return near[0] if near else ""


def whole_single(actions: Array) -> bool:
    """Whether there is one action, of few whole numbers: choices, perhaps, and no quantity."""
    if actions.ndim != 2 or actions.shape[1] != 1 or not len(actions):
        return False
    values = np.unique(actions[:100_000, 0])
    return bool(1 < len(values) <= FEW_CHOICES and (values == np.round(values)).all())


def check_shapes(
    header: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    where: str,
    stored: Iterable[str] = (),
    given: Collection[str] = (),
) -> None:
    """Keys, types, ranks and lengths, from shapes alone: readers call it before they read a byte.

    `stored` are the names of all arrays there, those included that are not read; `given` need not be there.
    """
    names = sorted({*header, *stored})
    for key in REQUIRED:
        if key not in header and key not in given:
            perhaps = [f"'{name}'" for name in names if name not in header and _meant(name, [key])]
            if key == "actions" and not perhaps:
                raise InputError(
                    f"key 'actions' is missing: {NO_ACTIONS}",
                    where=where,
                    expected=f"the keys {', '.join(REQUIRED)}; optionally {', '.join(OPTIONAL)}",
                    fix=f"{ACTIONS_NEEDED} (found: {', '.join(names) or 'no arrays at all'})",
                )
            without = " without the ends that are only a time limit's: those are timeouts" * (key == "terminals")
            raise InputError(
                f"key '{key}' is missing" + (f"; is it {' or '.join(perhaps)}?" if perhaps else ""),
                where=where,
                expected=f"the keys {', '.join(REQUIRED)}; optionally {', '.join(OPTIONAL)}",
                fix=f"store the array as '{key}'{without} (found: {', '.join(names) or 'no arrays at all'})",
            )
    for key, (shape, dtype) in header.items():
        if dtype.kind not in "fiub":
            raise InputError(
                f"key '{key}' has type {dtype}",
                where=where,
                expected="real numbers or booleans",
                fix=f"store '{key}' as float32",
            )
        if _is_picture(key, shape) or _is_choice(key, shape, dtype):
            picture = _is_picture(key, shape)
            what = "pictures or the like" if picture else "one whole number per row, as choices are"
            fix = "encode pictures as vectors first" if picture else "none of the algorithms takes discrete actions"
            raise InputError(
                f"key '{key}' has shape {shape}, rank {len(shape)}, type {dtype}: {what}",
                where=where,
                expected=f"rank 2, shape (rows, dimensions): {CONTINUOUS}",
                fix=fix,
            )
        if len(shape) != ROW_RANK[key]:
            layout = "(rows, dimensions)" if ROW_RANK[key] == 2 else "(rows,)"
            raise InputError(
                f"key '{key}' has shape {shape}, rank {len(shape)}",
                where=where,
                expected=f"rank {ROW_RANK[key]}, shape {layout}",
                fix=f"reshape '{key}' to {layout} before saving",
            )
    rows = header["observations"][0][0]
    for key, (shape, _) in header.items():
        check_rows(key, shape, rows, where)
    _check_sizes(header, rows, where)


def _is_picture(key: str, shape: tuple[int, ...]) -> bool:
    return key in ("observations", "next_observations") and len(shape) > 2


def _is_choice(key: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return key == "actions" and len(shape) == 1 and dtype.kind in "iub"


def _check_sizes(header: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], rows: int, where: str) -> None:
    if rows < 2:
        raise InputError(
            f"the dataset has {rows} transition{'s' if rows != 1 else ''}",
            where=where,
            expected="at least 2 rows",
            fix="check the recording: nothing can be learned from this file",
        )
    for key in ("observations", "actions"):
        if header[key][0][1] == 0:
            raise InputError(
                f"key '{key}' has no dimensions: shape {header[key][0]}",
                where=where,
                expected="at least one number per row",
                fix=f"store '{key}' as (rows, dimensions)",
            )
    if "next_observations" in header and header["next_observations"][0] != header["observations"][0]:
        raise InputError(
            f"key 'next_observations' has shape {header['next_observations'][0]}",
            where=where,
            expected=f"the shape of 'observations', {header['observations'][0]}",
            fix="store both with the same dimensions, or leave 'next_observations' out",
        )


def check_rows(key: str, shape: tuple[int, ...], rows: int, where: str) -> None:
    if not shape or shape[0] != rows:
        raise InputError(
            f"key '{key}' has {shape[0] if shape else 'no'} rows, 'observations' has {rows}"
            f" (first row without a partner: {min(shape[0], rows) if shape else 0})",
            where=where,
            expected="one entry per row in every array",
            fix="cut all arrays to the same number of rows, or find out which part was lost",
        )


def check_all_finite(value: Floats, key: str, where: str) -> None:
    """No NaN and no infinity. One pass without a temporary; a sum that overflows is settled by the exact check."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(np.sum(value)))
    if not finite:
        check_finite(value, np.arange(len(value)), key, where)


def floating(value: Array) -> Floats:
    """float32 and float64 stay as they are; other types become the one of the two that holds their values."""
    if value.dtype in (np.float32, np.float64):
        return value
    fits = np.can_cast(value.dtype, np.float32, casting="safe")
    return value.astype(np.float32 if fits else np.float64)


def check_finite(value: Floats, rows: Ints, key: str, where: str) -> None:
    good = np.isfinite(value[rows])
    bad = rows[~(good if value.ndim == 1 else good.all(axis=1))]
    if len(bad):
        raise _not_finite(value, key, int(bad[0]), len(bad), where)


def _not_finite(value: Floats, key: str, row: int, count: int, where: str) -> InputError:
    entry = np.atleast_1d(value[row])
    column = int(np.flatnonzero(~np.isfinite(entry))[0])
    place = f"row {row}, column {column}" if value.ndim == 2 else f"row {row}"
    return InputError(
        f"key '{key}' holds {entry[column]} at {place} ({count:,} such row{'s' if count != 1 else ''} in all)",
        where=where,
        expected="finite numbers only",
        fix="remove or repair the episodes that contain these rows; stacq does not guess missing values",
    )


def flags(value: Array, key: str, where: str) -> Bools:
    """Booleans from booleans or from 0 and 1 of any numeric type."""
    if value.dtype == np.bool_:
        # A damaged file can hold bytes other than 0 and 1 under a boolean type; NumPy would keep them.
        return np.not_equal(value.view(np.uint8), 0)
    bad = np.flatnonzero((value != 0) & (value != 1))
    if len(bad):
        raise InputError(
            f"key '{key}' holds {value[bad[0]]} at row {bad[0]}",
            where=where,
            expected="0 or 1 (false or true) in every row",
            fix=f"store '{key}' as booleans",
        )
    return np.not_equal(value, 0)


def check_bounds(actions: Floats, low: Floats, high: Floats, where: str, *, stated: bool = True) -> None:
    """Every action inside its bounds, up to the rounding of float32; `stated`, or assumed where nothing is stated."""
    slack = 1e-6 * (high - low)
    if actions.min() >= (low - slack).max() and actions.max() <= (high + slack).min():
        return  # a whole-array reduction is twenty times faster than one per column
    outside = (actions < low - slack) | (actions > high + slack)
    if not outside.any():
        return
    row, column = (int(index) for index in np.argwhere(outside)[0])
    raise InputError(
        f"key 'actions' holds {actions[row, column]:.6g} at row {row}, column {column} "
        f"({outside.any(axis=1).sum():,} rows outside the bounds in all)",
        where=where,
        expected=f"values from {low[column]:g} to {high[column]:g}, "
        + ("the declared bounds" if stated else "the bounds that are assumed where none are declared"),
        fix="declare the true bounds of the action space (--action-low, --action-high), or scale the actions"
        + (f"; {DISCRETE}" if whole_single(actions) else ""),
    )

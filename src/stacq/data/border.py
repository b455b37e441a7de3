"""Where raw arrays become a Dataset: every check on outside data is made here, once.

Readers of file formats hand over a mapping of plain arrays under D4RL's names; nothing past this
module looks for NaN, ragged lengths or missing ends again.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.files import spelt
from stacq.core.types import Array, Bools, Floats, Ints
from stacq.data.checks import (
    check_all_finite,
    check_bounds,
    check_finite,
    check_rows,
    check_shapes,
    flags,
    floating,
)
from stacq.data.conventions import NOTHING_STATED, USUAL, Conventions
from stacq.data.dataset import Dataset

SUCCESSOR_KNOWN = "successor_known"  # our own additions to D4RL's `infos` group: what its format cannot say
EPISODE_CUT = "episode_cut"
BLOCK = 262_144  # rows compared at a time
ROUNDING = 1e-5  # relative; a stored successor this close to the following row is that row


def from_arrays(
    observations: ArrayLike,
    actions: ArrayLike,
    rewards: ArrayLike,
    terminals: ArrayLike,
    *,
    timeouts: ArrayLike | None = None,
    next_observations: ArrayLike | None = None,
    infos: Mapping[str, ArrayLike] | None = None,
    conventions: Conventions = NOTHING_STATED,
) -> Dataset:
    """Build a Dataset from arrays in memory, one row per transition, episodes in order.

    Arrays that already have a floating type are not copied, but seen through read-only views:
    do not write to them afterwards.
    """
    raw: dict[str, Array] = {
        "observations": np.asarray(observations),
        "actions": np.asarray(actions),
        "rewards": np.asarray(rewards),
        "terminals": np.asarray(terminals),
    }
    if timeouts is not None:
        raw["timeouts"] = np.asarray(timeouts)
    if next_observations is not None:
        raw["next_observations"] = np.array(next_observations)
    extras = {key: np.asarray(value) for key, value in (infos or {}).items()}
    return assemble(raw, extras, where="arrays", conventions=conventions)


class Course(NamedTuple):
    """How the rows follow each other."""

    terminals: Bools  # [N]
    timeouts: Bools  # [N]
    ends: Bools  # [N], the last rows of episodes
    successors: Floats  # [N, S]
    known: Bools  # [N], whether the successor is


def assemble(raw: Mapping[str, Array], infos: Mapping[str, Array], *, where: str, conventions: Conventions) -> Dataset:
    """Check raw arrays under D4RL's names and order their facts into a Dataset.

    Takes ownership: `next_observations` is mended in place. Values are checked beside the search for episode
    ends, on another core: each takes as long as the other.
    """
    stated = conventions.action_low is not None and conventions.action_high is not None
    conventions = conventions.over(USUAL)
    limit = conventions.max_episode_steps
    if limit is not None and limit < 1:
        raise InputError(f"max_episode_steps is {limit}", where=where, expected="at least 1", fix="leave it out")
    check_shapes({key: (value.shape, value.dtype) for key, value in raw.items()}, where)
    extras = dict(infos)
    for key, value in extras.items():
        check_rows(f"infos/{key}", value.shape, len(raw["observations"]), where)
    observations, actions, rewards = (floating(raw[key]) for key in ("observations", "actions", "rewards"))
    low, high = _bounds(conventions, actions.shape[1], where)
    notes: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        checked = pool.submit(_check_values, observations, actions, rewards, (low, high), where, stated)
        try:
            course = _course(raw, observations, extras, conventions, where, notes)
        finally:
            checked.result()  # what is wrong with the values is told first
    last = np.flatnonzero(course.ends)
    _note_ends(course, last, notes)
    return Dataset(
        observations=observations,
        actions=actions,
        rewards=rewards,
        next_observations=course.successors,
        terminals=course.terminals,
        timeouts=course.timeouts,
        successor_known=course.known,
        episode_offsets=np.concatenate([[0], last + 1]).astype(np.int64),
        action_low=low,
        action_high=high,
        infos=extras,
        name=spelt(conventions.name or ""),
        env_id=conventions.env_id,
        notes=tuple(notes),
    )


def _check_values(
    observations: Floats, actions: Floats, rewards: Floats, bounds: tuple[Floats, Floats], where: str, stated: bool
) -> None:
    check_all_finite(observations, "observations", where)
    check_all_finite(actions, "actions", where)
    check_all_finite(rewards, "rewards", where)
    check_bounds(actions, *bounds, where, stated=stated)


def _course(
    raw: Mapping[str, Array],
    observations: Floats,
    extras: dict[str, Array],
    conventions: Conventions,
    where: str,
    notes: list[str],
) -> Course:
    """Flags, ends of episodes and successors; our own marks are taken out of `extras`."""
    marked_known, marked_cut = (_marked(extras, key, where) for key in (SUCCESSOR_KNOWN, EPISODE_CUT))
    terminals = flags(raw["terminals"], "terminals", where)
    timeouts = _timeouts(raw, terminals, conventions, where, notes)
    ends = terminals | timeouts if marked_cut is None else terminals | timeouts | marked_cut
    ends[-1] = True
    if "next_observations" in raw:
        told = _unless_blank(raw["next_observations"], ends, notes) if marked_known is None else marked_known
        stored = _link(observations, raw["next_observations"], ends, marked_cut is None, told, where, notes)
        known = told & _trusted(observations, stored, terminals, timeouts, conventions, marked_known, notes)
    else:
        stored = _shifted(observations)
        known = _followed(terminals, timeouts, ends, conventions)
    known |= ~ends
    stored[~known] = np.nan
    return Course(terminals, timeouts, ends, stored, known)


def _marked(extras: dict[str, Array], key: str, where: str) -> Bools | None:
    """Take one of our own row marks out of the extra arrays."""
    value = extras.pop(key, None)
    if value is None:
        return None
    if value.shape not in ((len(value),), (len(value), 1)) or value.dtype.kind not in "fiub":
        raise InputError(
            f"key 'infos/{key}' has shape {value.shape} and type {value.dtype}",
            where=where,
            expected="one boolean per row",
            fix=f"leave 'infos/{key}' out: stacq alone writes it",
        )
    return flags(value.reshape(-1), f"infos/{key}", where)


def _bounds(conventions: Conventions, size: int, where: str) -> tuple[Floats, Floats]:
    bounds = []
    for key in ("action_low", "action_high"):
        value = np.asarray(getattr(conventions, key), dtype=np.float64)
        if value.ndim > 1 or value.size not in (1, size) or not np.isfinite(value).all():
            raise InputError(
                f"the declared {key} is {value.tolist()}",
                where=where,
                expected=f"one finite number, or {size} of them, one per action dimension",
                fix="declare the bounds of the action space (--action-low, --action-high)",
            )
        bounds.append(np.broadcast_to(value, (size,)).copy())
    low, high = bounds
    if not (low < high).all():
        raise InputError(
            f"the declared action bounds are empty: low {low.tolist()}, high {high.tolist()}",
            where=where,
            expected="low < high in every action dimension",
            fix="declare the bounds of the action space (--action-low, --action-high)",
        )
    return low, high


def _timeouts(
    raw: Mapping[str, Array], terminals: Bools, conventions: Conventions, where: str, notes: list[str]
) -> Bools:
    if "timeouts" in raw:
        return flags(raw["timeouts"], "timeouts", where)
    limit = conventions.max_episode_steps
    if limit is None:
        notes.append("timeouts are not stored and no step limit is known: only terminals and breaks end episodes")
        return np.zeros(len(terminals), dtype=np.bool_)
    timeouts = _count_out(terminals, limit)
    notes.append(f"timeouts are not stored: {timeouts.sum():,} inferred from the limit of {limit:,} steps")
    return timeouts


def _count_out(terminals: Bools, limit: int) -> Bools:
    """Rows at which `limit` steps have passed since the last terminal or such a row."""
    timeouts = np.zeros(len(terminals), dtype=np.bool_)
    starts = np.concatenate([[0], np.flatnonzero(terminals) + 1])
    stops = np.concatenate([np.flatnonzero(terminals), [len(terminals)]])
    for start, stop in zip(starts, stops, strict=True):
        timeouts[start + limit - 1 : stop : limit] = True
    return timeouts


def _link(
    observations: Floats,
    raw: Array,
    ends: Bools,
    find_breaks: bool,
    told: Bools,
    where: str,
    notes: list[str],
) -> Floats:
    """Make a row's successor the very observation of the row after it, wherever no episode ends.

    A stored successor within rounding of that observation is replaced by it. One further away shows that
    the next row belongs to another trajectory: `ends` is set there, in place.
    """
    stored = floating(raw)
    stored = stored.astype(np.result_type(observations, stored), copy=False)
    rows = np.append(_differing(stored[:-1], observations[1:]), len(stored) - 1)
    # Rows that equal a checked observation are finite; where no successor is told there is a placeholder.
    check_finite(stored, rows[told[rows]], "next_observations", where)
    rows = rows[~ends[rows]]
    following = observations[rows + 1]
    apart = (np.abs(stored[rows] - following) > ROUNDING * (1 + np.abs(following))).any(axis=1)
    if find_breaks and apart.any():
        breaks = rows[apart]
        ends[breaks] = True
        notes.append(
            f"{len(breaks):,} unmarked episode breaks (first at row {breaks[0]:,}): the stored successor is not "
            "the next row's observation and no flag says so; the episodes are marked cut there"
        )
        rows, following = rows[~apart], following[~apart]
    stored[rows] = following
    return stored


def _unless_blank(raw: Array, ends: Bools, notes: list[str]) -> Bools:
    """Which rows tell a successor: the last row of an episode may hold NaN throughout, as if to say "unknown"."""
    told = np.ones(len(ends), dtype=np.bool_)
    last = np.flatnonzero(ends)
    blank = last[np.isnan(floating(raw[last])).all(axis=1)]
    told[blank] = False
    if len(blank):
        notes.append(f"{len(blank):,} stored successors at ends of episodes are NaN: read as unknown")
    return told


def _differing(left: Floats, right: Floats) -> Ints:
    """Row numbers where two [N, S] arrays differ.

    In blocks that fit the cache, without a reduction per row: either would dominate the time of loading.
    """
    found = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(left), BLOCK):
        block = slice(start, start + BLOCK)
        entries = np.flatnonzero((left[block] != right[block]).reshape(-1))
        found.append(start + np.unique(entries // left.shape[1]))
    return np.concatenate(found)


def _trusted(
    observations: Floats,
    stored: Floats,
    terminals: Bools,
    timeouts: Bools,
    conventions: Conventions,
    marked: Bools | None,
    notes: list[str],
) -> Bools:
    """A stored successor counts, unless it is only the reset state of the next episode.

    Exports of D4RL's `qlearning_dataset` carry such rows: their "successor" equals the first observation
    of the following episode, which no step of the environment produced. Our own files mark their rows.
    """
    if marked is not None:
        return marked.copy()
    suspects = timeouts | terminals if conventions.resets_after_terminal else timeouts
    rows = np.flatnonzero(suspects[:-1])
    resets = rows[(stored[rows] == observations[rows + 1]).all(axis=1)]
    known = np.ones(len(observations), dtype=np.bool_)
    known[resets] = False
    if len(resets):
        notes.append(f"{len(resets):,} stored successors are reset states of the next episode and are not used")
    return known


def _shifted(observations: Floats) -> Floats:
    successors = np.empty_like(observations)
    successors[:-1] = observations[1:]
    return successors


def _followed(terminals: Bools, timeouts: Bools, ends: Bools, conventions: Conventions) -> Bools:
    """Without stored successors, a row's successor is known if the next row continues it."""
    known = ~ends
    if not conventions.resets_after_terminal:
        known |= terminals & ~timeouts
    known[-1] = False
    return known


def _note_ends(course: Course, last: Ints, notes: list[str]) -> None:
    unknown = len(course.known) - int(course.known.sum())
    if unknown:
        notes.append(f"rows without a known successor (ends of episodes): {unknown:,}, kept and marked so")
    if not (course.terminals[last[-1]] or course.timeouts[last[-1]]):
        start = last[-2] + 1 if len(last) > 1 else 0
        notes.append(
            f"the last episode (rows {start:,} to {last[-1]:,}) is unfinished: kept, and marked cut, "
            "neither terminal nor timeout"
        )

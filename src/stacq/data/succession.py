"""Which row follows which: ends of episodes, and which successors can be trusted."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Array, Bools, Floats, Ints
from stacq.data.checks import (
    check_finite,
    flags,
    floating,
)
from stacq.data.conventions import Conventions

SUCCESSOR_KNOWN = "successor_known"  # our own additions to D4RL's `infos` group: what its format cannot say

EPISODE_CUT = "episode_cut"

BLOCK = 262_144  # rows compared at a time

ROUNDING = 1e-5  # relative; a stored successor this close to the following row is that row


class Course(NamedTuple):
    """How the rows follow each other."""

    terminals: Bools  # [N]
    timeouts: Bools  # [N]
    ends: Bools  # [N], the last rows of episodes
    successors: Floats  # [N, S]
    known: Bools  # [N], whether the successor is


def find_course(
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
        stated = _unless_blank(raw["next_observations"], ends, notes) if marked_known is None else marked_known
        stored = _link(observations, raw["next_observations"], ends, marked_cut is None, stated, where, notes)
        known = stated & _trusted(observations, stored, terminals, timeouts, conventions, marked_known, notes)
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
    stated: Bools,
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
    # Rows that equal a checked observation are finite; where no successor is stored there is a placeholder.
    check_finite(stored, rows[stated[rows]], "next_observations", where)
    rows = rows[~ends[rows]]
    following = observations[rows + 1]
    with np.errstate(invalid="ignore"):  # a placeholder may be infinite
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
    stated = np.ones(len(ends), dtype=np.bool_)
    last = np.flatnonzero(ends)
    blank = last[np.isnan(floating(raw[last])).all(axis=1)]
    stated[blank] = False
    if len(blank):
        notes.append(f"{len(blank):,} stored successors at ends of episodes are NaN: read as unknown")
    return stated


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

"""Where raw arrays become a Dataset: every check on outside data is made here, once.

Readers of file formats give a mapping of plain arrays under D4RL's names; nothing past this
module looks for NaN, ragged lengths or missing ends again.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.files import spelt
from stacq.core.types import Array, Floats, Ints
from stacq.data.checks import (
    check_all_finite,
    check_bounds,
    check_rows,
    check_shapes,
    floating,
)
from stacq.data.conventions import NOTHING_STATED, USUAL, Conventions
from stacq.data.dataset import Dataset
from stacq.data.succession import Course, find_course


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


def assemble(raw: Mapping[str, Array], infos: Mapping[str, Array], *, where: str, conventions: Conventions) -> Dataset:
    """Check raw arrays under D4RL's names and make a Dataset of them.

    Takes ownership: `next_observations` is mended in place. Values are checked in parallel with the search for episode
    ends, on another core: each takes as long as the other.
    """
    stated = conventions.action_low is not None and conventions.action_high is not None
    conventions = conventions.over(USUAL)
    limit = conventions.max_episode_steps
    if limit is not None and limit < 1:
        raise InputError(f"max_episode_steps is {limit}", where=where, expected="at least 1", fix="leave it out")
    given = conventions.given
    check_shapes({key: (value.shape, value.dtype) for key, value in raw.items()}, where, given=given)
    raw = {**{key: np.zeros(len(raw["observations"])) for key in given}, **raw}  # a formula comes in their place
    extras = dict(infos)
    for key, value in extras.items():
        check_rows(f"infos/{key}", value.shape, len(raw["observations"]), where)
    observations, actions, rewards = (floating(raw[key]) for key in ("observations", "actions", "rewards"))
    low, high = _bounds(conventions, actions.shape[1], where)
    notes: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        checked = pool.submit(_check_values, observations, actions, rewards, (low, high), where, stated)
        try:
            course = find_course(raw, observations, extras, conventions, where, notes)
        finally:
            checked.result()  # an error in the values is raised first
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
        observation_names=_names(conventions.observation_names, observations.shape[1], "observation", where),
        action_names=_names(conventions.action_names, actions.shape[1], "action", where),
        notes=tuple(notes),
    )


def _check_values(
    observations: Floats, actions: Floats, rewards: Floats, bounds: tuple[Floats, Floats], where: str, stated: bool
) -> None:
    check_all_finite(observations, "observations", where)
    check_all_finite(actions, "actions", where)
    check_all_finite(rewards, "rewards", where)
    check_bounds(actions, *bounds, where, stated=stated)


def _names(names: tuple[str, ...] | None, size: int, what: str, where: str) -> tuple[str, ...]:
    if names and len(names) != size:
        raise InputError(
            f"there are {len(names)} names for {size} {what} dimensions",
            where=where,
            expected="one for each",
            fix=f"correct {what}_names, or leave them out",
        )
    return tuple(map(spelt, names or ()))


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

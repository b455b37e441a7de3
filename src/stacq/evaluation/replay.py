"""Recorded rows done again in a simulator: whether data and environment are of one task."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Bools, Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.data.match import check_match
from stacq.data.tours import recording_starts
from stacq.envs.gym import facts_of, flatten, make_env

STATE = ("qpos", "qvel")  # the extras that hold the simulator's state
TRIED = 200  # rows from which it is found out when states were stored
EXACT = 1e-3  # of a recorded step: what single precision and a solver without its past leave
SAME_TASK = 0.9  # R2 of a step; D4RL's old engine keeps 0.96 to 0.999 of three bodies' steps


@dataclass(frozen=True)
class Replay:
    """How far replayed rows ended from where the recorded ones did."""

    env_id: str
    rows: int
    stored: Literal["before", "after"]  # when, seen from the action
    misplaced: float  # median distance of a stored state's observation from the recorded one
    step: float  # median length of a recorded step
    median: float  # distance to the recorded next observation
    p99: float
    largest: float
    r2: float  # of the change of an observation, in the median dimension
    worst_r2: float
    worst: int  # the dimension of that

    @property
    def verdict(self) -> str:
        if self.misplaced > EXACT * max(self.step, 1e-9) and self.misplaced > EXACT:
            return "the stored states are not those of the observations: another body, or columns in another order"
        if self.p99 <= EXACT * self.step:
            return "the same simulator: rows repeat up to rounding"
        if self.r2 >= SAME_TASK:
            return (
                "the same body in another version of the engine: D4RL's old one differs by as much in a single step "
                "(R2 0.96 to 0.999 on three bodies), so this is no sign of an error"
            )
        return "other actions, another time step or another body: policies trained on this data do not belong here"


def replay(dataset: Dataset, env_id: str, *, rows: int = 2000) -> Replay:
    """Set the stored state of up to `rows` rows, apply the stored action, compare with the stored successor."""
    if rows < 1:
        raise InputError(f"{rows} rows", expected="at least 1", fix="leave --rows out")
    env = make_env(env_id)
    check_match(dataset, facts_of(env, env_id))
    body = env.unwrapped
    env.reset(seed=0)
    _check_body(body, dataset, env_id)
    stored = _when_stored(body, dataset)
    first = np.zeros(len(dataset), dtype=np.bool_)
    first[recording_starts(dataset)] = True
    chosen = _some(dataset.successor_known & ~(first & (stored == "after")), rows)
    sources = chosen - (stored == "after")
    pairs = [_redone(body, dataset, int(source), int(row)) for source, row in zip(sources, chosen, strict=True)]
    placed, reached = (np.array(each) for each in zip(*pairs, strict=True))
    return _compared(dataset, chosen, placed, reached, env_id, stored)


def _check_body(body: Any, dataset: Dataset, env_id: str) -> None:
    if not (hasattr(body, "set_state") and hasattr(body, "data")):
        raise InputError("its state cannot be set", where=env_id, expected="an environment that MuJoCo moves")
    for key in STATE:
        size, found = len(getattr(body.data, key)), dataset.infos[key].shape
        if found[1:] != (size,):
            raise InputError(
                f"infos/{key} has shape {found}",
                where=dataset.name or "dataset",
                expected=f"{size} numbers for each row, as {env_id} has",
                fix="name the environment that the data was recorded in (--env)",
            )


def _when_stored(body: Any, dataset: Dataset) -> Literal["before", "after"]:
    """D4RL's AntMaze files hold the state after the action, its locomotion files and ours the one before."""
    rows = _some(dataset.successor_known, TRIED)
    seen = np.array([_placed(body, dataset, int(row)) for row in rows])
    before, after = (
        np.median(np.linalg.norm(seen - recorded[rows], axis=1))
        for recorded in (dataset.observations, dataset.next_observations)
    )
    return "before" if before <= after else "after"


def _some(usable: Bools, most: int) -> Ints:
    """Up to so many usable rows, spread evenly."""
    rows = np.flatnonzero(usable)
    if not len(rows):
        raise InputError("no row has a known successor", where="replay", fix="record whole transitions")
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)]


def _placed(body: Any, dataset: Dataset, row: int) -> Floats:
    body.set_state(*(dataset.infos[key][row].astype(np.float64) for key in STATE))
    return flatten(body._get_obs())


def _redone(body: Any, dataset: Dataset, source: int, row: int) -> tuple[Floats, Floats]:
    """The observation of the stored state, and the one after the action."""
    placed = _placed(body, dataset, source)
    return placed, flatten(body.step(dataset.actions[row])[0])


def _compared(
    dataset: Dataset, rows: Ints, placed: Float64s, reached: Float64s, env_id: str, stored: Literal["before", "after"]
) -> Replay:
    before = dataset.observations[rows].astype(np.float64)
    change = dataset.next_observations[rows].astype(np.float64) - before
    error = reached - before - change
    distance = np.linalg.norm(error, axis=1)
    spread = ((change - change.mean(axis=0)) ** 2).sum(axis=0)
    r2 = 1 - (error**2).sum(axis=0) / np.where(spread > 0, spread, np.inf)
    return Replay(
        env_id=env_id,
        rows=len(rows),
        stored=stored,
        misplaced=float(np.median(np.linalg.norm(placed - before, axis=1))),
        step=float(np.median(np.linalg.norm(change, axis=1))),
        median=float(np.median(distance)),
        p99=float(np.quantile(distance, 0.99)),
        largest=float(distance.max()),
        r2=float(np.median(r2)),
        worst_r2=float(r2.min()),
        worst=int(r2.argmin()),
    )

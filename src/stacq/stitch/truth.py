"""How true stitches are: tried out where data has the simulator's state of every row."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s, Floats, Ints
from stacq.data.dataset import Dataset
from stacq.reach.ranges import range_actions
from stacq.reach.search import search
from stacq.stitch.paths import ROW, STITCHED

NEAR = 0.1  # of the true one-step range in every dimension, as for reachable states
SIMULATED = 128  # uniform actions behind a true range, with the corners of the action box
SMALLEST_RANGE = 2e-6
MOST = 500  # stitches that are tried


class Body(Protocol):
    """A simulator that starts from any state, such as `envs.simulator.Simulator`."""

    def next_observation(self, qpos: Float64s, qvel: Float64s, action: Float64s) -> Float64s: ...


class Tried(NamedTuple):
    """Largest distances from the stitch's successor, in true one-step ranges."""

    made_up: float  # by the action of the stitch
    best: float  # by the best action that was found


@dataclass(frozen=True)
class Truth:
    """Shares of the stitches that were tried."""

    stitches: int  # in the data
    tried: int
    hit: float  # the made-up action leads there
    possible: float  # some action does
    recorded: float  # of the recorded steps from the same states, whose recorded action leads where it led
    usual_miss: float  # median over stitches of the made-up action's largest distance, in true ranges
    least_miss: float  # the same of the best action's

    def text(self) -> str:
        return (
            f"{self.tried:,} of {self.stitches:,} stitches tried: {self.hit:.0%} hit by the made-up action, "
            f"{self.possible:.0%} possible; the usual miss is {self.usual_miss:.2g} of a step's range, "
            f"with the best action {self.least_miss:.2g} ({self.recorded:.0%} of the recorded steps are repeated)"
        )


def truth(recording: Dataset, stitched: Dataset, body: Body, *, most: int = MOST, seed: int = 0) -> Truth:
    """Try up to `most` stitches of `stitched`, which was made from `recording`."""
    check_made_from(recording, stitched)
    rows = np.flatnonzero(stitched.infos[STITCHED])
    if not len(rows):
        raise InputError(
            "no row is stitched", where=stitched.name, expected="stitches to try", fix="try a larger radius"
        )
    chosen = np.sort(np.random.default_rng(seed).choice(rows, min(most, len(rows)), replace=False))
    actions = range_actions(
        stitched.action_low.astype(np.float32), stitched.action_high.astype(np.float32), SIMULATED, "corners", seed
    ).astype(np.float64)
    found = [_try_one(recording, stitched, body, int(row), actions) for row in chosen]
    near = np.array([[tried.made_up <= NEAR, tried.best <= NEAR, again <= NEAR] for tried, again in found])
    hit, possible, recorded = (float(share) for share in near.mean(axis=0))
    usual, least = (float(miss) for miss in np.median([tried for tried, _ in found], axis=0))
    return Truth(len(rows), len(chosen), hit, possible, recorded, usual, least)


def _try_one(recording: Dataset, stitched: Dataset, body: Body, row: int, actions: Float64s) -> tuple[Tried, float]:
    """A stitch, and the recorded step from the same state."""
    origin = int(stitched.infos[ROW][row])
    qpos, qvel = (recording.infos[name][origin].astype(np.float64) for name in ("qpos", "qvel"))
    own, goal = (
        each.astype(np.float64) for each in (recording.next_observations[origin], stitched.next_observations[row])
    )
    landed = np.array([body.next_observation(qpos, qvel, action) for action in actions])
    whole = np.concatenate([landed, own[None]])
    size = np.maximum(whole.max(axis=0) - whole.min(axis=0), SMALLEST_RANGE)

    def gap(action: Floats) -> Float64s:
        found: Float64s = (body.next_observation(qpos, qvel, action.astype(np.float64)) - goal) / size
        return found

    again = body.next_observation(qpos, qvel, recording.actions[origin].astype(np.float64)) - own
    made_up = stitched.actions[row].astype(np.float64)
    nearest = actions[np.abs((landed - goal) / size).max(axis=1).argmin()]
    low, high = actions.min(axis=0), actions.max(axis=0)  # corners are among them
    best = min(search(gap, made_up, low, high), search(gap, nearest, low, high))
    return Tried(float(np.abs(gap(made_up)).max()), best), float(np.abs(again / size).max())


def check_made_from(recording: Dataset, stitched: Dataset) -> None:
    """Refuse data whose rows are no rows of the recording, or a recording without the simulator's states."""
    for dataset, names in ((stitched, (ROW, STITCHED)), (recording, ("qpos", "qvel"))):
        missing = [name for name in names if name not in dataset.infos]
        if missing:
            raise InputError(
                f"its rows have no '{missing[0]}'",
                where=dataset.name or "dataset",
                expected=" and ".join(names),
                fix='load it with infos="all"; regenerated data has states of the simulator, stitched data its marks',
            )
    rows: Ints = stitched.infos[ROW]
    same = rows.max() < len(recording) and np.array_equal(stitched.observations, recording.observations[rows])
    if not same:
        raise InputError(
            "the stitched rows are not those of the recording",
            where=stitched.name or "dataset",
            expected="the data that it was stitched from, whole",
            fix="name the recording that the training was given",
        )

"""What is measured of fitted dynamics."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Errors:
    """RMSE of the next state per state dimension, by who predicts it."""

    ensemble: tuple[float, ...]  # mean of the members' predictions
    member: tuple[float, ...]  # one member alone, averaged over members
    identity: tuple[float, ...]  # next state = this state


@dataclass(frozen=True)
class OpenLoop:
    """Error after `steps` predictions fed back into the model, under the logged actions; normalised units.

    Every start is a held-out row, but the members may have seen the rows after it.
    """

    steps: int
    starts: int
    ensemble: tuple[float, ...]  # RMSE per state dimension
    identity: tuple[float, ...]  # of staying where the loop began
    path: tuple[float, ...]  # after 1, 2, ... steps of the same loops, mean over dimensions
    identity_path: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.ensemble))


@dataclass(frozen=True)
class Bins:
    """Root mean squares of spread and error in bins of equal count, ordered by spread."""

    spread: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True)
class Calibration:
    """Whether the members disagree where the ensemble errs, per state dimension.

    Bins are in units of the dimension's own RMSE, so that dimensions can be pooled.
    """

    correlation: tuple[float, ...]  # rank correlation of spread and size of the error; 0 where one is constant
    within_one: tuple[float, ...]  # share of errors up to one standard deviation of the ensemble
    within_two: tuple[float, ...]
    per_dimension: tuple[Bins, ...]
    pooled: Bins


@dataclass(frozen=True)
class RoundTrip:
    """Appendix C's criterion on pairs known to be reachable: a row and its true successor, both held out."""

    rows: int
    actions: int  # behind every range
    epsilons: tuple[float, ...]
    recall: tuple[float, ...]  # share of true successors that pass, by epsilon
    failing: tuple[tuple[float, ...], ...]  # share of rows that fail in a dimension, by epsilon
    worst: int  # the dimension that fails most often at the first epsilon


@dataclass(frozen=True)
class Quality:
    """Everything that the report of a fit tells; plain numbers."""

    name: str
    forward_members: int
    inverse_members: int
    hidden: tuple[int, ...]
    epochs: int  # 0 where the learning curves were lost
    held_out: int  # rows behind the numbers
    normalised: Errors
    raw: Errors
    inverse: tuple[float, ...]  # RMSE per action dimension
    inverse_spread: tuple[float, ...]  # standard deviation of the logged actions: the error of a constant guess
    open_loop: tuple[OpenLoop, ...]  # horizons that no start allows are left out
    calibration: Calibration
    round_trip: RoundTrip
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

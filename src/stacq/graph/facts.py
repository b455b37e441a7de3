"""What a person should know of a graph before trusting what was learned from it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stacq.core.types import Bools, Ints
from stacq.graph.config import Kind
from stacq.graph.neighbours import NONE

FAR = 1.0  # near rows farther than this many steps are no neighbours
LOW_RECALL = 0.9
ENDLESS = -1  # a chain that comes back to where it began


@dataclass(frozen=True)
class GraphFacts:
    """Numbers of one graph; values are discounted returns in the data's rewards."""

    rows: int
    edges: Kind
    neighbours: float  # others that a row may choose from, on average
    recall: float  # of the search for near rows
    near: float  # median distance of a lending row, or of where the models arrive from where they should
    step: float  # median distance of a step of the data
    unit: float  # of distances, that a price belongs to
    noise: float  # deviation of the usual advantage
    temperature: float
    slope: float  # price of a unit of distance
    moved: float  # share of rows whose best candidate is another row
    lent: float  # mean weight of other rows' actions
    longest: int  # chain of best candidates without an own step; ENDLESS
    changed: float  # root mean square of the change of actions, which lie in [-1, 1]
    usual_value: float  # mean value of the logged behaviour
    value: float  # mean value of the graph
    best_logged: float  # the largest value of always taking the own action
    sweeps: int
    residual: float
    bound: float

    @property
    def usual_price(self) -> float:
        """Of a unit of distance, in deviations of the usual advantage."""
        return self.slope * self.unit / self.noise if self.noise > 0 else 0.0

    @property
    def reach(self) -> float:
        """How far off one may arrive, in steps of the data."""
        return self.near / self.step if self.step > 0 else 0.0

    def to_json(self) -> Mapping[str, Any]:
        return asdict(self) | {
            "slope": self.slope if math.isfinite(self.slope) else None,
            "usual_price": self.usual_price if math.isfinite(self.usual_price) else None,
            "reach": self.reach,
            "warnings": list(self.warnings()),
        }

    def text(self) -> str:
        """Two lines."""
        chain = "endless" if self.longest == ENDLESS else f"{self.longest:,} steps"
        near = self.edges == "near"
        others = (
            f"{self.neighbours:.3g} neighbours at {self.reach:.2f} of a step (recall {self.recall:.1%})"
            if near
            else f"{self.neighbours:.3g} reachable states, missed by {self.reach:.2g} of a step"
        )
        return (
            f"graph: {self.rows:,} rows, {others}; price {self.usual_price:.3g} deviations for "
            f"{'a usual neighbour' if near else 'a step'}, temperature {self.temperature:.3g}\n"
            f"graph: {self.moved:.0%} of the rows prefer another row's action, longest chain without an own step "
            f"{chain}; mean value {self.value:.1f} (logged behaviour {self.usual_value:.1f}, best logged row "
            f"{self.best_logged:.1f}), "
            f"exact to {self.bound:.1g} after {self.sweeps:,} sweeps"
        )

    def warnings(self) -> Iterator[str]:
        """What looks like a failure."""
        if self.reach > FAR:
            yield (
                f"near rows are {self.reach:.1f} steps away: what they did may not be possible here; more rows, or "
                "fewer dimensions, bring them closer"
            )
        if self.value > self.best_logged + self.bound:
            yield (
                f"the mean value is {self.value:.0f}, and the best logged row is worth {self.best_logged:.0f}: "
                "luck may be taken for skill; compare with a price of 200, which clones"
            )
        if self.moved == 0:
            yield "every row keeps its own action: what is fitted is behaviour cloning"
        if self.recall < LOW_RECALL:
            yield f"the search found {self.recall:.0%} of the nearest rows"


def longest_chain(lends: Bools, towards: Ints) -> int:
    """The longest run of rows that borrow, each led on to by the one before; ENDLESS where a run is a circle.

    By doubling: after k rounds `run` is the length of the run from every row, up to 2^k, and `place` is where it ends.
    """
    run, place = lends.astype(np.int64), np.where(lends & (towards != NONE), towards, NONE)
    size = 1
    while size <= len(lends):
        full = (run == size) & (place != NONE)
        if not full.any():
            return int(run.max(initial=0))
        ahead = np.maximum(place, 0)
        run, place = run + np.where(full, run[ahead], 0), np.where(full, place[ahead], NONE)
        size *= 2
    return ENDLESS if int(run.max(initial=0)) > len(lends) else int(run.max(initial=0))

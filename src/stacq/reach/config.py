"""What counts as reachable: the options of the sets, without the code behind them, for the command line to parse."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg

from stacq.core.unsaid import Count

CriterionName = Literal["paper", "calibrated", "priced"]
Norm = Literal["linf", "l1", "l2", "l2-unrooted"]
Estimator = Literal["random", "corners"]
Engine = Literal["cpu", "gpu"]
RECALL = 0.95


@dataclass(frozen=True)
class ReachConfig:
    """What counts as reachable; frozen in the manifest, and part of the cache key."""

    criterion: CriterionName = "paper"
    """The published test; one that refines the action and knows the models' error on held-out rows; or near rows, each
    at a price that the critics pay, where no other option here counts."""
    epsilon: float = 0.1
    """Largest disagreement of the models, in units of one step's range."""
    norm: Norm = "linf"
    """Of the paper's criterion; the calibrated one is defined for linf."""
    estimator: Estimator | Literal["auto"] = "auto"
    """Actions behind the ranges: uniform ones, or corners and fewer uniform ones. auto: corners on a CPU."""
    actions: Count = None
    """Uniform actions behind every range; by default 1,000, and 64 in addition to the corners."""
    clip: bool = False
    """Clip inverse actions to the action bounds before they are tried; the calibrated criterion always does."""
    recall: float = RECALL
    """Share of true successors that must pass the calibrated criterion."""
    cap: Count = None
    """Most states per set: a seeded choice that keeps the own successor."""
    seed: Annotated[int, arg(name="reach-seed")] = 42
    """Of the uniform actions, of the rows that the test is judged on, and of what a cap leaves out."""

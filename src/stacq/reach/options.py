"""The options of reachable sets, checked and completed for this machine."""

from dataclasses import replace
from typing import get_args

import jax
import numpy as np

from stacq.core.errors import InputError, check_choice, check_seed, check_whole
from stacq.reach.config import RECALL, CriterionName, Estimator, Norm, ReachConfig
from stacq.reach.criterion import (
    KEPT,
)

OPTIONS = "options of the reachable sets"

CHOICES = {
    "criterion": get_args(CriterionName),
    "norm": get_args(Norm),
    "estimator": ("auto", *get_args(Estimator)),
}

ACTIONS: dict[Estimator, int] = {"random": 1000, "corners": 64}  # the latter a tenth of the arithmetic

PAPER = ReachConfig(estimator="random", actions=ACTIONS["random"])

MOST_ACTIONS = 100_000  # behind a range: hundreds of times what the paper takes


def resolved(config: ReachConfig) -> ReachConfig:
    """The options as they will be used on this machine, refused if they make no sense."""
    for name, choices in CHOICES.items():
        check_choice(name, getattr(config, name), choices, where=OPTIONS)
    _check_priced(config)
    estimator = config.estimator
    if estimator == "auto":
        estimator = "corners" if jax.default_backend() == "cpu" else "random"
    actions = ACTIONS[estimator] if config.actions is None else config.actions
    _check_numbers(config, actions, least=1 if estimator == "random" else 0)
    if config.criterion == "calibrated":
        config = replace(_checked(config), clip=True)
    elif config.recall != RECALL:
        fix = "choose the calibrated criterion, or leave it out"
        raise InputError("a recall was asked for", where="the paper's criterion", expected="an epsilon alone", fix=fix)
    return replace(config, estimator=estimator, actions=actions)


def _check_numbers(config: ReachConfig, actions: int, least: int) -> None:
    if not (np.isfinite(config.epsilon) and config.epsilon >= 0):
        raise InputError(
            f"epsilon is {config.epsilon}", where=OPTIONS, expected="a finite number from 0", fix="try 0.1"
        )
    bounds = f"at least {least} and at most {MOST_ACTIONS:,} of them" + " (the corners may do alone)" * (least == 0)
    check_whole(
        f"actions is {actions}", actions, least, MOST_ACTIONS, where=OPTIONS, expected=bounds, fix="leave it out"
    )
    if config.cap is not None:
        most, fix = np.iinfo(np.int32).max, "leave it out for no cap"
        check_whole(f"cap is {config.cap}", config.cap, 1, most, where=OPTIONS, fix=fix)
    check_seed(config.seed, where=OPTIONS)


def _check_priced(config: ReachConfig) -> None:
    if config.criterion == "priced" and config != ReachConfig(criterion="priced"):
        raise InputError(
            "an option of another criterion was set",
            where="priced sets",
            expected="no other option of reachable sets: near rows and prices are the graph's",
            fix="leave it out, or choose the criterion paper or calibrated",
        )


def _checked(config: ReachConfig) -> ReachConfig:
    where = "the calibrated criterion"
    if config.norm != "linf":
        fix = "leave the norm as it is, or use the paper's criterion"
        raise InputError(f"norm is {config.norm}", where=where, expected="linf, which it is defined for", fix=fix)
    if not 0 < config.recall <= KEPT:
        raise InputError(f"recall is {config.recall}", where=where, expected=f"a share above 0 and up to {KEPT}")
    return config

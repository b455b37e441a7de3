"""Everything one may choose about a judgement."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from tyro.conf import Suppress

from stacq.core.errors import InputError, check_seed, check_whole

WHERE = "options of the judgement"
MOST = 10_000_000


@dataclass(frozen=True)
class FQEConfig:
    """How critics are fitted; chosen on hopper-medium, seed 0 (docs/judge.md)."""

    members: int = 4
    hidden: tuple[int, ...] = (128, 128)
    steps: int = 2_500  # for every policy
    first_steps: int = 7_500  # once, for the data's own actions: where every policy's critics begin
    batch: int = 128
    learning_rate: float = 1e-3  # falls to zero along a cosine
    tau: float = 0.05


@dataclass(frozen=True)
class OutcomeConfig:
    """How the model of reward and ending is fitted."""

    members: int = 2
    hidden: tuple[int, ...] = (128, 128)
    steps: int = 3_000
    batch: int = 256
    learning_rate: float = 1e-3
    ends: float = 0.125  # share of terminal rows in a batch, where there are any: they are rare, and decide


@dataclass(frozen=True)
class JudgeConfig:
    """How policies are judged."""

    discount: float = 0.99
    """Of the values that are estimated: 0.99 looks about 100 steps ahead."""
    horizon: int | None = None
    """Most steps of a rollout in the models; by default the longest episode of the data, at most 1,000."""
    starts: int = 12
    """Starts of recorded episodes that rollouts begin at, each with every model."""
    seed: int = 0
    seconds: float = 60.0
    """Time for one policy to choose its actions at the data's states; a slow one is judged on fewer rows."""
    fqe: Annotated[FQEConfig, Suppress] = field(default=FQEConfig())
    outcome: Annotated[OutcomeConfig, Suppress] = field(default=OutcomeConfig())


def check_config(config: JudgeConfig) -> None:
    """Refuse numbers that would judge nothing, or for ever."""
    if not (np.isfinite(config.discount) and 0 <= config.discount < 1):
        raise InputError(
            f"discount is {config.discount}", where=WHERE, expected="a number from 0 to below 1", fix="try 0.99"
        )
    if not (np.isfinite(config.seconds) and config.seconds > 0):
        raise InputError(f"seconds is {config.seconds}", where=WHERE, expected="a number above 0", fix="try 60")
    if config.horizon is not None:
        check_whole(f"horizon is {config.horizon}", config.horizon, 1, MOST, where=WHERE, fix="leave it out")
    check_whole(f"starts is {config.starts}", config.starts, 1, MOST, where=WHERE, fix="use 12")
    check_seed(config.seed, where=WHERE)

"""How trajectories are stitched; the defaults are those of the authors' code."""

import math
from dataclasses import dataclass

from stacq.core.errors import InputError, check_seed, check_whole

MANY_ROWS = 900_000  # from here on the inverse model is a wide one


@dataclass(frozen=True)
class ForwardConfig:
    """The ensemble that says how likely a next state is."""

    members: int = 7
    elites: int = 5  # the best on their validation rows, which are used
    hidden: tuple[int, ...] = (200, 200, 200, 200)
    learning_rate: float = 3e-4
    max_epochs: int = 1000
    patience: int = 50  # epochs without a new best before a member stops
    batch: int = 256
    validation: float = 0.2  # share of rows held out, another fifth for every member


@dataclass(frozen=True)
class ValueConfig:
    """The state value, which is learned anew on the data of every iteration."""

    steps: int = 1_000_000
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    discount: float = 0.99
    tau: float = 0.005
    batch: int = 256


@dataclass(frozen=True)
class InverseConfig:
    """The autoencoder that makes up the action of a stitch."""

    steps: int = 400_000
    width: int = 750  # of both hidden layers, from 900,000 rows on
    narrow: int = 128  # with fewer rows
    learning_rate: float = 1e-4
    batch: int = 100

    def hidden(self, rows: int) -> tuple[int, int]:
        width = self.width if rows >= MANY_ROWS else self.narrow
        return width, width


@dataclass(frozen=True)
class RewardConfig:
    """The network that makes up the reward of a stitch."""

    steps: int = 500_000
    hidden: tuple[int, ...] = (512, 512)
    learning_rate: float = 1e-4
    batch: int = 256


@dataclass(frozen=True)
class StitchConfig:
    """Everything that a stitched dataset depends on beyond the data itself."""

    iterations: int = 5
    radius: float = 0.0  # Euclidean, between raw states; 0: half the median length of a step of the data
    between_only: bool = False  # whether a stitch must lead to another episode
    least_gain: float = 0.1  # share of its size by which the return of an episode must grow
    limit: int = 1000  # steps of an episode
    seed: int = 0
    forward: ForwardConfig = ForwardConfig()
    value: ValueConfig = ValueConfig()
    inverse: InverseConfig = InverseConfig()
    reward: RewardConfig = RewardConfig()


def check_config(config: StitchConfig) -> None:
    """Refuse numbers that would stitch nothing, or use members that are not there."""
    where = "stitching"
    forward, limit = config.forward, 2**31 - 1
    check_seed(config.seed, where=where)
    check_whole(f"{config.iterations} iterations", config.iterations, 1, 1000, where=where)
    check_whole(f"a limit of {config.limit} steps", config.limit, 1, limit, where=where)
    check_whole(f"{forward.members} forward members", forward.members, 1, 1000, where=where)
    expected = f"at least one, and at most the {forward.members} members"
    check_whole(f"{forward.elites} elites", forward.elites, 1, forward.members, where=where, expected=expected)
    for name in ("radius", "least_gain"):
        value = getattr(config, name)
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{name} is {value}", where=where, expected="a finite number from 0", fix="try 0.1")

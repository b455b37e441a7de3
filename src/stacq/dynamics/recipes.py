"""How dynamics are fitted: the recipes by name."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class FitConfig:
    """How the ensembles are fitted; the defaults are what measured best, `PAPER` is the authors' code."""

    forward_members: int = 7
    inverse_members: int = 3
    hidden: tuple[int, ...] = (256, 256, 256)
    learning_rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "cosine"  # cosine falls to zero at max_epochs
    max_epochs: int = 150
    forward_patience: int = 50  # epochs without a new best before a member stops
    inverse_patience: int = 50
    batch: int = 256
    validation: float = 0.1  # share of rows held out, another tenth for every member
    scale_targets: bool = True  # forward targets in units of the data's own steps
    normalise: bool = True
    least_steps: int = 0  # of every member; with few rows there are more epochs for it, and as much more patience
    seed: int = 0


PAPER = FitConfig(
    learning_rate=3e-4,
    schedule="constant",
    max_epochs=1000,
    forward_patience=50,
    inverse_patience=20,
    scale_targets=False,
)
PAPER_ANTMAZE = replace(PAPER, hidden=(256, 256, 256, 256), normalise=False)
SMALL = FitConfig(
    forward_members=3, inverse_members=2, hidden=(128, 128), max_epochs=40, forward_patience=10, least_steps=2_000
)
SMALL_ANTMAZE = replace(SMALL, normalise=False)
DEFAULT = FitConfig()
PRESETS = {
    "default": DEFAULT,
    "paper": PAPER,
    "paper-antmaze": PAPER_ANTMAZE,
    "small": SMALL,
    "small-antmaze": SMALL_ANTMAZE,
}

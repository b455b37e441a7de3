"""What a file does not say of itself, and the usual answers."""

import re
from dataclasses import dataclass, replace

from stacq.data.columns import Columns


@dataclass(frozen=True)
class Conventions:
    """What arrays do not say about themselves; None means "not stated".

    Statements come from the caller, from the registry and from the file's own attributes, and win in
    that order; what is not stated is D4RL's usual: bounds -1 and 1, a reset after every end.
    """

    action_low: float | tuple[float, ...] | None = None
    action_high: float | tuple[float, ...] | None = None
    max_episode_steps: int | None = None  # used only where timeouts are not stored
    resets_after_terminal: bool | None = None  # False: the row after a terminal is its true successor
    env_id: str | None = None
    name: str | None = None
    columns: Columns | None = None  # of a table; of other data it may give the formula of a reward
    observation_names: tuple[str, ...] | None = None  # of the dimensions
    action_names: tuple[str, ...] | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Keys that a file need not have."""
        formula = None if self.columns is None else self.columns.reward
        return () if formula is None or re.search(r"\breward\b", formula) else ("rewards",)

    def over(self, other: "Conventions") -> "Conventions":
        """These statements, completed by another's."""
        return replace(other, **{key: value for key, value in vars(self).items() if value is not None})


NOTHING_STATED = Conventions()
USUAL = Conventions(action_low=-1.0, action_high=1.0, resets_after_terminal=True, name="")

"""What several verbs share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from stacq.core.printable import printable_lines
from stacq.core.unsaid import Count, Numbers, Place, Text, Texts

if TYPE_CHECKING:
    from stacq.data.columns import Columns
    from stacq.data.conventions import Conventions

KEPT = "the episodes finished so far are kept in the run directory"
KEPT_RUN = "finished stages and the last checkpoint, if there is one yet, are kept; the same command goes on from there"


@dataclass(frozen=True)
class Bounds:
    """What a file of arrays does not say of itself."""

    action_low: Numbers = None
    """Lower bound of the actions: one number or one per dimension. Default: as declared, else -1."""
    action_high: Numbers = None
    """Upper bound of the actions. Default: as declared, else 1."""
    max_episode_steps: Count = None
    """After so many steps a recording was stopped; used only where timeouts are not stored."""
    known_as: Annotated[str | None, arg(name="as", metavar="STR", help_behavior_hint="")] = None
    """The known dataset that a file is, such as antmaze-umaze-v2: its environment, scores and presets then hold."""

    columns: Place = None
    """A TOML file about a table's columns, as `stacq data inspect FILE.csv` proposes; options come before it."""
    episode_column: Text = None
    """A new value in it begins a new recording."""
    time_column: Text = None
    """Rises within a recording; where it leaps, rows are missing."""
    observation_columns: Texts = None
    """Names, or patterns such as 'obs_*'."""
    action_columns: Texts = None
    """Names, or patterns."""
    reward: Text = None
    """A column of a table, or for any data a formula such as "-abs(next(obs_0)) - 0.1 * action_0 ** 2"."""
    terminal: Text = None
    """A column of a table or a comparison such as "abs(angle) > 0.2": where the task ended."""
    timeout: Text = None
    """The same, where only the recording ended."""

    @property
    def mapping(self) -> "Columns | None":
        """What is said of columns, if anything is."""
        from stacq.data.columns import Columns, read_columns

        stated = Columns(
            episode=self.episode_column,
            time=self.time_column,
            observations=self.observation_columns or (),
            actions=self.action_columns or (),
            reward=self.reward,
            terminal=self.terminal,
            timeout=self.timeout,
        )
        whole = stated if self.columns is None else stated.over(read_columns(self.columns))
        return None if whole == Columns() else whole

    @property
    def conventions(self) -> "Conventions":
        from stacq.data.conventions import Conventions
        from stacq.data.registry import stated_name

        return Conventions(
            action_low=self.action_low,
            action_high=self.action_high,
            max_episode_steps=self.max_episode_steps,
            name=None if self.known_as is None else stated_name(self.known_as),
            columns=self.mapping,
        )


Stated = Annotated[Bounds, arg(name="")]
Source = Positional[Annotated[str, arg(metavar="DATASET")]]


def at_hand(source: str, generate: bool, workers: int | None) -> str:
    """The source; with `generate` the regenerated dataset of that name, made first where it is not in the cache."""
    from stacq.core.files import exists

    if not generate or exists(Path(source)):
        return source
    from stacq.data.registry import recipe
    from stacq.pipeline.score import generate_with_progress

    plan = recipe(source)
    generate_with_progress(plan, workers)
    return plan.info.name


def tell(text: str) -> None:
    """Print lines that may hold text from outside."""
    print(printable_lines(text))


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Fields of a verb as JSON holds them."""
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

"""Everything one may choose about a training, without the code behind it: the library and the command line share it."""

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from tyro.conf import OmitArgPrefixes, Positional, Suppress, arg

from stacq.algos import BUILT_IN
from stacq.core.errors import InputError, check_choice
from stacq.core.types import Precision
from stacq.core.unsaid import UNSAID, Count, Place, Text
from stacq.reach.config import CriterionName, Engine, ReachConfig
from stacq.runs.trackers import Log

RECOMMENDED = "recommended"
"""In the place of a variant's name: the one that suits the data best, as far as it was measured."""
MAZE = "stacq/maze-stitching-v0"
METHODS = ("stacq", "td3bc", "bc")  # that a comparison takes if none are named
MAZE_METHODS = ("stacq", "exact-scql", "td3bc", "bc")  # in the plane mazes
RecipeName = Literal["default", "paper", "paper-antmaze", "small", "small-antmaze"]


@dataclass(frozen=True)
class Options:
    """What is trained and how it is scored. What is left out comes from the preset or the dataset."""

    algorithm: Annotated[str, arg(aliases=("--algo",), metavar=f"{'|'.join(BUILT_IN)}|FILE.py")] = "stacq"
    """Its name (`stacq algos` says more about each), or a Python file of your own that holds an ALGORITHM."""
    variant: str = RECOMMENDED
    """A named bundle of settings, such as `paper` or `robust` for StaCQ; `stacq algos` lists them."""
    small: bool = False
    """Smaller networks and fewer steps, for a laptop; policies in the mazes have one size."""
    seeds: int = 5
    """How many; they train side by side."""
    first_seed: int = 0
    """The others follow it."""
    steps: Count = None
    """Gradient steps of every phase; by default the preset's, which `stacq algos` prints."""
    eval_every: Count = None
    """Steps between evaluations, 100 or more; by default 200 in all, 20 small or in plane mazes, 5 in small AntMaze."""
    episodes: Count = None
    """Per evaluation; by default 10, in AntMaze and PointMaze 100, with --small 20."""
    env: Text = None
    """Gymnasium id to score in; by default the one the data names."""
    evaluate: bool = True
    """Score policies while they are trained."""
    top: float = 1.0
    """Learn from this share of the episodes, the best by return."""
    own_only: bool = False
    """Reduce reachable sets to the own successor: what does reachability itself buy?"""
    settings: Annotated[tuple[str, ...], arg(aliases=("--set",), help_behavior_hint="")] = ()
    """Hyperparameters as name=value, such as learning_rate=1e-4 hidden=128,128."""
    precision: Precision = "auto"
    """How products are rounded: `auto` frozen models where bfloat16 is faster, else as said (docs/training.md)."""
    checkpoint_seconds: Suppress[float] = 60.0
    """Between two checkpoints."""

    def __post_init__(self) -> None:
        if isinstance(self.settings, Mapping):
            object.__setattr__(self, "settings", settings_from(self.settings))


@dataclass(frozen=True)
class Stages:
    """How the stages before the training are made, where an algorithm needs them."""

    dynamics: Place = None
    """Directory of dynamics that were fitted already."""
    dynamics_preset: Annotated[RecipeName | None, UNSAID] = None
    """Of dynamics; by default `default`, of small trainings `small`; of AntMaze `paper-antmaze`, `small-antmaze`."""
    reach: OmitArgPrefixes[ReachConfig] = ReachConfig()
    engine: Annotated[Engine | None, UNSAID] = None
    """Which engine searches the boxes; both give the same sets. Default: the GPU's where there is one."""


@dataclass(frozen=True)
class Comparison:
    """From data to one page: train several methods, compare them. Without a dataset: a maze one can watch."""

    source: Positional[Annotated[str | None, arg(metavar="[DATASET]", help_behavior_hint="")]] = None
    """A file, a Minari directory or id, or a name; by default the continuous maze that comes with stacq."""
    algos: Annotated[tuple[str, ...] | None, arg(aliases=("--algo",), metavar="[STR ...]", help_behavior_hint="")] = (
        None
    )
    """What to train (`stacq algos` lists them); by default stacq, td3bc, bc, and exact-scql in the plane mazes."""
    seeds: int = 5
    """Of each; they train side by side."""
    steps: Count = None
    """Gradient steps of each; by default what the preset has."""
    env: Text = None
    """Gymnasium id to score in; by default the one the data names."""
    dynamics_preset: Annotated[RecipeName | None, UNSAID] = None
    """Of dynamics; by default `small`, with --full `default`; of AntMaze `small-antmaze`, `paper-antmaze`."""
    criterion: CriterionName = "paper"
    """Which test of reachability."""
    full: bool = False
    """Networks of full size and a million steps instead of 100,000; policies in the mazes have one size."""
    workers: Count = None
    """Processes that evaluate; by default one per core."""
    out: Path = Path("runs")
    """Folder for the run directories and the page."""
    log: Annotated[tuple[Log, ...], UNSAID] = ()
    """Send the metrics there too; each needs the extra of its name."""


def settings_from(chosen: Mapping[str, Any]) -> tuple[str, ...]:
    """{"alpha": 1.0, "hidden": (64, 64)} as texts: alpha=1.0 hidden=64,64."""
    return tuple(f"{name}={setting_text(value)}" for name, value in chosen.items())


def setting_text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def options_from(options: Options | str | None, keywords: Mapping[str, Any]) -> Options:
    """Options as people write them in Python: whole, by an algorithm's name, or by keywords on top of either."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in keywords:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            raise InputError(
                f"there is no option {name!r}",
                where="stacq.train",
                expected=", ".join(known),
                fix=f"did you mean {near[0]}=...?" if near else "check the name",
            )
    whole = Options(options) if isinstance(options, str) else Options() if options is None else options
    if not isinstance(whole, Options):
        raise InputError(f"options is {options!r}", expected='stacq.Options("stacq", ...), or an algorithm\'s name')
    return dataclasses.replace(whole, **keywords)


def check_settings(options: Options, settings: Collection[str]) -> None:
    """An option that is given as a setting is told as what it is."""
    known = {field.name for field in dataclasses.fields(Options)}
    for setting in options.settings:
        name, _, text = str(setting).partition("=")
        if name in known and name not in settings:
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"cannot set {setting!r}: {name} is an option and no setting",
                where=options.algorithm,
                expected="a setting of the algorithm, such as learning_rate=1e-4",
                fix=f"write {option} {text or '...'}",
            )


def check_kinds(options: Options) -> None:
    """What is easily mistaken in Python, where nothing else looks at types."""
    number = "a plain whole number, such as 10"
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "algorithm": ((str,), "a name, such as 'stacq'"),
        "variant": ((str,), "a name, such as 'paper'"),
        "seeds": ((int,), "how many, such as 5; `first_seed` says where from"),
        "first_seed": ((int,), number),
        **dict.fromkeys(("steps", "eval_every", "episodes"), ((int, NoneType), number)),
        "top": ((int, float), "a share, such as 0.1"),
        "settings": ((tuple, list), 'a dictionary such as {"batch": 64}, or texts such as ("batch=64",)'),
    }
    for name, (wanted, expected) in kinds.items():
        if not isinstance(value := getattr(options, name), wanted):
            raise InputError(f"{name} is {value!r}", where="options of the training", expected=expected)
    check_choice("precision", options.precision, get_args(Precision), where="options of the training")

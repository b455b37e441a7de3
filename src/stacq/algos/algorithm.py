"""What an algorithm says about itself: everything that training, command line, page and tests ask of it."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from stacq.algos.world import Batch, World
from stacq.core.errors import InputError
from stacq.data.dataset import Dataset
from stacq.nn.learner import stripped
from stacq.policies import Policy, Space
from stacq.reach.reachable import Reachable

STATIC = {"static": True}  # a config field that shapes the compiled program; the others may differ between seeds
Settings = Mapping[str, Any]
Metrics = dict[str, jax.Array]
Update = Callable[[Any, Batch, World, jax.Array, Any], tuple[Any, Metrics]]
"""(state, batch, world, key, config) -> (state, metrics), pure."""
RETURN_RANGE = 1000.0  # between the best and the worst episode, after rewards are scaled so
DISCOUNT = 0.99  # of the returns that are reported where an algorithm has no discount of its own


class Phase(NamedTuple):
    """A stretch of training: its length, the updates that take turns in it, and whether the policy learns in it."""

    steps: int
    updates: tuple[Update, ...]
    acts: bool = True


class Sizes(NamedTuple):
    """What networks must fit: the lengths of a state and of an action."""

    state: int
    action: int


@dataclass(frozen=True)
class Shown:
    """How an algorithm wants to see the data."""

    normalise: bool = True  # states, to mean 0 and deviation 1
    reward_scale: float | Literal["none", "return-range"] = "none"  # or 1000 / (best - worst return of an episode)
    reward_shift: float = 0.0  # added after the scale

    def scale(self, dataset: Dataset) -> float:
        """What rewards are multiplied by."""
        if not isinstance(self.reward_scale, str):
            return self.reward_scale
        spread = float(np.ptp(dataset.returns)) if self.reward_scale == "return-range" else 0.0
        return RETURN_RANGE / spread if spread > 0 else 1.0


AS_LOGGED: Mapping[str, Shown] = {
    "antmaze": Shown(normalise=False, reward_shift=-1.0),
    "pointmaze": Shown(reward_shift=-1.0),
}
"""By family: AntMaze's states as they are, and a reward of -1 for every step that does not reach the goal."""


@dataclass(frozen=True)
class Variant:
    """A named bundle of settings on top of the published ones."""

    about: str
    settings: Settings = field(default_factory=dict)
    small: Settings = field(default_factory=dict)  # on top of them in the small preset
    by_family: Mapping[str, Settings] = field(default_factory=dict)  # on top of them for data of a family


PAPER = Variant("the published settings")


class Solved(NamedTuple):
    """What was computed from the whole data: arrays for the updates, and what a page shows of them."""

    arrays: Any
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Needs:
    """What must be made before the training, beyond the dataset."""

    reachable: bool = False  # dynamics and reachable sets
    pairs: bool = True  # of these sets, in its batches; then Config has `slots` for them
    successors: bool = True  # learns only from rows whose successor is known or whose task is over
    frozen: bool = False  # compares candidates by networks that do not learn in that step, with `world.frozen`
    leading_actions: Callable[[Any], bool] = lambda cfg: False  # the actions that lead to reachable states
    data: Callable[[Dataset, Any, Callable[[str], None]], Dataset] | None = None  # (dataset, config, say): its own data
    prepared: Callable[[Dataset, Space, Any, Callable[[str], None]], Any] | None = None
    """(dataset, space, config, say): arrays computed once from the whole data, which updates read in `world.prepared`.

    Actions and states in them are as the updates see them only if they are scaled here."""
    facts: Callable[[Dataset, Any], Mapping[str, Any]] | None = None
    """(dataset, config): what a page shows of that, once it is made."""
    solved: Callable[[Dataset, Reachable, Any, Callable[[str], None]], Solved] | None = None
    """(dataset, reachable, config, say): the same two in one, for what is computed from reachable sets."""

    @property
    def rounds(self) -> bool:
        """Whether there is anything that `--precision bfloat16` could round."""
        return self.reachable or self.frozen


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One method, whole. Each file of this package ends with one.

    `published` holds settings by family, by task and by dataset, each on top of the ones before:
    {"antmaze": ..., "hopper": ..., "halfcheetah-medium-expert": ...}.
    """

    name: str  # in commands and directories
    title: str  # in tables and pictures
    about: str  # one line
    Config: type[Any]  # a frozen dataclass
    init: Callable[[jax.Array, Sizes, Any], Any]
    phases: Callable[[Any], tuple[Phase, ...]]
    policy: Callable[[Any, Space], Policy]  # from the state of one seed, in NumPy
    value: Callable[[Any, jax.Array, World, Any], jax.Array] | None = None  # of acting by the policy; Config.discount
    kept: Callable[[Any], Any] = stripped  # the same tree, with nothing but what `policy` and `value` read
    needs: Needs = Needs()
    shown: Mapping[str, Shown] = field(default_factory=lambda: AS_LOGGED)  # by family; `Shown()` for others
    published: Mapping[str, Settings] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=lambda: {"paper": PAPER})
    recommended: Mapping[str, str] = field(
        default_factory=dict
    )  # variants by family, "" for any other; else the first of `variants`
    small: Settings = field(default_factory=dict)  # minutes on two cores
    small_in: Mapping[str, Settings] = field(default_factory=dict)  # on top of `small` for data of a family
    small_shown: Mapping[str, Shown] = field(default_factory=dict)  # instead of `shown`, by family
    maze: Settings = field(default_factory=dict)  # the continuous mazes, tuned there
    evaluations: int | None = None  # at most so many, where acting takes long; else as the preset has it
    counts: tuple[str, ...] = ("steps",)  # fields of Config that say how long the phases are
    calmed_by: tuple[str, ...] = ("learning_rate",)  # smaller ones help where every seed is lost

    def __post_init__(self) -> None:
        check_algorithm(self)

    def discount(self, config: Any) -> float:
        """The largest of all seeds."""
        return float(np.max(config.discount)) if self.value else DISCOUNT

    def usual_variant(self, family: str) -> str:
        """The variant of a run that names none."""
        return self.recommended.get(family, self.recommended.get("", next(iter(self.variants))))


def check_algorithm(algorithm: Algorithm) -> None:
    """Refuse a description that would fail in the middle of a training."""
    where = f"algorithm {algorithm.name!r}"
    if not algorithm.name.replace("-", "").isalnum() or algorithm.name != algorithm.name.lower():
        raise InputError("its name is no plain word", where=where, expected="small letters, digits and hyphens")
    if not dataclasses.is_dataclass(algorithm.Config) or algorithm.Config.__hash__ is None:
        raise InputError(
            "its Config is no frozen dataclass",
            where=where,
            expected="@jax.tree_util.register_dataclass @dataclass(frozen=True) class Config",
        )
    fields = {each.name for each in dataclasses.fields(algorithm.Config)}
    wanted = {"batch", *algorithm.counts, *algorithm.calmed_by}
    wanted |= {"discount"} if algorithm.value else set()
    wanted |= {"slots"} if algorithm.needs.reachable and algorithm.needs.pairs else set()
    settings = [algorithm.small, *algorithm.small_in.values(), algorithm.maze, *algorithm.published.values()]
    for variant in algorithm.variants.values():
        settings += [variant.settings, variant.small, *variant.by_family.values()]
    missing = sorted(wanted.union(*settings) - fields)
    if missing:
        raise InputError(
            f"its Config has no field {missing[0]}",
            where=where,
            expected="every name that the description uses",
            fix=f"add {missing[0]} to Config, or take it out of the description",
        )
    unknown = sorted({*algorithm.recommended.values()} - {*algorithm.variants})
    if unknown:
        raise InputError(f"it recommends {unknown[0]!r}, which is none of its variants", where=where)

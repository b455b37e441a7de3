"""Hyperparameters by name: every one of the paper's, per dataset, and defaults for data of one's own.

A preset is a config and the two choices that belong to the data: whether states are normalised, and a shift of rewards.
"""

import dataclasses
import difflib
import math
import re
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from stacq.algos import ALGORITHMS
from stacq.data.registry import own_name, task_of
from stacq.errors import InputError

# alpha per body (appendices C and D); halfcheetah-medium-expert has one of its own.
STACQ_ALPHA = {"hopper": 1.0, "walker2d": 5.0, "halfcheetah": 10.0}
STACQ_ALPHA_OF_DATASET = {"halfcheetah-medium-expert": 0.5}
STACQ_ALPHA_ANTMAZE = {"umaze": 2.0, "medium": 10.0, "large": 19.0}
ONESTEP_ALPHA = {"hopper": 0.1, "walker2d": 1.0, "halfcheetah": 5.0}
ONESTEP_ALPHA_ANTMAZE = {"umaze": 10.0, "medium": 40.0, "large": 100.0}

AUTHORS = {"pairs": "dataset", "margin": 1e-4}
"""What the authors' code does where it differs from the paper; what belongs to other stages is in docs/stacq.md."""
AUTHORS_ANTMAZE = {"actor_q": "first"}
"""What it does beside that in AntMaze."""
ROBUST = {"layer_norm": True, "action_pull": 0.01}
"""Critics with LayerNorm, and a second pull that holds every actuator alike (docs/stacq.md)."""
ONESTEP_ROBUST = {"action_pull": 0.1}
"""The same second pull, firmer: in OneStep StaCQ the value it is weighed against has less weight itself."""
IN_MAZES = {"critics": 2, "layer_norm": True, "reward": "row", "alpha": 0.0}
"""Tuned for the continuous mazes, where rewards belong to states: the policy goes to the best reachable state alone."""
RECOMMENDED = "recommended"
"""In the place of a variant's name: the one that docs/results.md recommends for the data."""
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "stacq": {
        "paper": {},
        "layer-norm": {"layer_norm": True},
        "robust": ROBUST,
        "maze": IN_MAZES,
        "authors": AUTHORS,
    },
    "onestep-stacq": {"paper": {}, "robust": ONESTEP_ROBUST},
    "td3bc": {"paper": {}, "four-critics": {"critics": 4}},
    "bc": {"paper": {}},
}
# The continuous mazes, tuned there: sizes and rates of every variant.
MAZE: dict[str, dict[str, Any]] = {
    "stacq": {"steps": 5_000, "batch": 128, "hidden": (64, 64), "tau": 0.05, "learning_rate": 1e-3},
    "onestep-stacq": {"steps": 5_000, "critic_steps": 5_000, "batch": 128, "hidden": (64, 64), "learning_rate": 1e-3},
    "td3bc": {"steps": 12_000, "batch": 128, "hidden": (64, 64), "alpha": 0.25, "tau": 0.05},
    "bc": {"steps": 5_000, "batch": 128, "hidden": (64, 64), "learning_rate": 1e-3},
}
FEW_EVALUATIONS = 20  # of the mazes and of small presets: on two cores more would take longer than the training
# Some minutes on two cores: smaller networks, fewer critics, smaller batches, fewer steps.
SMALL: dict[str, dict[str, Any]] = {
    "stacq": {"steps": 100_000, "batch": 128, "hidden": (128, 128), "critics": 2},
    "onestep-stacq": {"steps": 50_000, "critic_steps": 50_000, "batch": 128, "hidden": (128, 128)},
    "td3bc": {"steps": 100_000, "batch": 128, "hidden": (128, 128)},
    "bc": {"steps": 100_000, "batch": 128, "hidden": (128, 128)},
}
SMALL_VARIANTS: dict[str, dict[str, dict[str, Any]]] = {"stacq": {"robust": {"action_pull": 0.028}}}
"""On top of a variant: with few data and steps the weaker pull lets the policy fall (docs/results.md)."""


@dataclass(frozen=True)
class Preset:
    """An algorithm's config for one dataset, and how the data is shown to it."""

    config: Any
    normalise: bool = True
    reward_shift: float = 0.0
    episodes: int = 10
    evaluations: int = 200  # in all


def preset(algorithm: str, dataset: str = "", *, variant: str = "paper", small: bool = False) -> Preset:
    """The published settings for a known dataset; for any other, those of the algorithm's Config.

    With the variant on top of them. `recommended` says which one a run takes that names none.
    """
    if algorithm not in ALGORITHMS:
        raise InputError(f"no algorithm is called {algorithm!r}", expected=" or ".join(ALGORITHMS), fix="choose one")
    if variant not in VARIANTS[algorithm]:
        raise InputError(
            f"{algorithm} has no variant {variant!r}",
            expected=" or ".join(VARIANTS[algorithm]),
            fix="choose one, or name none for the recommended one",
        )
    config = ALGORITHMS[algorithm].Config(**_published(algorithm, dataset))
    maze = _is_maze(dataset)
    if maze or small:
        config = replace(config, **(MAZE if maze else SMALL)[algorithm])
    config = replace(config, **VARIANTS[algorithm][variant])
    if variant == "authors" and _antmaze(dataset):
        config = replace(config, **AUTHORS_ANTMAZE)
    if small:
        config = replace(config, **SMALL_VARIANTS.get(algorithm, {}).get(variant, {}))
    evaluations = FEW_EVALUATIONS if maze or small else Preset.evaluations
    if _antmaze(dataset):
        return Preset(config, normalise=algorithm == "bc", reward_shift=-1.0, episodes=100, evaluations=evaluations)
    return Preset(config, evaluations=evaluations)


def recommended(algorithm: str, dataset: str) -> str:
    """The variant that a run takes where none is named.

    The published StaCQ may fail where `robust` does not (docs/results.md), so locomotion gets that one, and so does
    data of one's own, on the same grounds. The mazes have settings of their own; on AntMaze nothing was measured.
    """
    if algorithm != "stacq" or _antmaze(dataset):
        return "paper"
    return "maze" if _is_maze(dataset) else "robust"


def _is_maze(dataset: str) -> bool:
    """Whether it is one of the continuous mazes that come with the package."""
    return dataset.startswith("stacq/maze-")


def _antmaze(dataset: str) -> str:
    """`umaze`, `medium` or `large`; empty for other data."""
    task = _task_name(dataset)
    return task.removeprefix("antmaze-") if task.startswith("antmaze-") else ""


def _task_name(dataset: str) -> str:
    """Such as `hopper`, whoever recorded it, for a known name, with or without its version; empty for other data."""
    task = task_of(dataset)
    return "" if task is None else task.key


def _published(algorithm: str, dataset: str) -> dict[str, Any]:
    """Alpha, and what section 6 says of AntMaze: rewards belong to states there, so no model of them is learned."""
    body, maze = _task_name(dataset), _antmaze(dataset)
    name = re.sub(r"^stacq/|-v\d+.*$", "", own_name(dataset))
    if algorithm == "stacq":
        if maze:
            return {"alpha": STACQ_ALPHA_ANTMAZE[maze], "targets": "independent", "reward": "row"}
        found = STACQ_ALPHA_OF_DATASET.get(name, STACQ_ALPHA.get(body))
        return {} if found is None else {"alpha": found}
    if algorithm == "onestep-stacq":
        if maze:
            return {"alpha": ONESTEP_ALPHA_ANTMAZE[maze], "reward": "row"}
        found = ONESTEP_ALPHA.get(body)
        return {} if found is None else {"alpha": found}
    return {}


def changed(config: Any, settings: tuple[str, ...]) -> Any:
    """The config with `name=value` settings applied, each checked against the field's name and type."""
    fields = {each.name for each in dataclasses.fields(config)}
    hints = get_type_hints(type(config))
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in fields or not equals:
            near = difflib.get_close_matches(name, fields, n=1)
            raise InputError(
                f"cannot set {setting!r}",
                where=type(config).__module__,
                expected="name=value with a name of " + ", ".join(sorted(fields)),
                fix=f"did you mean {near[0]}?" if near and equals else "check the name",
            )
        config = replace(config, **{name: _parsed(name, text, hints[name])})
    return config


def _parsed(name: str, text: str, kind: Any) -> Any:
    """Text as a value of the field's type: counts are at least one, numbers finite."""
    choices = get_args(kind) if get_origin(kind) is not tuple else ()
    try:
        if choices:
            return choices[choices.index(text)]
        if get_origin(kind) is tuple:
            return tuple(_count(part) for part in text.split(","))
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return _count(text) if kind is int else _within(name, float(text))
    except (ValueError, KeyError) as error:
        wanted = " or ".join(choices) if choices else KINDS.get(kind, "whole numbers from 1, such as 256,256")
        expected = f"{name} as {LIMITS.get(name, wanted)}"
        raise InputError(f"{name}={text!r}", expected=expected, fix="correct the value") from error


KINDS = {int: "a whole number from 1", float: "a finite number from 0", bool: "true or false"}
LIMITS = {"discount": "a number from 0 to 1", "tau": "a number above 0 and up to 1"}


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value < 2**31:  # counts are 32-bit numbers to compiled programs
        raise ValueError
    return value


def _within(name: str, value: float) -> float:
    if not math.isfinite(value) or value < 0 or (name in LIMITS and value > 1) or (name == "tau" and value == 0):
        raise ValueError
    return value

"""An algorithm's settings for one dataset: published ones, a variant and a preset on top, and settings by name."""

import dataclasses
import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

from stacq.algos.algorithm import Algorithm, Settings, Shown
from stacq.core.errors import InputError
from stacq.data.registry import base_name, family_of, task_of

FEW_EVALUATIONS = 20  # of the mazes and of small presets: on two cores more would take longer than the training
EPISODES = {
    "antmaze": 100,
    "pointmaze": 100,
    "ogbench-pointmaze": 50,
}  # of an evaluation, by family: a success is a yes or a no
SMALL_EVALUATIONS = {
    "antmaze": 5,
    "pointmaze": 5,
    "ogbench-pointmaze": 5,
}  # of them with small presets: episodes are long
SMALL_EPISODES = dict.fromkeys(EPISODES, 20)  # of them with small presets: an ant's episode takes a quarter second
ON_MAZES = "plane-maze"  # the family with a preset of its own


@dataclass(frozen=True)
class Preset:
    """An algorithm's config for one dataset, how the data is shown to it, and how its policies are scored."""

    config: Any
    shown: Shown = Shown()
    episodes: int = 10
    evaluations: int = 200  # in all


def preset(algorithm: Algorithm, dataset: str = "", *, variant: str = "paper", small: bool = False) -> Preset:
    """The published settings for a known dataset; for any other, those of the algorithm's Config.

    With the variant on top of them. `recommended` says which one a run takes that names none.
    """
    if variant not in algorithm.variants:
        near = difflib.get_close_matches(variant, algorithm.variants, n=1)
        raise InputError(
            f"{algorithm.name} has no variant {variant!r}",
            expected=" or ".join(algorithm.variants),
            fix=f"did you mean {near[0]}?" if near else "choose one, or name none for the recommended one",
        )
    family, chosen = family_of(dataset), algorithm.variants[variant]
    size = algorithm.maze if family == ON_MAZES else _small(algorithm, family) if small else {}
    on_top = chosen.small if small else {}
    usual = FEW_EVALUATIONS if family == ON_MAZES or small else Preset.evaluations
    usual = SMALL_EVALUATIONS.get(family, usual) if small else usual
    settings = {
        **_published(algorithm, dataset),
        **size,
        **chosen.settings,
        **chosen.by_family.get(family, {}),
        **on_top,
    }
    shown = {**algorithm.shown, **(algorithm.small_shown if small else {})}
    return Preset(
        algorithm.Config(**settings),
        shown.get(family, Shown()),
        (SMALL_EPISODES if small else EPISODES).get(family, Preset.episodes),
        min(usual, algorithm.evaluations or usual),
    )


def _small(algorithm: Algorithm, family: str) -> Settings:
    return {**algorithm.small, **algorithm.small_in.get(family, {})}


def recommended(algorithm: Algorithm, dataset: str) -> str:
    """The variant that a run takes where none is named."""
    return algorithm.usual_variant(family_of(dataset))


def _published(algorithm: Algorithm, dataset: str) -> dict[str, Any]:
    """What is published for the family, the task and the dataset, the nearest last."""
    task = task_of(dataset)
    keys = (family_of(dataset), "" if task is None else task.key, base_name(dataset))
    found: list[Settings] = [algorithm.published.get(key, {}) for key in keys]
    return {name: value for settings in found for name, value in settings.items()}


def changed(config: Any, settings: tuple[str, ...]) -> Any:
    """The config with `name=value` settings applied, each checked against the field's name and type."""
    fields = {each.name for each in dataclasses.fields(config)}
    hints = get_type_hints(type(config))
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in fields or not equals:
            near = meant(name, fields)
            raise InputError(
                f"cannot set {setting!r}",
                where=type(config).__module__,
                expected="name=value with a name of " + ", ".join(sorted(fields)),
                fix=f"did you mean {near}={text or '...'}?" if near else "check the name",
            )
        config = replace(config, **{name: _parsed(name, text, hints[name])})
    return config


def meant(name: str, fields: Collection[str]) -> str:
    """Which of these settings a name stands for: its own, that of other libraries, or the nearest; empty if none."""
    if name in fields:
        return name
    if OTHER_NAMES.get(name) in fields:
        return OTHER_NAMES[name]
    return next(iter(difflib.get_close_matches(name, fields, n=1)), "")


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


OTHER_NAMES = {
    "lr": "learning_rate",
    "rate": "learning_rate",
    "actor_lr": "actor_learning_rate",
    "critic_lr": "critic_learning_rate",
    "batch_size": "batch",
    "gamma": "discount",
    "hidden_dim": "hidden",
    "hidden_dims": "hidden",
    "hidden_size": "hidden",
    "hidden_sizes": "hidden",
    "polyak": "tau",
    "policy_noise": "target_noise",
    "policy_freq": "actor_every",
    "n_critics": "critics",
    "max_steps": "steps",
}
"""What other libraries call the same settings."""
KINDS = {int: "a whole number from 1", float: "a finite number from 0", bool: "true or false"}
LIMITS = {
    "discount": "a number from 0 to 1",
    "tau": "a number above 0 and up to 1",
    "expectile": "a number above 0 and below 1",
    "dropout": "a number from 0 and below 1",
}
LEFT_OUT = {("tau", 0.0), ("expectile", 0.0), ("expectile", 1.0), ("dropout", 1.0)}  # ends of these ranges


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value < 2**31:  # counts are 32-bit numbers to compiled programs
        raise ValueError
    return value


def _within(name: str, value: float) -> float:
    if not math.isfinite(value) or value < 0 or (name in LIMITS and value > 1) or (name, value) in LEFT_OUT:
        raise ValueError
    return value

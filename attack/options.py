"""Every verb with its options, as the command line itself declares them: a new option is attacked at once."""

import dataclasses
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from stacq import cli
from stacq.cli.data import DataVerb
from stacq.cli.learn import FitDynamics

GROUPS = {"data": DataVerb, "": cli.Verb}
ALONE = {("dynamics", "fit"): FitDynamics}


@dataclass(frozen=True)
class Option:
    """One option or positional: its flag, the kind of its values, and how many it takes."""

    flag: str
    kind: str
    choices: tuple[str, ...] = ()
    many: bool = False
    positional: bool = False


@dataclass(frozen=True)
class Verb:
    """The words that name it, and what may follow."""

    words: tuple[str, ...]
    options: tuple[Option, ...]


def verbs() -> list[Verb]:
    found = [Verb(words, tuple(_options(owner))) for words, owner in ALONE.items()]
    for group, union in GROUPS.items():
        for each in get_args(union):
            owner, *marks = get_args(each)
            name = next(mark.name for mark in marks if getattr(mark, "name", None))
            if dataclasses.fields(owner) or group:
                found.append(Verb((*((group,) if group else ()), name), tuple(_options(owner))))
    return found


def _options(owner: Any) -> Iterator[Option]:
    hints = get_type_hints(owner, include_extras=True)
    for field in dataclasses.fields(owner):
        hint, positional = _stripped(hints[field.name])
        if dataclasses.is_dataclass(hint):
            yield from _options(hint)
            continue
        flag = f"--{field.name.replace('_', '-')}"
        kind, choices, many = _kind(hint)
        yield Option(flag, kind, choices, many, positional)


def _stripped(hint: Any) -> tuple[Any, bool]:
    """The type itself, and whether it is marked as positional."""
    marks: list[Any] = []
    while hasattr(hint, "__metadata__"):
        marks += hint.__metadata__
        hint = get_args(hint)[0]
    return hint, any("Positional" in repr(mark) or "positional" in repr(mark) for mark in marks)


def _kind(hint: Any) -> tuple[str, tuple[str, ...], bool]:
    """What a value is, what it may be, and whether there are several."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [each for each in get_args(hint) if each is not types.NoneType]
        return _kind(inner[0])
    if get_origin(hint) is Literal:
        return "choice", tuple(map(str, get_args(hint))), False
    if get_origin(hint) is tuple:
        kind, choices, _ = _kind(typing.get_args(hint)[0])
        return kind, choices, True
    return getattr(hint, "__name__", "str").lower(), (), False

"""Tables of a study's file, checked strictly: an unknown name is answered with the nearest known one."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from stacq.core.errors import InputError

Table = Mapping[str, Any]


def near(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else "check the name"


def check_names(table: Table, known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for name in table:
        if name not in known:
            raise InputError(
                f"there is no field {name!r}", where=where, expected=", ".join(known), fix=near(name, known)
            )


def text(table: Table, name: str, where: str, default: str = "") -> str:
    value = table.get(name, default)
    if not isinstance(value, str):
        raise _other(name, value, where, f'a text, such as {name} = "..."')
    return value


def choice(table: Table, name: str, where: str, choices: Iterable[str], default: str) -> str:
    value, choices = table.get(name, default), tuple(choices)
    if value not in choices:
        fix = near(value, choices) if isinstance(value, str) else "choose one"
        raise InputError(f"{name} is {value!r}", where=where, expected=f"one of {', '.join(choices)}", fix=fix)
    return str(value)


def count(table: Table, name: str, where: str, least: int, most: int) -> int | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _other(name, value, where, f"a whole number from {least} to {most:,}")
    return value


def number(table: Table, name: str, where: str) -> float | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _other(name, value, where, "a number")
    return float(value)


def flag(table: Table, name: str, where: str) -> bool:
    value = table.get(name, False)
    if not isinstance(value, bool):
        raise _other(name, value, where, "true or false")
    return value


def texts(table: Table, name: str, where: str) -> tuple[str, ...]:
    """A list of texts; a single text counts as a list of one."""
    value = table.get(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise _other(name, value, where, f'texts, such as {name} = ["...", "..."]')
    return tuple(values)


def inner(table: Table, name: str, where: str) -> dict[str, Any]:
    value = table.get(name, {})
    if not isinstance(value, dict):
        raise _other(name, value, where, f"a table, such as [{name}]")
    return value


def tables(table: Table, name: str, where: str) -> list[dict[str, Any]]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise _other(name, value, where, f"tables, such as [[{name}]]")
    return value


def _other(name: str, value: object, where: str, expected: str) -> InputError:
    return InputError(f"{name} is {value!r:.80}", where=where, expected=expected, fix="correct the value")

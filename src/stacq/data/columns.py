"""Which columns of a table are what, as a person says it: by options, in a small TOML file, or as a mapping in Python.

episode = "run"
time = "t"
observations = ["position", "speed", "joint_*"]
actions = ["push"]
reward = "-abs(next(position))"
terminal = "abs(position) > 2"
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from stacq.core.errors import InputError
from stacq.core.outside import has_shape
from stacq.core.reading import read_text

LARGEST = 1e300
MOST_STARS = 4  # of one pattern: more would take long to match


@dataclass(frozen=True)
class Columns:
    """Names or patterns of columns; what is empty is not said."""

    episode: str | None = None  # a new value begins a new recording
    time: str | None = None  # rises within a recording
    gap: float | None = None  # a longer step of time is a gap; by default 1.5 times the usual step
    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    next_observations: tuple[str, ...] = ()
    reward: str | None = None  # a column or a formula, as the two below
    terminal: str | None = None  # not zero where the task ended
    timeout: str | None = None  # not zero where only the recording ended
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    decimal: str | None = None  # "," in numbers such as 1,5

    def over(self, other: "Columns") -> "Columns":
        """These statements, completed by another's."""
        return replace(other, **{key: value for key, value in vars(self).items() if value not in (None, ())})

    @property
    def of_tables(self) -> tuple[str, ...]:
        """What is stated that only a table can have: all but the reward."""
        stated = (each.name for each in fields(self) if getattr(self, each.name) not in (None, ()))
        return tuple(name for name in stated if name not in ("reward", "action_low", "action_high"))


SHAPES: Mapping[str, Any] = {
    **dict.fromkeys(("episode", "time", "reward", "terminal", "timeout", "decimal"), str),
    **{key: [str] for key in ("observations", "actions", "next_observations")},
    **{key: [float] for key in ("action_low", "action_high")},
    "gap": float,
}
WORDS = {str: "text", float: "a number"}


def columns_from(stated: "Columns | Mapping[str, Any] | str | Path") -> Columns:
    """The same in every form that a caller may have it in."""
    if isinstance(stated, Columns):
        return stated
    return checked(stated, "columns") if isinstance(stated, Mapping) else read_columns(stated)


def read_columns(path: Path | str) -> Columns:
    """Of a TOML file."""
    try:
        return checked(tomllib.loads(read_text(path)), path)
    except OSError as error:
        problem, expected = f"cannot be read: {error.strerror or error}", "a TOML file that maps columns"
        raise InputError(problem, where=path, expected=expected, fix="check the path") from error
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        fix = "let `stacq data inspect FILE.csv` propose one"
        raise InputError(f"this is no TOML: {reason}", where=path, expected="keys and values", fix=fix) from error


def checked(stated: Mapping[str, Any], where: object) -> Columns:
    """Refuse keys that have no meaning and values of another type."""
    values: dict[str, Any] = {}
    for key, value in stated.items():
        if key not in SHAPES:
            near = difflib.get_close_matches(str(key), SHAPES, n=1)
            fix = f"did you mean {near[0]}?" if near else "leave it out"
            raise InputError(f"there is no key '{key}'", where=where, expected=f"some of {', '.join(SHAPES)}", fix=fix)
        value = [value] if isinstance(SHAPES[key], list) and not isinstance(value, list | tuple) else value
        values[key] = tuple(value) if isinstance(value, list | tuple) else value
        _check(key, list(value) if isinstance(value, tuple) else value, where)
    return Columns(**values)


def _check(key: str, value: object, where: object) -> None:
    shape = SHAPES[key]
    if not has_shape(value, shape):
        expected = f"a list, each {WORDS[shape[0]]}" if isinstance(shape, list) else WORDS[shape]
        raise InputError(f"'{key}' is {value!r:.80}", where=where, expected=expected, fix="correct it")
    if key == "decimal" and value not in (".", ","):
        raise InputError(f"'decimal' is {value!r:.80}", where=where, expected="a point or a comma", fix="correct it")
    if key == "gap" and not (isinstance(value, int | float) and 0 < value < LARGEST):
        fix = "give the longest step of time that is no gap"
        raise InputError(f"'gap' is {value!r:.80}", where=where, expected="a number above zero", fix=fix)
    if key in ("action_low", "action_high") and isinstance(value, list) and not all(abs(v) < LARGEST for v in value):
        raise InputError(f"'{key}' is {value!r:.80}", where=where, expected="finite numbers", fix="correct it")


def chosen(patterns: Sequence[str], names: Sequence[str], what: str, where: object) -> tuple[str, ...]:
    """The columns that names or patterns mean, each once: in the order that is stated, and of a pattern in the file's.

    A `*` stands for any characters. A column that is called so, star included, comes first.
    """
    known = set(names)
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in known:
            found[pattern] = None
            continue
        matching = [name for name in names if _matches(pattern, name, what, where)] if "*" in pattern else []
        if not matching:
            raise missing(pattern, names, what, where)
        found |= dict.fromkeys(matching)
    return tuple(found)


def _matches(pattern: str, name: str, what: str, where: object) -> bool:
    if pattern.count("*") > MOST_STARS:
        problem = f"the pattern '{pattern:.60}' of {what} has too many stars"
        raise InputError(problem, where=where, expected=f"at most {MOST_STARS}", fix="name the columns")
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def missing(name: str, names: Sequence[str], what: str, where: object) -> InputError:
    """There is no column of that name: which there are, and which may be meant."""
    near = difflib.get_close_matches(name, [each for each in names if len(each) < 200], n=1)
    listed = ", ".join(each for each in names[:20] if each) + (", ..." if len(names) > 20 else "")
    meant = f"; is it '{near[0]}'?" if near else ""
    return InputError(
        f"no column is called '{name:.80}' ({what}){meant}",
        where=where,
        expected=f"one of the columns: {listed:.600}",
        fix="name another one, or let `stacq data inspect FILE` propose a mapping",
    )

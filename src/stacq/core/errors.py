"""Errors for the person who gave the input, not for the person who wrote the code."""

import operator
from collections.abc import Iterable

from stacq.core.printable import hidden, printable

SEED_END = 2**31  # seeds are 32-bit numbers with a sign to compiled programs


class InputError(ValueError):
    """A file, name, option or object from outside is wrong, and its owner can mend it.

    Carries four answers: where it happened, what is wrong, what was expected and what to do next.
    The command line prints them without a traceback and exits with code 2. Control characters, which outside text
    may hold, appear in its text as their numbers.
    """

    def __init__(
        self, problem: str, *, where: object = "", expected: str = "", fix: str = "", details: Iterable[str] = ()
    ) -> None:
        self.where = str(where)
        self.problem = problem
        self.expected = expected
        self.fix = fix
        self.details = tuple(details)  # a line each, below the problem
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.where}: {self.problem}" if self.where else self.problem]
        lines += [f"    {detail}" for detail in self.details]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.fix:
            lines.append(f"  what to do: {self.fix}")
        return "\n".join(map(printable, lines))

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.problem, self.where, self.expected, self.fix, self.details))


def _rebuild(
    kind: type[InputError], problem: str, where: str, expected: str, fix: str, details: tuple[str, ...]
) -> InputError:
    return kind(problem, where=where, expected=expected, fix=fix, details=details)


def check_choice(name: str, value: object, choices: Iterable[str], *, where: object = "") -> None:
    """Refuse what is none of the choices: types are not looked at when a program runs."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{name} is {value!r}", where=where, expected=f"one of {', '.join(choices)}", fix="choose one")


def check_whole(
    problem: str, value: object, least: int, most: int, *, where: object = "", expected: str = "", fix: str = ""
) -> None:
    """Refuse what is no whole number within bounds: beyond them it would be cut, overflow, or fill the memory."""
    try:
        fits = least <= operator.index(value) <= most  # type: ignore[arg-type]
    except TypeError:
        fits = False
    if not fits:
        expected = expected or f"a whole number from {least:,} to {most:,}"
        raise InputError(problem, where=where, expected=expected, fix=fix or "choose another number")


def check_seed(seed: object, *, where: object = "") -> None:
    """One bound for all seeds, though not every generator has it: compiled programs would cut a larger one."""
    expected = f"a seed of 0 or more, below {SEED_END:,}"
    check_whole(f"seed {seed}", seed, 0, SEED_END - 1, where=where, expected=expected, fix="use 0")


def check_name(name: str, *, what: str, fix: str) -> str:
    """A name that a file or directory gets; refused if characters of it do not show."""
    if hidden(name):
        raise InputError(
            f"{what} '{name}' holds control characters", expected="a name whose characters all show", fix=fix
        )
    return name

"""Errors that speak to the person who gave the input, not to the person who wrote the code."""

from collections.abc import Iterable


class InputError(ValueError):
    """A file, name, option or object from outside is wrong, and its owner can mend it.

    Carries four answers: where it happened, what is wrong, what was expected and what to do next.
    The command line prints them without a traceback and exits with code 2.
    """

    def __init__(self, problem: str, *, where: object = "", expected: str = "", fix: str = "") -> None:
        self.where = str(where)
        self.problem = problem
        self.expected = expected
        self.fix = fix
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.where}: {self.problem}" if self.where else self.problem]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.fix:
            lines.append(f"  what to do: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.problem, self.where, self.expected, self.fix))


def _rebuild(kind: type[InputError], problem: str, where: str, expected: str, fix: str) -> InputError:
    return kind(problem, where=where, expected=expected, fix=fix)


def check_choice(name: str, value: object, choices: Iterable[str], *, where: object = "") -> None:
    """Refuse what is none of the choices: types are not looked at when a program runs."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{name} is {value!r}", where=where, expected=f"one of {', '.join(choices)}", fix="choose one")

"""Formulas over columns."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stacq import InputError
from stacq.data.formula import DEEPEST, LONGEST, parsed

X, Y = np.array([1.0, -2.0, 4.0]), np.array([0.5, 3.0, 0.0])
COLUMNS = {"x": X, "y": Y, "joint angle [rad]": Y}
AFTER = {"x": np.array([-2.0, 4.0, np.nan]), "y": np.array([3.0, 0.0, np.nan])}


def value(text: str) -> list[float]:
    formula = parsed(text, COLUMNS, "test")
    return list(formula(COLUMNS, AFTER, 3).tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", X),
        ("3", [3.0] * 3),
        ("-abs(x) - 0.1 * y ** 2", -np.abs(X) - 0.1 * Y**2),
        ("min(x, y, 0) + max(x, y)", np.minimum(np.minimum(X, Y), 0) + np.maximum(X, Y)),
        ("sqrt(abs(x)) + exp(y) + log(y + 1)", np.sqrt(np.abs(X)) + np.exp(Y) + np.log(Y + 1)),
        ("sin(x) / cos(x) % 2", np.sin(X) / np.cos(X) % 2),
        ("0 < x <= 4", [1, 0, 1]),
        ("x == 1 or y != 3", [1, 0, 1]),
        ("not (x > 0 and y > 0)", [0, 1, 1]),
        ("'joint angle [rad]' * 2", 2 * Y),
        ("joint angle [rad]", Y),  # the whole text is a column's name
        ("True + x", X + 1),
    ],
)
def test_formulas_mean_what_they_say(text: str, expected: Any) -> None:
    np.testing.assert_allclose(value(text), expected)


def test_the_row_after() -> None:
    formula = parsed("next(x - y) - x", COLUMNS, "test")
    assert formula.names == {"x"} and formula.following == {"x", "y"}
    np.testing.assert_array_equal(formula(COLUMNS, AFTER, 3), [-6.0, 6.0, np.nan])


@pytest.mark.parametrize("text", ["log(x) > 0", "not log(x)", "log(x) or y", "min(log(x), 9)", "0 < log(x) < 1"])
def test_what_is_no_number_stays_none(text: str) -> None:
    """A comparison with it would otherwise be false, and a broken rule would pass for one that never holds."""
    assert math.isnan(value(text)[1]) and not math.isnan(value(text)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "character"),
        ("x +", "character"),
        ("z", r"no column 'z'"),
        ("xx", r"is it 'x'\?"),
        ("x.real", "Attribute has no place"),
        ("x[0]", "Subscript has no place"),
        ("__import__('os')", "no function '__import__'"),
        ("(lambda: x)()", "Call has no place"),
        ("open", "no column 'open'"),
        ("abs(x, y)", "takes one value"),
        ("min(x)", "two values or more"),
        ("max(*x, y)", "Starred has no place"),
        ("abs(x=x)", "Call has no place"),
        ("[x for x in y]", "ListComp has no place"),
        ("x if y else 3", "IfExp has no place"),
        ("f'{x}'", "JoinedStr has no place"),
        ("x := 3", "character"),
        ("(x := 3)", "NamedExpr has no place"),
        ("x is y", "Compare has no place"),
        ("x in y", "Compare has no place"),
        ("x @ y", "BinOp has no place"),
        ("x << 3", "BinOp has no place"),
        ("~x", "UnaryOp has no place"),
        ("3j", "complex is no number"),
        ("None", "NoneType is no number"),
        ("b'x'", "bytes is no number"),
        ("...", "ellipsis is no number"),
        ("next(next(x))", r"next\(\) of next\(\)"),
        ("1" + "0" * 400, "too large"),
        ("x;y", "character"),
        ("x\0", "character|notation"),
        ("\udcff", "character|notation"),
        ("'\udcff'", "no column|notation"),
        ("x" + "+x" * LONGEST, "characters, where"),
        ("-" * DEEPEST + "x", "nested"),
        ("(" * 900 + "x" + ")" * 900, "character|notation"),
        ("-" * (LONGEST - 1) + "x", "nested|notation"),
    ],
)
def test_everything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parsed(text, COLUMNS, "test")


@pytest.mark.parametrize("text", ["9**9**9**9", "x / 0", "log(0)", "1e999"])
def test_arithmetic_has_no_end_but_infinity(text: str) -> None:
    assert not np.isfinite(value(text)).any()


WORDS = [
    "x",
    "y",
    "next",
    "(",
    ")",
    "+",
    "-",
    "**",
    "<",
    ",",
    "1",
    "abs",
    "min",
    ".",
    "[",
    "'x'",
    "not ",
    " and ",
    "\\",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = parsed(text, COLUMNS, "test")
    except InputError:
        return
    assert formula(COLUMNS, AFTER, 3).shape == (3,)

"""Formulas over columns, as a person writes them: a reward such as `-abs(angle) - 0.1 * torque ** 2`.

Python's parser reads the text, and every node of the result must be on a short list: numbers, columns, arithmetic,
comparisons, `and`, `or`, `not`, a few functions, and `next(...)` for the row after. Nothing is executed: NumPy computes
node by node. What is not a number stays none, also through comparisons, so that no case falls silently to one side.
"""

import ast
import difflib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s

LONGEST = 2000  # characters
DEEPEST = 100  # levels
FOLLOWING = "next"
EXPECTED = (
    "numbers, names of columns, + - * / % **, comparisons, and, or, not, next(...) for the row after, and "
    "abs, min, max, sqrt, exp, log, sin, cos"
)
ONE: Mapping[str, Callable[[Any], Any]] = {
    **{"abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos}
}
SEVERAL: Mapping[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}
ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    **{ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply},
    **{ast.Div: np.divide, ast.Mod: np.mod, ast.Pow: np.power},
}
COMPARED: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    **{ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal},
    **{ast.Eq: np.equal, ast.NotEq: np.not_equal},
}
SIGNS: Mapping[type[ast.AST], Callable[[Any], Any]] = {ast.USub: np.negative, ast.UAdd: np.positive}

Values = Mapping[str, Float64s]


class _Refused(ValueError):
    """What is wrong with a text, in words."""


@dataclass(frozen=True)
class Formula:
    """A text that was checked, and the columns that it takes: of the row itself, and of the row after it."""

    text: str
    tree: ast.expr
    names: frozenset[str]
    following: frozenset[str]

    def __call__(self, now: Values, after: Values, rows: int) -> Float64s:
        """One number per row, [N]; not finite where a column is not, or where the mathematics has no answer."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(_value(self.tree, now, after), dtype=np.float64), (rows,)).copy()


def parsed(text: str, columns: Collection[str], where: object) -> Formula:
    """The formula in a text, over these columns; a column's very name means that column, however it is spelt."""
    try:
        tree: ast.expr = ast.Constant(text) if text in columns else _tree(text)
        _check(tree, DEEPEST, inside=False)
        found = list(_columns(tree, False))
        for name, _ in found:
            _check_name(name, columns)
    except _Refused as error:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        problem, fix = f"the formula '{shown}' is not read: {error}", "write names with odd characters in quotes"
        raise InputError(problem, where=where, expected=EXPECTED, fix=fix) from error
    now, after = (frozenset(name for name, later in found if later == wanted) for wanted in (False, True))
    return Formula(text, tree, now, after)


def _tree(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise _Refused(f"it has {len(text):,} characters, where {LONGEST:,} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise _Refused(f"{error.msg} (at character {error.offset or 1})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise _Refused("it is not Python's notation, or too deep") from error


def _check(node: ast.AST, depth: int, *, inside: bool) -> None:
    """Refuse whatever is not on the list; `inside` the row after, there is no row after that."""
    if depth == 0:
        raise _Refused(f"it is nested more than {DEEPEST} levels deep")
    for child in _parts(node, inside):
        _check(child, depth - 1, inside=inside or _is_following(node))


def _parts(node: ast.AST, inside: bool) -> list[ast.expr]:
    """What a node that is allowed is made of."""
    match node:
        case ast.Constant(value=value):
            _check_constant(value)
            return []
        case ast.Name():
            return []
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return [left, right]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in SIGNS or isinstance(op, ast.Not):
            return [operand]
        case ast.BoolOp(values=values):
            return values
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARED for op in ops):
            return [left, *others]
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
            _check_call(name, len(given), inside)
            return given
    raise _Refused(f"{type(node).__name__} has no place in it")


def _check_constant(value: object) -> None:
    if isinstance(value, str):
        return
    if isinstance(value, int | float):  # truth values are 0 and 1
        try:
            float(value)
        except OverflowError:
            raise _Refused("a number is too large") from None
        return
    raise _Refused(f"{type(value).__name__} is no number")


def _check_call(name: str, count: int, inside: bool) -> None:
    if name == FOLLOWING and inside:
        raise _Refused("next() of next() is not known")
    if name not in ONE and name not in SEVERAL and name != FOLLOWING:
        raise _Refused(f"there is no function '{name}'")
    if count < 2 if name in SEVERAL else count != 1:
        raise _Refused(f"{name}() takes {'two values or more' if name in SEVERAL else 'one value'}")


def _check_name(name: str, columns: Collection[str]) -> None:
    if name not in columns:
        near = difflib.get_close_matches(name, [each for each in columns if len(each) < 200], n=1)
        known = ", ".join([each for each in columns if each][:12])
        raise _Refused(f"there is no column '{name}'" + (f"; is it '{near[0]}'?" if near else f" (there are: {known})"))


def _is_following(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == FOLLOWING


def _columns(node: ast.AST, later: bool) -> Iterator[tuple[str, bool]]:
    """The columns that a checked tree takes, and whether of the row after."""
    if isinstance(node, ast.Name):
        yield node.id, later
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, later
    else:
        for child in _parts(node, later):
            yield from _columns(child, later or _is_following(node))


def _value(node: ast.AST, now: Values, after: Values) -> Any:
    match node:
        case ast.Constant(value=str(name)) | ast.Name(id=name):
            return now[name]
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.BinOp(left=left, op=op, right=right):
            return ARITHMETIC[type(op)](_value(left, now, after), _value(right, now, after))
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, now, after)
            return 1.0 - _truth(value) if isinstance(op, ast.Not) else SIGNS[type(op)](value)
        case ast.BoolOp(op=op, values=values):
            fold = np.multiply if isinstance(op, ast.And) else np.maximum
            return _folded(fold, [_truth(_value(each, now, after)) for each in values])
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(each, now, after) for each in (left, *others)]
            pairs = zip(ops, values[:-1], values[1:], strict=True)
            return _folded(np.multiply, [_compared(type(op), one, other) for op, one, other in pairs])
        case ast.Call(func=ast.Name(id=name), args=given):
            values = [_value(each, after if name == FOLLOWING else now, after) for each in given]
            return (
                values[0]
                if name == FOLLOWING
                else ONE[name](*values)
                if name in ONE
                else _folded(SEVERAL[name], values)
            )
    raise AssertionError("a formula is checked before it is computed")


def _folded(function: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    result, *others = values
    for other in others:
        result = function(result, other)
    return result


def _truth(value: Any) -> Any:
    """1 where it is not zero, 0 where it is, and no number where it is none."""
    return np.where(np.isnan(value), np.nan, np.not_equal(value, 0))


def _compared(kind: type[ast.AST], one: Any, other: Any) -> Any:
    return np.where(np.isnan(one) | np.isnan(other), np.nan, COMPARED[kind](one, other))

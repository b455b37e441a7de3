"""JSON from outside: one kind of error, whatever is wrong with it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odd import DEEP
from stacq.core.outside import DEEPEST, has_shape, json_object, parsed_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_what_was_written_is_read(value: Any) -> None:
    assert parsed_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", [*DEEP, "", "{", "[1,2", "1" * 30, str(2**63), str(-(2**63) - 1), "1" * 5000, b"\xff"])
def test_all_else_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError):
        parsed_json(text)


def test_the_ends_of_what_is_read() -> None:
    assert parsed_json(str(2**63 - 1)) == 2**63 - 1 and parsed_json(str(-(2**63))) == -(2**63)
    deepest = "[" * DEEPEST + "]" * DEEPEST
    assert str(parsed_json(deepest)) == deepest
    with pytest.raises(ValueError, match="more than 64 levels"):
        parsed_json(f"[{deepest}]")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"'])
def test_an_object_is_an_object(text: str) -> None:
    with pytest.raises(ValueError, match="not an object"):
        json_object(text)


@pytest.mark.parametrize(
    ("value", "shape", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (1, bool, False),
        (1, float, True),
        (1.5, float, True),
        (True, float, False),
        (1.5, int, False),
        (None, str | None, True),
        ([1, 2], [int], True),
        ([1, "x"], [int], False),
        ((1,), [int], False),
        ([], [int], True),
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": int}}, True),
        ({"a": {"b": "1"}}, {"a": {"b": int}}, False),
        ({}, {"a": int}, False),
        ([], {}, False),
    ],
)
def test_shapes_by_hand(value: object, shape: Any, fits: bool) -> None:
    assert has_shape(value, shape) == fits

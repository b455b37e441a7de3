"""Odd values, and the places of a JSON document to put them: for readers of what someone else may have written."""

import copy
import json
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    2**62,
    2**70,
    -(2**63),
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[31m",
    "\ud800",
    "9" * 30,
    [],
    {},
    [None],
    ["a"],
    [[]],
    [float("nan")],
    [1e308, -1e308],
    {"a": 1},
    {"-1": 3},
    {"²": 3},
    {"99999999999999999999": 2, "1": 1},
)
DEEP = tuple(
    opened * depth + middle + closed * depth
    for depth in (100, 900, 100_000)
    for opened, middle, closed in (("[", "1", "]"), ('{"a":', "1", "}"), ("[", "", ""))
)
Place = tuple[str | int, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Where something stands in a document, the document itself first."""
    yield here
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*here, key))


def variants(value: Any, odd: tuple[Any, ...] = ODD) -> Iterator[tuple[str, str]]:
    """A description and the text of every document with one odd value in it, one thing missing, or one nested deep."""
    for place in places(value):
        for each in odd:
            yield f"{place} is {each!r:.40}", json.dumps(_put(value, place, each))
        if place:
            yield f"{place} is missing", json.dumps(_put(value, place))
    for text in DEEP:
        yield f"nested deep: {text[:9]}", text
        for key in value:
            yield f"{key} nested deep: {text[:9]}", json.dumps({**value, key: "HERE"}).replace('"HERE"', text)


def _put(value: Any, place: Place, *new: Any) -> Any:
    if not place:
        return new[0]
    whole = at = copy.deepcopy(value)
    for key in place[:-1]:
        at = at[key]
    if new:
        at[place[-1]] = new[0]
    else:
        del at[place[-1]]
    return whole

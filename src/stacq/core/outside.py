"""What someone else may have written: JSON parsed within bounds, and looked at before it is used."""

import json
from collections.abc import Iterable
from typing import Any

DEEPEST = 64  # levels of nesting; what stacq writes has a handful, and Python itself gives up at a thousand
UNKNOWN_TYPE = (TypeError, AttributeError, KeyError)  # what safetensors raises for types that NumPy does not have
LARGEST = 2**63  # beyond it a whole number fits no array


def parsed_json(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError is all that it raises, whatever the text is."""
    try:
        value = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(value)
    return value


def json_object(text: str | bytes) -> dict[str, Any]:
    value = parsed_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not an object")
    return value


def has_shape(value: object, shape: Any) -> bool:
    """Whether a parsed value is of a type, a list of such values, or an object with such values under these names.

    `float` takes whole numbers as well; truth values are no numbers.
    """
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and has_shape(value[key], shape[key]) for key in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(each, shape[0]) for each in value)
    if isinstance(value, bool):
        return shape is bool
    return isinstance(value, int | float if shape is float else shape)


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -LARGEST <= (value := int(digits)) < LARGEST:
        raise ValueError(f"the whole number {digits[:20]} is beyond 64 bits")
    return value


def _check_depth(value: Any) -> None:
    """Refuse what is too deep to walk over."""
    level = [value]
    for _ in range(DEEPEST):
        level = [each for whole in level for each in _inside(whole)]
        if not level:
            return
    raise ValueError(f"it is nested more than {DEEPEST} levels deep")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

"""What an export writes where, and what it refuses before it writes anything."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ship_cases import ACTIONS, SIZE, mlp, normaliser
from stacq import InputError, export
from stacq.policies import PlannerPolicy
from stacq.policies.planner import Planning, Scales
from stacq.policies.policy import space_of


def planner() -> PlannerPolicy:
    planning = Planning((8,), False, 4, 2, 3, 0, 0, 0, True, False)
    scales = Scales(np.zeros(8), np.ones(8), np.zeros(5))
    return PlannerPolicy(space_of(normaliser(), (-1, 1), SIZE, ACTIONS, "test"), planning, scales, 0.1, {})


@pytest.mark.parametrize(
    ("keywords", "written"),
    [
        ({"format": "c"}, "policy.h"),
        ({"format": "onnx", "name": "arm"}, "arm.onnx"),
        ({"out": "a/b/thing.h"}, "a/b/thing.h"),
        ({"out": Path("thing.onnx")}, "thing.onnx"),
    ],
)
def test_format_and_file_follow_from_each_other(keywords: dict[str, Any], written: str) -> None:
    assert export(mlp(4), **keywords) == Path(written)
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == [written]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "neither the format nor the ending"),
        ({"out": "policy.bin"}, "neither the format nor the ending"),
        ({"out": "policy.onnx", "format": "c"}, "'.onnx' is not written"),
        ({"format": "torch"}, "one of onnx, c"),
        ({"format": "c", "name": "1st"}, "the name '1st'"),
        ({"format": "c", "name": "a__b"}, "single underscores"),
        ({"format": "c", "name": "_a"}, "a letter, then"),
        ({"format": "c", "name": "a b"}, "a letter, then"),
        ({"format": "c", "name": "é"}, "a letter, then"),
        ({"format": "c", "name": "a\n"}, "a letter, then"),
        ({"format": "onnx", "name": "x" * 50}, "40 or fewer"),
        ({"format": "c", "out": "file/policy.h"}, "cannot write"),
    ],
)
def test_wrong_requests_are_told_and_write_nothing(keywords: dict[str, Any], message: str) -> None:
    Path("file").touch()
    with pytest.raises(InputError, match=message):
        export(mlp(4), **keywords)
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_file_that_is_there_is_kept_unless_forced() -> None:
    Path("policy.h").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        export(mlp(4), "policy.h")
    assert Path("policy.h").read_text() == "mine"
    export(mlp(4), "policy.h", force=True)
    assert "policy_act" in Path("policy.h").read_text()


@pytest.mark.parametrize("format", ["onnx", "c"])
def test_a_run_whose_names_are_no_text_is_exported(format: Any) -> None:
    """Its files may come from elsewhere: half of a surrogate pair is allowed in JSON and in no other text."""
    mlp(4).save("run/policies/seed-0.safetensors")
    config = {"label": "\ud800 */", "dataset": "\udcff\n", "env": None, "seeds": [0], "total_steps": 1}
    Path("run/config.json").write_text(json.dumps(config))
    Path("run/result.json").write_text("{}")
    assert export("run", format=format).stat().st_size > 100


@pytest.mark.parametrize("format", ["onnx", "c"])
def test_a_planner_is_refused_in_words(format: Any) -> None:
    with pytest.raises(InputError, match=r"it makes a plan in many steps[\s\S]*mlp or gaussian"):
        export(planner(), format=format)
    assert not list(Path().iterdir())

"""The package as people type it in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_cases import dataset

import stacq
from stacq.pipeline.options import Options, options_from

SHORT: dict[str, Any] = {"seeds": 1, "steps": 20, "eval_every": 20, "evaluate": False}


def test_public_names_are_listed_and_exist() -> None:
    assert set(dir(stacq)) == set(stacq.__all__) >= {"train", "load", "Options", "Policy", "register", "__version__"}
    for name in dir(stacq):
        assert getattr(stacq, name) is not None
    assert stacq.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        stacq.trian  # noqa: B018


@pytest.mark.slow
def test_a_training_may_be_given_in_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    """By keywords, by a name and keywords, or whole: it is the same run, in the same directory."""
    settings = {"hidden": (8, 8), "batch": 16, "learning_rate": 1e-3}
    name = "stacq/maze-stitching-v0"
    whole = Options("td3bc", settings=("hidden=8,8", "batch=16", "learning_rate=0.001"), **SHORT)
    found = [
        stacq.train(name, algorithm="td3bc", settings=settings, **SHORT),
        stacq.train(stacq.load(name), "td3bc", settings=settings, **SHORT),
        stacq.train(name, whole),
    ]
    assert len({each.directory for each in found}) == 1
    assert found[0].policies[0](np.array([1.5, 1.5])).shape == (2,)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"algoritm": "bc"}, "did you mean algorithm=...?"),
        ({"seed": 3}, "did you mean seeds=...?"),
        ({"xyz": 3}, "there is no option 'xyz'"),
        ({"algorithm": 5}, "algorithm is 5"),
        ({"algorithm": "tdbc3"}, "did you mean td3bc"),
        ({"algorithm": "td3bc", "variant": "four-critic"}, "did you mean four-critics"),
        ({"algorithm": "td3bc", "settings": {"alhpa": 1}}, "did you mean alpha"),
    ],
)
def test_wrong_keywords_are_told_with_the_nearest_right_one(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(stacq.InputError) as caught:
        stacq.train(dataset(), **keywords)
    assert message in str(caught.value)


def test_keywords_come_on_top_of_options() -> None:
    assert options_from(Options("bc", seeds=3), {"steps": 7}) == Options("bc", seeds=3, steps=7)
    assert options_from("bc", {}) == Options("bc") and options_from(None, {}) == Options()


def test_a_file_is_trained_on_by_its_path(tmp_path: Path) -> None:
    data = dataset()
    np.savez(
        tmp_path / "logs.npz",
        observations=data.observations,
        actions=data.actions,
        rewards=data.rewards,
        terminals=data.terminals,
        timeouts=data.timeouts,
    )
    trained = stacq.train(tmp_path / "logs.npz", "bc", settings={"batch": 16, "hidden": (8,)}, **SHORT)
    assert trained.result["seeds"] == [0]

"""How results are put into words."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from stacq.pipeline.compare import success_text
from stacq.report.page import MazePicture
from stacq.report.tables import spread_text


def told(success: Mapping[str, Sequence[float]]) -> str:
    return success_text(MazePicture(rows=("..*",), goal=(2, 0), success={name: list(v) for name, v in success.items()}))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([85.4], "one seed"),
        ([85.42, 78.2], "two seeds: 85.4, 78.2"),
        ([1.0, 2.0, 3.0], "95 % interval -0.5 to 4.5"),
    ],
)
def test_how_sure_a_mean_is(values: list[float], text: str) -> None:
    assert spread_text(np.array(values)) == text


def test_who_is_behind_trails() -> None:
    text = told({"A": [0.5, 0.5, 0.53], "B": [0.7, 0.7, 0.73], "C": [0.1, 0.2, 0.3]})
    assert "A trails B by 20.0 points (95 % interval" in text
    assert "A leads C by 31.0 points" in text and "by -" not in text


def test_leads_of_two_seeds_have_no_interval() -> None:
    text = told({"A": [0.5, 0.6], "B": [0.9]})
    assert "A: reaches the goal from 55.0 % of the cells (two seeds: 50.0, 60.0)" in text
    assert "A trails B by 35.0 points (one seed)" in text

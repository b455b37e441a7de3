"""Where figures are saved to."""

from pathlib import Path

import pytest

from stacq.core.errors import InputError
from stacq.report.figures import figure_format


@pytest.mark.parametrize(
    "path, better",
    [
        (".", "figure.png"),
        ("..", "../figure.png"),
        ("/", "/figure.png"),
        ("picture", "picture.png"),
        ("a.jpg", "a.png"),
    ],
)
def test_a_place_that_is_no_figure_is_told_a_better_one(path: str, better: str) -> None:
    with pytest.raises(InputError, match=r"ending in \.png or \.svg") as told:
        figure_format(Path(path))
    assert told.value.fix == f"write to {better}"


def test_capital_letters_are_suffixes_too() -> None:
    assert figure_format(Path("A.SVG")) == "svg"

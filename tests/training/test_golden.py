"""A change that is not meant to change results does not: short runs end in the numbers that are kept."""

from pathlib import Path

import pytest
from golden_cases import changes, differences, kept, made, of_models, of_run, variants

from stacq.algos import BUILT_IN

AGAIN = "meant? then run python tests/training/golden_cases.py, and say why in the commit"


def test_every_algorithm_ends_where_it_did(finished: tuple[str, Path]) -> None:
    name, directory = finished
    assert not changes(name, of_run(directory)), AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("name", variants())
def test_every_other_variant_ends_where_it_did(name: str, tmp_path: Path) -> None:
    assert not changes(name, made(name, tmp_path / "run")), AGAIN


def test_models_and_sets_are_what_they_were() -> None:
    assert not differences(of_models(), kept("models")), AGAIN


def test_a_changed_number_is_seen() -> None:
    for name in (*BUILT_IN, *variants()):
        numbers = kept(name)
        assert len(numbers) > 5
        for key, value in numbers.items():
            assert differences({**numbers, key: value * 1.01 + 1e-4}, numbers)
        assert differences({}, numbers) == sorted(numbers)

"""Numbers and names that `--help` states are those that the program uses."""

import re

import pytest

from arrays import logged
from stacq import from_arrays
from stacq.algos import ALGORITHMS
from stacq.algos.presets import FEW_EVALUATIONS, preset
from stacq.cli import main
from stacq.data.border import Conventions
from stacq.pipeline import usual_recipe
from stacq.reach.build import ACTIONS
from stacq.training.job import LEAST_EVERY

MAZE = "stacq/maze-stitching-v0"


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What every option of every verb says of itself, by "verb --option"."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("NO_COLOR", "1")
    found = {}
    for verb in ("train", "run", "reach"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        text = re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out)
        for option, words in re.findall(r"(--[\w-]+)(.*?)(?=\n *--|\Z)", text, re.DOTALL):
            found[f"{verb} {option}"] = " ".join(words.split())
    return found


def numbers(text: str) -> set[int]:
    """Written in digits, and `a million`; without the default in brackets that the parser adds."""
    text = text.rpartition(" (default: ")[0].replace("a million", "1,000,000")
    return {int(each.replace(",", "")) for each in re.findall(r"\b\d[\d,]*", text)}


def test_steps_are_those_of_the_presets(told: dict[str, str]) -> None:
    counts = set()
    for algorithm in ALGORITHMS:
        configs = [preset(algorithm).config, preset(algorithm, small=True).config, preset(algorithm, MAZE).config]
        counts |= {config.steps for config in configs}
        assert all(getattr(config, "critic_steps", config.steps) == config.steps for config in configs)
    assert numbers(told["train --steps"]) == counts == {1_000_000, 100_000, 50_000, 12_000, 5_000}
    assert numbers(told["run --full"]) == {preset("stacq").config.steps, preset("stacq", small=True).config.steps}


def test_evaluations_are_those_of_the_presets(told: dict[str, str]) -> None:
    assert numbers(told["train --eval-every"]) == {preset("stacq").evaluations, FEW_EVALUATIONS, LEAST_EVERY}
    assert {preset("bc", small=True).evaluations, preset("bc", MAZE).evaluations} == {FEW_EVALUATIONS}
    episodes = {preset("stacq").episodes, preset("stacq", "antmaze-umaze-v2").episodes}
    assert numbers(told["train --episodes"]) == episodes


def test_recipes_are_those_that_are_taken(told: dict[str, str]) -> None:
    arrays = logged([20, 30], ["terminal", "timeout"], sizes=(29, 8))
    taken = {}
    for name in ("mine", "antmaze-umaze-v2"):
        dataset = from_arrays(**arrays, conventions=Conventions(name=name))
        for small in (False, True):
            taken[name, small] = usual_recipe(dataset, small=small)
    for option in ("train --dynamics-preset", "run --dynamics-preset"):
        assert set(re.findall(r"`([\w-]+)`", told[option])) == set(taken.values())
    full = {taken["mine", False], taken["antmaze-umaze-v2", False]}
    assert set(re.findall(r"`([\w-]+)`", told["reach --dynamics-preset"])) == full


def test_actions_behind_ranges_are_those_that_are_taken(told: dict[str, str]) -> None:
    assert numbers(told["reach --actions"]) == set(ACTIONS.values())

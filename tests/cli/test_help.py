"""Numbers and names that `--help` states are those that the program uses."""

import re

import pytest

from arrays import logged
from stacq import algos, from_arrays
from stacq.algos import settings
from stacq.algos.settings import FEW_EVALUATIONS, Preset
from stacq.cli import main
from stacq.data.conventions import Conventions
from stacq.pipeline.models import usual_recipe
from stacq.pipeline.plan import LEAST_EVERY
from stacq.reach.options import ACTIONS
from stacq.report.algorithms import algorithms_text

MAZE = "stacq/maze-stitching-v0"


def preset(algorithm: str, dataset: str = "", *, small: bool = False) -> Preset:
    return settings.preset(algos.find(algorithm), dataset, small=small)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What every option of every verb says of itself, by "verb --option"."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    found = {}
    for verb in ("train", "run", "reach"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        text = re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out)
        for option, words in re.findall(r"^ {1,3}(--[a-z][\w-]*)(.*?)(?=^ {1,3}--|\Z)", text, re.DOTALL | re.MULTILINE):
            found[f"{verb} {option}"] = " ".join(words.split())
    return found


def numbers(text: str) -> set[int]:
    """Written in digits, and `a million`; without the default in brackets that the parser adds."""
    text = text.partition(" (default: ")[0].replace("a million", "1,000,000")
    return {int(each.replace(",", "")) for each in re.findall(r"\b\d[\d,]*", text)}


def test_steps_are_those_of_the_presets(told: dict[str, str]) -> None:
    assert "`stacq algos`" in told["train --steps"]
    listed = dict(re.findall(r"^([\w-]+): .*?^  steps: (.*?)$", algorithms_text(), re.DOTALL | re.MULTILINE))
    assert listed["td3bc"] == "1,000,000, --small 100,000, in the plane mazes 12,000"
    assert listed["onestep-stacq"] == "1,000,000 + 1,000,000, --small 50,000 + 50,000, in the plane mazes 5,000 + 5,000"
    assert numbers(told["run --full"]) == {preset("stacq").config.steps, preset("stacq", small=True).config.steps}


def test_evaluations_are_those_of_the_presets(told: dict[str, str]) -> None:
    bodies = ("antmaze-umaze-v2", "stacq/pointmaze-umaze-v0")
    of_bodies = {preset("bc", name, small=True).evaluations for name in bodies}
    usual = {preset("stacq").evaluations, FEW_EVALUATIONS, LEAST_EVERY}
    assert numbers(told["train --eval-every"]) == usual | of_bodies
    assert {preset("bc", small=True).evaluations, preset("bc", MAZE).evaluations} == {FEW_EVALUATIONS}
    episodes = {preset("stacq").episodes, preset("stacq", small=True).episodes}
    for name in ("antmaze-umaze-v2", "stacq/pointmaze-umaze-v0"):
        episodes |= {preset("stacq", name, small=small).episodes for small in (False, True)}
    assert numbers(told["train --episodes"]) == episodes


def test_recipes_are_those_that_are_taken(told: dict[str, str]) -> None:
    arrays = logged([20, 30], ["terminal", "timeout"], sizes=(29, 8))
    taken = {}
    for name in ("mine", "antmaze-umaze-v2"):
        dataset = from_arrays(**arrays, conventions=Conventions(name=name))
        for small in (False, True):
            taken[name, small] = usual_recipe(dataset, small=small)
    for option in ("train --dynamics-preset", "run --dynamics-preset", "reach --dynamics-preset"):
        assert set(re.findall(r"`([\w-]+)`", told[option])) == set(taken.values())


def test_actions_behind_ranges_are_those_that_are_taken(told: dict[str, str]) -> None:
    assert numbers(told["reach --actions"]) == set(ACTIONS.values())

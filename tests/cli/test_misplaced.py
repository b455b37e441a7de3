"""Options that are none, and settings that are spelt as elsewhere, are answered with the right spelling."""

import re

import pytest

from stacq.cli import ALONE, main
from stacq.cli.misplaced import check_options

MAZE = "stacq/maze-stitching-v0"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("train", MAZE, "--alpha", "5"), "`--set alpha=5`"),
        (("train", MAZE, "--lr=3e-4", "--algo", "bc"), "`--set learning_rate=3e-4`"),
        (("train", MAZE, "--batch-size", "--small"), "`--set batch=...`"),
        (("run", "--alpha", "5"), "`stacq train DATASET --set alpha=5`"),
        (("train", MAZE, "--wandb"), "`--log wandb`"),
        (("train", MAZE, "--set", "lr="), "did you mean learning_rate=...?"),
        (("train", MAZE, "--set", "gamma=0.9"), "did you mean discount=0.9?"),
        (("train", MAZE, "--set", "seeds=3"), "write --seeds 3"),
    ],
)
def test_the_right_spelling_is_told(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str) -> None:
    assert text in said(capsys, *arguments)


def test_other_wrong_options_are_answered_for_their_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "train", MAZE, "--seed", "3")
    assert "--first-seed" in text and "stacq train --help" in text and "evaluate" not in text


@pytest.mark.parametrize("verb", ["train", "run"])
def test_what_help_lists_is_never_refused(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    found = set(re.findall(r"(?<![\w`])--[a-z][a-z-]+", capsys.readouterr().out))
    assert len(found) > 20
    for option in found:
        check_options([verb, option])


def test_every_verb_without_verbs_of_its_own_is_parsed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    verbs = re.findall(r"\{([a-z,]+)\}", capsys.readouterr().out)[0].split(",")
    assert {*verbs} == {*ALONE, "data", "dynamics"}

"""One command with several values of a setting."""

from pathlib import Path

import pytest

from stacq.cli import main


def test_several_values_are_several_runs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--algo", "bc", "--seeds", "2", "--steps", "40", "--eval-every", "40", "--episodes", "1"]
    command = ["train", "stacq/maze-stitching-v0", *words, "--set", "learning_rate=0.001,0.01", "hidden=8,8"]
    with pytest.raises(SystemExit):  # refused before the first one begins
        main([*command[:-2], "learning_rate=0.001,fast", "hidden=8,8"])
    assert "learning_rate='fast'" in capsys.readouterr().err and not Path("runs").exists()
    main([*command, "--out", "swept"])
    said = capsys.readouterr().out
    assert "1/2 learning_rate=0.001" in said and "2/2 learning_rate=0.01" in said
    assert {path.name for path in Path("swept").iterdir()} == {"learning_rate=0.001", "learning_rate=0.01"}
    (summary,) = [line for line in said.splitlines() if line.startswith("learning_rate=0.01: score ")]
    assert " ± " in summary
    main(["report", "swept", "--out", "page.html"])
    assert "BC, learning_rate=0.001" in Path("page.html").read_text("utf-8")

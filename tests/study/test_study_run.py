"""A study as a person runs it: processes, failures, kills, and the same command again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_cases import SMALL, write_study

from stacq.cli import main
from stacq.study.records import read_records

BROKEN = SMALL.replace('["stacq/maze-stitching-v0"]', '["stacq/maze-stitching-v0", "none.npz"]')
RATES = "learning_rate = [1e-3, 1e-2]"


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_failed_cell_is_named_and_others_are_done_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_rate = BROKEN.replace(RATES, "learning_rate = 1e-3")
    file = write_study(tmp_path / "mine.toml", one_rate)
    command = ["study", str(file), "--processes", "1", "--cores", "1"]
    for attempt in range(2):
        with pytest.raises(SystemExit) as caught:
            main(command)
        assert caught.value.code == 1
        said = capsys.readouterr()
        (failed,) = lines(said.out, "failed: ")
        assert "none.npz" in failed and "1 cell failed" in said.err
        assert (len(lines(said.out, "2/4")) == 1) == (attempt == 0)  # the second time there is nothing to train
    (record,) = read_records(Path("runs/studies/mine-small/records.jsonl"))
    assert record["seeds"] == [0, 1] and record["evaluated"] == [20, 40] and record["method"] == "BC"
    main([*command, "--dry-run"])
    said = capsys.readouterr()
    assert len(lines(said.out, "  done ")) == 1 and "failed before: none.npz" in said.out
    # A cell is the run of the same command of `stacq train`.
    (run,) = [path for path in Path("runs").iterdir() if path.name.startswith("maze")]
    words = ["--algo", "bc", "--small", "--seeds", "2", "--steps", "40", "--eval-every", "20", "--episodes", "2"]
    main(["train", "stacq/maze-stitching-v0", *words, "--set", "learning_rate=0.001", "hidden=8,8"])
    assert f"trained before: runs/{run.name}" in capsys.readouterr().out


def test_printed_commands_do_the_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_study(tmp_path / "mine.toml", SMALL.replace(RATES, "learning_rate = 1e-3"))
    main(["study", str(file), "--print-commands"])
    commands = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert len(commands) == 2 and all(command[:2] == ["stacq", "study"] for command in commands)
    for command in commands:
        main(command[1:])
    capsys.readouterr()
    main(["study", str(file), "--print-commands"])
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        main([*commands[0][1:-1], "another"])
    assert "there is no job 'another'" in capsys.readouterr().err


def started(file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stacq", "study", str(file), "--processes", "2", "--cores", "1"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def evaluated(runs: Path) -> int:
    return sum(path.read_text().count("eval/score") for path in runs.glob("*/metrics.jsonl"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_stopped_study_goes_on_to_the_same_records(tmp_path: Path, end: signal.Signals) -> None:
    """Its children end with it, and the same command finishes with what would have come out."""
    longer = SMALL.replace("steps = 40", "steps = 20_000").replace("eval_every = 20", "eval_every = 1_000")
    file = write_study(tmp_path / "mine.toml", longer)
    study = started(file)
    while evaluated(Path("runs")) < 4:
        time.sleep(0.2)
        assert study.poll() is None
    study.send_signal(end)
    assert study.wait() == (130 if end == signal.SIGINT else -signal.SIGKILL)
    deadline = time.monotonic() + (10 if end == signal.SIGKILL else 0)
    while _held(Path("runs")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _held(Path("runs"))
    main(["study", str(file), "--processes", "2", "--cores", "1"])
    main(["study", str(file), "--processes", "2", "--cores", "1", "--runs", "whole"])
    killed, whole = (read_records(Path(root, "studies", "mine-small", "records.jsonl")) for root in ("runs", "whole"))
    assert [record["scores"] for record in killed] == [record["scores"] for record in whole]
    assert len(json.dumps(whole)) > 500


def _held(runs: Path) -> bool:
    """Whether a process still has a run open."""
    import fcntl

    for path in runs.glob("*/lock"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smoke_is_a_study_of_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    main(["study", "smoke"])
    assert "failed" not in capsys.readouterr().out
    records = read_records(Path("runs/studies/smoke-small/records.jsonl"))
    assert [record["algorithm"] for record in records] == ["stacq", "td3bc", "td3bc", "bc"]
    assert os.path.exists("runs/studies/smoke-small/table.csv")

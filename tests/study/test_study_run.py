"""A study as a person runs it: processes, failures, kills, and the same command again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_cases import SMALL, cells, write_study

from stacq.cli import main
from stacq.study.records import read_records
from stacq.study.resolved import resolved

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
    # Tables of a part leave the study's records as they are, and so do records of another place.
    records = Path("runs/studies/mine-small/records.jsonl")
    kept, table = records.read_bytes(), records.with_name("table.md")
    shown = []
    (tmp_path / "none.jsonl").touch()
    for words in (["--tables"], ["--tables", "--only", "none.npz"], ["--records", str(tmp_path / "none.jsonl")]):
        main([*command, *words])
        assert records.read_bytes() == kept
        shown.append(("| stacq/maze-stitching-v0 |" in table.read_text("utf-8"), "±" in table.read_text("utf-8")))
    assert shown[0] == (True, True) and not shown[1][0] and shown[2][0]
    capsys.readouterr()
    # A cell is the run of the same command of `stacq train`.
    (run,) = [path for path in Path("runs").iterdir() if path.name.startswith("maze")]
    words = ["--algo", "bc", "--small", "--seeds", "2", "--steps", "40", "--eval-every", "20", "--episodes", "2"]
    main(["train", "stacq/maze-stitching-v0", *words, "--set", "learning_rate=0.001", "hidden=8,8"])
    assert f"trained before: runs/{run.name}" in capsys.readouterr().out


ONE = SMALL.replace(RATES, "learning_rate = 1e-3")


def test_a_cell_whose_preset_changed_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_study(tmp_path / "mine.toml", ONE)
    command = ["study", str(file), "--processes", "1", "--cores", "1"]
    main(command)
    (cell,) = cells(ONE)
    (path,) = Path("runs/studies/mine-small/jobs").glob(f"{cell.key}*")
    state = json.loads(path.read_text())
    assert state["resolved"] == resolved(cell) and state["record"]["discounted_return"][0][-1] is not None
    older = {**state, "resolved": {**state["resolved"], "config": {**state["resolved"]["config"], "batch": 7}}}
    older["resolved"]["shown"] = {**state["resolved"]["shown"], "normalise": False}
    for changed in (older, {**older, "resolved": {}, "record": {**state["record"], "episodes": 3}}):
        path.write_text(json.dumps(changed))
        capsys.readouterr()
        main([*command, "--dry-run"])
        (line,) = lines(capsys.readouterr().out, "  there ")  # the run of the settings of now is
        told = ["batch was 7 and is 128", "shown normalise was False and is True"]
        assert all(each in line for each in (told if changed is older else ["episodes was 3 and is 2"]))
        main([*command, "--tables"])
        assert "run with other settings" in Path("runs/studies/mine-small/table.md").read_text("utf-8")
    main(command)
    assert json.loads(path.read_text())["resolved"] == state["resolved"]
    # What an earlier version wrote, which is no reason to run anything.
    without = {name: value for name, value in state["record"].items() if name != "value"}
    path.write_text(
        json.dumps({name: value for name, value in state.items() if name != "resolved"} | {"record": without})
    )
    capsys.readouterr()
    main(command)
    assert "1 cell, 1 done before" in capsys.readouterr().out
    (record,) = read_records(Path("runs/studies/mine-small/records.jsonl"))
    assert record == state["record"]


def test_a_cell_that_loses_every_seed_is_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losing = (
        SMALL.replace(RATES, "learning_rate = 1e30")
        .replace('"bc"', '"td3bc"')
        .replace("hidden", "alpha = 1e30, hidden")
    )
    file = write_study(tmp_path / "mine.toml", losing)
    command = ["study", str(file), "--processes", "1", "--cores", "1"]
    main(command)
    assert "every seed was lost" in capsys.readouterr().out
    (record,) = read_records(Path("runs/studies/mine-small/records.jsonl"))
    assert record["lost"] == [0, 1] and record["seeds"] == record["scores"] == []
    assert "| all seeds lost |" in Path("runs/studies/mine-small/table.md").read_text("utf-8")
    main(command)
    assert "1 cell, 1 done before" in capsys.readouterr().out


def test_printed_commands_do_the_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_study(tmp_path / "mine.toml", ONE)
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

"""Run directories: complete, readable after any end, and no service needed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stacq import EpisodeRecord, InputError
from stacq.runs.directory import Run, check_free, environment_facts, new_directory, read_metrics, read_records

RECORD = EpisodeRecord("bc", "d", 0, 10, 0, 1.5, 7, None, None)


def test_what_a_run_leaves(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {"size": 5}) as run:
        run.log("hello")
        run.metrics(10, {"loss": 0.5})
        run.record(RECORD)
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {"size": 5}
    facts = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert {"python", "versions", "git_revision", "device", "command", "cores"} <= set(facts)
    assert facts["versions"]["numpy"]
    assert read_metrics(tmp_path / "run")[0]["loss"] == 0.5
    assert read_records(tmp_path / "run") == [RECORD]
    assert "hello" in (tmp_path / "run" / "log.txt").read_text()


def test_torn_last_lines_are_left_out(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}) as run:
        run.metrics(1, {"loss": 1.0})
        run.record(RECORD)
    for name, torn in (("metrics.jsonl", '{"step": 2, "lo'), ("records.csv", "bc,d,0,10,1,2")):
        with open(tmp_path / "run" / name, "a") as handle:
            handle.write(torn)
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == [1]
    assert read_records(tmp_path / "run") == [RECORD]


def test_an_existing_directory_is_not_overwritten(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}), pytest.raises(InputError, match="exists already"):
        Run(tmp_path / "run", {})


def test_a_run_that_was_killed_while_it_began_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("stacq.runs.directory.environment_facts", killed)
        Run(tmp_path / "runs" / "one", {}, resume=True)
    for resumed in (False, True):
        with Run(tmp_path / "runs" / "one", {}, resume=True) as run:
            assert run.resumed == resumed
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["one"]


def test_two_processes_do_not_write_into_one_run(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}), pytest.raises(InputError, match="another process is writing"):
        Run(tmp_path / "run", {}, resume=True)
    with Run(tmp_path / "run", {}, resume=True) as run:
        run.log("free again")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_a_pipe_in_the_place_of_the_lock_does_not_block(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}):
        pass
    (tmp_path / "run" / "lock").unlink()
    os.mkfifo(tmp_path / "run" / "lock")
    with Run(tmp_path / "run", {}, resume=True), pytest.raises(InputError, match="another process is writing"):
        Run(tmp_path / "run", {}, resume=True)


def test_two_processes_that_begin_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's directory appears while ours is being written."""
    real = environment_facts

    def beaten() -> dict[str, Any]:
        monkeypatch.setattr("stacq.runs.directory.environment_facts", real)
        with Run(tmp_path / "run", {}):
            pass
        return real()

    monkeypatch.setattr("stacq.runs.directory.environment_facts", beaten)
    with pytest.raises(InputError, match="another process is writing"):
        Run(tmp_path / "run", {}, resume=True)
    assert [path.name for path in tmp_path.iterdir() if "run" in path.name] == ["run"]


def test_a_file_in_the_place_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="there is a file of this name"):
        Run(tmp_path / "file", {}, resume=True)


def test_an_unwritable_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write"):
        Run(tmp_path / "file" / "run", {})


def test_new_directories_never_collide(tmp_path: Path) -> None:
    first = new_directory(tmp_path, "demo")
    first.mkdir()
    assert new_directory(tmp_path, "demo") != first


def test_tensorboard_on_request(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    with Run(tmp_path / "run", {}, logs=("tensorboard",)) as run:
        run.metrics(3, {"loss": 0.25})
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    data, values = file.read_bytes(), []
    while data:  # length, its checksum, the event, its checksum
        size = int.from_bytes(data[:8], "little")
        values += [(event.step, each.tag, each.simple_value) for event in [Event.FromString(data[12 : 12 + size])]
                   for each in event.summary.value]  # fmt: skip
        data = data[16 + size :]
    assert values == [(3, "loss", 0.25)]


def test_missing_runs_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run directory"):
        read_records(tmp_path)


def test_facts_do_not_name_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    import platform

    monkeypatch.setattr(platform, "node", lambda: "a-very-special-host")
    assert "a-very-special-host" not in json.dumps(environment_facts())


def test_the_log_says_how_it_ended(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Run(tmp_path / "run", {}):
        raise KeyboardInterrupt
    assert "stopped by KeyboardInterrupt" in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("line", ["{]", "[1]", '{"loss": 1}', '{"step": "3"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    with Run(tmp_path / "run", {}) as run:
        run.metrics(3, {"loss": 0.25})
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(InputError, match=r"metrics.jsonl: a line cannot be understood"):
        read_metrics(tmp_path / "run")


def test_places_where_no_run_can_be(tmp_path: Path) -> None:
    with Run(tmp_path / "run", {}):
        pass
    (tmp_path / "full").mkdir()
    (tmp_path / "file").touch()
    for free in ("run", "new", "deep/new"):
        check_free(tmp_path / free)
    for place, said in (("full", "exists already"), ("file", "a file of this name"), ("file/run", "cannot write")):
        with pytest.raises(InputError, match=said):
            check_free(tmp_path / place)


def test_a_run_from_a_source_tree_says_its_revision() -> None:
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        pytest.skip("the tests do not lie in a git repository")
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert str(environment_facts()["git_revision"]).removesuffix("-dirty") == head.strip()

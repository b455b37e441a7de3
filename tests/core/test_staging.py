"""What a killed writer leaves goes with the next write; what a live one holds stays."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq.core.artefacts import write_artefact
from stacq.core.errors import InputError
from stacq.core.files import alone, check_writable, write_text
from stacq.core.staging import staging, sweep
from stacq.data.border import from_arrays
from stacq.data.convert import convert
from stacq.data.minari_write import write_minari
from stacq.runs.directory import Run

WRITERS = {
    "file": "with replacing(target) as place: place.write_text('new'); wait()",
    "renamed file": "files._sync_directory = wait; write_text(target, 'new')",
    "directory": "with appearing(target) as place: (place / 'file').write_text('new'); wait()",
    "renamed directory": "files._sync_directory = wait\nwith appearing(target) as place: pass",
    "lock": "with alone(target): wait()",
    "locked file": "with alone(target), replacing(target) as place: place.write_text('new'); wait()",
    "check": "Path.touch = wait; check_writable(target)",
    "removal": "shutil.rmtree = wait; remove_artefact(target)",
    "end": "unlink, Path.unlink = Path.unlink, lambda path, **_: unlink(path) or wait()\ncheck_writable(target)",
    "library's own": "save_file = __import__('safetensors.numpy').numpy.save_file\n"
    "with replacing(target) as place: save_file({'x': np.ones(3)}, place); (place.parent / '.tmpA').touch(); wait()",
}
PROGRAM = """
import shutil, sys
from pathlib import Path
import numpy as np
from stacq.core import files
from stacq.core.artefacts import remove_artefact
from stacq.core.files import alone, appearing, check_writable, replacing, write_text
def wait(*_, **__):
    print("now", flush=True)
    sys.stdin.readline()
target = Path(sys.argv[1])
"""


@contextlib.contextmanager
def stopped_at(moment: str, target: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes, and waits at a moment of its own for a line or its end."""
    command = [sys.executable, "-c", PROGRAM + WRITERS[moment], str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "now\n"
        try:
            yield process
        finally:
            process.kill()


def artefact(place: Path) -> None:
    write_artefact(place, "thing", {"x": np.ones(3)}, {}, {})


def begin(place: Path) -> None:
    with Run(place, {}):
        pass


@pytest.mark.parametrize("moment", WRITERS)
def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "place"
    target = folder / "target"
    if moment == "removal":
        artefact(target)
    with stopped_at(moment, target) as process:
        left = [path for path in folder.iterdir() if path != target]
        assert left and all(path.name.startswith(".stacq-") for path in left)
        write_text(folder / "other", "written beside a live writer")
        assert [path for path in left if not path.exists()] == []
        process.send_signal(signal.SIGKILL)
        process.wait()
    write_text(folder / "other", "written after its end")
    assert {path.name for path in folder.iterdir()} <= {"target", "other"}


@pytest.mark.parametrize("moment", ["file", "directory", "locked file", "library's own"])
def test_a_live_writer_is_not_robbed(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "place"
    with stopped_at(moment, folder / "target") as process:
        for act in (
            sweep,
            lambda folder: check_writable(folder / "target"),
            lambda folder: write_text(folder / "b", ""),
        ):
            act(folder)
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(20) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["b", "target"]


def test_a_lock_is_let_go_of_only_by_its_holder(tmp_path: Path) -> None:
    with stopped_at("lock", tmp_path / "target") as process:
        sweep(tmp_path)

        def waiting() -> None:
            process.kill()

        with alone(tmp_path / "target", waiting):
            assert process.wait(20) == -signal.SIGKILL


def test_what_a_writer_left_goes_where_it_cannot_be_written_again(tmp_path: Path) -> None:
    """It was killed when all was in its place already."""
    dataset = from_arrays(**logged([2, 3], ["terminal", "timeout"]))
    np.savez(tmp_path / "logs.npz", **logged([2, 3], ["terminal", "timeout"]))
    (tmp_path / "minari").mkdir()
    acts: dict[Path, Callable[[], object]] = {
        tmp_path / "minari" / "made-v0": lambda: write_minari(dataset, "made-v0"),
        tmp_path / "made.hdf5": lambda: convert(str(tmp_path / "logs.npz"), str(tmp_path / "made.hdf5")),
        tmp_path / "run": lambda: begin(tmp_path / "run"),
    }
    for place, act in acts.items():
        act()
        left = place.with_name(".stacq-tmp-killed")
        left.mkdir()
        (left / "lock").touch()
        with pytest.raises(InputError, match="exists already"):
            act()
        assert not left.exists()


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    """Names that begin like ours, other hidden files, links, and what an outsider put under such a name."""
    others = [".stacq-notes", ".stacq-full.lock", ".hidden.part", ".stacq-tmp-file"]
    for name in others:
        (tmp_path / name).write_text("dear to someone")
    (tmp_path / ".stacq-tmp-mine").mkdir()
    (tmp_path / ".stacq-tmp-mine" / "file").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").touch()
    (tmp_path / ".stacq-tmp-link").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    for owned in (False, True):
        sweep(tmp_path, owned=owned)
    assert sorted(tmp_path.rglob("*")) == before
    sweep(tmp_path / "nowhere")


def test_without_locks_only_an_owner_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".stacq-tmp-left"
    left.mkdir()
    (left / "lock").touch()

    def none(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    write_text(tmp_path / "file", "written all the same")
    assert left.exists()
    sweep(tmp_path, owned=True)
    assert not left.exists()


def hammer(folder: str, name: str, rounds: int) -> None:
    for number in range(rounds):
        write_text(Path(folder) / name, f"{name} {number}")
        with staging(Path(folder)) as place:
            (place / "x").touch()


def test_many_writers_and_sweepers_at_once(tmp_path: Path) -> None:
    """Processes and threads begin, sweep and end in one folder; nobody loses a file."""
    rounds = 40
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=hammer, args=(str(tmp_path), f"p{k}", rounds)) for k in range(2)]
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            hammer(str(tmp_path), name, 3 * rounds)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{k}",)) for k in range(3)]
    every: list[Any] = [*processes, *threads]
    for each in every:
        each.start()
    for each in every:
        each.join()
    assert not failed and [process.exitcode for process in processes] == [0, 0]
    found = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert found == {f"p{k}": f"p{k} {rounds - 1}" for k in range(2)} | {
        f"t{k}": f"t{k} {3 * rounds - 1}" for k in range(3)
    }


def test_one_that_is_swept_before_it_has_its_lock_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a directory and its lock another writer may come by."""
    real, swept = os.open, list[object]()

    def late(path: object, flags: int, *mode: int) -> int:
        if str(path).endswith("/lock") and flags & os.O_CREAT and not swept:
            swept.append(path)
            sweep(tmp_path)
        return real(path, flags, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr("os.open", late)
    with staging(tmp_path) as place:
        assert swept and str(place) not in str(swept[0]) and place.is_dir()


def test_directories_have_the_permissions_that_the_user_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        artefact(tmp_path / "made")
        write_text(tmp_path / "file", "")
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "made", tmp_path / "file")}
    modes |= {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "made").iterdir()}
    assert modes == {"made": "0o750", "file": "0o640", "arrays.safetensors": "0o640", "manifest.json": "0o640"}

"""What a process is started with may be odd: no output, no home, no memory, no place, and names of every kind."""

import errno
import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import Conventions, InputError, from_arrays, load
from stacq.cli import main
from stacq.core.files import MOST_OF_A_NAME, fitting, home, unwritable, write_text
from stacq.core.progress import on_terminal, tell
from stacq.core.surroundings import memory_error
from stacq.data.hdf5 import write_hdf5
from stacq.data.minari_layout import minari_root
from stacq.pipeline.plan import short_name
from stacq.report.inspect import picture_path
from stacq.runs.directory import Run

LONG = "n" * 300
STACQ = f"{sys.executable} -m stacq"


def saved(path: Path) -> Path:
    arrays: dict[str, Any] = logged([20, 30], ["terminal", "timeout"], sizes=(11, 3))
    np.savez(path, **arrays)
    return path


COMMANDS = {  # a line for the shell: exit code, what standard output holds, what standard error begins with
    "{stacq} data list >&-": (0, "", ""),
    "{stacq} data list >&- 2>&- <&-": (0, "", ""),
    "{stacq} data list >/dev/full": (2, "", "error: standard output: cannot write: No space left on device\n"),
    "{stacq} --help >/dev/full": (2, "", "error: standard output: cannot write: No space left on device\n"),
    "{stacq} data inspect nosuch >/dev/full 2>/dev/full": (2, "", ""),
    "PYTHONIOENCODING=ascii {stacq} --help": (0, "usage: stacq", ""),
    "mkdir gone && cd gone && rmdir ../gone && {stacq} data list": (
        2,
        "",
        "error: the working directory was deleted\n",
    ),
    "ulimit -v 1500000 && {stacq} train stacq/maze-sparse-v0": (
        2,
        "",
        "error: ulimit -v: a process may have 1,464 MiB",
    ),
    "{stacq} maze $'\\xfe\\xff' --out x": (2, "", "error: \\udcfe\\udcff: there is no such file\n"),
    "{stacq} data convert logs.npz $'\\xfe\\xff.hdf5'": (0, "written: \\udcfe\\udcff.hdf5\n", ""),
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_processes_in_odd_surroundings(tmp_path: Path) -> None:
    """At once, since each takes a while to start. A traceback would begin otherwise than these."""
    saved(Path("logs.npz"))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, "text": True}
    started = [subprocess.Popen(["bash", "-c", line.format(stacq=STACQ)], **pipes) for line in COMMANDS]
    for process, (line, (code, output, error)) in zip(started, COMMANDS.items(), strict=True):
        out, err = process.communicate(timeout=200)
        assert process.returncode == code, (line, out, err)
        assert out.startswith(output) if output else not out, (line, out)
        assert err.startswith(error) if error else not err, (line, err)
    assert len(load(os.fsdecode(b"\xfe\xff.hdf5"))) == 50


def nobody(_: int) -> None:
    raise KeyError("uid not found")


def test_an_account_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STACQ_HOME", "XDG_CACHE_HOME", "HOME", "MINARI_DATASETS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    for find, variable in ((home, "STACQ_HOME"), (minari_root, "MINARI_DATASETS_PATH")):
        with pytest.raises(InputError, match=f"{variable}: there is no home directory[^§]*set {variable} to"):
            find()
    monkeypatch.setenv("STACQ_HOME", str(tmp_path))
    main(["data", "list"])  # what Minari has is nowhere
    monkeypatch.setenv("STACQ_HOME", "~nosuch/cache")
    with pytest.raises(InputError, match="STACQ_HOME: there is no home directory for '~nosuch/cache'"):
        home()


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "inspect", LONG],
        ["data", "inspect", LONG + ".hdf5"],
        ["data", "inspect", "minari:" + LONG],
        ["data", "inspect", "logs.npz", "--out", LONG + ".png"],
        ["data", "inspect", "logs.npz", "--out", "a/" * 2100 + "x.png"],
        ["data", "convert", "logs.npz", LONG + ".hdf5"],
        ["data", "convert", "logs.npz", "minari:" + LONG + "-v0"],
        ["data", "convert", "logs.npz", "minari:" + LONG + "/name-v0"],
        ["evaluate", LONG],
        ["evaluate", "behaviour/hopper-medium", "--episodes", "1", "--out", LONG],
        ["maze", LONG],
        ["maze", "--out", LONG],
        ["report", LONG],
        ["train", LONG],
        ["train", "logs.npz", "--out", LONG],
        ["dynamics", "fit", "logs.npz", "--out", LONG],
        ["reach", "logs.npz", "--picture", LONG + ".png"],
        ["run", LONG],
        ["run", "logs.npz", "--out", LONG],
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG").replace("a/" * 2100, "DEEP"),
)
def test_names_that_no_file_can_have(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("logs.npz"))
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    told = capsys.readouterr().err
    assert caught.value.code == 2 and "File name too long" in told and "choose a shorter name" in told
    assert "space" not in told
    assert os.listdir() == ["logs.npz"]


def test_a_place_for_the_cache_that_no_file_can_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STACQ_HOME", f"/tmp/{LONG}")
    for command in (["data", "list"], ["data", "generate", "hopper-medium"], ["data", "inspect", "hopper-medium-v2"]):
        with pytest.raises(SystemExit, match="2"):
            main(command)
        assert "choose a shorter name" in capsys.readouterr().err


def test_the_longest_names_are_names() -> None:
    """What is hidden beside a file while it is written must not have a longer name."""
    file, folder = Path("n" * 250 + ".hdf5"), Path("r" * 255)
    write_hdf5(load(saved(Path("logs.npz"))), file)
    assert len(load(file)) == 50
    with Run(folder, {}):
        pass
    write_text(folder / ("t" * 255), "")
    assert {"config.json", "t" * 255} < {each.name for each in folder.iterdir()}


def test_the_name_of_a_dataset_may_be_longer_than_that_of_a_file(tmp_path: Path) -> None:
    dataset = from_arrays(**logged([20, 30], ["terminal", "timeout"]))
    names = []
    for name in (LONG, LONG + "1", "ö" * 300, "あ" * 300):
        named = replace(dataset, name=name)
        write_hdf5(replace(dataset, name=fitting(name)), tmp_path / "named.hdf5")
        for made in (short_name(named), picture_path(named).name):
            assert len(os.fsencode(made)) <= 150
            (tmp_path / made).touch()
        names.append(short_name(named))
    assert len(set(names)) == 4
    assert fitting("n" * MOST_OF_A_NAME) == "n" * MOST_OF_A_NAME


def test_what_is_told_of_a_name_in_another_encoding_is_written_down(tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"run-\xff")
    with Run(directory, {"out": str(directory)}) as run:
        run.log(f"going to {directory}")
    assert "/run-\\udcff\n" in (directory / "log.txt").read_text(encoding="utf-8")
    write_text(directory / "page.html", f"made in {directory}")
    assert (directory / "page.html").read_bytes().endswith(b"/run-\\udcff")
    dataset = from_arrays(**logged([2], ["terminal"]), conventions=Conventions(name=directory.name))
    write_hdf5(dataset, directory / "data.hdf5")
    assert load(directory / "data.hdf5").name == dataset.name == "run-\\udcff"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENAMETOOLONG, "choose a shorter name"),
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EACCES, "change its permissions"),
        (errno.EROFS, "change its permissions"),
    ],
)
def test_the_advice_fits_what_the_system_said(number: int, advice: str) -> None:
    told = unwritable("place", OSError(number, os.strerror(number))).fix
    assert advice in told and ("space" in told) == (number == errno.ENOSPC)


def test_errors_that_a_limit_on_memory_brings_about(monkeypatch: pytest.MonkeyPatch) -> None:
    about = [MemoryError(), RuntimeError("can't start new thread"), OSError(12, "Cannot allocate memory")]
    others: list[Exception] = [RuntimeError("something else"), OSError(28, "No space left on device")]
    assert [memory_error(error) for error in about] == [None] * 3
    monkeypatch.setattr("resource.getrlimit", lambda _: (3 << 30, 3 << 30))
    assert all("3,072 MiB" in str(memory_error(error)) for error in about)
    assert [memory_error(error) for error in others] == [None] * 2


class Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stream", [None, Full()])
def test_progress_that_nobody_can_be_told_stops_no_work(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    tell("10 of 20 rows")
    assert not on_terminal()

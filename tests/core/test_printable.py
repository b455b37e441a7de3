"""What a terminal would obey never reaches it: names, ids, keys and messages from outside show as what they are."""

import io
import re
import socketserver
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

import stacq
from arrays import logged
from stacq import Conventions, EpisodeRecord, InputError, Policy, load
from stacq.cli import main
from stacq.core.files import write_json
from stacq.core.printable import hidden, printable, printable_lines
from stacq.core.terminal import Console
from stacq.data.download import download
from stacq.data.hdf5 import write_hdf5
from stacq.data.registry import find
from stacq.pipeline.plan import short_name
from stacq.report.page import page_text, read_run
from stacq.runs.directory import Run, read_records

NASTY = "a\x1b]0;owned\x07\x1b[2Jb\nerror: call 555\r\u202e\x9b31m\ud800\u2028c [/red] :boom: $\\frac$"
SHOWN = r"a\x1b]0;owned\x07\x1b[2Jb\nerror: call 555\r\u202e\x9b31m\ud800\u2028c [/red] :boom: $\frac$"
STORABLE = NASTY.replace("\ud800", "")  # HDF5 holds no half characters


def clean(text: str) -> bool:
    return not any(hidden(line) for line in text.split("\n"))


def test_by_hand() -> None:
    assert printable(NASTY) == SHOWN
    assert printable_lines("one\x07\ntwo") == "one\\x07\ntwo"
    for plain in ("", "hopper-medium-v2", "Müller, 数据, \u00a0 – −1 °C", "C:\\new\\table", "e\u0301"):
        assert printable(plain) == plain and not hidden(plain)


@given(st.text(st.characters() | st.sampled_from("\ud800\x1b\u202e\n")))
def test_whatever_it_is_it_shows_and_stays_as_it_is_from_then_on(text: str) -> None:
    shown = printable(text)
    assert not hidden(shown) and printable(shown) == shown and shown.encode() is not None
    assert clean(printable_lines(text)) and printable_lines(text).count("\n") == text.count("\n")


def test_errors_show_it() -> None:
    error = InputError(NASTY, where=NASTY, expected=NASTY, fix=NASTY, details=[NASTY, NASTY])
    assert clean(str(error)) and str(error).count("\n") == 4 and str(error).count(SHOWN) == 6
    assert error.problem == NASTY  # as it was, for whoever looks for it


def test_the_console_shows_it() -> None:
    """As plain text, in a text with a style, in a table, beside a bar; colours are still told to a terminal."""
    stream = io.StringIO()
    console = Console(file=stream, width=300, force_terminal=True, color_system="truecolor")
    table = Table("column", title=NASTY)
    table.add_row(NASTY, style="bold")
    for each in (NASTY, Text(NASTY, style="red"), table):
        console.print(each, soft_wrap=True)
    with Progress(console=console) as bar:
        bar.add_task("plain", total=1)
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue().replace("\r", ""))
    assert clean(told) and "31m" not in re.sub(r"\\x9b31m", "", told)
    assert told.count(r"\x1b]0;owned") >= 4 and "[/red] :boom:" in told
    assert "\x1b[31m" in stream.getvalue()


def test_every_module_prints_to_this_console() -> None:
    """Rich's own would let control characters through; a module may still name it as a type."""
    for path in Path(stacq.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if path.name != "terminal.py" and "Console(" in text:
            assert "from stacq.core.terminal import Console" in text, path


def recorded() -> Path:
    np.savez("logs.npz", **logged([20, 30], ["terminal", "timeout"], sizes=(11, 3)))
    path = Path("logs.hdf5")
    write_hdf5(load("logs.npz", conventions=Conventions(name=STORABLE, env_id=STORABLE)), path)
    with h5py.File(path, "a") as file:
        file.attrs[f"made_by{STORABLE}"] = STORABLE
        file.create_dataset(f"Terminals{STORABLE.replace('/', '')}", data=np.zeros(50))
        file.create_dataset("timeout", data=np.zeros(50))
    return path


def said(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Everything that a command wrote, once it ended with this code."""
    ended: Any = 0
    try:
        main([str(each) for each in arguments])
    except SystemExit as error:
        ended = error.code
    out, err = capfd.readouterr()
    assert ended == code, out + err
    assert clean(out) and clean(err)
    return out + err


def test_a_dataset_with_nasty_names(capfd: pytest.CaptureFixture[str]) -> None:
    """Seen, drawn, converted and refused without obeying it."""
    path = recorded()
    told = said(capfd, "data", "inspect", path, "--out", "x.png")
    assert r"a\x1b]0;owned" in told
    assert "\nerror: call" not in told
    said(capfd, "data", "inspect", path, "--env", "Hopper-v4")
    said(capfd, "data", "convert", path, "other.hdf5")
    assert r"\x1b" in said(capfd, "train", path, "--algo", "bc", "--small", "--steps", 4, code=2)
    assert load("other.hdf5").name == STORABLE


def test_control_characters_are_refused_in_names_of_files(capfd: pytest.CaptureFixture[str]) -> None:
    """Before anything long begins, and before the directory is made."""
    with pytest.raises(InputError, match=r"dataset's name 'a\\x1b.*holds control characters"):
        short_name(load(recorded()))
    small = ("--algo", "bc", "--small", "--steps", 4, "--no-evaluate")
    assert "holds control characters" in said(capfd, "train", "logs.hdf5", *small, code=2)
    assert "holds control characters" in said(capfd, "run", "logs.hdf5", "--algos", "bc", "--env", "Hopper-v4", code=2)
    assert "is not a Minari dataset id" in said(capfd, "data", "convert", "logs.npz", f"minari:{NASTY}-v0", code=2)
    names = [path.name for path in Path.cwd().rglob("*")]
    assert not any(hidden(name) for name in names)


def test_a_received_run_with_nasty_names(capfd: pytest.CaptureFixture[str]) -> None:
    """It is scored and shown on a page; what is written of it has whole lines."""
    run = Path("received")
    Policy.from_mlp([np.zeros((2, 2))], [np.zeros(2)]).save(run / "policies" / "seed-0.safetensors")
    config = {"label": NASTY, "dataset": NASTY, "env": "stacq/Maze-stitching-v0", "seeds": [0], "total_steps": 10}
    write_json(run / "config.json", config | {"algorithm": NASTY, NASTY: NASTY})
    write_json(run / "result.json", {})
    told = said(capfd, "evaluate", run, "--episodes", 1, "--workers", 1, "--out", "scored")
    assert SHOWN in told
    assert [record.algorithm for record in read_records(Path("scored"))] == [SHOWN]
    log = (Path("scored") / "log.txt").read_text()
    assert clean(log) and log.count("\n") == 3
    said(capfd, "report", run, "scored", "--title", NASTY)
    page = Path("report.html").read_text()
    assert clean(page.replace("\t", "")) and r"owned\x07" in page


def test_records_with_any_name_are_read_again(tmp_path: Path) -> None:
    names = ["\u2028", "a\rb", "a\x85b", "\x0c\x1c", '"\n,', "\udcff", NASTY]
    with Run(tmp_path / "run", {}) as run:
        for step, name in enumerate(names):
            run.record(EpisodeRecord(name, name, 0, step, 0, 1.0, 1, None, None))
    found = read_records(tmp_path / "run")
    assert [(each.algorithm, each.step) for each in found] == [(printable(name), i) for i, name in enumerate(names)]
    assert len(page_text([read_run(tmp_path / "run")], title=NASTY).encode())


def test_paths_that_are_no_text_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    said(capfd, "maze", "--out", "no-\udcfftext")
    assert Path("no-\udcfftext").is_dir()


def test_what_a_server_says_is_shown() -> None:
    """Its reasons for a refusal are its own words."""

    class Rude(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 403 \x1b[2J\x9b31mgo away\r\nContent-Length: 0\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Rude) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match=r"403 \\x1b\[2J\\x9b31mgo away") as caught:
            download(find("hopper-medium-v2"), mirrors=[f"http://127.0.0.1:{server.server_address[1]}"])
        server.shutdown()
    assert clean(str(caught.value))

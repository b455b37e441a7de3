"""Files that are no files: pipes, devices, sockets and directories under the names that the package reads."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stacq
from stacq import InputError, Policy, load
from stacq.core.artefacts import kept_arrays, read_artefact, write_artefact
from stacq.core.files import write_json
from stacq.core.reading import (
    available_memory,
    check_claim,
    check_memory,
    check_regular,
    read_bytes,
    read_text,
    regular,
)
from stacq.data.download import download
from stacq.data.mirrors import mirror_urls
from stacq.data.registry import find
from stacq.pipeline.trained import read_trained
from stacq.runs.directory import Run, read_metrics, read_records
from stacq.runs.finished import read_finished
from stacq.runs.summary import read_run
from stacq.tabular.maze import read as read_maze

SOURCES = Path(stacq.__file__).parent
KINDS = {"pipe": "a named pipe", "device": "a device", "socket": "a socket", "directory": "a directory"}

pytestmark = pytest.mark.timeout(60)  # what is waited for never comes


def no_file(path: Path, kind: str) -> Path:
    """Something under this name that is not a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
        case _:
            os.chdir(path.parent)  # names of sockets are short
            socket.socket(socket.AF_UNIX).bind(path.name)
    return path


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the socket's name stays when the socket is gone
@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    path = no_file(tmp_path / "it", kind)
    for read in (regular, read_text, lambda place: read_bytes(place, 10), lambda place: check_regular(place, 10)):
        with pytest.raises(OSError, match=f"this is {KINDS[kind]}, not a file") as caught:
            entered(read(path))
        assert caught.value.filename == str(path)


def entered(found: Any) -> None:
    if hasattr(found, "__enter__"):
        with found:
            pass


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfone\r\ntwo\n")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "one\ntwo\n"


def test_no_more_is_read_than_allowed(tmp_path: Path) -> None:
    (tmp_path / "ten").write_bytes(bytes(10))
    assert len(read_bytes(tmp_path / "ten", 10)) == 10
    with pytest.raises(OSError, match="10 bytes or more, where at most 9 are read"):
        read_bytes(tmp_path / "ten", 9)
    with pytest.raises(OSError, match="at most 9"):
        check_regular(tmp_path / "ten", 9)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no files that hide their size")
def test_a_file_that_hides_its_size_is_read_no_further_either() -> None:
    assert os.stat("/proc/self/status").st_size == 0
    with pytest.raises(OSError, match="at most 20"):
        read_bytes("/proc/self/status", 20)


def test_what_is_no_name_of_a_file_is_told_like_a_missing_one() -> None:
    with pytest.raises(OSError, match="no name of a file"):
        read_text("a\0b")


def test_claims_are_held_against_the_file_and_the_memory() -> None:
    check_claim(200_000_000, 1000, "small.npz")  # whatever it is, it does no harm
    check_claim(40_000_000_000, 1_000_000_000, "large.npz")
    with pytest.raises(InputError, match=r"bomb.npz: its arrays claim 5,000,000,000 bytes, but the file has 5,000,000"):
        check_claim(5_000_000_000, 5_000_000, "bomb.npz")
    check_memory(1000, "small.npz")
    with pytest.raises(InputError, match=r"huge.npz: its arrays take .* GB, and .* GB of memory are free"):
        check_memory(available_memory() + 10**12, "huge.npz")


# --- Every reader of the package


def artefact(folder: Path) -> None:
    write_artefact(folder / "artefact", "thing", {"a": np.zeros(3)}, {}, {})


def run(folder: Path) -> None:
    with Run(folder / "run", {"label": "it"}) as begun:
        begun.metrics(1, {"loss": 0.5})


def finished_run(folder: Path) -> None:
    facts = {"total_steps": 1, "label": "it", "dataset": "d", "env": None, "seeds": [0]}
    (folder / "run" / "policies").mkdir(parents=True)
    write_json(folder / "run" / "config.json", facts)
    write_json(folder / "run" / "result.json", {})


def minari(folder: Path) -> None:
    facts = {"data_format": "hdf5", "total_episodes": 1, "observation_space": "{}", "action_space": "{}"}
    (folder / "minari" / "data").mkdir(parents=True)
    write_json(folder / "minari" / "data" / "metadata.json", facts)


def nothing(folder: Path) -> None:
    pass


READERS: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], object]]] = {
    "d4rl": (nothing, "it.hdf5", lambda folder: load(folder / "it.hdf5")),
    "no suffix": (nothing, "it", lambda folder: load(folder / "it")),
    "npz": (nothing, "it.npz", lambda folder: load(folder / "it.npz")),
    "in the cache": (nothing, "home/data/d4rl/hopper_medium-v2.hdf5", lambda _: load("hopper-medium-v2")),
    "by hand": (nothing, "home/data/d4rl/hopper_medium-v2.hdf5", lambda _: download(find("hopper-medium-v2"))),
    "mirrors": (nothing, "home/config.toml", lambda _: mirror_urls(find("hopper-medium-v2"), None, verifiable=True)),
    "minari's metadata": (minari, "minari/data/metadata.json", lambda folder: load(folder / "minari")),
    "minari's data": (minari, "minari/data/main_data.hdf5", lambda folder: load(folder / "minari")),
    "maze": (nothing, "maze.txt", lambda folder: read_maze(folder / "maze.txt")),
    "policy": (nothing, "it.safetensors", lambda folder: Policy.load(folder / "it.safetensors")),
    "manifest": (artefact, "artefact/manifest.json", lambda folder: read_artefact(folder / "artefact", "thing")),
    "arrays": (artefact, "artefact/arrays.safetensors", lambda folder: read_artefact(folder / "artefact", "thing")),
    "manifest in the way": (
        artefact,
        "artefact/manifest.json",
        lambda folder: write_artefact(folder / "artefact", "thing", {}, {}, {}),
    ),
    "part of an artefact": (nothing, "part.npz", lambda folder: kept_arrays(folder / "part.npz", dict)),
    "metrics": (run, "run/metrics.jsonl", lambda folder: read_metrics(folder / "run")),
    "records": (run, "run/records.csv", lambda folder: read_records(folder / "run")),
    "begun run": (run, "run/config.json", lambda folder: Run(folder / "run", {}, resume=True)),
    "environment": (run, "run/environment.json", lambda folder: read_run(folder / "run")),
    "finished run": (finished_run, "run/config.json", lambda folder: read_finished(folder / "run")),
    "result": (finished_run, "run/result.json", lambda folder: read_trained(folder / "run")),
    "its policy": (finished_run, "run/policies/seed-0.safetensors", lambda folder: read_finished(folder / "run")),
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_them_at_once(tmp_path: Path, name: str, kind: str) -> None:
    prepare, place, read = READERS[name]
    prepare(tmp_path)
    (tmp_path / place).unlink(missing_ok=True)
    no_file(tmp_path / place, kind)
    with pytest.raises(InputError):
        read(tmp_path)


NOT_FROM_OUTSIDE = {
    "core/reading.py": "the reader of all the others, and /proc/meminfo",
    "nn/precision.py": "/proc/cpuinfo",
    "report/page.py": "shipped",
    "tabular/maze.py": "the shipped mazes",
    "data/hdf5_child.py": "opens what `regular` let through",
    "study/children.py": "the log of a process that it started itself",
    "study/estimate.py": "shipped",
    "study/plan.py": "the shipped studies; those of users go through `reading`",
    "study/published.py": "shipped",
}
READING = re.compile(r"\.read_(text|bytes)\(|\b(np|json|tomllib)\.load\(|h5py\.File\([^\n]*[\"']r[\"']")


def test_no_reader_opens_a_file_by_itself() -> None:
    """Whoever reads a file goes through `reading`, and libraries that open by name get only what it has looked at."""
    texts = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    found = {name for name, text in texts.items() if READING.search(text)}
    assert found == set(NOT_FROM_OUTSIDE)
    for name, text in texts.items():
        if re.search(r"\b(safe_open|load_file)\(", text):
            assert "check_regular(" in text, name

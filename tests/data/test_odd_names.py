"""Names and texts that are no UTF-8: of files, and in files."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from arrays import logged
from stacq import InputError, load
from stacq.data.hdf5 import write_hdf5

RAW = logged([20, 30], ["terminal", "timeout"])
ODD = os.fsdecode(b"caf\xe9")


def written(path: Path) -> Path:
    if path.suffix == ".npz":
        with open(path, "wb") as handle:
            np.savez(handle, **RAW)
    else:
        with h5py.File(os.fsencode(path), "w") as file:
            for key, value in RAW.items():
                file[key] = value
    return path


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ""])
def test_a_file_whose_name_is_no_utf_8_is_read(tmp_path: Path, suffix: str) -> None:
    dataset = load(written(tmp_path / f"{ODD}{suffix}"))
    assert dataset.name == "caf\ufffd"
    write_hdf5(dataset, tmp_path / "again.hdf5")
    assert load(tmp_path / "again.hdf5").name == "caf\ufffd"


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_and_refused_in_the_usual_words(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"{ODD}{suffix}").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=f"{ODD}{suffix}: "):
        load(tmp_path / f"{ODD}{suffix}")


def test_the_command_line_takes_such_names(tmp_path: Path) -> None:
    run: list[str | bytes] = [
        sys.executable,
        "-m",
        "stacq",
        "data",
        "inspect",
        os.fsencode(written(tmp_path / f"{ODD}.hdf5")),
    ]
    subprocess.run(run, capture_output=True, check=True, timeout=100)


def test_attributes_that_are_no_utf_8(tmp_path: Path) -> None:
    path = written(tmp_path / "it.hdf5")
    with h5py.File(path, "a") as file:
        kind = h5py.string_dtype("utf-8", 5)
        for key in ("name", "env_id", "by"):
            file.attrs.create(key, b"a\xe9b", dtype=h5py.string_dtype("utf-8"))
        file.attrs.create("short", b"a\xe9b", dtype=kind)
        file.attrs["action_low"], file.attrs["action_high"] = -2.0, np.array([1.0, 2.0])
    dataset = load(path)
    assert (dataset.name, dataset.env_id, dataset.provenance["by"]) == ("a\ufffdb", "a\ufffdb", "a\ufffdb")
    assert dataset.action_low.tolist() == [-2, -2] and dataset.action_high.tolist() == [1, 2]


@pytest.mark.parametrize("value", ["none", "1.0"])
def test_bounds_that_are_text_are_refused(tmp_path: Path, value: str) -> None:
    path = written(tmp_path / "it.hdf5")
    with h5py.File(path, "a") as file:
        file.attrs["action_low"] = value
    with pytest.raises(InputError, match=f"attribute 'action_low' is text: '{value}'"):
        load(path)


def test_names_that_are_too_long(tmp_path: Path) -> None:
    for name in ("x" * 300, "x" * 300 + ".hdf5", "x" * 300 + ".npz", "minari:" + "x" * 300, "a\0b.hdf5", "a\0b.npz"):
        with pytest.raises(InputError):
            load(name)

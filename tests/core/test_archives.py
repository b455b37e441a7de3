"""NumPy archives that claim more than they hold, or are cut and flipped where it hurts."""

import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from stacq.core.archives import BrokenArchive, opened, read_archive
from stacq.core.errors import InputError


def header(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    """What stands before the values of an array, with any text for its facts."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return npy.magic(*version) + length + text.encode("latin-1")


def archive(path: Path, content: bytes, packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        file.writestr("a.npy", content)
    return path


def test_arrays_come_back(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.ones((2, 3), ">i2")), "c": np.zeros((0, 3))}
    np.savez(tmp_path / "plain.npz", **arrays)  # type: ignore[arg-type]
    np.savez_compressed(tmp_path / "packed.npz", **arrays)  # type: ignore[arg-type]
    for name in ("plain", "packed"):
        found = read_archive(tmp_path / f"{name}.npz")
        assert list(found) == list(arrays)
        for key, value in arrays.items():
            np.testing.assert_array_equal(found[key], value)
            assert found[key].dtype == value.dtype


FACTS = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (npy.magic(1, 0), "cannot be read"),
        (header(FACTS)[:20], "cannot be read"),
        (header(FACTS[:30]) + bytes(24), "cannot be read"),
        (header(FACTS.replace("'shape'", "'shape")) + bytes(24), "cannot be read"),
        (header(FACTS.replace("(2, 3)", "(2, ")) + bytes(24), "cannot be read"),
        (header(FACTS.replace("<f4", "<q4")) + bytes(24), "cannot be read"),
        (header("(" * 5000) + bytes(24), "cannot be read"),
        (header(FACTS, (3, 0)) + bytes(24), "version"),
        (header(FACTS.replace("(2, 3)", "(-2, -3)")) + bytes(24), "claims shape"),
        (header(FACTS.replace("<f4", "|S0")) + bytes(24), "claims shape"),
        (header(FACTS.replace("<f4", "|O")) + bytes(48), "pickles"),
        (header(FACTS) + bytes(23), "claims shape"),
        (header(FACTS) + bytes(25), "claims shape"),
        (header(FACTS.replace("(2, 3)", "(2000000000, 3000000000)")) + bytes(24), "claims shape"),
    ],
    ids=map(str, range(15)),
)
def test_a_header_that_is_not_so_is_told(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(BrokenArchive, match=rf"'a' .*{problem}"):
        read_archive(archive(tmp_path / "it.npz", content))


def test_every_cut_and_flip_of_a_header_is_told(tmp_path: Path) -> None:
    """What is still an array is read, anything else is a broken archive, and no other exception comes through."""
    stream = io.BytesIO()
    npy.write_array(stream, np.ones((2, 3), np.float32))
    whole, told = stream.getvalue(), 0
    flipped = [
        bytes([*whole[:place], whole[place] ^ 1 << bit, *whole[place + 1 :]])
        for place in range(70)
        for bit in (0, 3, 6)
    ]
    for content in [*flipped, *(whole[:place] for place in range(0, len(whole), 3))]:
        try:
            assert read_archive(archive(tmp_path / "it.npz", content))["a"].size <= 24
        except BrokenArchive:
            told += 1
    assert told > 150


def test_other_packings_are_refused(tmp_path: Path) -> None:
    content = header(FACTS) + bytes(24)
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(BrokenArchive, match="packed in a way"):
            read_archive(archive(tmp_path / "it.npz", content, packing))


def bomb(path: Path, megabytes: int) -> Path:
    """An honest archive of zeros, a thousandth of what it unpacks to, written without having it in memory."""
    rows = megabytes * 10**6 // 8
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for key in ("observations", "actions"):
            with file.open(f"{key}.npy", "w", force_zip64=True) as stream:
                npy.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (rows, 1)})
                for _ in range(megabytes // 2):
                    stream.write(bytes(10**6))
    return path


def test_a_bomb_is_refused_by_its_headers(tmp_path: Path) -> None:
    """Reading it takes a fraction of the memory that it claims."""
    path = bomb(tmp_path / "bomb.npz", 400)
    assert path.stat().st_size < 4 * 10**6
    with opened(path) as file, pytest.raises(InputError, match="its arrays claim 400,000,000 bytes"):
        file.read({name: file.header(name) for name in file.names})
    code = f"""
import resource
from stacq import InputError, load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load({str(path)!r})
except InputError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100, run.stderr  # MB more than importing took


def test_what_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: dict[str, Any] = {"a": np.zeros(1000)}
    np.savez(tmp_path / "it.npz", **arrays)
    assert len(read_archive(tmp_path / "it.npz")["a"]) == 1000
    monkeypatch.setattr("stacq.core.reading.available_memory", lambda: 7999)
    with pytest.raises(InputError, match="of memory are free"):
        read_archive(tmp_path / "it.npz")

"""A full disk is told in one message, leaves nothing behind, and leaves what was there as it was."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WRITERS = ["hdf5", "minari", "artefact", "parts", "policy", "png", "svg", "json", "run"]


def refusals(kind: str, folder: Path, step: int, others: int) -> dict[str, int]:
    """By writer, how often it was refused before there was room; whatever else happened is printed by the program."""
    paths = os.pathsep.join([str(HERE), str(HERE / "data"), *sys.path])
    command = [sys.executable, str(HERE / "full_disks.py"), kind, str(folder), str(step), str(others)]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env={**os.environ, "PYTHONPATH": paths}
    )
    assert answer.returncode == 0 and "exit code" not in answer.stdout, answer.stdout + answer.stderr
    lines = [line.removesuffix(" refused, then written").split(": ") for line in answer.stdout.splitlines()]
    return {name: int(count) for name, count in lines}


def test_files_of_limited_size(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    found = refusals("limit", tmp_path / "disk", 2_048, 16_384)
    assert list(found) == WRITERS and all(found.values())
    assert found["hdf5"] >= 10 and found["minari"] >= 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root may mount a file system")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.slow
def test_a_disk_with_more_and_more_room(small_disk: Path) -> None:
    found = refusals("disk", small_disk, 2_048, 2_048)
    assert list(found) == WRITERS and all(count > 3 for count in found.values())

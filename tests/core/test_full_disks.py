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
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "data"), *sys.path])
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


def stacq(*arguments: str, home: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "stacq", *arguments]
    environment = {**os.environ, "STACQ_HOME": str(home)}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)
    return answer.returncode, answer.stderr


@pytest.mark.slow
def test_the_command_goes_on_when_there_is_room(small_disk: Path) -> None:
    command = ("data", "generate", "hopper-random", "--size", "1000", "--workers", "1")
    home, ballast = small_disk / "home", small_disk / "ballast"
    free = os.statvfs(small_disk)
    for room in (0, 8_192, 65_536, 131_072):
        ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - room))
        code, told = stacq(*command, home=home)
        assert code == 2 and told.count("\n") == 3 and "cannot write: No space left on device" in told
        assert [path for path in small_disk.rglob("*") if path.is_file()] == [ballast]
    ballast.unlink()
    assert stacq(*command, home=home) == (0, "")
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["hopper-random-v0@1000.hdf5"]


@pytest.mark.slow
def test_a_disk_with_more_and_more_room(small_disk: Path) -> None:
    found = refusals("disk", small_disk, 2_048, 2_048)
    assert list(found) == WRITERS and all(count > 3 for count in found.values())

"""Thousands of damaged files: each ends in a Dataset or in a clear error, none in a traceback, crash or hang.

They are read in processes of their own, whose end is a failure, and which end themselves if one file hangs.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz.py")


def read_mutants(folder: Path, first: int, last: int) -> str:
    run = [sys.executable, str(SCRIPT), str(folder), str(first), str(last)]
    process = subprocess.run(run, capture_output=True, text=True, timeout=240, check=False)
    lines = process.stdout.splitlines()
    failures = [line for line in lines if line.startswith("FAILED")]
    assert not failures, "\n".join(failures)
    assert process.returncode == 0, f"died {lines[-1:]}: {process.stderr[-2000:]}"
    assert lines[-1].startswith("DONE")
    return lines[-1]


@pytest.mark.parametrize("first", [0, pytest.param(1800, marks=pytest.mark.slow)])
def test_mutated_files(tmp_path: Path, first: int) -> None:
    summary = read_mutants(tmp_path, first, first + 1800)
    assert "'read': 0" not in summary and "'refused': 0" not in summary, summary


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 30_000, 2_500))
def test_many_mutated_files(tmp_path: Path, first: int) -> None:
    read_mutants(tmp_path, first, first + 2500)

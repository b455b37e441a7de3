"""Loading two million rows of 17 + 6 numbers: time beside plain h5py, and resident memory.

    python benchmarks/loading.py

Both sides read the same file in turn, from the page cache; the ratio of medians is the result.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from stacq.data.hdf5 import read_hdf5

ROWS, KEYS = 2_000_000, ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")


def write(path: Path, **options: Any) -> None:
    """Episodes of 1,000 rows that end by timeout, successors stored, as in D4RL's v2 files."""
    rng = np.random.default_rng(0)
    walk = rng.standard_normal((ROWS // 1000, 1001, 17), dtype=np.float32)
    timeouts = np.zeros(ROWS, dtype=bool)
    timeouts[999::1000] = True
    arrays = {
        "observations": walk[:, :-1].reshape(ROWS, 17),
        "actions": rng.uniform(-1, 1, (ROWS, 6)).astype(np.float32),
        "rewards": rng.standard_normal(ROWS, dtype=np.float32),
        "terminals": np.zeros(ROWS, dtype=bool),
        "timeouts": timeouts,
        "next_observations": walk[:, 1:].reshape(ROWS, 17),
    }
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file.create_dataset(key, data=value, **options)


def plain(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {key: file[key][()] for key in KEYS}


def seconds(function: Callable[[Path], Any], path: Path) -> float:
    started = time.perf_counter()
    kept = function(path)
    elapsed = time.perf_counter() - started
    del kept
    return elapsed


def compare(label: str, path: Path, rounds: int) -> None:
    ours, theirs = [], []
    for _ in range(rounds + 1):
        theirs.append(seconds(plain, path))
        ours.append(seconds(read_hdf5, path))
    first, second = statistics.median(theirs[1:]), statistics.median(ours[1:])
    print(f"{label:<16} h5py {first:7.3f} s   stacq {second:7.3f} s   ratio {second / first:5.2f}")


def peak_memory(path: Path) -> float:
    """Peak resident gigabytes of a fresh process that loads the file."""
    code = f"from stacq import load; import resource; load({str(path)!r}); " + (
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    return int(answer.stdout) * unit / 1e9


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for label, options, rounds in (("contiguous", {}, 15), ("gzip, chunked", {"compression": "gzip"}, 3)):
            path = Path(folder) / "rows.hdf5"
            write(path, **options)
            compare(label, path, rounds)
            print(f"{'':<16} peak resident memory {peak_memory(path):.2f} GB")


if __name__ == "__main__":
    main()

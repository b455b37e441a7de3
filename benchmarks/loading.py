"""Loading two million rows of 17 + 6 numbers: time beside plain h5py, what the guard costs, and resident memory.

    python benchmarks/loading.py

All sides read the same file of 330 MB in turn, from the page cache; the ratios of medians are the result. `unguarded`
reads it with h5py in this process and makes the same dataset of it. `first` is the first file of a process, which
starts the one that opens files.
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

from stacq.data.border import assemble
from stacq.data.conventions import NOTHING_STATED
from stacq.data.dataset import Dataset
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


def unguarded(path: Path) -> Dataset:
    return assemble(plain(path), {}, where=str(path), conventions=NOTHING_STATED)


def seconds(function: Callable[[Path], Any], path: Path) -> float:
    started = time.perf_counter()
    kept = function(path)
    elapsed = time.perf_counter() - started
    del kept
    return elapsed


def compare(label: str, path: Path, rounds: int) -> None:
    sides: tuple[Callable[[Path], Any], ...] = (plain, unguarded, read_hdf5)
    taken = [[seconds(side, path) for side in sides] for _ in range(rounds + 1)]
    theirs, bare, ours = (statistics.median(each) for each in zip(*taken[1:], strict=True))
    print(f"{label:<16} h5py {theirs:7.3f} s   unguarded {bare:7.3f} s   stacq {ours:7.3f} s", end="   ")
    print(f"to h5py {ours / theirs:5.2f}   to unguarded {ours / bare:5.2f}")
    firsts = [(first("unguarded", path), first("read_hdf5", path)) for _ in range(5)]
    bare, ours = (statistics.median(each) for each in zip(*firsts, strict=True))
    print(f"{'':<16} first: unguarded {bare:7.3f} s   stacq {ours:7.3f} s   {ours - bare:+.3f} s")


def first(function: str, path: Path) -> float:
    """Seconds that a fresh process takes for it, with all that it imports for that."""
    code = (
        f"import time; begun = time.perf_counter(); from loading import {function} as read; from pathlib import Path\n"
    )
    code += f"read(Path({str(path)!r})); print(time.perf_counter() - begun)"
    run = [sys.executable, "-c", code]
    return float(subprocess.run(run, capture_output=True, text=True, check=True, cwd=Path(__file__).parent).stdout)


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

"""Mutate HDF5 and npz files and read them; run as a process of its own, because a C library may crash.

    python fuzz.py FOLDER FIRST LAST

For each number a seeded mutation of a valid file is read. Anything but a Dataset or an InputError is
reported on standard output with the number that repeats it.
"""

import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from arrays import logged
from stacq import Dataset, InputError, load

SECONDS = 10.0  # for one small file; more is a hang


def originals(folder: Path) -> list[Path]:
    """One file per storage layout and D4RL version."""
    raw = logged([20, 30, 10], ["terminal", "timeout", "cut"], sizes=(5, 2))
    old = {key: value for key, value in raw.items() if key not in ("timeouts", "next_observations")}
    layouts: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (raw, {}),
        (raw, {"compression": "gzip"}),
        (old, {}),
        ({**raw, "infos/successor_known": np.ones(60, dtype=bool), "infos/qpos": np.zeros((60, 3))}, {}),
    ]
    paths = []
    for number, (arrays, options) in enumerate(layouts):
        paths.append(folder / f"original{number}.hdf5")
        with h5py.File(paths[-1], "w", libver="latest" if number % 2 else "earliest") as file:
            for key, value in arrays.items():
                file.create_dataset(key, data=value, **options)
    np.savez(folder / "original.npz", **raw)
    np.savez_compressed(folder / "compressed.npz", **raw)
    return [*paths, folder / "original.npz", folder / "compressed.npz"]


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip, overwrite, cut, double or shift bytes, most often in the headers, where it hurts."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        limit = len(data) if rng.random() < 0.3 else min(len(data), 4096)
        place = int(rng.integers(max(limit, 1)))
        length = int(rng.integers(1, 64))
        match int(rng.integers(6)):
            case 0:
                data[place : place + 1] = bytes([int(rng.integers(256))])
            case 1:
                data[place : place + length] = bytes(length)
            case 2:
                data[place : place + length] = b"\xff" * length
            case 3:
                del data[place:]
            case 4:
                del data[place : place + length]
            case _:
                data[place:place] = data[place : place + length]
    return bytes(data)


def rearrange(path: Path, rng: np.random.Generator) -> None:
    """Well-formed HDF5 with ill-formed contents: keys removed, retyped, reshaped, resized or poisoned."""
    with h5py.File(path, "a") as file:
        keys = [key for key in file if isinstance(file[key], h5py.Dataset)]
        key = keys[int(rng.integers(len(keys)))]
        value = file[key][()]
        del file[key]
        match int(rng.integers(8)):
            case 0:
                pass
            case 1:
                file[key] = value[: int(rng.integers(len(value)))]
            case 2:
                file[key] = value[..., None]
            case 3:
                file[key] = value.astype("S8")
            case 4:
                file[key] = np.full(value.shape, [np.nan, np.inf, -np.inf, 1e30, 2.0][int(rng.integers(5))])
            case 5:
                file[key] = float(rng.random())
            case 6:
                file.create_group(key)
            case _:
                file[key] = value.astype([np.int8, np.float16, np.complex64, ">f8"][int(rng.integers(4))])


def outcome(path: Path) -> str:
    """'read' or 'refused' if the file ended as it may, else what happened instead."""
    started = time.monotonic()
    result = "refused"
    try:
        dataset = load(path)
        assert isinstance(dataset, Dataset) and len(dataset) >= 2
        result = "read"
    except InputError as error:
        if path.name not in str(error):
            return f"error without the file's name: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    return f"took {seconds:.1f} s" if seconds > SECONDS else result


def main(folder: Path, first: int, last: int) -> None:
    sources = originals(folder)
    counts = {"read": 0, "refused": 0}
    for number in range(first, last):
        rng = np.random.default_rng(number)
        source = sources[number % len(sources)]
        path = folder / f"mutant{number}{source.suffix}"
        well_formed = number % 5 == 0 and source.suffix == ".hdf5"
        path.write_bytes(source.read_bytes() if well_formed else mutate(source.read_bytes(), rng))
        if well_formed:
            rearrange(path, rng)
        print(f"at {number}", flush=True)
        result = outcome(path)
        if result in counts:
            counts[result] += 1
        else:
            print(f"FAILED {number}: {result}", flush=True)
        path.unlink()
    print(f"DONE {counts}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

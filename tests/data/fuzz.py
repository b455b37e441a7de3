"""Mutate HDF5 and npz files and Minari datasets and read them.

    python fuzz.py FOLDER FIRST LAST

For each number a seeded mutation of a valid file is read. Anything but a Dataset or an InputError is reported on
standard output with the number that repeats it, and so is what takes too long or too much memory. It runs as a process
of its own: one that crashes, or hangs in a C library where no signal reaches it, ends with an exit code, and the number
it was at stands in the last line.
"""

import faulthandler
import json
import resource
import shutil
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from arrays import logged
from hdf5_damage import crash, loop
from stacq import Dataset, InputError, load

SECONDS = 60.0  # for one small file, on a busy machine; more is a hang
MEGABYTES = 500  # of this process beyond what it has at the start
KNOWN = 7 * 56  # mutants to one that is known to stop or to end the library; there are seven originals
DEADLY = {0: loop, KNOWN // 2: crash}
STRUCTURES = (b"TREE", b"SNOD", b"HEAP", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"BTHD", b"BTLF", b"FSHD", b"GCOL")


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
    return [*paths, folder / "original.npz", folder / "compressed.npz", minari(folder / "minari", raw)]


def minari(folder: Path, raw: dict[str, Any]) -> Path:
    """A dataset of three episodes, as Minari lays them out."""
    (folder / "data").mkdir(parents=True)
    spaces: dict[str, dict[str, Any]] = {
        name: {"type": "Box", "dtype": "float32", "shape": [size]} for name, size in (("o", 5), ("a", 2))
    }
    about = {"data_format": "hdf5", "total_episodes": 3, "total_steps": 60, "dataset_id": "mutant-v0"}
    for key, name, bound in (("observation_space", "o", float("inf")), ("action_space", "a", 1.0)):
        size = spaces[name]["shape"][0]
        about[key] = json.dumps({**spaces[name], "low": [-bound] * size, "high": [bound] * size})
    (folder / "data" / "metadata.json").write_text(json.dumps(about))
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for number, rows in enumerate((slice(0, 20), slice(20, 50), slice(50, 60))):
            seen = np.concatenate([raw["observations"][rows], raw["next_observations"][rows][-1:]])
            columns = {
                "actions": "actions",
                "rewards": "rewards",
                "terminations": "terminals",
                "truncations": "timeouts",
            }
            arrays = {"observations": seen, **{theirs: raw[ours][rows] for theirs, ours in columns.items()}}
            for key, value in arrays.items():
                file.create_dataset(
                    f"episode_{number}/{key}", data=value, chunks=True, maxshape=(None, *value.shape[1:])
                )
    return folder


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


def aim(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one of HDF5's own structures: flip a bit of it, or let an address in it lead to itself or another one."""
    data = bytearray(content)
    places = [place for name in STRUCTURES for place in found(data, name)]
    place = places[int(rng.integers(len(places)))]
    target = place + int(rng.integers(64))
    if rng.random() < 0.5:
        data[min(target, len(data) - 1)] ^= 1 << int(rng.integers(8))
    elif target + 8 <= len(data):
        address = place if rng.random() < 0.5 else places[int(rng.integers(len(places)))]
        struct.pack_into("<Q", data, place + 8 * ((target - place) // 8), address)
        data[place + 5] ^= int(rng.random() < 0.5)
    return bytes(data)


def found(data: bytearray, name: bytes) -> list[int]:
    places, place = [], data.find(name)
    while place >= 0:
        places.append(place)
        place = data.find(name, place + 1)
    return places


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


def outcome(path: Path, allowed: int) -> str:
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
    if memory() > allowed:
        return f"took {memory()} MB"
    return f"took {seconds:.1f} s" if seconds > SECONDS else result


def memory() -> int:
    """The most that this process ever had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)


def mutant(source: Path, path: Path, number: int) -> None:
    """A damaged copy of a file, or of a directory with one damaged file in it."""
    rng = np.random.default_rng(number)
    if source.is_dir():
        shutil.copytree(source, path)
        files = sorted((path / "data").iterdir())
        path = source = files[number % len(files)]
    change: Callable[[bytes, np.random.Generator], bytes] = mutate
    if source.suffix == ".hdf5" and number % 25 < 2:
        change = aim
    deadly = number % KNOWN in DEADLY  # of the first original alone
    well_formed = number % 5 == 4 and source.suffix == ".hdf5" and source.parent.name != "data"
    content = source.read_bytes()
    path.write_bytes(content if well_formed or deadly else change(content, rng))
    if deadly:
        DEADLY[number % KNOWN](path)
    elif well_formed:
        rearrange(path, rng)


def main(folder: Path, first: int, last: int) -> None:
    sources = originals(folder)
    counts = {"read": 0, "refused": 0}
    allowed = memory() + MEGABYTES
    for number in range(first, last):
        source = sources[number % len(sources)]
        path = folder / f"mutant{number}{source.suffix}"
        mutant(source, path, number)
        print(f"at {number}", flush=True)
        faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
        result = outcome(path, allowed)
        faulthandler.cancel_dump_traceback_later()
        if result in counts:
            counts[result] += 1
        else:
            print(f"FAILED {number}: {result}", flush=True)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(f"DONE {counts}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""Files that no accident makes: built to reach beyond themselves, to fill the memory, to run code or never to end."""

import io
import json
import os
import pickle
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from arrays import logged
from attack.mutations import saved, zipped
from attack.samples import ROWS, SIZES
from attack.targets import read_data

COUNT = sum(ROWS[0])
SECRET = b"root:x:0:0:this is not data:" * 400
BOMB = 3 << 28  # bytes that a file of a thousandth of that size inflates to


@dataclass(frozen=True)
class Crafted:
    """A file that must be refused: `build` makes it in a folder and says what is to be read."""

    name: str
    build: Callable[[Path], Path]
    read: Callable[[Path], object] = read_data
    refused: bool = True


def raw() -> dict[str, Any]:
    return logged(*ROWS, sizes=SIZES)


def hdf5_with(change: Callable[[h5py.File], None], *without: str) -> Callable[[Path], Path]:
    """A D4RL file beside a secret one, with something odd in it."""

    def build(folder: Path) -> Path:
        _secrets(folder)
        path = folder / "data.hdf5"
        with h5py.File(path, "w", libver="latest") as file:
            for key, value in raw().items():
                if key not in without:
                    file[key] = value
            change(file)
        return path

    return build


def minari_with(change: Callable[[h5py.Group], None], without: str) -> Callable[[Path], Path]:
    """Minari's directory, with something odd in its first episode."""

    def build(folder: Path) -> Path:
        from stacq.data.load import load
        from stacq.data.minari_write import write_minari

        _secrets(folder)
        os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
        np.savez(folder / "logs.npz", **raw())
        directory = write_minari(load(folder / "logs.npz"), "mine/odd-v0")
        with h5py.File(directory / "data" / "main_data.hdf5", "a") as file:
            del file[f"episode_0/{without}"]
            change(file["episode_0"])
        return directory

    return build


def _secrets(folder: Path) -> None:
    (folder / "secret").write_bytes(SECRET)
    with h5py.File(folder / "secret.hdf5", "w") as file:
        file["observations"] = raw()["observations"]
        file["rewards"] = np.ones(ROWS[0][0])


def external(key: str, shape: tuple[int, ...], kind: str = "f4") -> Callable[[Any], None]:
    size = int(np.prod(shape)) * int(kind[1])

    def change(group: Any) -> None:
        place = group.file.filename
        group.create_dataset(key, shape, kind, external=[(str(Path(place).with_name("secret").resolve()), 0, size)])

    return change


def link(key: str, target: str) -> Callable[[Any], None]:
    def change(group: Any) -> None:
        group[key] = h5py.ExternalLink("secret.hdf5", target)

    return change


def virtual(key: str, shape: tuple[int, ...], file: str, source: str) -> Callable[[Any], None]:
    def change(group: Any) -> None:
        plan = h5py.VirtualLayout(shape, "f4")
        plan[...] = h5py.VirtualSource(file, source, shape)
        group.create_virtual_dataset(key, plan)

    return change


def soft(key: str, target: str) -> Callable[[Any], None]:
    def change(group: Any) -> None:
        group[key] = h5py.SoftLink(target)

    return change


def inflating(file: Any) -> None:
    """One compressed chunk, written a thousand times under one name."""
    width = BOMB // COUNT // 8
    node = file.create_dataset("infos/wide", (COUNT, width), "f8", chunks=(1, width), compression="gzip")
    packed = zlib.compress(bytes(8 * width), 9)
    for row in range(COUNT):
        node.id.write_direct_chunk((row, 0), packed)


def looped(file: Any) -> None:
    file["infos/self"] = file["infos"] if "infos" in file else file.create_group("infos")


class Mark:
    """Unpickled, it leaves a mark."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.place,))


def pickled(folder: Path) -> Path:
    """An archive whose rewards are objects; read as such they would leave a mark."""
    arrays = raw()
    arrays["rewards"] = np.array([Mark(folder / "MARK")] * COUNT, dtype=object)
    with io.BytesIO() as handle:
        np.lib.format.write_array(handle, np.zeros(COUNT))
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
        text = f"{{'descr': '|O', 'fortran_order': False, 'shape': ({COUNT},), }}".ljust(117) + "\n"
        rewards = head + text.encode() + pickle.dumps(arrays["rewards"])
    members = {f"{key}.npy": saved(value) for key, value in arrays.items() if key != "rewards"}
    path = folder / "data.npz"
    path.write_bytes(zipped({**members, "rewards.npy": rewards}))
    return path


def bomb(folder: Path) -> Path:
    """An archive of zeros, packed without ever making them."""
    rows = BOMB // 8
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begun = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = begun + block * (BOMB >> 20) + b"\x03\x00"
    path = folder / "data.npz"
    path.write_bytes(_archive("observations.npy", packed, len(head) + BOMB))
    return path


def _archive(name: str, packed: bytes, size: int) -> bytes:
    """A zip file of one deflated member. Its checksum is wrong, which shows when all is read."""
    fixed = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, 0, len(packed), size, len(name), 0)
    local = b"PK\x03\x04" + fixed + name.encode() + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fixed + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name.encode()
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def sparse(name: str, head: bytes) -> Callable[[Path], Path]:
    """Ten gigabytes that take no place on the disk."""

    def build(folder: Path) -> Path:
        with open(folder / name, "wb") as handle:
            handle.write(head)
            handle.truncate(10 << 30)
        return folder / name

    return build


def mapped(key: str, text: str) -> Callable[[Path], Path]:
    """A table, and a mapping in which a formula is code."""

    def build(folder: Path) -> Path:
        (folder / "data.csv").write_text("x,u\n0,0.5\n1,0.5\n2,0.5\n", encoding="utf-8")
        place = str(folder / "MARK")
        lines = {"observations": '["x"]', "actions": '["u"]', "reward": '"x"', key: json.dumps(text.format(place))}
        mapping = folder / "columns.toml"
        mapping.write_text("\n".join(f"{name} = {value}" for name, value in lines.items()), encoding="utf-8")
        return mapping

    return build


def read_mapped(path: Path) -> object:
    from stacq.data.load import load

    return load(path.with_name("data.csv"), columns=path)


def read_proposed(path: Path) -> object:
    from stacq.data.proposal import proposal

    return proposal(path)


def read_toml(path: Path) -> object:
    from stacq.tabular.maze import read

    return read(path)


SHAPE = (COUNT, SIZES[0])
FIRST = (ROWS[0][0],)
CRAFTED = (
    Crafted("external storage", hdf5_with(external("observations", SHAPE), "observations")),
    Crafted("external storage of an extra", hdf5_with(external("infos/x", SHAPE))),
    Crafted("external link", hdf5_with(link("observations", "/observations"), "observations")),
    Crafted("external link of infos", hdf5_with(link("infos", "/"))),
    Crafted(
        "virtual dataset", hdf5_with(virtual("observations", SHAPE, "secret.hdf5", "observations"), "observations")
    ),
    Crafted(
        "virtual dataset of itself", hdf5_with(virtual("observations", SHAPE, ".", "observations"), "observations")
    ),
    Crafted("virtual extra of itself", hdf5_with(virtual("infos/x", SHAPE, ".", "infos/x"))),
    Crafted("soft link in a circle", hdf5_with(soft("observations", "/observations"), "observations")),
    Crafted("soft link out of sight", hdf5_with(soft("observations", "/nowhere"), "observations")),
    Crafted("Minari external storage", minari_with(external("rewards", FIRST), "rewards")),
    Crafted("Minari external link", minari_with(link("rewards", "/rewards"), "rewards")),
    Crafted("Minari virtual dataset", minari_with(virtual("rewards", FIRST, ".", "episode_0/rewards"), "rewards")),
    Crafted("inflating HDF5", hdf5_with(inflating)),
    Crafted("infos within themselves", hdf5_with(looped), refused=False),
    Crafted("code as a reward", mapped("reward", "open('{}', 'w')"), read_mapped),
    Crafted("code as an end", mapped("terminal", "[].__class__.__base__.__subclasses__()[0]"), read_mapped),
    Crafted("a reward without end", mapped("reward", "x" + " ** 9" * 90), read_mapped),
    Crafted("a reward of brackets", mapped("reward", "(" * 900 + "x" + ")" * 900), read_mapped),
    Crafted("sparse CSV", sparse("data.csv", b"x,u\n1,2\n"), read_proposed),
    Crafted("pickled objects", pickled),
    Crafted("npz bomb", bomb),
    Crafted("sparse HDF5", sparse("data.hdf5", b"\x89HDF\r\n\x1a\n")),
    Crafted("sparse npz", sparse("data.npz", b"PK\x03\x04")),
    Crafted("sparse maze", sparse("maze.txt", b"..*\n"), read_toml),
)

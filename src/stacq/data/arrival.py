"""Whether a file that came from outside is the dataset: its bytes, its structure, its sizes."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from stacq.core.errors import InputError
from stacq.core.reading import regular
from stacq.data.hdf5 import SIGNATURE
from stacq.data.hdf5_guard import Stored, opened
from stacq.data.hdf5_server import Unreadable
from stacq.data.tasks import Task

SUPERBLOCK = {0: (13, 24), 1: (13, 28), 2: (9, 12), 3: (9, 12)}  # version: places of address size and base address


def digest(path: Path, algorithm: str = "sha256") -> str:
    try:
        with regular(path) as file:
            return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix="check what it is") from error


def surplus(path: Path) -> str | None:
    """Why the bytes are not one HDF5 file and nothing else, or None; a file that is too short is not judged here."""
    with regular(path) as file:
        head = file.read(64)
        if not head.startswith(SIGNATURE):
            kind = "a web page" if head.lstrip().startswith(b"<") else f"no HDF5 file (it starts with {head[:8]!r})"
            return f"what arrived is {kind}, not the dataset"
        end = end_of_data(file)
    if end is None:
        return "what arrived is a damaged HDF5 file: its superblock makes no sense"
    behind = path.stat().st_size - end
    return f"what arrived has {behind:,} bytes behind the end of its HDF5 data" if behind > 0 else None


def end_of_data(file: BinaryIO) -> int | None:
    """Where the superblock says that the HDF5 data ends, counted from the beginning of the file.

    A user block may stand before it: the superblock begins at byte 0, 512, 1024 and so on. It states its own place as
    the base address, which is wrong where the user block was added later; then the end is off by as much.
    """
    start = 0
    while _at(file, start, len(SIGNATURE)) != SIGNATURE:
        start = max(512, 2 * start)
        if not _at(file, start, 1):
            return None
    version = _number(file, start + 8, 1)
    if version not in SUPERBLOCK:
        return None
    place, base = SUPERBLOCK[version]
    width = _number(file, start + place, 1)
    if not width:
        return None
    stated_base, end = (_number(file, start + base + skipped * width, width) for skipped in (0, 2))
    return end - stated_base + start


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)


def _number(file: BinaryIO, offset: int, width: int) -> int:
    return int.from_bytes(_at(file, offset, width), "little")


def complaint(path: Path, task: Task) -> str | None:
    """Why an HDF5 file is not of that task, or None; every array is touched at its end, but not read through."""
    try:
        with opened(path) as file:
            file.touch()
            nodes = file.look(["observations", "actions"]).values()
    except (OSError, Unreadable) as error:
        return f"what arrived is a damaged HDF5 file: {' '.join(str(error).split())[:200]}"
    except InputError as error:
        return f"what arrived is not read: {error.problem}"
    sizes = tuple((*node.shape, 0, 0)[1] if isinstance(node, Stored) else 0 for node in nodes)
    if sizes != (task.observation_size, task.action_size):
        return f"what arrived is another dataset, with observations of {sizes[0]} and actions of {sizes[1]} numbers"
    return None

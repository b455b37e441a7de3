"""HDF5 files that others made, read by way of a process of their own.

The C library trusts what a file says about its own structure: one flipped bit can end the process that reads it, or
keep it busy without end, and it then ignores signals. So it is never used here. `hdf5_child.py` opens the file, under
limits of computing time and memory, and reports where the arrays are. Contiguous values are then read from the file
directly; others, packed or scattered, come through a pipe.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.reading import check_claim, check_memory, plain, regular
from stacq.core.types import Array
from stacq.data.hdf5_server import Server, Unreadable, begin

READABLE = "biufcSU"  # kinds of NumPy types that are plain bytes
GZIP_LIMIT = 1100  # deflate cannot shrink data further; a larger claim means a damaged header
SMALL = 1 << 26  # claims below 64 MiB are harmless whatever the file holds
MEMORY = 1 << 27  # bytes for the structure of a small file
COPIES = 4  # of the file for its structure, and of its largest array for unpacking
SECONDS = 5.0  # of computing for any request, and more by size
PACE = 2e7  # bytes a second that any processor reads and unpacks


@dataclass(frozen=True)
class Stored:
    """An array by its header."""

    path: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    held: int  # bytes that the file holds for it
    offset: int | None  # of the values, if they are in the file as in memory

    @property
    def claimed(self) -> int:
        """Bytes that its header promises: a damaged one can promise any."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def overclaimed(self) -> bool:
        return self.claimed > max(SMALL, GZIP_LIMIT * self.held)


@dataclass(frozen=True)
class Group:
    """What lies in a group by name; groups inside it are not looked into."""

    nodes: "Mapping[str, Node | None]"


Node = Stored | Group


class OutsideFile:
    """An open file: its root's attributes, what lies under its names, and the values."""

    def __init__(self, path: Path, raw: FileIO, server: Server, attributes: dict[str, Any]) -> None:
        self._path, self._raw, self._server = path, raw, server
        self._claimed = 0
        self.size = os.fstat(raw.fileno()).st_size
        self._memory = _memory(self.size)
        self.attributes: dict[str, str | list[float]] = {
            plain(key): plain(value) if isinstance(value, str) else value for key, value in attributes.items()
        }

    def look(self, paths: Sequence[str]) -> dict[str, Node | None]:
        """What is under each path, without reading a value; None where there is nothing."""
        paths = list(dict.fromkeys(paths))
        request = {"do": "look", "paths": paths}
        nodes = self._server.ask(request, _seconds(self.size), self._path)["nodes"]
        return {path: _node(path, facts) for path, facts in zip(paths, nodes, strict=True)}

    def touch(self) -> None:
        """Read the last row of every array in the file, and keep none: damage to its structure shows."""
        self._server.ask({"do": "touch"}, _seconds(self.size), self._path)

    def read(self, arrays: Sequence[Stored]) -> list[Array]:
        """The values, if there is room for all that were read so far and these."""
        for each in arrays:
            self._check(each)
        claimed = sum(each.claimed for each in arrays)
        self._claimed += claimed
        check_claim(self._claimed, self.size, self._path)
        check_memory(claimed, self._path)
        values = {each.path: _room_for(each) for each in arrays}
        self._pipe([each for each in arrays if each.claimed and each.offset is None], values)
        for each in arrays:
            if each.offset is not None:
                self._direct(each.offset, _bytes_of(values[each.path]))
        return [values[each.path] for each in arrays]

    def _pipe(self, arrays: Sequence[Stored], values: Mapping[str, Array]) -> None:
        if arrays:
            most = max(each.claimed for each in arrays)
            request = {"do": "read", "paths": [each.path for each in arrays], "memory": self._memory + COPIES * most}
            seconds = _seconds(self.size + sum(each.claimed for each in arrays))
            self._server.fill(request, seconds, [_bytes_of(values[each.path]) for each in arrays], self._path)

    def _direct(self, offset: int, target: memoryview) -> None:
        self._raw.seek(offset)
        while target:
            count = self._raw.readinto(target)
            if not count:
                raise Unreadable("truncated file: it became shorter while it was read")
            target = target[count:]

    def _check(self, array: Stored) -> None:
        if array.dtype.kind not in READABLE:
            raise InputError(
                f"key '{array.path}' holds objects or records, not numbers",
                where=self._path,
                expected="arrays of numbers",
                fix="store numbers, one array for each kind",
            )
        if array.offset is not None and array.offset + array.claimed > self.size:
            raise Unreadable(f"truncated file: it ends before the values of '{array.path}' do")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OutsideFile]:
    """Open a file; raises `OSError` where it cannot be read, and `Unreadable` where it is damaged."""
    with regular(path) as raw:
        size = os.fstat(raw.fileno()).st_size
        place = os.fsencode(os.path.abspath(path)).decode("latin-1")
        request = {"do": "open", "path": place, "memory": _memory(size)}
        server, answer = begin(request, _seconds(size), path)
        try:
            yield OutsideFile(path, raw, server, answer["attributes"])
        finally:
            server.release()


def _memory(size: int) -> int:
    return MEMORY + COPIES * size


def _seconds(size: int) -> int:
    return math.ceil(SECONDS + size / PACE)


def _node(path: str, facts: dict[str, Any] | None) -> Node | None:
    if facts is None:
        return None
    if "nodes" in facts:
        return Group({name: _node(f"{path}/{name}".lstrip("/"), each) for name, each in facts["nodes"].items()})
    # One without a shape is null, which is no array of rows either.
    return Stored(path, tuple(facts["shape"] or ()), np.dtype(facts["dtype"]), facts["held"], facts["offset"])


def _room_for(array: Stored) -> Array:
    try:
        return np.empty(array.shape, array.dtype)
    except ValueError as error:  # of no bytes, but of dimensions that NumPy does not count to
        raise Unreadable(f"'{array.path}' claims shape {array.shape}") from error


def _bytes_of(array: Array) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]

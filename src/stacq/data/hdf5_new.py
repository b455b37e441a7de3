"""A new HDF5 file on a disk that may fill up.

HDF5 does not survive that: after a failed write it can neither write nor close its file, tries again when the process
ends, and crashes it. So the library writes into a Python file that never fails. What the disk refuses is kept in
memory, where HDF5 can read it until it has closed its file; then the error is raised.
"""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from stacq.core.interrupts import Held, held_back
from stacq.core.types import Array


class NewFile:
    """An HDF5 file that is being written; the first array after the disk is full raises what the disk said."""

    def __init__(self, file: h5py.File, below: "_Below", stop: Held) -> None:
        self._file, self._below, self._stop = file, below, stop

    def store(self, key: str, values: Array, **options: Any) -> None:
        """An array under a path; the groups on the way are made."""
        self._file.create_dataset(key, data=values, **options)
        self._below.check()
        self._stop.deliver()

    def describe(self, key: str, facts: dict[str, Any]) -> None:
        """Attributes of a group that is there."""
        self._file[key].attrs.update(facts)


@contextlib.contextmanager
def new_hdf5(path: Path) -> Iterator[NewFile]:
    """Write a file at `path`.

    An `OSError` is raised for whatever the disk refuses, and then the file is good for nothing. Ctrl-C and SIGTERM wait
    for the end of an array, since HDF5 would take one in the middle for a failure of the disk.
    """
    with held_back() as stop, open(path, "w+b", buffering=0) as disk:
        below = _Below(disk)
        with h5py.File(below, "w") as file:
            yield NewFile(file, below, stop)
        below.check()


class _Below(io.RawIOBase):
    """What HDF5 takes for its file."""

    def __init__(self, disk: io.FileIO) -> None:
        self._disk = disk
        self._error: OSError | None = None
        self._refused: list[tuple[int, bytes]] = []  # by place, oldest first
        self._place = 0

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = self._end() + offset if whence == io.SEEK_END else offset
        return self._place

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            self.check()
            _write_all(self._disk, self._place, view)
        except OSError as error:
            self._error = error
            self._refused.append((self._place, bytes(view)))
        self._place += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Whole, as HDF5 reads nothing that it did not write."""
        view = memoryview(buffer).cast("B")
        view[:] = bytes(len(view))
        self._disk.seek(self._place)
        self._disk.readinto(view)
        for place, data in self._refused:
            first, last = max(place, self._place), min(place + len(data), self._place + len(view))
            if first < last:
                view[first - self._place : last - self._place] = data[first - place : last - place]
        self._place += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        end = self._place if size is None else size
        try:
            self.check()
            self._disk.truncate(end)
        except OSError as error:
            self._error = error
        return end

    def _end(self) -> int:
        ends = [place + len(data) for place, data in self._refused]
        return max([self._disk.seek(0, io.SEEK_END), *ends])


def _write_all(disk: io.FileIO, place: int, view: memoryview) -> None:
    """A full disk writes a part and reports no error; the error comes only when the rest is written."""
    disk.seek(place)
    while len(view):
        view = view[disk.write(view) :]

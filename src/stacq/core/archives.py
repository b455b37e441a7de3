"""NumPy's archives (.npz), judged by what they say of themselves before anything is unpacked.

An archive of 5 MB can unpack to 5 GB. Its directory and the header of each array say so beforehand; the library that
unpacks it never goes beyond what the directory says.
"""

import contextlib
import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from stacq.core.reading import check_claim, check_memory, regular
from stacq.core.types import Array

SUFFIX = ".npy"
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}  # a third kind names odd fields
PACKING = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as numpy.savez writes; others unpack with tables of any size


class BrokenArchive(ValueError):
    """The bytes are not what numpy.savez writes."""


@dataclass(frozen=True)
class Header:
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"

    @property
    def claimed(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """An open archive: the names of its arrays, their headers, their values."""

    def __init__(self, path: Path, file: zipfile.ZipFile, size: int) -> None:
        self._path, self._file, self._size = path, file, size
        self._members = {info.filename.removesuffix(SUFFIX): info for info in file.infolist()}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def header(self, name: str) -> Header:
        """What an array says of itself, if that is what the archive's directory says of it."""
        member = self._members[name]
        with _named_as_broken(f"'{name}'"):
            if member.compress_type not in PACKING:
                raise BrokenArchive("is packed in a way that numpy.savez does not use")
            with self._file.open(member) as stream:
                header = _header(stream)
                if member.file_size != stream.tell() + header.claimed:
                    raise BrokenArchive(f"claims shape {header.shape}, but holds {member.file_size:,} bytes")
        return header

    def read(self, headers: Mapping[str, Header]) -> dict[str, Array]:
        """The values of arrays whose headers were seen; refused before the first one if there is no room for all."""
        claimed = sum(header.claimed for header in headers.values())
        check_claim(claimed, self._size, self._path)
        check_memory(claimed, self._path)
        return {name: self._values(name) for name in headers}

    def _values(self, name: str) -> Array:
        with _named_as_broken(f"'{name}'"), self._file.open(self._members[name]) as stream:
            return np.asarray(npy.read_array(stream, allow_pickle=False))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Archive]:
    with regular(path) as raw, io.BufferedReader(raw) as handle:
        size = handle.seek(0, io.SEEK_END)
        with _named_as_broken("it"):
            archive = Archive(path, zipfile.ZipFile(handle), size)
        yield archive


def read_archive(path: Path) -> dict[str, Array]:
    with opened(path) as archive:
        return archive.read({name: archive.header(name) for name in archive.names})


def _header(stream: IO[bytes]) -> Header:
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise BrokenArchive(f"is an array of version {version}")
    shape, _, dtype = HEADERS[version](stream)
    if dtype.hasobject:
        raise BrokenArchive("holds Python objects (pickles), which are refused")
    if not dtype.itemsize or any(size < 0 for size in shape):
        raise BrokenArchive(f"claims shape {shape} of {dtype}")
    return Header(tuple(shape), dtype)


@contextlib.contextmanager
def _named_as_broken(what: str) -> Iterator[None]:
    """Broken bytes make zipfile, zlib, ast and NumPy stumble in every way there is, out of memory included."""
    try:
        yield
    except BrokenArchive as error:
        raise BrokenArchive(f"{what} {error}") from error
    except OSError:
        raise
    except Exception as error:
        raise BrokenArchive(f"{what} cannot be read ({type(error).__name__})") from error

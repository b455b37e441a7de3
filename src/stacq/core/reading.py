"""How a file that others made is read: a regular one, of a bounded size, with no more memory than there is.

A named pipe blocks the process that opens it, a device may never end, and either may have any name. What is refused
here is an `OSError`, so that callers report it like a missing file or a lack of permission. The size that arrays
claim is checked before memory is allocated for them.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from stacq.core.errors import InputError

TEXT = 1 << 24  # bytes of one text: configurations, manifests, mazes; JSON takes twenty times as much once it is read
LINES = 1 << 28  # bytes of a file that grows by lines: metrics, records
UNPACKED = 100  # times the size of its file; arrays of numbers that were measured pack to a third at best
HARMLESS = 1 << 28  # bytes that may be unpacked from a file of any size
MEMORY_FACTS = Path("/proc/meminfo")
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
SURROGATE = re.compile("[\ud800-\udfff]")


@contextlib.contextmanager
def regular(path: Path | str) -> Iterator[FileIO]:
    """The open file, unbuffered; anything but a regular file is refused and never waited for."""
    try:
        _check_kind(os.stat(path), path)  # some devices act when they are opened
    except ValueError as error:  # a null byte
        raise OSError(errno.EINVAL, "this is no name of a file", os.fspath(path)) from error
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb", buffering=0) as handle:
        _check_kind(os.fstat(descriptor), path)
        yield handle


def _check_kind(facts: os.stat_result, path: Path | str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        kind = KINDS.get(stat.S_IFMT(facts.st_mode), "something else")
        raise OSError(errno.EINVAL, f"this is {kind}, not a file", os.fspath(path))


def check_regular(path: Path | str, most: int) -> None:
    """For libraries that open a file by its name: refuse what is no regular file, or larger than `most` bytes."""
    with regular(path) as handle:
        _check_size(os.fstat(handle.fileno()).st_size, most, path)


def read_start(path: Path | str, count: int) -> bytes:
    with regular(path) as handle:
        return handle.read(count)


def read_bytes(path: Path | str, most: int) -> bytes:
    """At most `most` bytes; the count goes by what arrives, for files under /proc say that they are empty."""
    with regular(path) as handle:
        _check_size(os.fstat(handle.fileno()).st_size, most, path)
        found = bytearray()
        while block := handle.read(min(1 << 20, most + 1 - len(found))):
            found += block
            _check_size(len(found), most, path)
    return bytes(found)


def _check_size(size: int, most: int, path: Path | str) -> None:
    if size > most:
        raise OSError(errno.EFBIG, f"{size:,} bytes or more, where at most {most:,} are read", os.fspath(path))


def read_text(path: Path | str, most: int = TEXT, *, errors: str = "strict") -> str:
    """UTF-8, with or without a byte order mark; line ends of any system are one."""
    text = read_bytes(path, most).decode("utf-8-sig", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def plain(text: str) -> str:
    """Without lone surrogates, which are made of bytes that are not UTF-8, and which no file or terminal takes."""
    return SURROGATE.sub("\ufffd", text)


def check_claim(claimed: int, size: int, where: object) -> None:
    """Refuse arrays that claim more than a file of that size can honestly hold."""
    if claimed > max(HARMLESS, UNPACKED * size):
        raise InputError(
            f"its arrays claim {claimed:,} bytes, but the file has {size:,}",
            where=where,
            expected=f"at most {UNPACKED} times the size of the file, whatever it is packed with",
            fix="the file is damaged or no recording; one that is meant so is read if it is written uncompressed",
        )


def check_memory(wanted: int, where: object) -> None:
    """Refuse arrays before room is made for them, where there is none."""
    if wanted > (available := available_memory()):
        raise InputError(
            f"its arrays take {wanted / 1e9:.1f} GB, and {available / 1e9:.1f} GB of memory are free",
            where=where,
            fix="free memory, use a larger machine, or write fewer rows into the file",
        )


def available_memory() -> int:
    """Bytes that can be used without swapping, where the system says; else all that the machine has."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = MEMORY_FACTS.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(AttributeError, OSError, ValueError):  # in this order: Windows, macOS, others
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1 << 63

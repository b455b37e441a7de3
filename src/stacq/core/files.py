"""Where things are kept, and how a file appears whole or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.staging import flock, lock_path, locked, staging
from stacq.core.types import Array


def home() -> Path:
    """The cache directory: `STACQ_HOME` if set, else `stacq` under `XDG_CACHE_HOME` or `~/.cache`."""
    if override := os.environ.get("STACQ_HOME"):
        return expanded(override, "STACQ_HOME")
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "STACQ_HOME") / "stacq"


def expanded(path: Path | str, variable: str) -> Path:
    """With `~` replaced by the home directory, which not every account has; `variable` says another place."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"there is no home directory for '{path}'",
            where=variable,
            expected="a directory that the system knows by that name",
            fix=f"set {variable} to a directory by its full path",
        ) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path; what is there in the end is synced and renamed over `path`.

    A crash or an exception at any instant leaves the old file or the new one, never a mixture.
    """
    with writing(path), folder_of(path) as parent, staging(parent) as folder:
        temporary = folder / path.name
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync_directory(path.parent)


@contextlib.contextmanager
def appearing(directory: Path, *, instead: bool = False) -> Iterator[Path]:
    """Give a temporary directory; in the end it is synced and renamed to `directory`.

    That must not be there then, unless the new one comes `instead` of it.
    """
    with folder_of(directory) as parent, staging(parent) as folder:
        beginning = folder / "new"
        beginning.mkdir()
        yield beginning
        for path in beginning.rglob("*"):
            if path.is_file():
                _sync(path)
        if instead:
            with contextlib.suppress(FileNotFoundError):
                directory.rename(folder / "old")
        beginning.rename(directory)
        _sync_directory(directory.parent)


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[Path]:
    """The folder in which `path` is to appear; folders that were made for it in vain go again."""
    made: list[Path] = []
    try:
        with writing(path):
            _make_folder(path.parent, made)
        yield path.parent
    except BaseException:
        _remove_empty(made)
        raise


def _make_folder(folder: Path, made: list[Path]) -> Path:
    """Make it and what is missing above it; `made` gets what was missing, the innermost first."""
    made += [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell what the system refuses in the library's own words."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


@contextlib.contextmanager
def alone(path: Path, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold a lock next to `path`, so that one of several processes makes it and the others wait and then find it.

    `waiting` is called if someone else holds it. The operating system lets go of it when its holder dies. There is no
    lock on Windows and on some network file systems: there the work is done twice, and either result is whole.
    """
    with folder_of(path), _lock_next_to(path, waiting):
        yield


@contextlib.contextmanager
def _lock_next_to(path: Path, waiting: Callable[[], object] | None) -> Iterator[None]:
    lock = lock_path(path)
    with writing(path):
        descriptor = locked(lock, wait=False)
    if descriptor is None:
        if waiting is not None:
            waiting()
        with writing(path):
            descriptor = locked(lock, wait=True)
    assert descriptor is not None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # before its release: a process that waits sees that it is gone, and makes another
        flock(descriptor, "LOCK_UN")  # a forked child may have the same file open
        os.close(descriptor)


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, spelt(text).encode())


def spelt(text: str) -> str:
    """A name as text that every file and every reader takes: bytes that are no UTF-8 are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_json(path: Path, value: Any) -> None:
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n"


def save_tensors(path: Path, arrays: Mapping[str, Array], metadata: dict[str, str] | None = None) -> None:
    """A safetensors file, in a place that is still hidden.

    The library raises a class of its own for a full disk, and makes files that only their owner can read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file(dict(arrays), path, metadata=metadata)
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        raise OSError(int(found[1]), os.strerror(int(found[1]))) if found else OSError(str(error)) from error
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def check_writable(path: Path) -> None:
    """Fail now, not after hours of work, if `path` could not be written."""
    made: list[Path] = []
    try:
        with writing(path), staging(_make_folder(path.parent, made)) as folder:
            (folder / path.name).touch()
    finally:
        _remove_empty(made)


def exists(path: Path) -> bool:
    """Whether something is there; a name that the system cannot look up is an error."""
    try:
        return path.exists()
    except OSError as error:
        raise refused(path, error, "be looked up") from error


def content_hash(arrays: Mapping[str, Array]) -> str:
    """SHA-256 over the names, types, shapes and bytes of arrays, whatever the order of the mapping."""
    digest = hashlib.sha256()
    for key, value in sorted(arrays.items()):
        digest.update(f"{key}:{value.dtype.str}:{value.shape};".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


MOST_OF_A_NAME = 100  # bytes
OTHER = "choose another output, or set STACQ_HOME to another directory"
SPACE, PLACE = f"free some space, {OTHER}", f"change its permissions, {OTHER}"
ADVICE = {
    errno.ENAMETOOLONG: ("names of at most 255 bytes, in a path of at most 4,096", "choose a shorter name"),
    errno.EFBIG: ("no limit on the size of files", "raise the limit (`ulimit -f`), or choose another output"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ("enough free space", SPACE)),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ENOTEMPTY), ("a place that is free", OTHER)),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), ("a place that you may write to", PLACE)),
}
"""By the system's number of an error: what was expected and what to do."""


def unwritable(path: Path | str, error: Exception) -> InputError:
    return refused(path, error, "write")


def refused(path: Path | str, error: Exception, what: str) -> InputError:
    """What the system said of a path, with the advice that fits it."""
    number = getattr(error, "errno", None) or 0
    expected, fix = ADVICE.get(number, ("a writable place with enough free space", SPACE))
    reason = getattr(error, "strerror", None) or error
    return InputError(f"cannot {what}: {reason}", where=path, expected=expected, fix=fix)


def too_long(error: Exception) -> InputError | None:
    """What to tell where a name that is too long was met while something was looked for; nothing for other errors."""
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return None
    return refused(error.filename or "", error, "be looked up")


def fitting(name: str) -> str:
    """A name as a part of the names of files, which have a length: a long one ends in its hash."""
    data = spelt(name).encode()
    if len(data) <= MOST_OF_A_NAME:
        return spelt(name)
    return f"{data[:MOST_OF_A_NAME].decode(errors='ignore')}-{hashlib.sha256(data).hexdigest()[:8]}"


def _sync(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable; not every file system lets a directory be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Where things are kept, and how a file appears whole or not at all."""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stacq.errors import InputError
from stacq.types import Array

if sys.platform != "win32":
    import fcntl


def home() -> Path:
    """The cache directory: `STACQ_HOME` if set, else `stacq` under `XDG_CACHE_HOME` or `~/.cache`."""
    if override := os.environ.get("STACQ_HOME"):
        return Path(override).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "stacq"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and renamed over `path`.

    A crash or an exception at any instant leaves the old file or the new one, never a mixture.
    """
    temporary = _temporary_beside(path)
    try:
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        share(temporary)
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """Remove what killed writers of single files left behind in a folder that nobody else writes into now."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def appearing(directory: Path) -> Iterator[Path]:
    """Give a temporary directory beside `directory`; on success it is renamed to it, which must not be there then."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell what the system refuses in the library's own words."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


@contextlib.contextmanager
def alone(path: Path, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold `.NAME.lock` beside `path`, so that of several processes one makes it and the others find it made.

    `waiting` is called if someone else holds it. The operating system lets go of it when its holder dies. There is no
    lock on Windows and on some network file systems: there the work is done twice, and either result is whole.
    """
    lock = path.with_name(f".{path.name}.lock")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(lock, wait=False)
    if descriptor is None:
        if waiting is not None:
            waiting()
        with writing(path):
            descriptor = _locked(lock, wait=True)
    assert descriptor is not None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # before it is let go of: whoever waits for it sees that it is gone, and makes another
        flock(descriptor, "LOCK_UN")  # a forked child may have the same file open
        os.close(descriptor)


def _locked(lock: Path, *, wait: bool) -> int | None:
    """The open and locked file of that name; one that was removed while it was waited for does not count."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            mine = flock(descriptor, "LOCK_EX", wait=wait)
            there = lock.exists() and os.path.samestat(os.fstat(descriptor), os.stat(lock))
        except FileNotFoundError:
            there = False
        except BaseException:
            os.close(descriptor)
            raise
        if mine and there:
            return descriptor
        os.close(descriptor)
        if not mine:
            return None


def flock(descriptor: int, operation: str, *, wait: bool = True) -> bool:
    """Whether it was done; where there are no locks it counts as done."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, getattr(fcntl, operation) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def check_writable(path: Path) -> None:
    """Fail now, not after hours of work, if `path` could not be written."""
    _temporary_beside(path).unlink()


def content_hash(arrays: Mapping[str, Array]) -> str:
    """SHA-256 over the names, types, shapes and bytes of arrays, whatever the order of the mapping."""
    digest = hashlib.sha256()
    for key, value in sorted(arrays.items()):
        digest.update(f"{key}:{value.dtype.str}:{value.shape};".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def unwritable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"cannot write: {getattr(error, 'strerror', None) or error}",
        where=path,
        expected="a writable place with enough free space",
        fix="free some space, choose another output, or set STACQ_HOME to another directory",
    )


def _temporary_beside(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise unwritable(path, error) from error
    os.close(handle)
    return Path(name)


def share(path: Path) -> None:
    """Let a file be read by whoever may read what this user makes; temporary files begin as private."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable; not every file system lets a directory be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

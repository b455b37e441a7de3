"""Hidden directories for what is being written, and the removal of those whose writer was killed.

A file is written in `.stacq-tmp-XXXXXXXX` next to its place until it is complete. The writer holds a lock inside. The
operating system releases the lock when the writer ends, in whatever way. So every later writer in the same folder
knows what nobody will finish, and removes it, together with what a library has made there for itself.

Where the file system has no locks nothing is removed, because it might belong to a live writer. If locks do not reach
other machines (a parallel file system mounted with local locks), the files of a writer on another machine that writes
into the same folder at that moment are removed, and its write fails.
"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

OURS = ".stacq-"
STAGED, LOCK = f"{OURS}tmp-", "lock"


@contextlib.contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """An empty directory inside `folder`, removed at the end with all that is still in it.

    Its name is short whatever the name of what is written, which may be as long as the file system allows.
    """
    sweep(folder)
    path, lock = _begun(folder)
    try:
        yield path
    finally:
        _end(path, lock)


def sweep(folder: Path, *, owned: bool = False) -> None:
    """Remove what killed writers left behind in a folder, and never what a live one holds.

    In a folder that is `owned` nobody else writes now: there it goes even where the file system has no locks.
    """
    with contextlib.suppress(OSError):
        for name in [name for name in os.listdir(folder) if name.startswith(OURS)]:
            with contextlib.suppress(OSError):
                _sweep_one(folder / name, owned)


def lock_path(path: Path) -> Path:
    """The name of the lock that is held while `path` is made; see `files.alone`."""
    return path.with_name(f"{OURS}{path.name}.lock")


def _sweep_one(path: Path, owned: bool) -> None:
    kind = path.lstat()
    if stat.S_ISREG(kind.st_mode) and path.suffix == ".lock" and kind.st_size == 0:
        lock = path
    elif stat.S_ISDIR(kind.st_mode) and path.name.startswith(STAGED):
        lock = path / LOCK
    else:
        return  # somebody else's
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        path.rmdir()  # its lock is not made yet, or gone already: whoever has just begun it makes another
        return
    try:
        if not _is_free(descriptor, owned) or not _is_that(descriptor, lock):
            return
        path.unlink() if lock == path else _remove(path)
    finally:
        os.close(descriptor)
    if path.is_dir():
        path.rmdir()  # network file systems keep an open file's name until it is closed


def _is_free(descriptor: int, owned: bool) -> bool:
    found = _flocked(descriptor, "LOCK_EX", wait=False)
    return owned if found is None else found


def _begun(folder: Path) -> tuple[Path, int]:
    """A new directory and its locked lock; one that somebody swept in between, unlocked as it was, does not count."""
    while True:
        path = Path(tempfile.mkdtemp(dir=folder, prefix=STAGED))
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        except OSError:
            path.rmdir()
            raise
        if flock(descriptor, "LOCK_EX", wait=False) and _is_that(descriptor, path / LOCK):
            return path, descriptor
        os.close(descriptor)


def _end(path: Path, lock: int) -> None:
    _remove(path)
    flock(lock, "LOCK_UN")  # a forked child may have the same file open
    os.close(lock)
    if path.exists():  # network file systems keep an open file's name until it is closed
        _remove(path)


def _remove(path: Path) -> None:
    """The lock goes last: what a kill in between leaves is still known for ours."""
    with contextlib.suppress(OSError):
        for each in path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != LOCK:
                each.unlink()
        (path / LOCK).unlink(missing_ok=True)
        path.rmdir()


def locked(path: Path, *, wait: bool) -> int | None:
    """The open and locked file of that name; one that was removed while it was waited for does not count.

    Its folder may go meanwhile, too: whoever made it in vain removes it.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            if path.is_symlink():  # to nothing, for ever
                raise
            path.parent.mkdir(parents=True, exist_ok=True)
            continue
        try:
            mine = flock(descriptor, "LOCK_EX", wait=wait)
        except BaseException:
            os.close(descriptor)
            raise
        if mine and _is_that(descriptor, path):
            return descriptor
        os.close(descriptor)
        if not mine:
            return None


def flock(descriptor: int, operation: str, *, wait: bool = True) -> bool:
    """Whether it was done; where there are no locks it counts as done."""
    return _flocked(descriptor, operation, wait=wait) is not False


def _flocked(descriptor: int, operation: str, *, wait: bool) -> bool | None:
    """Whether it was done; None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, getattr(fcntl, operation) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_that(descriptor: int, path: Path) -> bool:
    """Whether the open file still has that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False

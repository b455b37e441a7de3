"""Inside an attacked process: count its file operations, and die at one of them.

Every opening for writing, rename, removal, new folder and sync below the watched folder is a point, and so is every
array that HDF5 writes and every file that safetensors writes. Writes that are cut in the middle are not made here but
by the system's limit on the size of files.
"""

import functools
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Watch:
    """Counts points, writes each to the tally before it happens, and kills the process at one."""

    def __init__(self, folder: str, kill_at: int, tally: str) -> None:
        self.folder = os.path.realpath(folder)
        self.kill_at = kill_at
        self.numbers = itertools.count(1)
        self.tally = os.open(tally, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def point(self, what: str, *places: object) -> None:
        inside = [place for each in places if (place := located(each)) and place.startswith(f"{self.folder}/")]
        if not inside:
            return
        number = next(self.numbers)
        os.write(self.tally, f"{number} {what} {inside[-1][len(self.folder) + 1 :]}\n".encode(errors="replace"))
        if number == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING:
                self.point("before open", path)
        elif event in CHANGES:
            names = [each for each in arguments if isinstance(each, str | bytes | os.PathLike)]
            folders = [located(each) for each in arguments if isinstance(each, int) and each > 2]
            self.point(event, *(os.path.join(*folders[:1], os.fsdecode(name)) for name in names))


def located(place: object) -> str:
    """The absolute path of a name or of an open file."""
    try:
        if isinstance(place, int):
            return os.readlink(f"/proc/self/fd/{place}")
        if isinstance(place, str | bytes | os.PathLike):
            return os.path.abspath(os.fsdecode(place))
    except (OSError, ValueError):
        pass
    return ""


def watch(folder: str, kill_at: int, tally: str) -> None:
    """From here on every file operation of this process below the folder counts."""
    watching = Watch(folder, kill_at, tally)
    _after("os", "fsync", lambda call: watching.point("fsync", call[0]))
    _after_opening(watching)
    _after("h5py", "Group.create_dataset", lambda call: watching.point("array", _file_of(call[0])))
    _after("h5py", "File.__init__", lambda call: watching.point("hdf5 opened", _written(call[0])))
    _before("h5py", "File.close", lambda call: watching.point("before close", _written(call[0])))
    _after("safetensors.numpy", "save_file", lambda call: watching.point("safetensors", call[1]))
    sys.addaudithook(watching.audit)


def _after(module: str, name: str, act: Callable[[tuple[Any, ...]], None]) -> None:
    _wrapped(module, name, after=act)


def _before(module: str, name: str, act: Callable[[tuple[Any, ...]], None]) -> None:
    _wrapped(module, name, before=act)


def _wrapped(
    module: str,
    name: str,
    before: Callable[[tuple[Any, ...]], None] = lambda call: None,
    after: Callable[[tuple[Any, ...]], None] = lambda call: None,
) -> None:
    owner = sys.modules.get(module)
    *classes, last = name.split(".")
    for each in classes:
        owner = getattr(owner, each, None)
    if owner is None:
        return
    original = getattr(owner, last)

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        before(arguments)
        answer = original(*arguments, **options)
        after(arguments)
        return answer

    setattr(owner, last, call)


def _after_opening(watching: Watch) -> None:
    """A file that was opened for writing and holds nothing yet."""

    def text(call: tuple[Any, ...]) -> None:
        if len(call) > 1 and isinstance(call[1], str) and set(call[1]) & set("wax+"):
            watching.point("opened", call[0])

    def raw(call: tuple[Any, ...]) -> None:
        if len(call) > 1 and call[1] & WRITING:
            watching.point("opened", call[0])

    _after("io", "open", text)
    _after("builtins", "open", text)
    _after("os", "open", raw)


def _file_of(node: Any) -> str:
    return _written(node.file)


def _written(file: Any) -> str:
    """The path of a file that is open for writing."""
    try:
        return str(file.filename) if file.mode == "r+" else ""
    except (ValueError, AttributeError):
        return ""

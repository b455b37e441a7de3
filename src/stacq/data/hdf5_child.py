"""The process in which outside HDF5 files are opened: if a damaged one crashes the C library, only this process ends.

    python -I -S hdf5_child.py FOLDER...

Started by `hdf5_server.py`, which exchanges frames with it over its standard input and output. Nothing else of the
package is loaded here, and the folders are those of NumPy and h5py alone. It forks for each file, so that start and
imports happen only once. Each fork has limits of computing time and memory, and once its file is open it cannot open
another: links and external storage cannot be followed, whatever the file says. If the process that asked has ended, or
sends no request for a while, everything here ends.
"""

import json
import math
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

FRAME = struct.Struct("<cQ")  # what follows, and its length
FACTS, VALUES = b"F", b"V"  # JSON, or bytes of an array
IDLE = 10_000  # milliseconds without a request
BLOCK = 1 << 22  # bytes of values read at a time
LINKS = 16  # soft links followed from one name
TEXT = 1 << 20  # bytes of an attribute; longer ones are passed over


class Refused(Exception):
    """The file is whole, and holds what is not read."""


def main(folders: list[str]) -> None:
    sys.path += folders
    import h5py  # noqa: F401  (before any fork)

    tell({})
    while heard() and (request := receive()) is not None:
        attend(request)


def heard() -> bool:
    poll = select.poll()
    poll.register(0, select.POLLIN)
    return bool(poll.poll(IDLE))


def attend(request: dict[str, Any]) -> None:
    """Serve one file in a fork, and tell when it is closed.

    If the fork dies this process ends in the same way; if its reader is gone, both do.
    """
    alive, held = os.pipe()  # its other end closes when the fork ends, however it does
    child = os.fork()
    if not child:
        os.close(alive)
        serve(request)
    os.close(held)
    poll = select.poll()
    poll.register(0, 0)  # tells only that it was closed
    poll.register(alive, 0)
    if 0 in dict(poll.poll()):
        os.killpg(0, signal.SIGKILL)
    os.close(alive)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        os._exit(code if code > 0 else 128 - code)
    tell({})


def serve(request: dict[str, Any] | None) -> NoReturn:
    """Answer requests about one file until its reader is through with it, or there is something wrong with it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    file = None
    while request is not None and request["do"] != "close":
        allow(resource.RLIMIT_CPU, math.ceil(time.process_time()) + request["seconds"])
        try:
            if file is None:
                file = OpenFile(request["path"].encode("latin-1"), request["memory"])
                tell(file.attributes())
            elif request["do"] == "look":
                tell({"nodes": file.look(request["paths"])})
            elif request["do"] == "touch":
                file.file.visititems(partial(touch, file.file))
                tell({})
            else:
                file.send(request["paths"], request["memory"])
        except Refused as error:
            end({"refused": str(error)})
        except Exception as error:  # h5py tells damage by nearly every type of exception
            end({"broken": " ".join(str(error).split()) or type(error).__name__})
        request = receive()
    os._exit(0)


def end(facts: dict[str, Any]) -> NoReturn:
    """At once: there may be no memory left for another request."""
    tell(facts)
    os._exit(0)


def allow(kind: int, amount: int) -> None:
    """Move the limit that can be moved again; the system's own stands above it."""
    _, most = resource.getrlimit(kind)
    resource.setrlimit(kind, (amount if most == resource.RLIM_INFINITY else min(amount, most), most))


class OpenFile:
    """A file, what was looked at in it last, and the memory that this process had before."""

    def __init__(self, path: bytes, memory: int) -> None:
        import h5py

        self.usual = memory_used()
        self.give(memory)
        self.file = h5py.File(path, "r", locking="best-effort")
        self.nodes: dict[str, Any] = {}
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))

    def give(self, memory: int) -> None:
        if self.usual:
            allow(resource.RLIMIT_AS, self.usual + memory)

    def attributes(self) -> dict[str, Any]:
        """The root's: texts, and numbers in lists."""
        found = {}
        for name in self.file.attrs:
            if self.file.attrs.get_id(name).get_storage_size() <= TEXT:
                found[name] = stated(self.file.attrs[name])
        return {"attributes": {name: value for name, value in found.items() if value is not None}}

    def look(self, paths: list[str]) -> list[dict[str, Any] | None]:
        self.nodes = {path: self.find(path) for path in paths}
        return [described(self.file, node) for node in self.nodes.values()]

    def find(self, path: str) -> Any:
        return followed(self.file, self.file, path, LINKS)

    def send(self, paths: list[str], memory: int) -> None:
        """The values of arrays, one after the other; of large ones a block of rows at a time."""
        self.give(memory)
        for path in paths:
            node = self.nodes.get(path) or self.find(path)
            described(self.file, node)
            for block in blocks(node):
                sys.stdout.buffer.write(FRAME.pack(VALUES, block.nbytes))
                sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()


def memory_used() -> int:
    """Bytes of address space; 0 where the system does not say, and where memory then has no limit."""
    try:
        with open("/proc/self/statm", encoding="ascii") as handle:
            return int(handle.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def stated(value: Any) -> str | list[float] | None:
    """An attribute as JSON has it: text as it is, numbers as a list, anything else not at all."""
    import numpy as np

    if isinstance(value, str):
        return value if len(value) <= TEXT else None
    array = np.asarray(value)
    return [float(each) for each in array.reshape(-1)] if array.dtype.kind in "fiub" else None


def followed(file: Any, start: Any, path: str, links: int) -> Any:
    """What lies under a path, by links within the file alone; None if nothing does."""
    import h5py

    node = start
    for name in filter(None, path.split("/")):
        key = name.encode("utf-8", "surrogateescape")
        if not isinstance(node, h5py.Group) or not node.id.links.exists(key):
            return None
        kind = node.id.links.get_info(key).type
        if kind not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
            raise Refused(f"'{path}' is an external link")
        if kind == h5py.h5l.TYPE_HARD:
            node = node[name]
            continue
        if not links:
            raise ValueError(f"the soft link '{path}' leads in a circle")
        target = node.id.links.get_val(key).decode("utf-8", "surrogateescape")
        node = followed(file, file if target.startswith("/") else node, target, links - 1)
    return node


def described(file: Any, node: Any, deep: bool = True) -> dict[str, Any] | None:
    """An array by its header, a group by what is in it; what lies in other files is refused."""
    import h5py

    if isinstance(node, h5py.Group):
        names = node if deep else ()
        return {"nodes": {name: described(file, followed(file, node, name, LINKS), False) for name in names}}
    if not isinstance(node, h5py.Dataset):
        return None
    facts = node.id.get_create_plist()
    name = node.name.lstrip("/")
    if facts.get_layout() == h5py.h5d.VIRTUAL:
        raise Refused(f"'{name}' is a virtual dataset")
    if facts.get_external_count():
        raise Refused(f"'{name}' has external storage")
    kind = plain_type(node)
    return {
        "shape": node.shape,
        "dtype": kind or "O",
        "held": node.id.get_storage_size(),
        "offset": offset(node, facts) if kind else None,
    }


def touch(file: Any, name: str, node: Any) -> None:
    """Read the last row of an array: damage in the structure above it is found."""
    facts = described(file, node, False)
    if facts and facts.get("shape"):
        node[-1:]


def plain_type(node: Any) -> str | None:
    """NumPy's name for a type whose values are plain bytes; none for records, objects and what NumPy does not know."""
    try:
        dtype = node.dtype
    except TypeError:
        return None
    return None if dtype.hasobject or dtype.kind == "V" else str(dtype.str)


def offset(node: Any, facts: Any) -> int | None:
    """The place of the values in the file, if they are contiguous and in NumPy's form; else None."""
    import h5py

    if facts.get_layout() != h5py.h5d.CONTIGUOUS or not node.id.get_type().equal(h5py.h5t.py_create(node.dtype, True)):
        return None
    return node.id.get_offset()  # type: ignore[no-any-return]


def blocks(node: Any) -> Iterator[Any]:

    if not node.shape or node.nbytes <= BLOCK:
        yield flat(node[()], node.dtype)
        return
    rows = max(1, BLOCK * len(node) // node.nbytes)
    if node.chunks:
        rows = math.ceil(rows / node.chunks[0]) * node.chunks[0]
    for start in range(0, len(node), rows):
        yield flat(node[start : start + rows], node.dtype)


def flat(values: Any, dtype: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(values, dtype=dtype).reshape(-1).view(np.uint8)


def tell(facts: dict[str, Any]) -> None:
    data = json.dumps(facts).encode("ascii")
    sys.stdout.buffer.write(FRAME.pack(FACTS, len(data)) + data)
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any] | None:
    """The next request; none if nobody can send one. Never reads ahead: the next one may be for another process."""
    head = taken(FRAME.size)
    if head is None:
        return None
    data = taken(FRAME.unpack(head)[1])
    return None if data is None else json.loads(data)


def taken(count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        block = os.read(0, count - len(data))
        if not block:
            return None
        data += block
    return data


if __name__ == "__main__":
    main(sys.argv[1:])

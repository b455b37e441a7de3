"""Damage to HDF5 files that the C library does not survive, or never comes back from."""

import struct
from pathlib import Path

ADDRESS = struct.Struct("<Q")


def loop(path: Path) -> Path:
    """Let the free space of a local heap name itself as the next one: its list never ends, and fills the memory."""
    data = bytearray(path.read_bytes())
    heap = data.index(b"HEAP")
    free, segment = (ADDRESS.unpack_from(data, heap + place)[0] for place in (16, 24))
    ADDRESS.pack_into(data, segment + free, free)
    path.write_bytes(data)
    return path


def crash(path: Path) -> Path:
    """Let the B-tree of the root's names be its own child: the search for a name recurses until the stack is full."""
    data = bytearray(path.read_bytes())
    tree = data.index(b"TREE")
    data[tree + 5] = 1  # its level
    ADDRESS.pack_into(data, tree + 32, tree)
    path.write_bytes(data)
    return path

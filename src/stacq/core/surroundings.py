"""What the parent gives to a process, and what may be missing: a working directory, memory, standard streams."""

import contextlib
import io
import os
import sys
from typing import TextIO

from stacq.core.errors import InputError

if sys.platform != "win32":
    import resource

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))  # by the numbers of their descriptors
LEAST_MEMORY = 2 << 30  # bytes of address space; on two cores, JAX ends the process on its own with less
OUT_OF_MEMORY = ("can't start new thread", "cannot allocate memory", "failed to map segment", "bad_alloc")


def complete_streams() -> None:
    """Make standard streams that can be written to, whatever the process was started with.

    A closed one is connected to /dev/null; else the next file that is opened would take its place. Letters that the
    terminal's encoding does not have are printed as escapes.
    """
    for name, mode in STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # its buffer cannot be written: it stays as it is
                stream.reconfigure(errors="backslashreplace")


def output_is_lost() -> bool:
    """Whether standard output cannot be written to; what could not be written may be forgotten by now."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return True
    return False


def forget(stream: TextIO) -> None:
    """Lead a stream nowhere: what it could not write, Python would complain of again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def drop_unwritten_errors() -> None:
    """Where standard error cannot be written to, the exit code says enough, and Python would end with another one."""
    try:
        sys.stderr.flush()
    except OSError:
        forget(sys.stderr)


def check_here() -> None:
    """Refuse a working directory that was deleted: paths mean nothing in it, and processes cannot start."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InputError(
            "the working directory was deleted", expected="a directory to work in", fix="change to another one"
        ) from error


def check_memory() -> None:
    """Refuse a limit under which the compiler would end the process before a message could be printed."""
    limit = _memory_limit()
    if limit is not None and limit < LEAST_MEMORY:
        raise _too_little(limit)


def memory_error(error: BaseException) -> InputError | None:
    """What to tell instead of an error that a limit on memory brought about; nothing if it was not that."""
    limit = _memory_limit()
    text = str(error).lower()
    short = isinstance(error, MemoryError) or any(each in text for each in OUT_OF_MEMORY)
    return _too_little(limit) if short and limit is not None else None


def _too_little(limit: int) -> InputError:
    return InputError(
        f"a process may have {limit >> 20:,} MiB of address space, which was not enough",
        where="ulimit -v",
        expected=f"{LEAST_MEMORY >> 20:,} MiB at the very least, more with more data or cores",
        fix="raise the limit: `ulimit -v unlimited`",
    )


def _memory_limit() -> int | None:
    """In bytes; None where there is none."""
    if sys.platform == "win32":
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit

"""The `stacq` command, and `python -m stacq`: as thin as can be, so that Ctrl-C during start-up ends cleanly too."""

import os
import sys


def look_elsewhere() -> None:
    """Take the working directory, which `python -m` puts first, out of where modules are looked for.

    Data is often unpacked there, and no file of it may be taken for a module. Where stacq itself lies in it, that is
    known by now, to this process and to its workers.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # deleted: nothing is found there
        return
    if not sys.flags.safe_path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]


if __name__ == "__main__":
    look_elsewhere()  # before anything else is imported

import contextlib  # noqa: E402

STOPPED = (130, 143)  # by Ctrl-C, by SIGTERM


def main() -> None:
    try:
        from stacq.core.surroundings import complete_streams, drop_unwritten_errors, forget, output_is_lost

        os.environ["PYTHONSAFEPATH"] = "1"  # packages start Pythons of their own, which would look in this directory
        complete_streams()
        _run()
    except KeyboardInterrupt:
        _leave(130)
    except SystemExit as end:
        if end.code in STOPPED:
            _leave(int(end.code))
        drop_unwritten_errors()
        raise
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        forget(sys.stdout)
        sys.exit(0)
    except OSError as error:
        if not output_is_lost():
            raise
        forget(sys.stdout)
        with contextlib.suppress(OSError):
            print(f"error: standard output: cannot write: {error.strerror}", file=sys.stderr)
        drop_unwritten_errors()
        sys.exit(2)


def _run() -> None:
    """Nothing that was printed is left for the end of Python, which tells what cannot be written in its own way."""
    from stacq.cli import main as run

    try:
        run()
    except SystemExit as end:
        if end.code not in STOPPED:
            sys.stdout.flush()
        raise
    sys.stdout.flush()


def _leave(code: int) -> None:
    """At once: JAX's own threads may still compile or compute, and crash if Python is taken down under them."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

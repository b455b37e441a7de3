"""The `stacq` command, and `python -m stacq`: as thin as can be, so that Ctrl-C during start-up ends cleanly too."""

import os
import sys


def main() -> None:
    try:
        from stacq.cli import main as run

        run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()

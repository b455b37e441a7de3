"""How a worker process is started: with the modules of its parent, and none from the working directory by accident.

Python's `-c` would look there first, and a simulator would import a `random.py` that lies next to the data.
"""

import contextlib
import os
import sys
from pathlib import Path

START = """
import sys
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location("stacq", sys.argv.pop(1))  # the very one of the parent, wherever that found it
sys.modules["stacq"] = module_from_spec(spec)
sys.path[:] = sys.argv[2:]
del sys.argv[2:]
spec.loader.exec_module(sys.modules["stacq"])

from importlib import import_module

import_module(sys.argv.pop(1)).serve()
"""
HERE = ("", os.curdir)  # what the working directory is called in `sys.path`


def worker_command(serving: str = "stacq.core.workers") -> list[str]:
    """Program and arguments; the worker calls `serve` of a module, on its standard input and output."""
    package = Path(__file__).parents[1] / "__init__.py"
    return [sys.executable, *_isolation(), "-c", START, str(package), serving, *module_paths()]


def module_paths() -> list[str]:
    """Where this process looks for modules, for another one of the same working directory.

    Interactive sessions and `python -c` look into the working directory first. There it comes last: functions of
    modules next to a notebook can still be imported, and no file there is taken for a part of Python or of a package.
    """
    paths = [path for path in sys.path if isinstance(path, str) and path not in HERE]
    if any(path in HERE for path in sys.path):
        with contextlib.suppress(FileNotFoundError):  # it may have been deleted
            paths.append(os.getcwd())
    return paths


def _isolation() -> list[str]:
    """Options of Python: nothing from the working directory at the start, and what this process was started without."""
    flags = {"-P": True, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site, "-I": sys.flags.isolated}
    return [option for option, wanted in flags.items() if wanted]

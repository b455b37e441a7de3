"""Ids of environments, and where they come from: an id may begin with a module, and making it then runs its code."""

import os
import shlex
import sys
from importlib import import_module

from stacq.core.errors import InputError


class StoredId(str):
    """An id as a file states it. It is shown and looked up like any other, but no module is imported for it.

    Whoever reads one from a file marks it so; it stays marked on its way to a worker process. Ids that are typed on the
    command line or passed in Python are plain text.
    """


def registered_name(source: str) -> str:
    """The id by which Gymnasium knows an environment, once the module in front of it, if any, was imported."""
    module, colon, name = source.rpartition(":")
    if not colon:
        return source
    if isinstance(source, StoredId):
        raise InputError(
            f"a file names the environment '{source}', and to make it the module '{module}' would be run",
            where="environment",
            expected="an id without a module, or one that you name yourself",
            fix=f"if you trust that module, say so with --env {shlex.quote(source)}, or in Python env={str(source)!r}",
        )
    _look_here_too()
    try:
        import_module(module)
    except Exception as error:
        raise InputError(
            f"the module '{module}' cannot be imported: {type(error).__name__}: {error}",
            where=source,
            expected="a module that is installed or lies in the working directory, and registers the environment",
            fix="check its name, or mend it",
        ) from error
    return name


def _look_here_too() -> None:
    """Modules of one's own often lie in the working directory. As the last place it hides nothing that is installed."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)

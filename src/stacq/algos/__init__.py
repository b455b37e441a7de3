"""The algorithms by name. Each is one file that ends with its `ALGORITHM`; adding one adds a line here.

Names are known without loading JAX; the file behind a name is imported when it is asked for.
"""

import difflib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stacq.core.errors import InputError

if TYPE_CHECKING:
    from stacq.algos.algorithm import Algorithm

BUILT_IN = {
    "stacq": "stacq.algos.stacq",
    "onestep-stacq": "stacq.algos.onestep",
    "bc": "stacq.algos.bc",
    "td3bc": "stacq.algos.td3bc",
    "rebrac": "stacq.algos.rebrac",
    "iql": "stacq.algos.iql",
    "bcq": "stacq.algos.bcq",
    "mbts": "stacq.algos.mbts",
    "diffuser": "stacq.algos.diffuser",
    "rambo": "stacq.algos.rambo",
    "graph-scql": "stacq.algos.graph_scql",
    "exact-scql": "stacq.algos.exact_scql",
}
_REGISTERED: dict[str, "Algorithm"] = {}


def names() -> tuple[str, ...]:
    """Every known algorithm, the package's first."""
    return (*BUILT_IN, *_REGISTERED)


def find(name: str) -> "Algorithm":
    """The description behind a name, or in a file of the user. An error about another name gives the nearest one."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in BUILT_IN:
        found: Algorithm = importlib.import_module(BUILT_IN[name]).ALGORITHM
        return found
    if name.endswith(".py"):
        return load_algorithm(Path(name))
    near = difflib.get_close_matches(str(name), names(), n=1)
    raise InputError(
        f"no algorithm is called {name!r}",
        expected=" or ".join(names()),
        fix=f"did you mean {near[0]}?" if near else "choose one, or register your own (docs/guide/own-algorithm.md)",
    )


def register(described: "Algorithm") -> "Algorithm":
    """Make an algorithm of your own known by its name, in this process; registering it again replaces it."""
    from stacq.algos.algorithm import Algorithm

    if not isinstance(described, Algorithm):
        raise InputError(f"cannot register {described!r:.80}", expected="a stacq.Algorithm(...)", where="register")
    if described.name in BUILT_IN:
        raise InputError(
            f"{described.name!r} is an algorithm of the package", where="register", fix="choose another name"
        )
    _REGISTERED[described.name] = described
    return described


def load_algorithm(file: Path) -> "Algorithm":
    """Run a Python file that holds an `ALGORITHM`, and register that. The file is code: it must be yours."""
    if not file.is_file():
        raise InputError("no such file", where=file, expected="a Python file with an ALGORITHM in it")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look up the module of their annotations
    spec.loader.exec_module(module)
    found = getattr(module, "ALGORITHM", None)
    if found is None:
        raise InputError("the file has no ALGORITHM", where=file, expected="ALGORITHM = stacq.Algorithm(...)")
    return register(found)

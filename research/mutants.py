"""Do the tests notice a small fault? Changes one place of a module at a time and runs tests until the first failure.

    python research/mutants.py stacq.report.statistics tests/report/test_statistics.py [--most 100] [--seed 0]

A place is a comparison, an operator, a number, a truth value, a condition, or one of a pair of functions such as min
and max. Every mutant runs in a fork that has imported pytest and the large libraries already. The unchanged module
comes first: its tests must pass. Prints the mutants that pass all tests, and a count. Needs Linux or macOS.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import NamedTuple

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
PAIRS = [("min", "max"), ("minimum", "maximum"), ("fmin", "fmax"), ("any", "all"), ("floor", "ceil")]
NAMES = {**dict(PAIRS), **{second: first for first, second in PAIRS}}
TEXTS = ("fix", "expected")  # keywords of errors: their words are not tested


UNCHANGED = "unchanged"


class Mutant(NamedTuple):
    line: int
    change: str
    code: CodeType


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module as it was changed."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, self._code.co_filename, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, vars(module))


def replacement(node: ast.AST) -> ast.AST | None:
    """What stands in the place of a node; none where nothing is changed."""
    if type(node) in OPERATORS:
        return OPERATORS[type(node)]()
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ast.Constant(node.value + 1 if isinstance(node.value, int) else 2 * node.value or 1.0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return node.operand
    if isinstance(node, ast.Name) and node.id in NAMES:
        return ast.Name(NAMES[node.id], node.ctx)
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return ast.Attribute(node.value, NAMES[node.attr], node.ctx)
    return None


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where code stands that computes: parent, field, and number in a list. No texts, types or decorators."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params", "slice_type"):
            continue
        for number, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            wordy = isinstance(child, ast.JoinedStr) or (isinstance(child, ast.keyword) and child.arg in TEXTS)
            if isinstance(child, ast.AST) and not wordy:
                yield node, field, number
                yield from places(child)


def mutants(module: str) -> Iterator[Mutant]:
    """The unchanged module, and then every change of it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, f"no module {module}"
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    yield Mutant(0, UNCHANGED, compile(tree, spec.origin, "exec"))
    for number, place in enumerate(places(tree)):
        if replacement(_at(place)) is None:
            continue
        changed = copy.deepcopy(tree)
        parent, field, position = next(each for k, each in enumerate(places(changed)) if k == number)
        old = _at((parent, field, position))
        new = replacement(old)
        if position is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[position] = new
        line = getattr(old, "lineno", getattr(parent, "lineno", 0))
        around = ast.unparse(parent)[:100] if not isinstance(parent, ast.Module) else ""
        ast.fix_missing_locations(changed)
        yield Mutant(line, f"{type(old).__name__} changed: {around}", compile(changed, spec.origin, "exec"))


def _at(place: tuple[ast.AST, str, int | None]) -> ast.AST:
    parent, field, number = place
    value = getattr(parent, field)
    found: ast.AST = value if number is None else value[number]
    return found


def survives(module: str, mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Whether all tests pass; one that takes too long is noticed."""
    child = os.fork()
    if not child:
        os.setsid()
        _run(module, mutant, tests)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run(module: str, mutant: Mutant, tests: list[str]) -> None:
    import pytest

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.meta_path.insert(0, Changed(module, mutant.code))
    os._exit(
        pytest.main([*tests, "-x", "-q", "-n0", "-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning"])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--most", type=int, default=100, help="draw so many of the mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="of a test run, by the clock")
    given = parser.parse_args()
    for name in ("pytest", "numpy", "scipy.stats", "pandas", "h5py", "jax", "optax", "gymnasium"):
        if importlib.util.find_spec(name.split(".")[0]):
            __import__(name)
    unchanged, *found = mutants(given.module)
    if not survives(given.module, unchanged, given.tests, given.seconds):
        sys.exit(f"{given.module}: the tests fail, or take longer than {given.seconds:.0f} s, without any change")
    drawn = random.Random(given.seed).sample(found, min(given.most, len(found)))
    alive = 0
    for mutant in sorted(drawn, key=lambda each: each.line):
        if survives(given.module, mutant, given.tests, given.seconds):
            alive += 1
            print(f"{given.module}:{mutant.line}: {mutant.change}", flush=True)
    print(f"{given.module}: mutants={len(drawn)} of {len(found)}, survived={alive}, seed={given.seed}")


if __name__ == "__main__":
    main()

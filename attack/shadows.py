"""Code that must not run: modules in the working directory, and modules that received files name.

Every module leaves a mark when it is imported. Only what the user names herself on the command line may be.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py

from attack.bench import Bench, bring
from attack.mutations import EVIL
from attack.processes import judged, stacq_command, start_afresh
from attack.samples import MAZE, TINY, samples
from attack.verdict import Finding, Kind, Outcome

SECONDS = 180.0
OTHERS = ("sitecustomize", "usercustomize", "evilmod", "numpy", "h5py", "jax", "jaxlib", "numba", "llvmlite", "optax")
MORE = (
    "gymnasium",
    "mujoco",
    "minari",
    "cloudpickle",
    "safetensors",
    "matplotlib",
    "rich",
    "tyro",
    "PIL",
    "onnx",
    "google",
)
BUILT_IN = frozenset(sys.builtin_module_names)
SMALL = ("--steps", "4", "--seeds", "1", "--workers", "1", "--small", *TINY, "--episodes", "1")


def nothing(folder: Path) -> None:
    """The files as they are."""


def evil_run(folder: Path) -> None:
    """A run whose environment is a module's."""
    path = folder / "work" / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "env": EVIL}))


def evil_file(folder: Path) -> None:
    with h5py.File(folder / "work" / "logs.hdf5", "a") as file:
        file.attrs["env_id"] = EVIL


def evil_minari(folder: Path) -> None:
    """A stored specification that names a module twice: in its id and as what makes it."""
    path = folder / "minari" / "mine" / "logs-v0" / "data" / "metadata.json"
    about = json.loads(path.read_text())
    about["stacq"]["env_id"] = ""
    about["env_spec"] = json.dumps({"id": EVIL, "entry_point": EVIL, "kwargs": {}, "additional_wrappers": []})
    path.write_text(json.dumps(about))


@dataclass(frozen=True)
class Case:
    """A command in a folder full of shadows."""

    arguments: tuple[str, ...]
    change: Callable[[Path], None] = nothing
    also: tuple[str, ...] = ()  # shadows besides those that every case has


MINARI = "minari:mine/logs-v0"
CASES = (
    Case(("evaluate", "policy.safetensors", "--env", "stacq/Maze-stitching-v0", "--episodes", "1", "--workers", "1")),
    Case(("evaluate", "run", "--episodes", "1", "--workers", "1"), also=("stacq",)),
    Case(("train", "logs.hdf5", "--algo", "bc", *SMALL), evil_file),
    Case(("data", "list")),
    Case(("data", "inspect", "logs.npz")),
    Case(("data", "convert", "logs.npz", "out.hdf5")),
    Case(("data", "convert", "logs.npz", "minari:mine/new-v0")),
    Case(("data", "generate", "hopper-random", "--size", "100", "--workers", "1")),
    Case(("report", "run")),
    Case(("export", "run", "--format", "onnx")),
    Case(("maze", "maze.txt")),
    Case(("train", MAZE, "--algo", "bc", *SMALL)),
    Case(("evaluate", "run", "--episodes", "1", "--workers", "1"), evil_run),
    Case(("report", "run"), evil_run),
    Case(("data", "inspect", "logs.hdf5"), evil_file),
    Case(("data", "convert", "logs.hdf5", "minari:mine/new-v0"), evil_file),
    Case(("run", "logs.hdf5", "--algos", "bc", "--steps", "4", "--seeds", "1", "--workers", "1"), evil_file),
    Case(("data", "inspect", MINARI), evil_minari),
    Case(("data", "convert", MINARI, "out.hdf5"), evil_minari),
    Case(("train", MINARI, "--algo", "bc", *SMALL), evil_minari),
)


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    sample = samples(bench)
    for number in numbers:
        if number >= len(CASES):
            return
        yield Outcome(number, tuple(shadowed(bench, sample, CASES[number])))


def shadowed(bench: Bench, sample: Path, case: Case) -> list[Finding]:
    folder = bench.fresh("shadows")
    bring(sample, folder, ("work", "minari"))
    case.change(folder)
    marks = bench.folder / "cases" / "marks"
    shutil.rmtree(marks, ignore_errors=True)
    marks.mkdir()
    for name in (*(sys.stdlib_module_names - BUILT_IN), *OTHERS, *MORE, *case.also):
        mark = f"open({str(marks / name)!r}, 'w').close()\n"
        (folder / "work" / f"{name}.py").write_text(mark)
    what = f"{shlex.join(['stacq', *case.arguments])}, {case.change.__name__.replace('_', ' ')}, among shadows"
    answer = start_afresh(bench.shared, folder, [*stacq_command(), *case.arguments], seconds=SECONDS)
    ran = sorted(each.name for each in marks.iterdir())
    findings = [Finding(Kind.STATE, what, f"imported from the working directory: {', '.join(ran)}")] if ran else []
    return findings + judged(answer, what)

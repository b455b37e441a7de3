"""A warm process that reads one damaged file after the other: `python -m attack.reading FOLDER SHARED SEED`.

A number comes in as a line. The name of its input and what became of it go out, each as a line of JSON. The process
may hang or die of a file: whoever asks finds out, and starts another one.
"""

import json
import os
import resource
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from attack.bench import Bench
from attack.crafted import CRAFTED
from attack.loopback import stay_home
from attack.targets import TARGETS, Target

CATEGORY = "files"
FREE = 384 << 20  # bytes that reading a small file may take
TIMES = 16  # and so many times its size
SPARE = 4 << 30  # beyond what the process has when it begins: the machine must survive


class Input(NamedTuple):
    """What is to be read, by whom, and whether it must be refused."""

    name: str
    path: Path
    read: Callable[[Path], object]
    refused: bool


def answer(case: Input, folder: Path) -> dict[str, Any]:
    """Read the input, and say what came of it."""
    from stacq.core.errors import InputError

    path = case.path
    size = sum(each.stat().st_blocks * 512 for each in (path, *path.rglob("*")) if each.exists())
    before = _mark_memory()
    try:
        case.read(path)
        result, detail = "read", ""
    except InputError as error:
        result, detail = "refused", str(error)
    except BaseException:
        result, detail = "failed", traceback.format_exc()
    if case.refused and result == "read":
        result, detail = "failed", "it was read, and should have been refused"
    if (folder / "MARK").exists():
        result, detail = "failed", "code from the file was run"
    used = _peak_memory() - before
    return {"result": result, "detail": detail, "size": size, "memory": used, "limit": FREE + TIMES * size}


def made(bench: Bench, number: int, folder: Path) -> Input:
    """The crafted files come first, then damaged ones without end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if number < len(CRAFTED):
        crafted = CRAFTED[number]
        return Input(crafted.name, crafted.build(folder), crafted.read, crafted.refused)
    rng = bench.rng(CATEGORY, number)
    among = _present(bench)
    target = among[number % len(among)]
    path = target.prepare(bench.shared / "samples", folder, rng)
    target.spoil(path, rng)
    return Input(target.name, path, target.read, False)


@cache
def _present(bench: Bench) -> Sequence[Target]:
    """The targets whose samples were made, as often as their weights say."""
    found: list[Target] = []
    for target in TARGETS:
        trial = bench.folder / "cases" / f"trial-{os.getpid()}"
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir(parents=True)
        try:
            target.prepare(bench.shared / "samples", trial, bench.rng("trial", 0))
        except (StopIteration, FileNotFoundError):
            continue
        found += [target] * target.weight
        shutil.rmtree(trial)
    return found


def _mark_memory() -> int:
    """Forget the peak so far, and say what is in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak_memory() -> int:
    return _status("VmHWM")


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def main(folder: str, shared: str, seed: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bench = Bench(Path(folder), int(seed), shared=Path(shared))
    _present(bench)
    stay_home()
    limit = _status("VmSize") + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["MINARI_DATASETS_PATH"] = f"{folder}/cases/none"
    place = bench.folder / "cases" / f"files-{os.getpid()}"
    while line := sys.stdin.readline():
        case = made(bench, int(line), place)
        tell(answers, case.name)
        tell(answers, answer(case, place))


def tell(answers: TextIO, value: object) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Pipes, devices, folders, links and giants in the place of every file that is read or written."""

import os
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attack.bench import Bench, bring
from attack.hostile import DATASET, FILE
from attack.processes import Request, judged
from attack.samples import REACHING, SCORING, TRAINED, samples
from attack.verdict import Finding, Kind, Outcome

SECONDS = 30.0
MEMORY = 1 << 30  # bytes; what JAX needs for next to nothing is well below
GIANT = 20 << 30


@dataclass(frozen=True)
class Slot:
    """A file, by its place in a case, and a command that uses it."""

    place: str
    arguments: tuple[str, ...]
    output: bool = False


INSPECT = ("data", "inspect")
DOWNLOAD = ("data", "download", DATASET)
EXPORT = ("export", "policy.safetensors", "--format", "c", "--force")
SLOTS = (
    Slot("work/logs.npz", (*INSPECT, "logs.npz")),
    Slot("work/logs.hdf5", (*INSPECT, "logs.hdf5")),
    Slot("work/logs.csv", (*INSPECT, "logs.csv")),
    Slot("work/logs.csv", (*INSPECT, "logs.csv", "--columns", "columns.toml")),
    Slot("work/columns.toml", (*INSPECT, "logs.csv", "--columns", "columns.toml")),
    Slot("minari/mine/logs-v0/data/metadata.json", (*INSPECT, "minari:mine/logs-v0")),
    Slot("minari/mine/logs-v0/data/main_data.hdf5", (*INSPECT, "minari:mine/logs-v0")),
    Slot("minari/mine/logs-v0/data", (*INSPECT, "minari:mine/logs-v0")),
    Slot("work/policy.safetensors", ("evaluate", "policy.safetensors", *SCORING)),
    Slot("work/run/policies/seed-0.safetensors", ("evaluate", "run", *SCORING)),
    Slot("work/run/policies", ("evaluate", "run", *SCORING)),
    Slot("work/policy.safetensors", EXPORT),
    *(
        Slot(f"work/run/{name}", ("export", "run", "--format", "c"))
        for name in ("config.json", "result.json", "policies")
    ),
    *(
        Slot(f"work/run/{name}", command)
        for name in ("config.json", "result.json")
        for command in (("report", "run"), ("evaluate", "run", *SCORING), TRAINED)
    ),
    *(
        Slot(f"work/run/{name}", command)
        for name in ("metrics.jsonl", "records.csv", "environment.json", "log.txt", "reach.json", "dynamics.json")
        for command in (("report", "run"), TRAINED)
    ),
    Slot("work/run/lock", TRAINED),
    Slot("work/run/checkpoints", TRAINED),
    Slot("work/maze.txt", ("maze", "maze.txt")),
    Slot("home/data/hashes.json", DOWNLOAD),
    Slot("home/config.toml", DOWNLOAD),
    Slot(f"home/data/d4rl/{FILE}", DOWNLOAD),
    Slot(f"home/data/d4rl/{FILE}.part", DOWNLOAD),
    Slot(f"home/data/d4rl/{FILE}.part.json", DOWNLOAD),
    Slot("home/data", ("data", "list")),
    Slot("work/dynamics/manifest.json", REACHING),
    Slot("work/dynamics/arrays.safetensors", REACHING),
    Slot("work/dynamics/quality.json", ("train", "logs.npz", "--dynamics", "dynamics", "--steps", "4", "--seeds", "1")),
    Slot("home", ("data", "convert", "logs.npz", "minari:mine/new-v0"), output=True),
    Slot("work/out.hdf5", ("data", "convert", "logs.npz", "out.hdf5", "--force"), output=True),
    Slot("work/page.html", ("report", "run", "--out", "page.html"), output=True),
    Slot("work/policy.h", EXPORT, output=True),
    Slot("work/policy.onnx", ("export", "policy.safetensors", "--format", "onnx", "--force"), output=True),
    Slot("work/drawn", ("maze", "maze.txt", "--out", "drawn"), output=True),
    Slot("work/picture.png", (*INSPECT, "logs.npz", "--out", "picture.png"), output=True),
    Slot("work/scored", ("evaluate", "policy.safetensors", *SCORING), output=True),
    Slot("minari/mine/new-v0", ("data", "convert", "logs.npz", "minari:mine/new-v0"), output=True),
)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def directory(path: Path) -> None:
    path.mkdir()


def dangling(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def listener(path: Path) -> None:
    """A socket; its name may be too long for one where the case lies."""
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as each:
            each.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def empty(path: Path) -> None:
    path.touch()


def giant(path: Path) -> None:
    """Gigabytes of nothing, behind the first bytes of a true file if there are any."""
    with open(path, "ab") as handle:
        handle.truncate(GIANT)


KINDS: tuple[Callable[[Path], None], ...] = (pipe, endless, directory, dangling, circle, listener, empty, giant)
HARMLESS = (pipe, directory, dangling, circle, listener, empty)  # in the place of what is written


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    """Every kind in the place of every file; the order mixes both."""
    sample = samples(bench)
    cases = [
        (slot, kind)
        for slot in SLOTS
        for kind in (HARMLESS if slot.output else KINDS)
        if slot.output or needs(sample, slot)
    ]
    for number in numbers:
        if number >= len(cases):
            return
        slot, kind = cases[number * 61 % len(cases)] if len(cases) % 61 else cases[number]
        yield Outcome(number, tuple(replaced(bench, sample, slot, kind)))


def needs(sample: Path, slot: Slot) -> bool:
    """Whether what the command starts from was made."""
    return "dynamics" not in slot.arguments or (sample / "work" / "dynamics").exists()


def replaced(bench: Bench, sample: Path, slot: Slot, kind: Callable[[Path], None]) -> list[Finding]:
    folder = bench.fresh("specials")
    bring(sample, folder, ("work", "minari") if (sample / "minari").exists() else ("work",))
    path = folder / slot.place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    elif kind is not giant:
        path.unlink(missing_ok=True)
    kind(path)
    what = f"{shlex.join(['stacq', *slot.arguments])}, {kind.__name__} in the place of {slot.place}"
    answer = bench.server.run(Request(slot.arguments, str(folder), SECONDS))
    findings = judged(answer, what, memory=MEMORY)
    if answer.interrupted and not answer.hung:
        findings.append(Finding(Kind.HANG, what, f"not done after {SECONDS:.0f} s"))
    return findings

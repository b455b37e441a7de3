"""The same few commands where the world around them is odd: streams, limits, variables, a folder that is gone."""

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attack.bench import Bench, bring
from attack.commands import hidden
from attack.processes import judged, stacq_command, start_afresh
from attack.samples import MAZE, TINY, samples
from attack.verdict import Finding, Outcome

SECONDS = 120.0
NOBODY = (
    "import pwd, sys\n"
    "def unknown(*_): raise KeyError('no such user')\n"
    "pwd.getpwuid = unknown\n"
    "from stacq.__main__ import main\n"
    "main()\n"
)


@dataclass(frozen=True)
class World:
    """What is odd: a line of shell around the command `"$@"`, or variables."""

    name: str
    shell: str = 'exec "$@"'
    variables: dict[str, str | None] = field(default_factory=dict)
    nobody: bool = False


WORLDS = (
    World("nothing odd"),
    World("no standard output", 'exec "$@" >&-'),
    World("no standard error", 'exec "$@" 2>&-'),
    World("no standard input", 'exec "$@" <&-'),
    World("no streams", 'exec "$@" <&- >&- 2>&-'),
    World("a full device", 'exec "$@" >/dev/full'),
    World("full devices", 'exec "$@" >/dev/full 2>/dev/full'),
    World("ASCII alone", variables={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}),
    World("Latin", variables={"PYTHONIOENCODING": "latin-1"}),
    World("no home", variables={"HOME": None, "STACQ_HOME": None, "MINARI_DATASETS_PATH": None}, nobody=True),
    World("a user who is not there", variables={"STACQ_HOME": "~nosuch/x"}),
    World("an empty cache", variables={"STACQ_HOME": ""}),
    World("a relative cache", variables={"STACQ_HOME": "here"}),
    World("a file for a cache", variables={"STACQ_HOME": "/etc/passwd"}),
    World("a cache of too long a name", variables={"STACQ_HOME": "x" * 5000}),
    World("a file for Minari", variables={"MINARI_DATASETS_PATH": "/etc/passwd"}),
    World("no folder for temporary files", variables={"TMPDIR": "/nowhere"}),
    World("no width", variables={"COLUMNS": "0", "LINES": "0"}),
    World("senseless width", variables={"COLUMNS": "x", "TERM": "dumb"}),
    World("a working directory that is gone", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'),
    World("500 MB of addresses", 'ulimit -v 500000; exec "$@"'),
    World("2 GB of addresses", 'ulimit -v 2000000; exec "$@"'),
    World("sixteen open files", 'ulimit -n 16; exec "$@"'),
    World("warnings are errors", variables={"PYTHONWARNINGS": "error"}),
    World("no assertions", variables={"PYTHONOPTIMIZE": "2"}),
    World("time of nowhere", variables={"TZ": "Nowhere/Nowhere"}),
)
COMMANDS = (
    ("data", "list"),
    ("data", "convert", "logs.npz", "out.hdf5"),
    ("report", "run"),
    ("data", "inspect", "\udcff.npz"),
    (
        "train",
        MAZE,
        "--algo",
        "bc",
        "--steps",
        "4",
        "--seeds",
        "1",
        "--workers",
        "1",
        "--small",
        *TINY,
        "--episodes",
        "1",
    ),
)


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    sample = samples(bench)
    for number in numbers:
        if number >= len(WORLDS) * len(COMMANDS):
            return
        world, command = WORLDS[number % len(WORLDS)], COMMANDS[number // len(WORLDS)]
        yield Outcome(number, tuple(surrounded(bench, sample, world, command)))


def surrounded(bench: Bench, sample: Path, world: World, command: tuple[str, ...]) -> list[Finding]:
    folder = bench.fresh("surroundings")
    bring(sample, folder, ("work",))
    entry = [sys.executable, "-c", NOBODY] if world.nobody else stacq_command()
    line = ["sh", "-c", world.shell, "sh", *entry, *command]
    what = f"{world.name}: {shlex.join(['stacq', *command])}".encode("utf-8", "backslashreplace").decode()
    answer = start_afresh(bench.shared, folder, line, seconds=SECONDS, changes=world.variables)
    return judged(answer, what) + hidden(folder, what)

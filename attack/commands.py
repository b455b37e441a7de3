"""Command lines at random: every verb and option, with values that are wrong in every way we know.

Whatever is asked, the program ends with 0, 1 or 2, or with 130 once its time is up and it gets Ctrl-C; it never shows
a traceback, leaves nothing half made, and writes nowhere but in its own places.
"""

import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from attack.bench import CASE, Bench, bring
from attack.hostile import DATASET
from attack.options import Option, Verb, verbs
from attack.processes import Request, judged
from attack.samples import samples
from attack.verdict import Finding, Kind, Outcome

Rng = np.random.Generator
T = TypeVar("T")
CATEGORY = "commands"
SECONDS = {True: 6.0, False: 20.0}  # until Ctrl-C: short or long attack

LONG = "x" * 300
NUMBERS = ("-1", "0", "1", "2", "3", "-0", "+2", "1.5", "1e3", "nan", "inf", "-inf", "", " ", "x", "0x10", "1_0", "٣")
HUGE = ("9" * 25, "-" + "9" * 25, str(2**31), str(2**32), str(2**63), str(2**64), "99999999999999")
REALS = ("0", "1", "-1", "0.5", "1e-300", "1e400", "-1e400", "nan", "inf", "-inf", "x", "", "1,5", "1e38")
TEXTS = ("", " ", "x", LONG, "x" * 5000, "a/b", "..", ".", "-", "--", "\x1b[31m", "naïve", "\udcff", "a\nb", "%s", "{}")
NAMES = (
    "hopper-medium-v2",
    DATASET,
    "stacq/maze-sparse-v0",
    "hoper-medium",
    "behaviour/hopper-medium",
    "behaviour/",
    "stacq/",
)
MINARI = (
    "minari:",
    "minari:mine/logs-v0",
    "minari:../x-v0",
    "minari:a/b-v0",
    f"minari:{LONG}-v0",
    "minari:x-v0/../y-v0",
)
FILES = (
    "logs.npz",
    "logs.hdf5",
    "logs.csv",
    "policy.safetensors",
    "maze.txt",
    "run",
    "dynamics",
    "none.hdf5",
    "none.npz",
    "new",
)
OUTPUTS = (
    "out.hdf5",
    "out.png",
    "out.svg",
    "out.pdf",
    "out.h",
    "out.onnx",
    "a/b/c/out.hdf5",
    f"{LONG}.hdf5",
    "x" * 252 + ".h5",
    "logs.npz/x",
)
ENVIRONMENTS = ("Hopper-v4", "Hopper-v2", "CartPole-v1", "stacq/Maze-sparse-v0", "evilmod:Foo-v0", "x:y:z", "-v0", ":")
SETTINGS = ("hidden=8,8", "batch=16", "batch=0", "hidden=", "alpha=nan", "=", "x=1", "learning_rate=1e999", "hidden=-1")
FORMULAS = ("-abs(obs_0)", "next(obs_1) - obs_1", "obs_0 > 1", "9**9**9", "reward", "obs_0.real", "(", "-", *TEXTS)
SAFE_NUMBERS = {"--workers": ("1", "0", "-1", "x", ""), "--seeds": ("1", "0", "-1", "2", "x")}
USUAL = {
    "train": ("--steps", "4", "--seeds", "1", "--workers", "1", "--no-evaluate"),
    "run": ("--steps", "4", "--seeds", "1", "--workers", "1", "--algos", "bc"),
    "evaluate": ("--episodes", "1", "--workers", "1"),
    "fit": ("--preset", "small", "--epochs", "1"),
    "reach": (
        "--actions",
        "8",
    ),
    "generate": ("--size", "100", "--workers", "1"),
}
SOURCES = (*FILES, *NAMES, *MINARI, *TEXTS)


@cache
def known_verbs() -> Sequence[Verb]:
    return verbs()


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    sample = samples(bench)
    inputs = ("work", "minari") if (sample / "minari").exists() else ("work",)
    for number in numbers:
        arguments = command_line(bench.rng(CATEGORY, number))
        folder = bench.fresh("commands")
        bring(sample, folder, inputs)
        before = set(outside(folder))
        answer = bench.server.run(Request(arguments, str(folder), SECONDS[bench.short]))
        what = f"{number}: {shlex.join(['stacq', *arguments])[:600]}"
        findings = judged(answer, what) + hidden(folder, what)
        escaped = set(outside(folder)) - before
        if escaped and ".." not in arguments:
            findings.append(Finding(Kind.STATE, what, f"written outside of what was named: {', '.join(escaped)}"))
        yield Outcome(number, tuple(findings))


def command_line(rng: Rng) -> tuple[str, ...]:
    """A verb with a few of its options; most values are of the right kind, so that many lines get far."""
    verb = draw(rng, known_verbs())
    words = list(verb.words)
    for option in verb.options:
        if option.positional and rng.random() < 0.95:
            words += values(option, rng)
    named = [option for option in verb.options if not option.positional]
    words += USUAL.get(verb.words[-1], ())
    for option in draws(rng, named, int(rng.integers(0, 4))):
        words += flagged(option, rng)
    if rng.random() < 0.05:
        words.insert(int(rng.integers(len(words) + 1)), draw(rng, TEXTS))
    return tuple(word.replace("\x00", "") for word in words)


def flagged(option: Option, rng: Rng) -> list[str]:
    if option.kind == "bool":
        return [option.flag if rng.random() < 0.5 else f"--no-{option.flag[2:]}"]
    return [option.flag, *values(option, rng)]


def values(option: Option, rng: Rng) -> list[str]:
    count = int(rng.integers(0, 4)) if option.many else 1
    return [value(option, rng) for _ in range(count)]


def value(option: Option, rng: Rng) -> str:
    """Fit for its option three times in four; otherwise anything."""
    if rng.random() < 0.08 and option.flag not in SAFE_NUMBERS:
        return draw(rng, (*TEXTS, *HUGE))
    if option.flag in SAFE_NUMBERS:
        return draw(rng, SAFE_NUMBERS[option.flag])
    match option.kind:
        case "choice":
            return draw(rng, (*option.choices, *option.choices, "x", ""))
        case "int":
            return draw(rng, (*NUMBERS, *HUGE))
        case "float":
            return draw(rng, REALS)
    return draw(rng, texts_for(option.flag))


def texts_for(flag: str) -> Sequence[str]:
    match flag:
        case "--env":
            return (*ENVIRONMENTS, *TEXTS)
        case "--set":
            return (*SETTINGS, *TEXTS)
        case "--out" | "--picture" | "--target":
            return (*OUTPUTS, *FILES, *MINARI, *TEXTS)
        case "--columns":
            return ("columns.toml", "columns.toml", *FILES, *TEXTS)
        case "--reward" | "--terminal" | "--timeout":
            return FORMULAS
        case "--episode-column" | "--time-column" | "--observation-columns" | "--action-columns":
            return ("run", "t", "obs_*", "action_*", "obs_0", "*", *TEXTS)
        case "--mirrors":
            return ("http://127.0.0.1:9/{file}", "ftp://127.0.0.1/", "http://", "file:///etc/passwd", *TEXTS)
        case "--name":
            return (*NAMES, *NAMES, *TEXTS)
        case "--policy" | "--runs":
            return (*FILES, *NAMES, *TEXTS)
    return SOURCES


def draw(rng: Rng, among: Sequence[T]) -> T:
    return among[int(rng.integers(len(among)))]


def draws(rng: Rng, among: Sequence[T], count: int) -> list[T]:
    return [among[int(place)] for place in rng.permutation(len(among))[:count]]


def hidden(folder: Path, what: str) -> list[Finding]:
    """Nothing half made may stay when a command has ended by itself."""
    left = [
        str(path.relative_to(folder))
        for path in folder.rglob(".*")
        if path.name.endswith((".part", ".lock", ".gone")) or path.name.startswith(".stacq-")
    ]
    return [Finding(Kind.LEFTOVER, what, f"left behind: {', '.join(left)}")] if left else []


def outside(folder: Path) -> Iterator[str]:
    """What lies beside the places that a command may write in."""
    for path in (*folder.iterdir(), *folder.parent.iterdir()):
        if path.name not in CASE:
            yield str(path)

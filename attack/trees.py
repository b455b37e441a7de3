"""What a command left: folders as plain facts, compared."""

import contextlib
import hashlib
import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from attack.verdict import Finding, Kind

Tree = Mapping[str, str]  # relative path -> what must be equal
APPENDED = ("metrics.jsonl", "records.csv", "log.txt", "lock")  # a run writes these line by line


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below, by what a repeated run promises of it."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            name = str(path.relative_to(folder))
            if stat.S_ISREG(mode):
                tree[name] = _promised(path)
            elif not stat.S_ISDIR(mode):
                tree[name] = f"special {stat.S_IFMT(mode):o}"
            elif not any(path.iterdir()):
                tree[name] = "empty folder"
    return tree


def _promised(path: Path) -> str:
    """A digest, of what does not hold times."""
    content = path.read_bytes()
    reduce = REDUCED.get(path.name) or REDUCED.get(path.suffix)
    if reduce is not None:
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
            content = reduce(content)
    return hashlib.sha256(content).hexdigest()[:16]


def _pinned(content: bytes) -> bytes:
    """The checksums alone: where a file came from holds the number of a port."""
    return json.dumps({name: pin["sha256"] for name, pin in json.loads(content).items()}).encode()


def _without(*keys: str) -> Callable[[bytes], bytes]:
    def reduce(content: bytes) -> bytes:
        found = json.loads(content)
        return json.dumps({key: value for key, value in found.items() if key not in keys}).encode()

    return reduce


def _metrics(content: bytes) -> bytes:
    lines = [json.loads(line) for line in content.splitlines()]
    return "\n".join(sorted(json.dumps({**line, "time": 0}, sort_keys=True) for line in lines)).encode()


REDUCED: Mapping[str, Callable[[bytes], bytes]] = {
    "hashes.json": _pinned,
    "environment.json": _without("started"),
    "metrics.jsonl": _metrics,
    "records.csv": lambda content: b"\n".join(sorted(content.splitlines())),
    "log.txt": lambda content: b"",
    ".html": lambda content: b"",  # a page says when its runs were made
}


def compared(found: Tree, expected: Tree, what: str) -> list[Finding]:
    """What is there and should not be, what is missing, and what differs."""
    extra = sorted(found.keys() - expected.keys())
    missing = sorted(expected.keys() - found.keys())
    other = sorted(name for name in found.keys() & expected.keys() if found[name] != expected[name])
    findings = []
    if extra:
        findings.append(Finding(Kind.LEFTOVER, what, f"left behind: {', '.join(extra)}"))
    if missing or other:
        findings.append(Finding(Kind.STATE, what, f"missing: {', '.join(missing)}; different: {', '.join(other)}"))
    return findings


def torn(found: Tree, before: Tree, after: Tree, what: str) -> list[Finding]:
    """Files under their final names that are neither as they were nor as they should become."""
    half = [
        name
        for name, digest in found.items()
        if name in after and digest not in (after[name], before.get(name)) and Path(name).name not in APPENDED
    ]
    return [Finding(Kind.STATE, what, f"half made under its final name: {', '.join(half)}")] if half else []

"""Damage with a sense of form: JSON that still parses, archives whose checksums still fit, tables with odd cells."""

import copy
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import mutate

Rng = np.random.Generator

DEEP = "@deep@"  # stands for nesting that no reader should follow
SCRIPT = "<script>alert(1)</script>"
EVIL = "evilmod:Foo-v0"  # a module that leaves a mark when it is imported
NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**70, -(2**70), 0.5, 1e308, float("inf"), float("nan")),
    *("", "x", "x" * 300, "\x1b]0;owned\x07", "\ud800", "\x00", "../../../evil", "/dev/zero", EVIL, SCRIPT, DEEP),
    *([], {}, [1], [[]], [None], {"": None}, {"id": EVIL}, [1, "a"], list(range(2000))),
)
DESCRIPTIONS = ("|O", "<f8", "|S1000000000", "<U4", "|V7", "<M8[s]", "<c16", "nonsense", ">f2", "<i8", "|b1")
SHAPES = ("()", "(0,)", "(-1,)", "(1 << 60,)", "(1152921504606846976,)", "(4, 1000000000)", "None", "(1.5,)", "(2")


def pick(rng: Rng, among: Sequence[Any]) -> Any:
    return among[int(rng.integers(len(among)))]


def odd_json(content: bytes, rng: Rng) -> bytes:
    """The same document with one to three values replaced, removed or renamed."""
    try:
        document = json.loads(content)
    except ValueError:
        return mutate(content, rng)
    for _ in range(int(rng.integers(1, 4))):
        document = _odd(document, rng)
    return _dumped(document)


def _odd(document: Any, rng: Rng) -> Any:
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places or rng.random() < 0.05:
        return pick(rng, NASTY)
    owner, key = pick(rng, places)
    match int(rng.integers(4)):
        case 0:
            del owner[key]
        case 1 if isinstance(owner, dict):
            owner[str(pick(rng, ("", "x", "\x1b[2J", "stacq", "0", "-1")))] = owner.pop(key)
        case 2:
            owner[key] = [owner[key]] if rng.random() < 0.5 else {"x": owner[key]}
        case _:
            owner[key] = pick(rng, NASTY)
    return document


def _places(value: Any) -> Sequence[tuple[Any, Any]]:
    """Every entry of every object and list, by its owner and its key."""
    keys: Sequence[Any] = (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found += [(value, key), *_places(value[key])]
    return found


def _dumped(document: Any) -> bytes:
    nested = "[" * 100_000 + "]" * 100_000
    return json.dumps(document).replace(f'"{DEEP}"', nested).encode()


def odd_lines(content: bytes, rng: Rng) -> bytes:
    """A file of one JSON object per line, some of them odd."""
    lines = content.splitlines()
    if not lines:
        return b"\xff\n"
    place = int(rng.integers(len(lines)))
    lines[place] = odd_json(lines[place], rng)
    return b"\n".join(lines) + b"\n"


def odd_cells(content: bytes, rng: Rng) -> bytes:
    """Text in which words or cells are replaced by others of no sense."""
    text = content.decode("utf-8", "surrogateescape")
    separator = "," if text.count(",") > text.count(" ") else " "
    words = text.split(separator)
    for _ in range(int(rng.integers(1, 4))):
        value = pick(rng, NASTY)
        words[int(rng.integers(len(words)))] = str(value)[:2000]
    return separator.join(words).encode("utf-8", "surrogatepass")


def odd_tensors(content: bytes, rng: Rng) -> bytes:
    """A safetensors file whose header is odd and says its true length."""
    length = int.from_bytes(content[:8], "little")
    header = odd_json(content[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def odd_archive(content: bytes, rng: Rng) -> bytes:
    """An npz file with one odd array: the archive around it is sound."""
    members = _members(content)
    name = pick(rng, sorted(members))
    match int(rng.integers(6)):
        case 0:
            members[name] = mutate(members[name], rng)
        case 1:
            members[name] = members[name][: int(rng.integers(len(members[name])))]
        case 2:
            members[str(pick(rng, ("x.npy", "../evil.npy", "infos/\x1b[2J.npy", "observations")))] = members.pop(name)
        case 3:
            members[name] = saved(_retyped(members[name], rng))
        case _:
            members[name] = _odd_header(members[name], rng)
    return zipped(members)


def _odd_header(member: bytes, rng: Rng) -> bytes:
    description, shape = pick(rng, DESCRIPTIONS), pick(rng, SHAPES)
    text = f"{{'descr': '{description}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return member[:8] + len(text).to_bytes(2, "little") + text.encode() + member[128:]


def _retyped(member: bytes, rng: Rng) -> Any:
    with io.BytesIO(member) as handle:
        array: Any = np.load(handle, allow_pickle=False)
    return odd_array(array, rng)


def odd_array(array: Any, rng: Rng) -> Any:
    """An array of another shape or type, or with values that are no numbers."""
    match int(rng.integers(7)):
        case 0:
            return array[..., None]
        case 1:
            return array.reshape(-1)[: int(rng.integers(array.size + 1))]
        case 2:
            return np.zeros((0, *array.shape[1:]), array.dtype)
        case 3:
            return np.full(array.shape, pick(rng, [np.nan, np.inf, -np.inf, 1e38, -1.0]))
        case 4:
            return np.array(float(rng.random()))
        case 5:
            with np.errstate(all="ignore"):
                return array.astype(pick(rng, [np.int8, np.uint64, np.float16, np.bool_, np.float64]))
        case _:
            return np.concatenate([array, array]) if array.ndim else array


def saved(array: Any) -> bytes:
    with io.BytesIO() as handle:
        np.save(handle, array)
        return handle.getvalue()


def zipped(members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    with io.BytesIO() as handle:
        with zipfile.ZipFile(handle, "w", how) as archive:
            for name, member in members.items():
                archive.writestr(name, member)
        return handle.getvalue()


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def damage(path: Path, rng: Rng) -> None:
    """Damage a file, half the time as bytes and half the time in the way that its kind suggests."""
    odd: Callable[[bytes, Rng], bytes] = ODD.get(path.suffix, mutate)
    change = odd if rng.random() < 0.6 else mutate
    path.write_bytes(change(path.read_bytes(), rng))


ODD: dict[str, Callable[[bytes, Rng], bytes]] = {
    ".json": odd_json,
    ".jsonl": odd_lines,
    ".csv": odd_cells,
    ".txt": odd_cells,
    ".toml": odd_cells,
    ".safetensors": odd_tensors,
    ".npz": odd_archive,
}

"""Minari's dataset directories: where they lie and what they say about themselves."""

import contextlib
import difflib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import exists, expanded
from stacq.core.outside import has_shape
from stacq.core.reading import plain, read_text
from stacq.core.types import Floats
from stacq.data.conventions import Conventions
from stacq.envs.ids import StoredId

ROOT_VARIABLE = "MINARI_DATASETS_PATH"
METADATA = "metadata.json"
MAIN_FILE = "main_data.hdf5"
REQUIRED_FACTS = ("data_format", "total_episodes", "observation_space", "action_space")
OURS = "stacq"  # our own key of metadata.json: what Minari's spaces cannot say exactly
INSTALL = "pip install 'stacq[minari]'"
FOREIGN = (
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    AssertionError,
    MemoryError,
    OverflowError,
)
LARGEST = 1 << 24  # numbers in one entry of a space; a claim of more would fill the memory with bounds


def minari_root() -> Path:
    """Minari's local root: `MINARI_DATASETS_PATH` if set, else `~/.minari/datasets`."""
    return Path(os.environ.get(ROOT_VARIABLE) or expanded("~/.minari/datasets", ROOT_VARIABLE))


@dataclass(frozen=True)
class Leaf:
    """One Box of a space, and where its values lie inside an episode's group."""

    path: str
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    low: Floats  # [size]
    high: Floats  # [size]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """What to take from every episode."""

    observations: tuple[Leaf, ...]
    actions: Leaf
    infos: tuple[str, ...]
    where: str


def locate(source: str | Path) -> Path:
    path = Path(source)
    if exists(path / "data") and (path / "data").is_dir():
        return path
    if isinstance(source, Path):
        raise InputError(
            "there is no Minari dataset here" if path.is_dir() else "no such directory",
            where=path,
            expected="the directory of a Minari dataset, with data/ inside",
            fix="check the path, or give the dataset's id as a string",
        )
    if os.path.isdir(minari_root() / source / "data"):
        return minari_root() / source
    raise _not_found(source)


def is_stored(dataset_id: str) -> bool:
    """Whether Minari's local root holds a dataset of that id."""
    parts = Path(dataset_id).parts
    if not parts or Path(dataset_id).is_absolute() or ".." in parts:
        return False
    return exists(minari_root() / dataset_id / "data" / METADATA)


def _not_found(dataset_id: str) -> InputError:
    near = difflib.get_close_matches(dataset_id, list(_local_ids()), n=3, cutoff=0.5)
    guess = f"; on this machine: {', '.join(near)}" if near else ""
    return InputError(
        f"the Minari dataset '{dataset_id}' is not on this machine",
        where=minari_root(),
        expected=f"a dataset in Minari's local root (set {ROOT_VARIABLE} if it is elsewhere), or a directory",
        fix=f"run `minari download {dataset_id}` first (`{INSTALL}` brings the command){guess}",
    )


def _local_ids() -> Iterator[str]:
    root = minari_root()
    for directory, folders, _ in os.walk(root):
        if "data" in folders:
            folders.clear()
            yield Path(directory).relative_to(root).as_posix()
        folders[:] = [name for name in folders if not name.startswith(".")]  # Minari does not list these either


def metadata_of(directory: Path) -> dict[str, Any]:
    path = directory / "data" / METADATA
    if not path.exists():
        raise damaged("the file is missing", path, expected="the metadata that Minari 0.5 and later write")
    with damage_named(path):
        about: dict[str, Any] = dict(json.loads(read_text(path)))
        missing = [key for key in REQUIRED_FACTS if about.get(key) is None]
        if missing:
            raise damaged(f"the metadata does not state {', '.join(missing)}", path)
        return {**about, "total_episodes": _count(about["total_episodes"]), OURS: _own_facts(about.get(OURS) or {})}


def _count(stored: Any) -> int:
    if not isinstance(stored, int) or stored < 0:
        raise ValueError(f"total_episodes is {stored!r}, not a number of episodes")
    return int(stored)


def _own_facts(stored: Any) -> dict[str, Any]:
    """What `write_minari` adds for itself; other keys of the same name are somebody's mistake."""
    if not isinstance(stored, dict) or not isinstance(stored.get("provenance") or {}, dict):
        raise TypeError(f"'{OURS}' holds {str(stored)[:80]}, not the facts that stacq writes")
    origins = dict(stored.get("provenance") or {})
    return {**stored, "provenance": {plain(str(key)): plain(str(value)) for key, value in origins.items()}}


def layout_of(about: Mapping[str, Any], infos: Sequence[str], directory: Path) -> Layout:
    where = str(directory)
    actions = _leaves(_decoded(about["action_space"]), "actions", where)
    if [leaf.path for leaf in actions] != ["actions"] or actions[0].dtype.kind != "f":
        raise InputError(
            f"the action space is not one continuous Box: {str(about['action_space'])[:120]}",
            where=where,
            expected="a Box of a floating type",
            fix="choose another dataset: stacq learns continuous actions only",
        )
    observations = _leaves(_decoded(about["observation_space"]), "observations", where)
    return Layout(tuple(observations), actions[0], tuple(dict.fromkeys(infos)), where)


def _decoded(stored: Any) -> Any:
    """Minari's metadata holds spaces and specs as JSON inside JSON."""
    return json.loads(stored) if isinstance(stored, str) else stored


def _leaves(space: Mapping[str, Any], path: str, where: str) -> list[Leaf]:
    """The Boxes of a serialised space, in the order in which their values are laid side by side."""
    match space["type"]:
        case "Dict":
            named = [(f"{path}/{key}", space["subspaces"][key]) for key in sorted(space["subspaces"])]
        case "Tuple":
            named = [(f"{path}/_index_{index}", each) for index, each in enumerate(space["subspaces"])]
        case "Box":
            return [_box(space, path)]
        case kind:
            raise InputError(
                f"the space of '{path}' is {kind}",
                where=where,
                expected="a Box, or for observations a Dict or Tuple of Boxes",
                fix="choose another dataset: stacq learns from real vectors and continuous actions only",
            )
    return [leaf for name, inner in named for leaf in _leaves(inner, name, where)]


def _box(space: Mapping[str, Any], path: str) -> Leaf:
    shape = tuple(int(size) for size in space["shape"])
    if math.prod(shape) > LARGEST:
        raise ValueError(f"the space of '{path}' has shape {shape}")
    low, high = (np.broadcast_to(np.asarray(space[key], np.float64), shape).reshape(-1) for key in ("low", "high"))
    return Leaf(path, shape, np.dtype(space["dtype"]), low, high)


def stated(about: Mapping[str, Any], actions: Leaf, given: Conventions, directory: Path) -> Conventions:
    """What the dataset declares; infinite bounds are an error unless the caller states better ones."""
    ours = about[OURS]
    env_id = ours.get("env_id") or (_decoded(about["env_spec"])["id"] if about.get("env_spec") else None)
    if not isinstance(env_id, str | None):
        raise TypeError(f"the environment is {env_id!r}, not a name")
    return Conventions(
        action_low=_bound("action_low", ours.get("action_low", actions.low), given, directory),
        action_high=_bound("action_high", ours.get("action_high", actions.high), given, directory),
        env_id=StoredId(plain(env_id)) if env_id else None,
        name=plain(str(ours.get("name") or about.get("dataset_id") or directory.name)),
        observation_names=_names(ours.get("observation_names")),
        action_names=_names(ours.get("action_names")),
    )


def _names(stored: Any) -> tuple[str, ...] | None:
    return tuple(map(plain, stored)) if has_shape(stored, [str]) else None


def _bound(key: str, stored: Any, given: Conventions, directory: Path) -> tuple[float, ...] | None:
    values = np.asarray(stored, dtype=np.float64)
    if np.isfinite(values).all():
        return tuple(values.tolist())
    if getattr(given, key) is not None:
        return None
    raise InputError(
        f"the dataset's action space has no finite {key}: {values.tolist()}",
        where=directory,
        expected="finite bounds in every action dimension",
        fix="declare the bounds of the action space (--action-low, --action-high)",
    )


@contextlib.contextmanager
def damage_named(where: object) -> Iterator[None]:
    """Turn every error that damaged data causes in other code into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except FOREIGN as error:
        fix = "check its permissions, or download or copy the dataset again"
        raise damaged(f"cannot be read: {reason_of(error)}", where, fix=fix) from error


def damaged(problem: str, where: object, *, expected: str = "a complete Minari dataset", fix: str = "") -> InputError:
    return InputError(problem, where=where, expected=expected, fix=fix or "download or copy the dataset again")


def reason_of(error: Exception) -> str:
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return f"no entry {text}" if isinstance(error, KeyError) else text


def uninstalled(error: ImportError) -> InputError:
    return InputError(
        f"this needs the minari package ({reason_of(error)})",
        expected="Minari 0.5 with its HDF5 support",
        fix=f"run `{INSTALL}`; Arrow and Parquet storage also need `pip install 'minari[arrow]'`",
    )

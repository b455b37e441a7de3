"""What one stage leaves for the next: a directory of arrays and a manifest, whole or not there at all.

arrays.safetensors   every array
manifest.json        kind, configuration, versions, content hash, hashes of what it was made from
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.archives import read_archive
from stacq.core.errors import InputError
from stacq.core.files import (
    appearing,
    content_hash,
    home,
    json_text,
    replacing,
    save_tensors,
    unwritable,
    writing,
)
from stacq.core.outside import UNKNOWN_TYPE, has_shape, json_object
from stacq.core.reading import available_memory, check_regular, read_text
from stacq.core.staging import staging
from stacq.core.types import Array

ARRAYS, MANIFEST = "arrays.safetensors", "manifest.json"
CONTENT = "content"  # in the file of a part, the hash of its arrays


@dataclass(frozen=True, eq=False)
class Artefact:
    """Arrays with their manifest, as read from a directory."""

    directory: Path
    kind: str
    config: Mapping[str, Any]
    parents: Mapping[str, str]  # name of the input -> its hash
    content: str  # hash of the arrays
    arrays: Mapping[str, Array]

    def array(self, name: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> Array:
        """The array of that name; refused if it is of another type or shape (None: any size), or not finite."""
        found = self.arrays.get(name)
        if found is None:
            raise damaged(self.directory, f"its array '{name}' is missing")
        fits = len(found.shape) == len(shape) and all(
            size in (None, n) for size, n in zip(shape, found.shape, strict=True)
        )
        if not fits or found.dtype != kind:
            wanted = f"{np.dtype(kind)} of shape {_shape_text(shape)}"
            raise damaged(
                self.directory, f"its array '{name}' is {found.dtype} of shape {found.shape}, and not {wanted}"
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise damaged(self.directory, f"its array '{name}' holds NaN or infinity")
        return found


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return f"({', '.join('any' if size is None else str(size) for size in shape)})"


class Damaged(InputError):
    """An artefact that is there, and not as it was written."""


def cache_key(kind: str, config: Mapping[str, Any], parents: Mapping[str, str]) -> str:
    """Name of the artefact that a stage would make: the same inputs and options give the same name."""
    text = json.dumps([kind, dict(config), dict(parents)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def cache_directory(kind: str, config: Mapping[str, Any], parents: Mapping[str, str]) -> Path:
    return home() / kind / cache_key(kind, config, parents)


def write_artefact(
    directory: Path,
    kind: str,
    arrays: Mapping[str, Array],
    config: Mapping[str, Any],
    parents: Mapping[str, str],
    beside: Mapping[str, bytes] | None = None,
) -> Artefact:
    """Write in a hidden place, sync, rename; an older artefact there is replaced.

    Files that belong to it are given as `beside`, by name: a kill leaves the whole of it or nothing.
    """
    directory = check_place(directory, kind)
    arrays = {key: np.asarray(value, order="C") for key, value in arrays.items()}  # single numbers stay so
    artefact = Artefact(directory, kind, config, parents, content_hash(arrays), arrays)
    manifest = {
        "kind": kind,
        "config": dict(config),
        "parents": dict(parents),
        "content": artefact.content,
        "made_by": f"stacq {version('stacq')}, numpy {np.__version__}",
    }
    files = {**(beside or {}), MANIFEST: json_text(manifest).encode()}
    with writing(directory), appearing(directory, instead=True) as beginning:
        save_tensors(beginning / ARRAYS, arrays)
        for name, data in files.items():
            (beginning / name).write_bytes(data)
    return artefact


def check_place(directory: Path, kind: str) -> Path:
    """The absolute path of an artefact to be; refused where something else would go for it."""
    try:
        directory = directory.resolve()
        taken = directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    except (OSError, RuntimeError) as error:  # the latter for links in a circle
        raise unwritable(directory, error) from error
    if taken and _kind_of(directory) != kind:
        raise InputError(
            "there is something else here, which an artefact would replace",
            where=directory,
            expected=f"no such place yet, an empty directory, or an older {kind} artefact",
            fix="choose another place",
        )
    return directory


def _kind_of(directory: Path) -> str | None:
    """What a manifest says; nothing where there is none that can be read."""
    try:
        kind = json_object(read_text(directory / MANIFEST)).get("kind")
    except (OSError, ValueError):
        return None
    return kind if isinstance(kind, str) else None


def kept_arrays(path: Path, make: Callable[[], Mapping[str, Array]]) -> Mapping[str, Array]:
    """Part of a longer work: from its file if an earlier run left it whole, else made and left there."""
    if path.exists():
        found = _whole_arrays(path)
        if found is not None:
            return found
    arrays: dict[str, Any] = dict(make())
    kept = {**arrays, CONTENT: np.frombuffer(content_hash(arrays).encode(), dtype=np.uint8)}
    with replacing(path) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, **kept)
    return arrays


def work_of(directory: Path, chunk: int) -> Path:
    """Where the finished parts of an artefact lie that is being made; those of another size are others."""
    return directory.with_name(f".partial-{directory.name}-{chunk}")


def end_work(directory: Path) -> None:
    """Remove the parts of an artefact that is complete; its writer may have been killed before it removed them."""
    for work in directory.parent.glob(f".partial-{directory.name}-*"):
        shutil.rmtree(work, ignore_errors=True)


def _whole_arrays(path: Path) -> dict[str, Array] | None:
    """What `kept_arrays` wrote; nothing where it was damaged."""
    try:
        arrays = read_archive(path)
        content = arrays.pop(CONTENT).tobytes().decode()
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", where=path, fix="check what it is, or delete it"
        ) from error
    except (KeyError, ValueError):
        return None
    return arrays if content_hash(arrays) == content else None


def remove_artefact(directory: Path) -> None:
    """Renamed before it goes, so that a kill in between leaves no half of it under its name."""
    with writing(directory), contextlib.suppress(FileNotFoundError), staging(directory.parent) as bin:
        directory.rename(bin / "old")


def read_artefact(directory: Path, kind: str) -> Artefact:
    """Read and verify: the manifest must be of that kind and its hash must fit the arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        manifest = json_object(read_text(directory / MANIFEST))
        check_regular(directory / ARRAYS, available_memory())
        arrays = load_file(directory / ARRAYS)
    except FileNotFoundError as error:
        raise (Damaged if directory.exists() else InputError)(
            f"no {kind} artefact here ({Path(error.filename or '').name} is missing)",
            where=directory,
            expected=f"a directory with {MANIFEST} and {ARRAYS}",
            fix="check the path, or run the stage that makes it",
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot be read: {error}", where=directory, fix="check its permissions and the disk"
        ) from error
    except (ValueError, SafetensorError, *UNKNOWN_TYPE) as error:
        raise damaged(directory, str(error)) from error
    if manifest.get("kind") != kind:
        raise InputError(
            f"this is not a {kind} artefact",
            where=directory,
            expected=f"kind '{kind}' in its manifest",
            fix="check the path",
        )
    found = content_hash(arrays)
    if found != manifest.get("content"):
        raise damaged(directory, "its arrays do not fit the hash in its manifest")
    config, parents = manifest.get("config"), manifest.get("parents")
    if not isinstance(config, dict):
        raise damaged(directory, "its manifest has no object under 'config'")
    if not isinstance(parents, dict) or not has_shape(list(parents.values()), [str]):
        raise damaged(directory, "its manifest has no object of hashes under 'parents'")
    return Artefact(directory, kind, config, parents, found, arrays)


def check_parent(artefact: Artefact, name: str, found: str, label: str) -> None:
    """Refuse an artefact that was made from another input than the one at hand, and say which is stale."""
    made_from = artefact.parents.get(name)
    if made_from != found:
        raise InputError(
            f"this {artefact.kind} artefact was made from another {name}",
            where=artefact.directory,
            expected=f"{label}, hash {found[:12]}; it was made from {str(made_from)[:12]}",
            fix=f"make the {artefact.kind} again for this {name}",
        )


def damaged(directory: Path, reason: str) -> Damaged:
    return Damaged(
        f"the artefact is damaged: {reason}",
        where=directory,
        expected="arrays as they were written",
        fix="delete the directory and run the stage again",
    )

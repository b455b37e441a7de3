"""D4RL's HDF5 layout, v0 to v2, read and written with h5py alone: no d4rl, gym or mujoco-py.

Row arrays stand at the root, optional per-row extras under `infos/`, and facts about the behaviour
policy under `metadata/`, which is ignored.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import replacing
from stacq.core.types import Array, Infos
from stacq.data.border import EPISODE_CUT, NOTHING_STATED, SUCCESSOR_KNOWN, Conventions, assemble
from stacq.data.checks import OPTIONAL, REQUIRED, check_shapes, misspelt, row_shape
from stacq.data.dataset import Dataset
from stacq.data.hdf5_new import new_hdf5
from stacq.envs.ids import StoredId

SIGNATURE = b"\x89HDF\r\n\x1a\n"
GZIP_LIMIT = 1100  # deflate cannot shrink data further; a larger claim means a damaged header
DECLARED = ("action_low", "action_high", "name", "env_id")
SMALL = 1 << 26  # claims below 64 MiB are harmless whatever the file holds


def read_hdf5(path: Path | str, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read a D4RL HDF5 file; `infos` names per-row extras to load too, such as `qpos` and `qvel`.

    What the file declares about itself (bounds, environment, name: files that stacq wrote) completes
    the given `conventions`.
    """
    path = Path(path)
    with _opened(path) as file:
        conventions = conventions.over(_declared(file, path))
        nodes = {key: _node(file, key, path) for key in (*REQUIRED, *OPTIONAL) if key in file}
        stored = [key for key, node in file.items() if isinstance(node, h5py.Dataset)]
        check_shapes({key: (_row_shape(node), node.dtype) for key, node in nodes.items()}, str(path), stored)
        marks = [key for key in (SUCCESSOR_KNOWN, EPISODE_CUT) if f"infos/{key}" in file]
        wanted = [*(_stored_infos(file) if infos == "all" else infos), *marks]
        extras = {key: _info(file, key, path) for key in wanted}
        raw = {key: _values(node, path) for key, node in nodes.items()}
        extra = {key: _values(node, path) for key, node in extras.items()}
        provenance = _provenance(file)
    dataset = assemble(raw, extra, where=str(path), conventions=conventions)
    return replace(dataset, notes=(*dataset.notes, *misspelt(stored)), provenance=provenance)


def write_hdf5(dataset: Dataset, path: Path | str) -> None:
    """Write D4RL's layout, plus what it has no words for: two marks under `infos/` and root attributes.

    Arrays are stored contiguous and uncompressed: noise does not compress, and plain reads are fastest.
    """
    path = Path(path)
    unknown = ~dataset.successor_known
    successors = dataset.next_observations.copy()
    successors[unknown] = dataset.observations[unknown]  # placeholder; readers elsewhere refuse NaN
    cut = np.zeros(len(dataset), dtype=np.bool_)
    cut[dataset.last_rows[dataset.cut]] = True
    columns: dict[str, Array] = {key: getattr(dataset, key) for key in (*REQUIRED, *OPTIONAL)}
    columns["next_observations"] = successors
    extras = {**dataset.infos, SUCCESSOR_KNOWN: dataset.successor_known, EPISODE_CUT: cut}
    facts: dict[str, Any] = {
        "action_low": dataset.action_low,
        "action_high": dataset.action_high,
        "name": dataset.name,
    }
    if dataset.env_id:
        facts["env_id"] = str(dataset.env_id)
    with replacing(path) as temporary, new_hdf5(temporary) as file:
        file.describe("/", {**dataset.provenance, **facts})
        for key, value in columns.items():
            file.store(key, value)
        for key, value in extras.items():
            file.store(f"infos/{key}", value)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open for reading, with every way a file can be wrong told in a sentence."""
    _check_file(path)
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except InputError:
        raise
    except PermissionError as error:
        raise InputError("cannot be read: permission denied", where=path, fix="change its permissions") from error
    except (
        OSError,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        MemoryError,
        UnicodeError,
        OverflowError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        truncated = "truncated" in reason
        raise InputError(
            f"the HDF5 file is {'truncated' if truncated else 'damaged'}: {reason[:200]}",
            where=path,
            expected="a complete HDF5 file",
            fix="download or copy it again" + (", the transfer stopped early" if truncated else ""),
        ) from error


def _check_file(path: Path) -> None:
    if not path.exists():
        raise InputError("no such file", where=path, expected="a D4RL HDF5 file", fix="check the path")
    if path.is_dir():
        raise InputError(
            "this is a directory", where=path, expected="one HDF5 file", fix="name the .hdf5 file inside it"
        )
    if path.stat().st_size == 0:
        raise InputError("the file is empty", where=path, expected="a D4RL HDF5 file", fix="download or copy it again")
    try:
        with open(path, "rb") as handle:
            head = handle.read(len(SIGNATURE))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix="check its permissions") from error
    if head != SIGNATURE:
        raise InputError(
            f"this is not an HDF5 file (it starts with {head!r})",
            where=path,
            expected="a D4RL HDF5 file (.hdf5) or NumPy archive (.npz)",
            fix="check that the download is the data itself and not an error page",
        )


def _declared(file: h5py.File, path: Path) -> Conventions:
    """Bounds, environment and name as written by stacq; D4RL's own files declare nothing."""
    known = Conventions(name=path.stem)
    attributes = dict(file.attrs)
    for key in ("action_low", "action_high"):
        if key in attributes:
            values = tuple(float(value) for value in np.atleast_1d(attributes[key]))
            known = replace(known, **{key: values})  # type: ignore[arg-type]
    name, env_id = (attributes.get(key) for key in ("name", "env_id"))
    if isinstance(name, str) and name:
        known = replace(known, name=name)
    if isinstance(env_id, str) and env_id:
        known = replace(known, env_id=StoredId(env_id))
    return known


def _provenance(file: h5py.File) -> dict[str, str]:
    """The remaining root attributes that are text: where the data comes from, in its maker's words."""
    return {key: value for key, value in file.attrs.items() if key not in DECLARED and isinstance(value, str)}


def _node(file: h5py.File, key: str, path: Path) -> h5py.Dataset:
    node = file[key]
    if not isinstance(node, h5py.Dataset):
        raise InputError(
            f"key '{key}' is a group, not an array",
            where=path,
            expected=f"an array under '{key}'",
            fix="check the writer",
        )
    claimed, held = claimed_and_held(node)
    if claimed > max(SMALL, GZIP_LIMIT * held):
        raise InputError(
            f"key '{key}' claims shape {node.shape}, {claimed:,} bytes, but the file holds {held:,} bytes for it",
            where=path,
            expected="stored values for every row",
            fix="the file is damaged or was never filled: download or write it again",
        )
    return node


def claimed_and_held(node: h5py.Dataset) -> tuple[int, int]:
    """Bytes that an array's header promises and bytes that the file holds for it: a damaged header can promise any."""
    return math.prod(node.shape or ()) * node.dtype.itemsize, node.id.get_storage_size()


def _stored_infos(file: h5py.File) -> list[str]:
    """Names of the per-row extras; groups inside `infos/` are none."""
    group = file.get("infos")
    return sorted(key for key in group if isinstance(group[key], h5py.Dataset)) if isinstance(group, h5py.Group) else []


def _info(file: h5py.File, key: str, path: Path) -> h5py.Dataset:
    if f"infos/{key}" not in file:
        found = _stored_infos(file)
        raise InputError(
            f"key 'infos/{key}' is missing",
            where=path,
            expected=f"the per-row extra '{key}'",
            fix=f"ask for one of: {', '.join(found) or 'none (the file has no infos)'}",
        )
    return _node(file, f"infos/{key}", path)


def _row_shape(node: h5py.Dataset) -> tuple[int, ...]:
    return row_shape(node.name.rsplit("/", 1)[-1], tuple(node.shape or ()))


def _values(node: h5py.Dataset, path: Path) -> Array:
    if not node.shape:
        raise InputError(
            f"key '{node.name.lstrip('/')}' is a single value, not an array",
            where=path,
            expected="one entry per row",
            fix="store an array",
        )
    return np.asarray(node[()]).reshape(_row_shape(node))

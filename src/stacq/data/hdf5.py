"""D4RL's HDF5 layout, v0 to v2, read and written by way of h5py: no d4rl, gym or mujoco-py.

Row arrays stand at the root, optional per-row extras under `infos/`, and facts about the behaviour
policy under `metadata/`, which is ignored.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import replacing
from stacq.core.outside import has_shape, parsed_json
from stacq.core.reading import plain, read_start
from stacq.core.types import Array, Infos
from stacq.data.border import assemble
from stacq.data.checks import OPTIONAL, REQUIRED, check_shapes, misspelt, row_shape
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.hdf5_guard import Group, Node, OutsideFile, Stored, opened
from stacq.data.hdf5_new import new_hdf5
from stacq.data.hdf5_server import Unreadable
from stacq.data.succession import EPISODE_CUT, SUCCESSOR_KNOWN
from stacq.envs.ids import StoredId

SIGNATURE = b"\x89HDF\r\n\x1a\n"
NAMES = ("observation_names", "action_names")  # JSON texts
DECLARED = ("action_low", "action_high", "name", "env_id", *NAMES)


def read_hdf5(path: Path | str, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read a D4RL HDF5 file; `infos` names per-row extras to load too, such as `qpos` and `qvel`.

    What the file declares about itself (bounds, environment, name: files that stacq wrote) completes
    the given `conventions`.
    """
    path = Path(path)
    with _opened(path) as file:
        conventions = conventions.over(_declared(file, path))
        found = file.look(["", "infos"])
        root, per_row = _nodes(found[""]), _nodes(found["infos"])
        stored = _arrays(root)
        nodes = {key: _array(root[key], key, path) for key in (*REQUIRED, *OPTIONAL) if key in root}
        check_shapes(
            {key: (_row_shape(node), node.dtype) for key, node in nodes.items()}, str(path), stored, conventions.given
        )
        extras = {key: _extra(file, per_row, key, path) for key in _wanted(infos, per_row)}
        wanted = [*nodes.values(), *extras.values()]
        values = [value.reshape(_row_shape(node)) for node, value in zip(wanted, file.read(wanted), strict=True)]
        provenance = _provenance(file)
    raw, extra = dict(zip(nodes, values, strict=False)), dict(zip(extras, values[len(nodes) :], strict=True))
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
    facts |= {key: json.dumps(names) for key in NAMES if (names := getattr(dataset, key))}
    if dataset.env_id:
        facts["env_id"] = str(dataset.env_id)
    with replacing(path) as temporary, new_hdf5(temporary) as file:
        file.describe("/", {**dataset.provenance, **facts})
        for key, value in columns.items():
            file.store(key, value)
        for key, value in extras.items():
            file.store(f"infos/{key}", value)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[OutsideFile]:
    """Open for reading; every error in the file becomes an `InputError`."""
    _check_file(path)
    try:
        with opened(path) as file:
            yield file
    except Unreadable as error:
        truncated = "truncated" in str(error)
        raise InputError(
            f"the HDF5 file is {'truncated' if truncated else 'damaged'}: {error}",
            where=path,
            expected="a complete HDF5 file",
            fix="download or copy it again" + (", the transfer stopped early" if truncated else ""),
        ) from error
    except MemoryError as error:
        raise InputError(
            "there is not enough memory for its arrays", where=path, fix="free memory, or use a larger machine"
        ) from error


def _check_file(path: Path) -> None:
    if os.path.isdir(path):
        raise InputError(
            "this is a directory", where=path, expected="one HDF5 file", fix="name the .hdf5 file inside it"
        )
    try:
        head = read_start(path, len(SIGNATURE))
    except FileNotFoundError as error:
        raise InputError("no such file", where=path, expected="a D4RL HDF5 file", fix="check the path") from error
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror or error}",
            where=path,
            expected="a D4RL HDF5 file",
            fix="check what it is, and its permissions",
        ) from error
    if not head:
        raise InputError("the file is empty", where=path, expected="a D4RL HDF5 file", fix="download or copy it again")
    if head != SIGNATURE:
        raise InputError(
            f"this is not an HDF5 file (it starts with {head!r})",
            where=path,
            expected="a D4RL HDF5 file (.hdf5) or NumPy archive (.npz)",
            fix="check that the download is the data itself and not an error page",
        )


def _declared(file: OutsideFile, path: Path) -> Conventions:
    """Bounds, environment and name as written by stacq; D4RL's own files declare nothing."""
    known = Conventions(name=plain(path.stem))
    for key in ("action_low", "action_high"):
        values = file.attributes.get(key)
        if isinstance(values, str):
            raise InputError(
                f"attribute '{key}' is text: {values[:40]!r}",
                where=path,
                expected="one number, or one per action dimension",
                fix="store it as numbers",
            )
        if values is not None:
            known = replace(known, **{key: tuple(values)})  # type: ignore[arg-type]
    name, env_id = (file.attributes.get(key) for key in ("name", "env_id"))
    if isinstance(name, str) and name:
        known = replace(known, name=name)
    if isinstance(env_id, str) and env_id:
        known = replace(known, env_id=StoredId(env_id))
    return replace(known, **{key: _names(file.attributes.get(key)) for key in NAMES})  # type: ignore[arg-type]


def _names(text: object) -> tuple[str, ...] | None:
    """Names of dimensions, where the attribute holds a list of texts."""
    try:
        names: Any = parsed_json(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return tuple(map(plain, names)) if has_shape(names, [str]) else None


def _provenance(file: OutsideFile) -> dict[str, str]:
    """The remaining root attributes that are text: where the data comes from, in its maker's words."""
    return {key: value for key, value in file.attributes.items() if key not in DECLARED and isinstance(value, str)}


def _row_shape(node: Stored) -> tuple[int, ...]:
    return row_shape(node.path.rsplit("/", 1)[-1], node.shape)


def _array(node: Node | None, key: str, path: Path) -> Stored:
    """An array of rows, or why it is none."""
    if not isinstance(node, Stored):
        raise InputError(
            f"key '{key}' is a group, not an array",
            where=path,
            expected=f"an array under '{key}'",
            fix="check the writer",
        )
    if node.overclaimed:
        raise InputError(
            f"key '{key}' claims shape {node.shape}, {node.claimed:,} bytes, but the file holds {node.held:,} bytes "
            "for it",
            where=path,
            expected="stored values for every row",
            fix="the file is damaged or was never filled: download or write it again",
        )
    if not node.shape and key.startswith("infos/"):
        raise InputError(
            f"key '{key}' is a single value, not an array",
            where=path,
            expected="one entry per row",
            fix="store an array",
        )
    return node


def _nodes(node: Node | None) -> Mapping[str, Node | None]:
    return node.nodes if isinstance(node, Group) else {}


def _wanted(infos: Infos, nodes: Mapping[str, Node | None]) -> list[str]:
    """Names of the per-row extras asked for, and of our own marks; groups inside `infos/` are none."""
    asked = _arrays(nodes) if infos == "all" else infos
    return [*asked, *(key for key in (SUCCESSOR_KNOWN, EPISODE_CUT) if key in nodes)]


def _arrays(nodes: Mapping[str, Node | None]) -> list[str]:
    return sorted(key for key, node in nodes.items() if isinstance(node, Stored))


def _extra(file: OutsideFile, nodes: Mapping[str, Node | None], key: str, path: Path) -> Stored:
    """One per-row extra, which may also lie in a group inside `infos/`."""
    place = f"infos/{key}"
    node = nodes[key] if key in nodes else file.look([place])[place]
    if node is None:
        raise InputError(
            f"key '{place}' is missing",
            where=path,
            expected=f"the per-row extra '{key}'",
            fix=f"ask for one of: {', '.join(_arrays(nodes)) or 'none (the file has no infos)'}",
        )
    return _array(node, place, path)

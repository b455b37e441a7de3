"""Minari's dataset directories, read: one group per episode, T steps and T + 1 observations.

HDF5 storage is read with h5py alone, so that only the arrays asked for are touched and neither the
environment's package nor Minari itself need be installed. Other storages go through Minari.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from stacq.core.types import Array, Bools, Infos, Ints
from stacq.data.border import EPISODE_CUT, NOTHING_STATED, SUCCESSOR_KNOWN, Conventions, assemble
from stacq.data.checks import check_shapes
from stacq.data.dataset import Dataset
from stacq.data.hdf5 import GZIP_LIMIT, SMALL, claimed_and_held
from stacq.data.minari_layout import (
    MAIN_FILE,
    METADATA,
    OURS,
    Layout,
    Leaf,
    damaged,
    layout_of,
    locate,
    metadata_of,
    stated,
    told,
    uninstalled,
)

STEP_COLUMNS = {"rewards": "rewards", "terminals": "terminations", "timeouts": "truncations"}  # ours -> Minari's


def read_minari(source: str | Path, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read a Minari dataset by its id, if it is in Minari's local root, or by its directory.

    Dict observations (goal environments) are flattened in the order of sorted keys, depth first, Tuples by
    index, every leaf row-major: the order of Gymnasium's FlattenObservation wrapper. Minari stores T + 1
    observations per episode, so the successor of every row is known, unless `write_minari` marked it unknown.

    `infos` names per-step extras, such as `qpos`, or "all". Minari stores T + 1 of them, each beside its observation:
    the first T are kept, so that row t of an extra belongs to row t of the observations.

    Bounds, environment and name as stored complete the given `conventions`. No environment is made.
    """
    directory = locate(source)
    about = metadata_of(directory)
    with told(directory / "data" / METADATA):
        layout = layout_of(about, _all_infos(directory, about) if infos == "all" else infos, directory)
        conventions = conventions.over(stated(about, layout.actions, conventions, directory))
    with _episodes(directory, about) as episodes:
        parts = [_rows(episode, layout) for episode in episodes]
        lengths = np.array([len(part["rewards"]) for part in parts], dtype=np.int64)
        if not lengths.any():
            raise damaged("there are no episodes", directory)
        columns = {key: np.concatenate([part.pop(key) for part in parts]) for key in list(parts[0])}
    return _assembled(columns, lengths, about, layout, conventions)


@dataclass(frozen=True)
class _Episode:
    """One stored episode: paths such as `infos/qpos`, each with a shape and values behind it."""

    name: str
    arrays: Mapping[str, Any]
    where: str

    def node(self, path: str) -> Any:
        node = self.arrays.get(path)
        if node is None or not hasattr(node, "shape"):
            problem = f"'{self.name}/{path}' is {'missing' if node is None else 'a group, not an array'}"
            raise damaged(problem, self.where, fix=self._other_infos() if path.startswith("infos/") else "")
        return node

    def take(self, path: str, count: int, shape: tuple[int, ...]) -> Array:
        """Values of one array, checked from its header before they are read."""
        node, wanted = self.node(path), (count, *shape)
        found = tuple(node.shape or ())
        if found[:1] != (count,) or math.prod(found) != math.prod(wanted):
            raise damaged(
                f"'{self.name}/{path}' has shape {found}",
                self.where,
                expected=f"shape {wanted}: observations and infos have one entry more than there are rewards",
                fix="record or download the dataset again; encoded images cannot be read",
            )
        if isinstance(node, h5py.Dataset):
            _check_claim(node, found, self.where)
        return np.asarray(node[()]).reshape(wanted)

    def info(self, key: str, steps: int) -> Array:
        """The entries beside the first `steps` observations."""
        path = f"infos/{key}"
        return self.take(path, steps + 1, tuple(self.node(path).shape[1:]))[:-1]

    def info_names(self) -> list[str]:
        """Extras that hold numbers, by their path below `infos/`."""
        group = self.arrays.get("infos")
        if isinstance(group, h5py.Group):
            names: list[str] = []
            group.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
            return sorted(name for name in names if group[name].dtype.kind in "fiub")
        return sorted(
            key[6:] for key, value in self.arrays.items() if key.startswith("infos/") and value.dtype.kind in "fiub"
        )

    def _other_infos(self) -> str:
        return f"ask for one of: {', '.join(self.info_names()) or 'none (the episode has no infos)'}"


def _check_claim(node: h5py.Dataset, shape: tuple[int, ...], where: str) -> None:
    """A damaged header can claim any shape; reading it would fill the memory with zeros."""
    claimed, held = claimed_and_held(node)
    if claimed > max(SMALL, GZIP_LIMIT * held):
        raise damaged(f"'{node.name}' claims shape {shape}, but the file holds {held:,} bytes for it", where)


@contextlib.contextmanager
def _episodes(directory: Path, about: Mapping[str, Any]) -> Iterator[Iterator[_Episode]]:
    data = directory / "data"
    if about["data_format"] != "hdf5":
        with told(data):
            yield _through_minari(data, int(about["total_episodes"]))
        return
    path = data / MAIN_FILE
    if not path.is_file():
        raise damaged("the file is missing", path, expected="the episodes of the dataset")
    with told(path), h5py.File(path, "r", locking="best-effort") as file:
        yield (_group(file, f"episode_{index}", path) for index in range(int(about["total_episodes"])))


def _all_infos(directory: Path, about: Mapping[str, Any]) -> list[str]:
    """Names of the numeric extras of the first episode; the others have the same ones."""
    with _episodes(directory, about) as episodes:
        first = next(episodes, None)
        return [] if first is None else [name for name in first.info_names() if name != SUCCESSOR_KNOWN]


def _group(file: h5py.File, name: str, path: Path) -> _Episode:
    group = file.get(name)
    if not isinstance(group, h5py.Group):
        raise damaged(f"'{name}' is missing", path, expected="every episode that the metadata counts")
    return _Episode(name, group, str(path))


def _through_minari(data: Path, count: int) -> Iterator[_Episode]:
    """Arrow and Parquet storage, in Minari's own reading."""
    try:
        from minari.dataset.minari_storage import MinariStorage

        episodes = MinariStorage.read(data).get_episodes(range(count))
    except ImportError as error:
        raise uninstalled(error) from error
    return (
        _Episode(f"episode_{index}", dict(_flattened(episode, "")), str(data)) for index, episode in enumerate(episodes)
    )


def _flattened(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        value = {f"_index_{index}": each for index, each in enumerate(value)}
    if not isinstance(value, dict):
        yield path, np.asarray(value)
        return
    for key, inner in value.items():
        yield from _flattened(inner, f"{path}/{key}" if path else key)


def _rows(episode: _Episode, layout: Layout) -> dict[str, Array]:
    """One episode as row arrays, still apart from the others."""
    steps = (*episode.node("rewards").shape, 0)[0]
    leaves = [episode.take(leaf.path, steps + 1, (leaf.size,)) for leaf in layout.observations]
    seen = leaves[0] if len(leaves) == 1 else np.concatenate(leaves, axis=1)  # [T + 1, S]
    rows = {
        "observations": seen[:-1],
        "next_observations": seen[1:],
        "actions": episode.take("actions", steps, (layout.actions.size,)),
    }
    rows |= {key: episode.take(stored, steps, ()) for key, stored in STEP_COLUMNS.items()}
    rows |= {f"infos/{key}": episode.info(key, steps) for key in layout.infos}
    marked = f"infos/{SUCCESSOR_KNOWN}" in episode.arrays
    rows[SUCCESSOR_KNOWN] = episode.info(SUCCESSOR_KNOWN, steps) if marked else np.ones(steps, dtype=np.bool_)
    return rows


def _assembled(
    columns: dict[str, Array], lengths: Ints, about: Mapping[str, Any], layout: Layout, conventions: Conventions
) -> Dataset:
    extras = {key: columns.pop(f"infos/{key}") for key in layout.infos}
    extras[SUCCESSOR_KNOWN] = columns.pop(SUCCESSOR_KNOWN)
    check_shapes({key: (value.shape, value.dtype) for key, value in columns.items()}, layout.where)
    ended = (columns["terminals"] != 0) | (columns["timeouts"] != 0)
    last = np.cumsum(lengths)[lengths > 0] - 1
    extras[EPISODE_CUT] = _cut(ended, last)
    ours = about.get(OURS) or {}
    narrow = ours.get("observation_dtype")
    if narrow in ("float32", "float64"):
        columns["observations"] = columns["observations"].astype(narrow, copy=False)
    notes = (*_space_notes(layout.observations), *_episode_notes(ended, last, about))
    dataset = assemble(columns, extras, where=layout.where, conventions=conventions)
    provenance = {str(key): str(value) for key, value in dict(ours.get("provenance") or {}).items()}
    return replace(dataset, notes=(*notes, *dataset.notes), provenance=provenance)


def _cut(ended: Bools, last: Ints) -> Bools:
    """Last rows of episodes that neither a termination nor a truncation ends."""
    cut = np.zeros(len(ended), dtype=np.bool_)
    cut[last] = ~ended[last]
    return cut


def _space_notes(leaves: Sequence[Leaf]) -> Iterator[str]:
    if leaves[0].path != "observations":
        order = ", ".join(f"{leaf.path.partition('/')[2]} ({leaf.size})" for leaf in leaves)
        yield f"observations are flattened, keys sorted: {order}"
    elif len(leaves[0].shape) != 1:
        yield f"observations of shape {leaves[0].shape} are flattened, row-major"


def _episode_notes(ended: Bools, last: Ints, about: Mapping[str, Any]) -> Iterator[str]:
    cut, inside = len(last) - int(ended[last].sum()), int(ended.sum() - ended[last].sum())
    if cut:
        yield f"{cut:,} of {len(last):,} episodes end with neither termination nor truncation: kept, and marked cut"
    if inside:
        yield f"{inside:,} rows inside Minari's episodes are flagged as ends: the episodes are split there"
    if about.get("total_steps", len(ended)) != len(ended):
        yield f"the metadata counts {about['total_steps']} steps, the episodes hold {len(ended):,}"

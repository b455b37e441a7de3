"""The stored episodes of a Minari dataset, each as arrays by path, checked against the layout from headers alone.

HDF5 is read as any outside file, so that only the arrays asked for are touched and neither the environment's package
nor Minari itself need be installed. Other storages go through Minari.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.types import Array
from stacq.data.hdf5_guard import Group, OutsideFile, Stored, opened
from stacq.data.minari_layout import MAIN_FILE, Layout, damage_named, damaged, uninstalled
from stacq.data.succession import SUCCESSOR_KNOWN

FLAGS = ("rewards", "terminations", "truncations")
MARK = f"infos/{SUCCESSOR_KNOWN}"
NUMBERS = "fiub"  # kinds of NumPy types
BATCH = 128  # episodes asked for at a time
GROUPS = 100  # looked into for infos; a damaged file can hold a group in itself

Values = dict[str, Array]  # of one episode, by paths such as `infos/qpos`
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Episode:
    """Whatever has a shape, by the same paths, and where to look what other infos there are."""

    name: str
    nodes: Mapping[str, Any]
    where: str
    info_names: Callable[[], list[str]]

    def plan(self, layout: Layout) -> dict[str, Shape]:
        """What is to be read, in which shape: checked against what the headers say."""
        steps: int = (*self._node("rewards").shape, 0)[0]
        shapes: dict[str, Shape] = {leaf.path: (steps + 1, leaf.size) for leaf in layout.observations}
        shapes |= {"actions": (steps, layout.actions.size), **dict.fromkeys(FLAGS, (steps,))}
        extras = [f"infos/{key}" for key in layout.infos] + [MARK] * (self.nodes.get(MARK) is not None)
        shapes |= {path: (steps + 1, *self._node(path).shape[1:]) for path in extras}
        for path, shape in shapes.items():
            self._check(path, shape)
        return shapes

    def _node(self, path: str) -> Any:
        node = self.nodes.get(path)
        if node is None or not hasattr(node, "shape"):
            problem = f"'{self.name}/{path}' is {'missing' if node is None else 'a group, not an array'}"
            raise damaged(problem, self.where, fix=self._other_infos() if path.startswith("infos/") else "")
        return node

    def _check(self, path: str, wanted: Shape) -> None:
        node = self._node(path)
        if node.shape[:1] != wanted[:1] or math.prod(node.shape) != math.prod(wanted):
            raise damaged(
                f"'{self.name}/{path}' has shape {node.shape}",
                self.where,
                expected=f"shape {wanted}: observations and infos have one entry more than there are rewards",
                fix="record or download the dataset again; encoded images cannot be read",
            )
        if isinstance(node, Stored) and node.overclaimed:
            problem = f"'{node.path}' claims shape {node.shape}, but the file holds {node.held:,} bytes for it"
            raise damaged(problem, self.where)

    def _other_infos(self) -> str:
        return f"ask for one of: {', '.join(self.info_names()) or 'none (the episode has no infos)'}"


@dataclass(frozen=True)
class Hdf5Episodes:
    """Asked for in batches, for every question goes to another process."""

    file: OutsideFile
    path: Path
    count: int

    def read(self, layout: Layout) -> Iterator[Values]:
        for first in range(0, self.count, BATCH):
            numbers = range(first, min(first + BATCH, self.count))
            plans = [(episode, episode.plan(layout)) for episode in self._look(numbers, layout)]
            values = iter(self.file.read([episode.nodes[path] for episode, plan in plans for path in plan]))
            for _, plan in plans:
                yield {path: next(values).reshape(shape) for path, shape in plan.items()}

    def _look(self, numbers: Sequence[int], layout: Layout) -> Iterator[Episode]:
        leaves = [leaf.path for leaf in (*layout.observations, layout.actions)]
        paths = [*leaves, *FLAGS, *(f"infos/{key}" for key in layout.infos), MARK]
        found = self.file.look([f"episode_{number}/{path}" for number in numbers for path in paths])
        for number in numbers:
            nodes = {path: found[f"episode_{number}/{path}"] for path in paths}
            if not any(nodes.values()):
                self._check_there(number)
            yield Episode(f"episode_{number}", nodes, str(self.path), partial(self._names, number))

    def _check_there(self, number: int) -> None:
        name = f"episode_{number}"
        if not isinstance(self.file.look([name])[name], Group):
            raise damaged(f"'{name}' is missing", self.path, expected="every episode that the metadata counts")

    def info_names(self) -> list[str]:
        """Of the first episode; the others have the same ones."""
        if not self.count:
            return []
        self._check_there(0)
        return self._names(0)

    def _names(self, number: int) -> list[str]:
        """Extras that hold numbers, by their path below `infos/`."""
        top = f"episode_{number}/infos"
        arrays, groups = [], [top]
        for group in groups:
            node = self.file.look([group])[group]
            inside = node.nodes if isinstance(node, Group) else {}
            arrays += [each for each in inside.values() if isinstance(each, Stored) and each.dtype.kind in NUMBERS]
            groups += [f"{group}/{name}" for name, each in inside.items() if isinstance(each, Group)]
            del groups[GROUPS:]
        return sorted(array.path.removeprefix(f"{top}/") for array in arrays)


@dataclass(frozen=True)
class ForeignEpisodes:
    """Arrow and Parquet storage, in Minari's own reading."""

    storage: Any
    where: Path
    count: int

    def read(self, layout: Layout) -> Iterator[Values]:
        for number, arrays in enumerate(self._arrays(range(self.count))):
            names = partial(_numbers_in, arrays)
            plan = Episode(f"episode_{number}", arrays, str(self.where), names).plan(layout)
            yield {path: arrays[path].reshape(shape) for path, shape in plan.items()}

    def _arrays(self, numbers: Sequence[int]) -> Iterator[Values]:
        return (dict(_flattened(episode, "")) for episode in self.storage.get_episodes(numbers))

    def info_names(self) -> list[str]:
        return [name for arrays in self._arrays(range(min(self.count, 1))) for name in _numbers_in(arrays)]


@contextlib.contextmanager
def episodes_of(directory: Path, about: Mapping[str, Any]) -> Iterator[Hdf5Episodes | ForeignEpisodes]:
    data, count = directory / "data", int(about["total_episodes"])
    if about["data_format"] != "hdf5":
        with damage_named(data):
            yield ForeignEpisodes(_minari_storage(data), data, count)
        return
    path = data / MAIN_FILE
    if not path.exists():
        raise damaged("the file is missing", path, expected="the episodes of the dataset")
    with damage_named(path), opened(path) as file:
        yield Hdf5Episodes(file, path, count)


def _minari_storage(data: Path) -> Any:
    try:
        from minari.dataset.minari_storage import MinariStorage

        return MinariStorage.read(data)
    except ImportError as error:
        raise uninstalled(error) from error


def _numbers_in(arrays: Values) -> list[str]:
    return sorted(
        path.removeprefix("infos/")
        for path, value in arrays.items()
        if path.startswith("infos/") and value.dtype.kind in NUMBERS
    )


def _flattened(value: Any, path: str) -> Iterator[tuple[str, Array]]:
    if isinstance(value, tuple):
        value = {f"_index_{index}": each for index, each in enumerate(value)}
    if not isinstance(value, dict):
        yield path, np.asarray(value)
        return
    for key, inner in value.items():
        yield from _flattened(inner, f"{path}/{key}" if path else key)

"""One door for every source: a file, a directory or a known name becomes a Dataset."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stacq.core.errors import InputError
from stacq.core.files import exists, home, spelt
from stacq.core.reading import plain
from stacq.core.types import Infos
from stacq.data.columns import Columns, columns_from
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.hdf5 import read_hdf5
from stacq.data.minari_layout import is_stored
from stacq.data.npz import read_npz
from stacq.data.ogbench import read_ogbench
from stacq.data.registry import DATASETS, DatasetInfo, find, recognised, task_of
from stacq.data.relabel import relabelled
from stacq.data.single_tasks import single_task
from stacq.data.table import SUFFIXES, is_table, read_table
from stacq.tabular.maze import is_drawing

HDF5_SUFFIXES = (".hdf5", ".h5")
UNREAD = (".txt", ".npy", ".json", ".pkl", ".xlsx", ".feather", ".arrow")
MINARI_PREFIX = "minari:"


def load(
    source: str | Path,
    *,
    infos: Infos = (),
    conventions: Conventions = NOTHING_STATED,
    columns: Columns | Mapping[str, Any] | str | Path | None = None,
) -> Dataset:
    """Load a D4RL HDF5 file, an npz archive, a CSV or Parquet table, a Minari dataset or a dataset by name.

    Nothing is fetched here, nor generated but the small maze sets: a name whose file is not in the cache is answered
    with the command that brings it. `infos` names per-row extras to keep, such as `qpos` and `qvel`. `columns` say what
    the columns of a table are, as a mapping or in a TOML file; its `reward` may be a formula, for data of every kind.
    """
    if columns is not None:
        conventions = replace(conventions, columns=columns_from(columns))
    if is_table(source):
        table = read_table(Path(source), infos=infos, conventions=conventions)
        info = recognised(conventions.name or "")
        if info is not None:
            check_facts(table, info, source)
        return _in_its_environment(table, info)
    stated = conventions.columns or Columns()
    if stated.of_tables:
        raise InputError(
            f"{', '.join(stated.of_tables)}: this data has no columns to map",
            where=source,
            expected=f"a table ({', '.join(SUFFIXES)}), or a reward alone",
            fix="leave the mapping out",
        )
    dataset = _loaded(source, infos, conventions)
    return dataset if stated.reward is None else relabelled(dataset, stated.reward, source)


def _loaded(source: str | Path, infos: Infos, conventions: Conventions) -> Dataset:
    path, text = Path(source), str(source)
    there = os.path.exists(path) if text.startswith(MINARI_PREFIX) else exists(path)  # an id may be as long as a name
    if there or path.suffix.lower() in (*HDF5_SUFFIXES, ".npz"):
        return _load_path(path, infos, conventions)
    if text.startswith(MINARI_PREFIX):
        return _load_minari(text.removeprefix(MINARI_PREFIX), infos, conventions)
    if text not in DATASETS and is_stored(text):
        return _load_minari(text, infos, conventions)
    info = find(text)
    if info.source == "minari":
        return _load_minari(info.name, infos, conventions)
    if info.source == "embedded":
        return _load_embedded(info, infos, conventions)
    return _load_named(info, infos, conventions)


def cached_file(info: DatasetInfo) -> Path:
    """Where a downloaded or regenerated dataset of that name lies, present or not."""
    if info.source in ("stacq", "embedded"):
        return home() / "data" / f"{info.name}.hdf5"
    assert info.remote is not None
    return home() / "data" / "d4rl" / Path(info.remote).name


def conventions_of(info: DatasetInfo) -> Conventions:
    return Conventions(
        max_episode_steps=info.task.max_episode_steps,
        resets_after_terminal=info.resets_after_terminal,
        env_id=info.env_id,
        name=info.name,
    )


def _load_path(path: Path, infos: Infos, conventions: Conventions) -> Dataset:
    if os.path.isdir(path):
        if (path / "data").is_dir():
            return _load_minari(path, infos, conventions)
        raise InputError(
            "this is a directory, and not of a Minari dataset",
            where=path,
            expected="a .hdf5 or .npz file, or a Minari dataset directory (with data/ inside)",
            fix="name the file itself",
        )
    if path.suffix.lower() not in (*HDF5_SUFFIXES, ".npz") and is_drawing(path):
        from stacq.data.maze import drawn_dataset

        return _with_infos(drawn_dataset(path, conventions), infos, path)
    if path.suffix.lower() in UNREAD:
        raise InputError(
            f"a {path.suffix} file is not read",
            where=path,
            expected="arrays by name: observations, actions, rewards, terminals, timeouts",
            fix="write a CSV file, or with numpy.savez an .npz file (docs/own-data.md); a maze is drawn with . # and *",
        )
    single = single_task(conventions.name or path.stem) if path.suffix.lower() == ".npz" else None
    if single is not None:
        return read_ogbench(path, single, infos=infos, conventions=replace(conventions, name=None))
    read = read_npz if path.suffix.lower() == ".npz" else read_hdf5
    dataset = read(path, infos=infos, conventions=conventions.over(_facts_by_name(path, conventions.name)))
    info, task = recognised(dataset.name), task_of(dataset.name)
    sizes = (dataset.observation_size, dataset.action_size)
    if task is None or sizes == (task.observation_size, task.action_size):
        return _in_its_environment(dataset, info)
    if info is not None and info.name == conventions.name:
        check_facts(dataset, info, path)
    note = (
        f"the name is that of {task.key}, but observations of {sizes[0]} and actions of {sizes[1]} numbers are not its "
        f"own: read as other data, called {plain(path.name)}"
    )
    other = read(path, infos=infos, conventions=conventions)
    return replace(other, name=plain(spelt(path.name)), notes=(*other.notes, note))


def _facts_by_name(path: Path, stated: str | None) -> Conventions:
    """What is known of a dataset that a caller names, or of D4RL's data where the file is called so.

    A file's name decides how its rows follow each other, which D4RL's files do not say. More is left to the file.
    """
    info = recognised(stated or path.stem)
    if info is None or (stated is None and info.source != "d4rl"):
        return NOTHING_STATED
    known = conventions_of(info)
    if stated is not None and info.source != "minari":
        return known
    return Conventions(max_episode_steps=known.max_episode_steps, resets_after_terminal=known.resets_after_terminal)


def _in_its_environment(dataset: Dataset, info: DatasetInfo | None) -> Dataset:
    """A file that names no environment is scored in that of its name; Minari's ants are others than ours."""
    if info is None or info.source == "minari" or dataset.env_id is not None:
        return dataset
    return replace(dataset, env_id=info.env_id)


def _load_minari(source: str | Path, infos: Infos, conventions: Conventions) -> Dataset:
    from stacq.data.minari import read_minari  # optional dependency

    return read_minari(source, infos=infos, conventions=conventions)


def _load_embedded(info: DatasetInfo, infos: Infos, conventions: Conventions) -> Dataset:
    from stacq.data.maze import maze_dataset
    from stacq.tabular.maze import load as load_maze

    name = info.task.key.removeprefix("stacq/maze-")
    return _with_infos(
        maze_dataset(load_maze(name), conventions=conventions.over(conventions_of(info))), infos, info.name
    )


def _with_infos(dataset: Dataset, infos: Infos, where: object) -> Dataset:
    """With those per-row extras alone that were asked for."""
    wanted = list(dataset.infos) if infos == "all" else infos
    if missing := set(wanted) - set(dataset.infos):
        raise InputError(
            f"key 'infos/{min(missing)}' is missing",
            where=where,
            expected="the per-row extras asked for",
            fix=f"ask for one of: {', '.join(dataset.infos)}",
        )
    return replace(dataset, infos={key: dataset.infos[key] for key in wanted})


def _load_named(info: DatasetInfo, infos: Infos, conventions: Conventions) -> Dataset:
    path = cached_file(info)
    if not path.exists():
        verb = "generate" if info.source == "stacq" else "download"
        raise InputError(
            f"'{info.name}' is not in the cache",
            where=path,
            expected="the dataset's file",
            fix=f"run `stacq data {verb} {info.name}` first",
        )
    dataset = read_hdf5(path, infos=infos, conventions=conventions.over(conventions_of(info)))
    check_facts(dataset, info, path)
    return replace(dataset, name=info.name, notes=(*dataset.notes, *_row_notes(dataset, info)))


def check_facts(dataset: Dataset, info: DatasetInfo, where: Any) -> None:
    """What the registry knows for certain must hold in the file."""
    task = info.task
    found = (dataset.observation_size, dataset.action_size)
    if found != (task.observation_size, task.action_size):
        raise InputError(
            f"observations of {found[0]} and actions of {found[1]} numbers are not those of '{info.name}'",
            where=where,
            expected=f"{task.observation_size} and {task.action_size}",
            fix="the file is another dataset: download it again under its own name",
        )
    if info.rows_certain and len(dataset) != info.rows:
        raise InputError(
            f"{len(dataset):,} rows in '{info.name}'",
            where=where,
            expected=f"{info.rows:,} rows, as the dataset is known to have",
            fix="the file is incomplete or another version: delete it and download it again",
        )


def _row_notes(dataset: Dataset, info: DatasetInfo) -> tuple[str, ...]:
    if info.rows is None or info.rows_certain or len(dataset) == info.rows:
        return ()
    usual = "default size" if info.source == "stacq" else "expected count, which is not certain"
    return (f"{len(dataset):,} rows; the {usual} is {info.rows:,}",)

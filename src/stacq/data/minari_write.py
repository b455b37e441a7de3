"""A Dataset written as a Minari dataset, for users of Minari (other libraries misread it: docs/data.md)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import appearing, exists, writing
from stacq.core.staging import sweep
from stacq.core.types import Array
from stacq.data.dataset import Dataset
from stacq.data.hdf5_new import NewFile, new_hdf5
from stacq.data.minari_layout import (
    MAIN_FILE,
    OURS,
    minari_root,
    reason_of,
    uninstalled,
)
from stacq.data.succession import SUCCESSOR_KNOWN


def write_minari(dataset: Dataset, dataset_id: str, *, description: str | None = None) -> Path:
    """Write a dataset into Minari's local root under a new id, such as `mine/hopper-v0`; returns its directory.

    Minari needs T + 1 observations per episode: where the last successor is unknown, the last observation
    stands in for it and `infos/successor_known` says so. Extras are padded to T + 1 by their last entry.
    What Minari's spaces would round or cannot hold (bounds of double precision, the name) is kept in
    metadata.json under `stacq`. The directory appears under its final name only when it is complete.
    """
    _check_id(dataset_id)
    target = minari_root() / dataset_id
    sweep(target.parent)
    if exists(target):
        raise InputError(
            f"the Minari dataset '{dataset_id}' exists already",
            where=target,
            expected="an id that is not taken",
            fix=f"choose another id or version, or run `minari delete {dataset_id}` first",
        )
    about = description or f"{dataset.name or dataset_id}, written by stacq"
    try:
        with writing(target), appearing(target) as beginning:
            _fill(dataset, dataset_id, beginning / "data", about)
    except ImportError as error:
        raise uninstalled(error) from error
    return target


def _check_id(dataset_id: str) -> None:
    try:
        from minari.dataset.minari_dataset import parse_dataset_id

        parse_dataset_id(dataset_id)
    except ImportError as error:
        raise uninstalled(error) from error
    except (ValueError, TypeError) as error:
        raise InputError(
            f"'{dataset_id}' is not a Minari dataset id",
            expected="(namespace/)name-v(version), of letters, digits, '-' and '_'; two of them or more in a namespace",
            fix="choose an id such as 'mine/hopper-medium-v0'",
        ) from error


def _fill(dataset: Dataset, dataset_id: str, data: Path, description: str) -> None:
    """Metadata through Minari, arrays as its storage lays them out, but by a writer that survives a full disk."""
    import minari
    from minari.dataset.minari_storage import MinariStorage

    facts = {"dataset_id": dataset_id, "minari_version": minari.__version__, "description": description}
    try:
        storage = MinariStorage.new(data, *_spaces(dataset), _env_spec(dataset.env_id), data_format="hdf5")
        with new_hdf5(data / MAIN_FILE) as file:
            for number, episode in enumerate(_buffers(dataset)):
                _store(file, f"episode_{number}", episode)
                file.describe(f"episode_{number}", {"id": number, "total_steps": len(episode["rewards"])})
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Minari cannot store the dataset: {reason_of(error)}",
            where=dataset_id,
            expected="infos of numbers or booleans, under plain names",
            fix="leave the offending infos out",
        ) from error
    size = round((data / MAIN_FILE).stat().st_size / 1e6, 1)
    counts = {"total_steps": len(dataset), "total_episodes": dataset.episodes, "dataset_size": size}
    storage.update_metadata({**facts, **counts, OURS: _own_facts(dataset)})


def _store(file: NewFile, group: str, episode: Mapping[str, Array]) -> None:
    """Chunked and without a last length: Minari appends to what it finds."""
    for key, values in episode.items():
        file.store(f"{group}/{key}", values, chunks=True, maxshape=(None, *values.shape[1:]))


def _spaces(dataset: Dataset) -> tuple[Any, Any]:
    from gymnasium.spaces import Box

    seen, done = dataset.next_observations.dtype, dataset.actions.dtype  # successors are never the narrower ones
    with np.errstate(over="ignore"):
        low, high = dataset.action_low.astype(done), dataset.action_high.astype(done)
    return Box(-np.inf, np.inf, (dataset.observation_size,), seen.type), Box(low, high, dtype=done.type)


def _own_facts(dataset: Dataset) -> dict[str, Any]:
    return {
        "action_low": dataset.action_low.tolist(),
        "action_high": dataset.action_high.tolist(),
        "observation_dtype": dataset.observations.dtype.name,
        "env_id": dataset.env_id,
        "name": dataset.name,
        "provenance": dict(dataset.provenance),
        "observation_names": list(dataset.observation_names),
        "action_names": list(dataset.action_names),
    }


def _env_spec(env_id: str | None) -> Any:
    """The registered spec, so that Minari can make the environment; else the bare id; None if it is no such id."""
    from gymnasium.envs.registration import EnvSpec, registry
    from gymnasium.error import Error

    if not env_id:
        return None
    spec = registry.get(env_id)
    if spec is not None and isinstance(spec.entry_point, str):  # a function cannot be stored
        return spec
    try:
        return EnvSpec(env_id)
    except Error:
        return None


def _buffers(dataset: Dataset) -> Iterator[dict[str, Array]]:
    extras: dict[str, Array] = dict(dataset.infos)
    if not dataset.successor_known.all():
        extras[SUCCESSOR_KNOWN] = dataset.successor_known
    for rows in dataset.iterate_episodes():
        yield {
            "observations": _with_successor(dataset, rows),
            "actions": dataset.actions[rows],
            "rewards": dataset.rewards[rows],
            "terminations": dataset.terminals[rows],
            "truncations": dataset.timeouts[rows],
            **{f"infos/{key}": np.concatenate([value[rows], value[rows][-1:]]) for key, value in extras.items()},
        }


def _with_successor(dataset: Dataset, rows: slice) -> Array:
    seen = dataset.observations[rows]
    last = dataset.next_observations[rows][-1:] if dataset.successor_known[rows.stop - 1] else seen[-1:]
    return np.concatenate([seen, last], dtype=dataset.next_observations.dtype)

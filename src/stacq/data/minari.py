"""Minari's dataset directories, read: one group per episode, T steps and T + 1 observations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.types import Array, Bools, Infos, Ints
from stacq.data.border import assemble
from stacq.data.checks import check_shapes
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.minari_episodes import MARK, Values, episodes_of
from stacq.data.minari_layout import (
    METADATA,
    OURS,
    Layout,
    Leaf,
    damage_named,
    damaged,
    layout_of,
    locate,
    metadata_of,
    stated,
)
from stacq.data.succession import EPISODE_CUT, SUCCESSOR_KNOWN

STEP_COLUMNS = {"rewards": "rewards", "terminals": "terminations", "timeouts": "truncations"}  # ours -> Minari's


def read_minari(source: str | Path, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED) -> Dataset:
    """Read a Minari dataset by its id, if it is in Minari's local root, or by its directory.

    Dict observations (goal environments) are flattened in the order of sorted keys, depth first, Tuples by
    index, every leaf row-major: the order of Gymnasium's FlattenObservation wrapper. Minari stores T + 1
    observations per episode, so the successor of every row is known, unless `write_minari` marked it unknown.

    `infos` names per-step extras, such as `qpos`, or "all". Minari stores T + 1 of them, one for each observation:
    the first T are kept, so that row t of an extra belongs to row t of the observations.

    Bounds, environment and name as stored complete the given `conventions`. No environment is made.
    """
    directory = locate(source)
    about = metadata_of(directory)
    with episodes_of(directory, about) as episodes:
        wanted = [name for name in episodes.info_names() if name != SUCCESSOR_KNOWN] if infos == "all" else infos
        with damage_named(directory / "data" / METADATA):
            layout = layout_of(about, wanted, directory)
            conventions = conventions.over(stated(about, layout.actions, conventions, directory))
        parts = [_rows(values, layout) for values in episodes.read(layout)]
        lengths = np.array([len(part["rewards"]) for part in parts], dtype=np.int64)
        if not lengths.any():
            raise damaged("there are no episodes", directory)
        columns = {key: np.concatenate([part.pop(key) for part in parts]) for key in list(parts[0])}
    return _assembled(columns, lengths, about, layout, conventions)


def _rows(values: Values, layout: Layout) -> dict[str, Array]:
    """One episode as row arrays, still apart from the others."""
    steps = len(values["rewards"])
    leaves = [values[leaf.path] for leaf in layout.observations]
    seen = leaves[0] if len(leaves) == 1 else np.concatenate(leaves, axis=1)  # [T + 1, S]
    rows = {"observations": seen[:-1], "next_observations": seen[1:], "actions": values["actions"]}
    rows |= {key: values[stored] for key, stored in STEP_COLUMNS.items()}
    rows |= {f"infos/{key}": values[f"infos/{key}"][:-1] for key in layout.infos}
    rows[SUCCESSOR_KNOWN] = values[MARK][:-1] if MARK in values else np.ones(steps, dtype=np.bool_)
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
    ours = about[OURS]
    narrow = ours.get("observation_dtype")
    if narrow in ("float32", "float64"):
        columns["observations"] = columns["observations"].astype(narrow, copy=False)
    notes = (*_space_notes(layout.observations), *_episode_notes(ended, last, about))
    dataset = assemble(columns, extras, where=layout.where, conventions=conventions)
    return replace(dataset, notes=(*notes, *dataset.notes), provenance=ours["provenance"])


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

"""Everything a run is, on disk: whole, verified, and the one before it kept in case it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.artefacts import Damaged, damaged, read_artefact, remove_artefact, write_artefact
from stacq.core.errors import InputError
from stacq.core.outside import has_shape

KIND = "checkpoint"
KEPT = 2
FACTS = {KIND: {"step": int}, "snapshot": {"step": int, "alive": [bool]}}  # what manifests hold, by kind


class Checkpoint(NamedTuple):
    step: int
    tree: Any
    arithmetic: str  # see `arithmetic_of`; empty where a checkpoint does not say it


def save_tree(directory: Path, kind: str, tree: Any, facts: dict[str, Any]) -> None:
    """Any tree of arrays as an artefact; the structure itself is not stored, because the reader knows it."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    arrays = {f"{place:03d}{jax.tree_util.keystr(path)}": np.asarray(leaf) for place, (path, leaf) in enumerate(leaves)}
    write_artefact(directory, kind, arrays, facts, {})


def load_tree(directory: Path, kind: str, like: Any) -> tuple[Any, dict[str, Any]]:
    """What `save_tree` wrote, in the structure of `like`; refused if damaged or of another structure."""
    artefact = read_artefact(directory, kind)
    if not has_shape(artefact.config, FACTS.get(kind, {})):
        raise damaged(directory, "its manifest does not say of which step it is")
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [f"{place:03d}{jax.tree_util.keystr(path)}" for place, (path, _) in enumerate(leaves)]
    shapes = {name: (leaf.shape, leaf.dtype) for name, (_, leaf) in zip(names, leaves, strict=True)}
    if {name: (value.shape, value.dtype) for name, value in artefact.arrays.items()} != shapes:
        raise InputError(
            f"this {kind} is of another run, or of another version of stacq: its arrays have other names or shapes",
            where=directory,
            expected=f"{len(shapes)} arrays as this configuration makes them",
            fix="start a new run with another --out, or go on with the version that began it",
        )
    arrays = [jnp.asarray(artefact.arrays[name]) for name in names]
    return jax.tree_util.tree_unflatten(structure, arrays), dict(artefact.config)


def save_checkpoint(folder: Path, step: int, tree: Any, arithmetic: str = "") -> None:
    """Add a checkpoint, then forget all but it and the one before.

    Later ones are of an attempt that was given up because they could not be read.
    """
    save_tree(folder / f"{step:09d}", KIND, tree, {"step": step, "arithmetic": arithmetic})
    kept = [each for each in stored_steps(folder) if int(each.name) <= step][-KEPT:]
    for other in stored_steps(folder):
        if other not in kept:
            remove_artefact(other)


def latest_checkpoint(
    folder: Path, like: Any, say: Callable[[str], None], *, before: int | None = None
) -> Checkpoint | None:
    """The newest checkpoint that is whole, of a step below `before`; a damaged one is named and passed over.

    One that is whole and of another structure is an error: a newer version of stacq may have written it.
    """
    stored = [path for path in stored_steps(folder) if before is None or int(path.name) < before]
    for directory in reversed(stored):
        try:
            tree, facts = load_tree(directory, KIND, like)
        except Damaged as error:
            say(f"checkpoint passed over: {error}")
            continue
        return Checkpoint(int(facts["step"]), tree, facts.get("arithmetic", ""))
    if stored:
        say("no whole checkpoint is left: starting anew")
    return None


def stored_steps(folder: Path) -> list[Path]:
    """The artefacts of a folder that are named by a step, in order."""
    return sorted(path for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []

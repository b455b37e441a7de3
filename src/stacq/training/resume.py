"""A run that was stopped, brought back to its last whole checkpoint, with all its files at the same step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.artefacts import Damaged, remove_artefact
from stacq.core.errors import InputError
from stacq.core.staging import sweep
from stacq.core.types import Bools
from stacq.runs.directory import Run
from stacq.runs.finished import POLICIES
from stacq.training.checkpoints import KIND, latest_checkpoint, load_tree, stored_steps
from stacq.training.loop import Carry
from stacq.training.scorer import SNAPSHOT, SNAPSHOTS, save_snapshot

CHECKPOINTS = "checkpoints"
Like = tuple[Carry, jax.Array]  # the structure of a checkpoint: the carry, and which seeds are alive


class Resumed(NamedTuple):
    """Where a run goes on."""

    carry: Carry
    alive: Bools
    arithmetic: str  # of the process that wrote the checkpoint; empty if unknown


def resume(
    run: Run, fresh: Carry, alive: Bools, kept: Callable[[Any], Any], say: Callable[[str], None]
) -> Resumed | None:
    """The last whole checkpoint, with the files brought back to its step; None for a fresh start.

    `kept` is the algorithm's: what a snapshot holds of a state.
    """
    if not run.resumed:
        return None
    for name in ("", CHECKPOINTS, SNAPSHOTS, POLICIES):
        sweep(run.directory / name, owned=True)
    like = fresh, jnp.asarray(alive)
    checkpoints = run.directory / CHECKPOINTS
    found = latest_checkpoint(checkpoints, like, say, before=_first_damaged(run.directory, like, kept, say))
    _rewind(run, 0 if found is None else found.step)
    if found is None:
        return None
    carry, stored = found.tree
    return Resumed(Carry(*carry), np.array(stored), found.arithmetic)


def _first_damaged(directory: Path, like: Like, kept: Callable[[Any], Any], say: Callable[[str], None]) -> int | None:
    """The first step whose snapshot is damaged and cannot be made again from a checkpoint of that very step.

    The run must go back to a checkpoint before that step, to be evaluated there. If there is none, the whole run would
    have to be repeated: then the user decides.
    """
    checkpoints, parameters = directory / CHECKPOINTS, jax.device_get(kept(like[0].state))
    for path in stored_steps(directory / SNAPSHOTS):
        try:
            load_tree(path, SNAPSHOT, parameters)
        except Damaged as error:
            if _made_again(path, checkpoints / path.name, like, kept):
                continue
            if not any(int(other.name) < int(path.name) for other in stored_steps(checkpoints)):
                raise InputError(
                    "this snapshot, which was to be evaluated, is damaged, and no checkpoint before it is left",
                    where=path,
                    expected="arrays as they were written",
                    fix="delete it to go on without this evaluation, or start anew with another --out",
                ) from error
            say(f"going back to before step {int(path.name):,}: its snapshot is damaged, and is made again")
            return int(path.name)
    return None


def _made_again(path: Path, checkpoint: Path, like: Like, kept: Callable[[Any], Any]) -> bool:
    """Whether a checkpoint of the same step could stand in for a snapshot."""
    if not checkpoint.exists():
        return False
    try:
        (carry, alive), _ = load_tree(checkpoint, KIND, like)
    except Damaged:
        return False
    remove_artefact(path)
    save_snapshot(path, jax.device_get(kept(Carry(*carry).state)), int(path.name), np.asarray(alive))
    return True


def _rewind(run: Run, step: int) -> None:
    """Forget what lies beyond a step. Checkpoints go before snapshots: a damaged snapshot must not be forgotten first.

    Otherwise a kill in between would leave a checkpoint beyond a snapshot that nobody will make again.
    """
    folders = [run.directory / name for name in (CHECKPOINTS, SNAPSHOTS)]
    for path in [path for folder in folders for path in stored_steps(folder)]:
        if int(path.name) > step:
            remove_artefact(path)
    pending = {int(path.name) for path in stored_steps(folders[1])}
    run.rewind(step, lambda evaluated: evaluated not in pending)

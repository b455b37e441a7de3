"""The actions that lead to reachable states, by the models: what a pull to the action aims at."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.artefacts import cache_directory, end_work, kept_arrays, read_artefact, work_of, write_artefact
from stacq.core.files import alone, check_writable, content_hash
from stacq.core.staging import sweep
from stacq.core.types import Array, Float32s, Rows
from stacq.data.dataset import Dataset
from stacq.dynamics.fit import MIN_STEP_SCALE
from stacq.dynamics.models import Dynamics
from stacq.reach.build import silent
from stacq.reach.calibration import DAMPING, FLOOR, REWEIGHTINGS, refined
from stacq.reach.criterion import padded
from stacq.reach.sets import ReachableSets, others

KIND = "actions"
CHUNK = {"cpu": 2_048, "gpu": 16_384}  # pairs at a time, kept or lost together
RECIPE = {"reweightings": REWEIGHTINGS, "damping": DAMPING, "floor": FLOOR}


def leading_actions(
    dataset: Dataset,
    dynamics: Dynamics,
    sets: ReachableSets,
    *,
    progress: Callable[[int, int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Float32s:
    """An action for every entry of the sets that is not an own successor, in their order, [M, A], within the bounds.

    The plain inverse guess misses the state more often than not where contacts are made; one step on the forward
    ensemble, in units of the data's own steps, mends most of that (docs/reachability.md). On a CPU a million take
    minutes, so they are kept in the cache, chunks of an interrupted search too; `progress` gets how many there
    are, and of how many.
    """
    anchors, rows = others(sets)
    if len(rows) == 0:
        return np.zeros((0, len(dynamics.action_low)), np.float32)
    parents = {
        "dataset": dataset.fingerprint,
        "dynamics": dynamics.fingerprint,
        "sets": content_hash({"indptr": sets.indptr, "indices": sets.indices}),
    }
    directory, say = cache_directory(KIND, RECIPE, parents), log or silent
    sweep(directory.parent)
    if not directory.exists():
        check_writable(directory)
        with alone(directory, lambda: say("another process is finding these actions: waiting for it")):
            if not directory.exists():
                say(f"finding the actions that lead to {len(rows):,} reachable states")
                actions = _found(dataset, dynamics, anchors, rows, directory, progress)
                write_artefact(directory, KIND, {"actions": actions}, RECIPE, parents)
    end_work(directory)
    return read_artefact(directory, KIND).array("actions", np.float32, (len(rows), len(dynamics.action_low)))


def _found(
    dataset: Dataset,
    dynamics: Dynamics,
    anchors: Rows,
    rows: Rows,
    directory: Path,
    progress: Callable[[int, int], None] | None,
) -> Float32s:
    """All of them, chunk by chunk; those that an interrupted search left are taken from it."""
    s, s_next = (dynamics.normaliser.apply(values) for values in (dataset.observations, dataset.next_observations))
    unit = np.maximum((s_next - s)[dataset.successor_known].std(axis=0), MIN_STEP_SCALE)
    chunk, found = _chunk(), []

    def make(part: slice) -> dict[str, Array]:
        return {"actions": _refined(dynamics, s[anchors[part]], s_next[rows[part]], unit, chunk)}

    for first in range(0, len(rows), chunk):
        part = slice(first, first + chunk)
        found.append(kept_arrays(work_of(directory, chunk) / f"{first:012d}.npz", partial(make, part))["actions"])
        if progress is not None:
            progress(min(first + chunk, len(rows)), len(rows))
    return np.concatenate(found)


def _chunk() -> int:
    return CHUNK["cpu" if jax.default_backend() == "cpu" else "gpu"]


def _refined(dynamics: Dynamics, s: Float32s, s_next: Float32s, unit: Float32s, count: int) -> Float32s:
    """Actions from s to s', [m, A]; filled up to `count` rows for the models, so that one program does for all."""
    here, there = (jnp.asarray(padded(side, count)) for side in (s, s_next))
    units = jnp.broadcast_to(jnp.asarray(unit), here.shape)
    low, high = jnp.asarray(dynamics.action_low), jnp.asarray(dynamics.action_high)
    return np.asarray(refined(dynamics.models, here, there, units, low, high)[2])[: len(s)]

"""The actions that lead to reachable states, by the models: what a pull to the action aims at."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from stacq.artefacts import cache_directory, read_artefact, write_artefact
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.files import content_hash
from stacq.reach.calibration import refined
from stacq.reach.sets import ReachableSets
from stacq.types import Float32s, Ints

KIND = "ways"
CHUNK = 16_384


def leading_actions(
    dataset: Dataset,
    dynamics: Dynamics,
    sets: ReachableSets,
    *,
    progress: Callable[[int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Float32s:
    """An action for every entry of the sets that is not an own successor, in their order, [M, A], within the bounds.

    The plain inverse guess misses the state more often than not where contacts are made; one step on the forward
    ensemble, in units of the data's own steps, mends most of that (docs/reachability.md). On a CPU a million take
    minutes, so they are kept in the cache; `progress` is told how many there are so far.
    """
    anchors, rows = others(sets)
    if len(rows) == 0:
        return np.zeros((0, len(dynamics.action_low)), np.float32)
    directory = _kept_in(dataset, dynamics, sets)
    if directory.exists():
        return read_artefact(directory, KIND).arrays["actions"]
    if log is not None:
        log(f"finding the actions that lead to {len(rows):,} reachable states")
    s, s_next = (dynamics.normaliser.apply(values) for values in (dataset.observations, dataset.next_observations))
    low, high = jnp.asarray(dynamics.action_low), jnp.asarray(dynamics.action_high)
    unit = jnp.broadcast_to(dynamics.models.step_scale, (CHUNK, s.shape[1]))
    actions = np.empty((len(rows), len(dynamics.action_low)), np.float32)
    for first in range(0, len(rows), CHUNK):
        part = slice(first, first + CHUNK)
        missing = CHUNK - len(rows[part])  # every chunk has the same shape, so that one program does
        pairs = (s[anchors[part]], s_next[rows[part]])
        here, there = (jnp.asarray(np.pad(side, ((0, missing), (0, 0)), mode="edge")) for side in pairs)
        best = refined(dynamics.models, here, there, unit, low, high)[2]
        actions[part] = np.asarray(best)[: CHUNK - missing]
        if progress is not None:
            progress(min(first + CHUNK, len(rows)))
    write_artefact(directory, KIND, {"actions": actions}, {}, _parents(dataset, dynamics, sets))
    return actions


def others(sets: ReachableSets) -> tuple[Ints, Ints]:
    """Anchor and row of every entry that is not an own successor, each [M]."""
    anchors = sets.anchors
    other = anchors != sets.indices
    return anchors[other], sets.indices[other]


def _kept_in(dataset: Dataset, dynamics: Dynamics, sets: ReachableSets) -> Path:
    return cache_directory(KIND, {}, _parents(dataset, dynamics, sets))


def _parents(dataset: Dataset, dynamics: Dynamics, sets: ReachableSets) -> dict[str, str]:
    return {
        "dataset": dataset.fingerprint,
        "dynamics": content_hash(dynamics.arrays()),
        "sets": content_hash({"indptr": sets.indptr, "indices": sets.indices}),
    }

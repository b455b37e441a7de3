"""From dataset and dynamics to reachable sets, in chunks that survive a kill (appendices B and C)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from stacq.core.artefacts import cache_directory, end_work, kept_arrays, work_of
from stacq.core.errors import InputError
from stacq.core.files import alone
from stacq.core.progress import Update
from stacq.core.staging import sweep
from stacq.core.types import Array, Ints
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.reach.chunks import FACTS, Chunk, ChunkMaker
from stacq.reach.config import Engine, ReachConfig
from stacq.reach.options import ACTIONS, resolved
from stacq.reach.sets import KIND, ReachableSets


def kept_at(dataset: Dataset, dynamics: Dynamics, config: ReachConfig) -> Path:
    """Where the sets of these inputs and options lie in the cache, present or not."""
    return cache_directory(KIND, asdict(resolved(config)), _parents(dataset, dynamics))


def check_dynamics(dataset: Dataset, dynamics: Dynamics) -> None:
    """Models of other sizes, or of actions with other bounds, say nothing about this data."""
    found = (len(dynamics.normaliser.mean), len(dynamics.action_low))
    if found != (dataset.observation_size, dataset.action_size):
        raise InputError(
            f"these dynamics are for observations of {found[0]} and actions of {found[1]} numbers",
            where=dataset.name or "dataset",
            expected=f"{dataset.observation_size} and {dataset.action_size}, the sizes of the data",
            fix="fit dynamics to this dataset: `stacq dynamics fit`",
        )
    of_data = (dataset.action_low, dataset.action_high)
    of_models = (dynamics.action_low, dynamics.action_high)
    slack = 1e-3 * (dataset.action_high - dataset.action_low)
    if any((np.abs(ours - theirs) > slack).any() for ours, theirs in zip(of_models, of_data, strict=True)):
        low, high = (bound.tolist() for bound in of_models)
        raise InputError(
            f"these dynamics are for actions from {low} to {high}",
            where=dataset.name or "dataset",
            expected="the bounds of the data, {} to {}".format(*(bound.tolist() for bound in of_data)),
            fix="state the same bounds for both, or fit dynamics to this dataset",
        )


def _parents(dataset: Dataset, dynamics: Dynamics) -> dict[str, str]:
    return {"dataset": dataset.fingerprint, "dynamics": dynamics.fingerprint}


def reachable_sets(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig = ReachConfig(),
    *,
    engine: Engine = "cpu",
    progress: Update | None = None,
    log: Callable[[str], None] | None = None,
) -> ReachableSets:
    """The reachable sets of every row, from the cache if they were made before with the same inputs.

    Chunks of anchors are written as they are finished: the same call after a kill goes on from there and
    yields the same sets.
    """
    asked, config, say = config, resolved(config), log or silent
    check_dynamics(dataset, dynamics)
    if config.criterion == "priced":
        raise InputError(
            "priced sets are not found with dynamics",
            where="reachable_sets",
            expected="the criterion paper or calibrated",
            fix="use stacq.graph.sets.priced_sets(dataset)",
        )
    parents = _parents(dataset, dynamics)
    held_out = _held_out(dynamics, dataset, parents["dataset"])
    if config.criterion == "calibrated" and held_out is None:
        raise _not_calibrated(dataset, dynamics, parents["dataset"])
    fitted_to = dynamics.parents.get("dataset", parents["dataset"])
    if fitted_to != parents["dataset"]:
        hashes = f"{fitted_to[:12]}; this one is {parents['dataset'][:12]}"
        say(f"note: the dynamics were fitted to another dataset, {hashes}")
    directory = kept_at(dataset, dynamics, asked)
    sweep(directory.parent)
    if not directory.exists():
        with alone(directory, lambda: say("another process is finding these sets: waiting for it")):
            if not directory.exists():
                say(_ranges_text(asked, config))
                return _found(dataset, dynamics, config, engine, held_out, directory, progress or _unseen, say)
    end_work(directory)
    say("found before, with the same data, models and options")
    return ReachableSets.load(directory)


def _found(
    dataset: Dataset,
    dynamics: Dynamics,
    config: ReachConfig,
    engine: Engine,
    held_out: Ints | None,
    directory: Path,
    progress: Update,
    say: Callable[[str], None],
) -> ReachableSets:
    """Sets that are not in the cache yet, from chunk to chunk, and then saved there."""
    seconds: dict[str, float] = {}
    maker = ChunkMaker(dataset, dynamics, config, engine, seconds, progress)
    work = work_of(directory, maker.length)
    test = maker.prepare(work / "test.json", held_out)
    if "calibration" in test:
        say("calibrated on held-out rows: threshold {threshold:.2f}, recall {recall:.1%}".format(**test["calibration"]))
    chunks = [_kept(work, start, maker) for start in range(0, len(dataset), maker.length)]
    facts = dict(zip(FACTS, np.sum([chunk.facts for chunk in chunks], axis=0).tolist(), strict=True))
    counts = np.concatenate([chunk.counts for chunk in chunks])
    sets = ReachableSets(
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        indices=np.concatenate([chunk.rows for chunk in chunks]),
        config=asdict(config),
        parents=_parents(dataset, dynamics),
        facts={**facts, **test},
    )
    sets.check(dataset)
    sets.save(directory)
    end_work(directory)
    say(", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items()))
    return sets


def silent(_: str) -> None:
    pass


def _unseen(done: int, total: int | None = None, *, kept: bool = False, phase: str = "") -> None:
    pass


def _ranges_text(asked: ReachConfig, config: ReachConfig) -> str:
    """Where the ranges come from, and if that was not asked for, why."""
    if config.estimator == "random":
        return f"ranges from {config.actions:,} uniform actions"
    text = f"ranges from the corners of the action box and {config.actions:,} uniform actions"
    if asked.estimator == "auto":
        text += f"; there is no GPU, and the paper's {ACTIONS['random']:,} (--estimator random) take many times as long"
    return text


def _held_out(dynamics: Dynamics, dataset: Dataset, fingerprint: str) -> Ints | None:
    """Rows that no member of the dynamics saw, if that is known of any."""
    rows = dynamics.held_out
    if dynamics.parents.get("dataset") != fingerprint or not len(rows):
        return None
    if rows.max() >= len(dataset) or not dataset.successor_known[rows].all():
        raise InputError(
            f"these dynamics say that they held out row {rows.max():,}, or rows without a known successor",
            where=dataset.name or "dataset",
            expected=f"rows of the {len(dataset):,} whose successor is known",
            fix="fit them again with `stacq dynamics fit`",
        )
    return rows


def _not_calibrated(dataset: Dataset, dynamics: Dynamics, fingerprint: str) -> InputError:
    another = dynamics.parents.get("dataset") != fingerprint
    return InputError(
        "these dynamics " + ("were fitted to another dataset" if another else "do not say which rows they held out"),
        where=dataset.name or "dataset",
        expected="dynamics with held-out rows of this dataset, to calibrate the criterion on",
        fix="fit them again with `stacq dynamics fit`, or use the paper's criterion",
    )


def _kept(work: Path, start: int, maker: "ChunkMaker") -> Chunk:
    """A chunk that an earlier run left, else made and left there."""
    made = False

    def make() -> Mapping[str, Array]:
        nonlocal made
        made = True
        return maker.make(start)._asdict()

    chunk = Chunk(**kept_arrays(work / f"{start:09d}.npz", make))
    maker.progress(min(start + maker.length, maker.rows), kept=not made)
    return chunk

"""All the way from data to scored policies: one row of stages, the same for library, command line and studies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from stacq.core.errors import InputError
from stacq.core.files import home
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.pipeline.options import Options, Stages, options_from
from stacq.pipeline.plan import make_plan, short_name
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.stages import STAGES, Work
from stacq.pipeline.trained import Trained
from stacq.reach.config import ReachConfig
from stacq.reach.options import resolved
from stacq.runs.directory import RUNS, check_free
from stacq.runs.trackers import Log, check_logs


def train(
    dataset: Dataset | Path | str,
    options: Options | str | None = None,
    stages: Stages = Stages(),
    *,
    out: Path | str | None = None,
    root: Path | str = RUNS,
    workers: int | None = None,
    log: Sequence[Log] = (),
    reporter: Reporter | None = None,
    concerns: bool = True,
    **keywords: Any,
) -> Trained:
    """Train policies on a dataset, or on what `stacq.load` takes; every stage that was made before is reused.

    Options are given whole, or by keywords: `train(data, algorithm="td3bc", settings={"alpha": 1.0})`. The run
    directory is `out`, else one under `root` that the options name; called again, a run goes on where it stopped.
    Nothing is printed without a `reporter`, such as `stacq.ConsoleReporter()`. With `concerns` it first gets what
    will be done, and what looks wrong with the data. `log` names programs that get the metrics too, "tensorboard" or
    "wandb".
    """
    chosen = options_from(options, keywords)
    if not isinstance(stages, Stages) or not isinstance(stages.reach, ReachConfig):
        raise InputError(f"stages is {stages!r}", expected="stacq.Stages(..., reach=stacq.ReachConfig(...))")
    resolved(stages.reach)
    check_logs(log)
    data = load(dataset) if isinstance(dataset, str | Path) else dataset
    listener = reporter or Reporter()
    plan = make_plan(data, chosen)
    if out is not None:
        check_free(Path(out))
    else:
        short_name(plan.dataset)  # refused before hours go into what comes first
    if concerns:
        listener.begun(plan)
        listener.concerns(plan.dataset)
    keep_compiled()
    place = None if out is None else Path(out)
    work = Work(plan, stages, listener, place, Path(root), workers=workers, logs=tuple(log))
    for stage in STAGES:
        work = stage(work)
    assert work.trained is not None
    return work.trained


def keep_compiled() -> None:
    """Compiled programs are kept in the cache directory, so that a second start does not compile again."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        settings = {
            "jax_compilation_cache_dir": str(home() / "compiled"),
            "jax_persistent_cache_min_compile_time_secs": 1.0,
        }
        for name, value in settings.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]

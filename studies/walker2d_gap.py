"""Why the published settings fall on walker2d-medium: whose data, whose recipe for dynamics, which precision.

    python studies/walker2d_gap.py --actors d4rl_medium.npz:walker2d --minutes 25

Records 300,000 rows of the policy in `--actors` and as many of the package's medium policy, fits dynamics to both by
two recipes, and trains the runs of `RUNS` on them, several at once, as `at_once.py` does it. Given again it goes on.
Lines of results are gathered in `OUT/training.jsonl`, with the data, the recipe and the precision of each.

`float32` is `--precision float32` of `stacq train`.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from at_once import Queue, gather, share_gpu, stop_sharing, work
from locomotion import RESULTS, RUNS, add, summary, table

from stacq import ConsoleReporter, Dataset, algos, load
from stacq.cli import main as stacq
from stacq.dynamics.models import Dynamics
from stacq.pipeline.models import fit_dynamics
from stacq.pipeline.plan import Plan, make_plan
from stacq.pipeline.stages import Work, with_actions, with_policies
from stacq.pipeline.train import keep_compiled
from stacq.reach.build import reachable_sets
from stacq.reach.sets import ReachableSets

ENV = "Walker2d-v4"
ALPHA = "alpha=5"  # published for the body, whatever the data is called
OURS = "behaviour/walker2d-medium"
EPOCHS = {"paper": 300}  # at most, where a recipe would go on for longer


class Case(NamedTuple):
    """One training run."""

    data: str
    run: str = "own-only"
    recipe: str = "default"
    float32: bool = False
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "-".join([self.data, *self.label.replace(",", "").split(), *self.settings])

    @property
    def needs_dynamics(self) -> bool:
        return algos.find(RUNS[self.run][0].algorithm).needs.reachable

    @property
    def label(self) -> str:
        """The run with its dynamics and its precision."""
        recipe = [f"{self.recipe} dynamics"] if self.needs_dynamics else []
        return ", ".join([self.run, *recipe, *["float32"] * self.float32])


CASES = (
    *(Case(data) for data in ("theirs", "ours")),
    *(Case(data, float32=True) for data in ("theirs", "ours")),
    *(Case(data, recipe="paper") for data in ("theirs", "ours")),
    *(Case(data, settings=("actor_noise=0.316",)) for data in ("theirs", "ours")),
    *(Case("theirs", run) for run in ("stacq", "td3bc", "bc")),
)


def record(data: str, chosen: argparse.Namespace) -> None:
    source = chosen.actors if data == "theirs" else OURS
    where = ["--env", ENV, "--out", str(chosen.out / f"{data}.hdf5"), "--force"]
    stacq(["data", "rollout", source, "--rows", str(chosen.rows), *where])


def fitted(dataset: Dataset, recipe: str, chosen: argparse.Namespace) -> Dynamics:
    return fit_dynamics(dataset, recipe, epochs=chosen.epochs or EPOCHS.get(recipe)).dynamics


def own_successors(dataset: Dataset, dynamics: Dynamics) -> ReachableSets:
    """What reachable sets are reduced to, without looking for the rest of them."""
    known = dataset.successor_known
    parents = {"dataset": dataset.fingerprint, "dynamics": dynamics.fingerprint}
    return ReachableSets(np.concatenate([[0], np.cumsum(known)]), np.flatnonzero(known), {}, parents, {})


def planned(case: Case, chosen: argparse.Namespace) -> Plan:
    """The run of that name on the case's data, with the body's published alpha whatever the data is called."""
    dataset, (options, reach) = load(chosen.out / f"{case.data}.hdf5"), RUNS[case.run]
    options = replace(options, seeds=chosen.seeds, steps=chosen.steps, eval_every=chosen.eval_every)
    options = replace(options, precision="float32" if case.float32 else "auto")
    if not case.needs_dynamics:
        return make_plan(dataset, options)
    plan = make_plan(dataset, replace(options, settings=(ALPHA, *case.settings)))
    dynamics = fitted(dataset, case.recipe, chosen)
    if options.own_only:
        sets = own_successors(dataset, dynamics)
    else:
        sets = reachable_sets(dataset, dynamics, reach, engine="cpu" if jax.default_backend() == "cpu" else "gpu")
    return plan.with_models(dynamics, sets)


def train(case: Case, chosen: argparse.Namespace) -> None:
    plan, started, directory = planned(case, chosen), time.perf_counter(), chosen.out / case.name
    with_policies(with_actions(Work(plan, reporter=ConsoleReporter(), out=directory / "run")))
    line = summary(directory / "run", case.data, case.label, list(case.settings), time.perf_counter() - started)
    add(directory / RESULTS, {**line, "directory": case.name, "recipe": case.recipe, "float32": case.float32})


def do(job: str, chosen: argparse.Namespace) -> None:
    """One job of the queue, in a process of its own."""
    keep_compiled()
    kind, _, rest = job.partition(" ")
    if kind == "record":
        record(rest, chosen)
    elif kind == "fit":
        data, recipe = rest.split()
        fitted(load(chosen.out / f"{data}.hdf5"), recipe, chosen)
    else:
        (case,) = (case for case in CASES if case.name == rest)
        train(case, chosen)


def queue(cases: list[Case], chosen: argparse.Namespace) -> Queue:
    """Recordings first, then fits, then runs, each when what it needs is there; finished runs are left out."""
    script = [sys.executable, *sys.argv]
    cases = [case for case in cases if not (chosen.out / case.name / RESULTS).exists()]
    waiting, needs = {}, {}
    for case in cases:
        source, fit = f"record-{case.data}", f"fit-{case.data}-{case.recipe}"
        if not (chosen.out / f"{case.data}.hdf5").exists():
            waiting[source] = [*script, "--job", f"record {case.data}"]
        if case.needs_dynamics:
            waiting[fit], needs[fit] = [*script, "--job", f"fit {case.data} {case.recipe}"], source
        needs[case.name] = fit if case.needs_dynamics else source
    waiting |= {case.name: [*script, "--job", f"run {case.name}"] for case in cases}
    return Queue(chosen.out, chosen.at_once, waiting, needs)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", required=True, help="FILE.npz:TAG of the policy to compare with")
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES], help="some of the runs")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--eval-every", type=int, default=15_000)
    parser.add_argument("--epochs", type=int, help="of all dynamics, for a trial")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop everything after so long")
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/gap"))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    if chosen.job:
        do(chosen.job, chosen)
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if not chosen.only or case.name in chosen.only]
    shared = share_gpu(chosen.out)
    try:
        done = work(queue(cases, chosen), chosen.minutes)
    finally:
        if shared:
            stop_sharing()
    gather(chosen.out)
    print("\n".join(table(chosen.out / RESULTS)))
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()

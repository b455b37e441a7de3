"""Milliseconds per training step on the device at hand, five seeds side by side.

    python benchmarks/training_device.py --dataset stacq/walker2d-medium-v0 --profile --evaluation
    python benchmarks/training_device.py --rows 2000000 --only stacq

With a dataset, its own dynamics and reachable sets are used, or made first. Without one, random data of a walking
robot's sizes with one reachable state for every row: what a dataset of that many rows needs in memory. Compilation is
timed apart, in a fresh cache, and a second time with the program on disk. `--profile` adds where the time of a step
goes, `--evaluation` what the paper's protocol beside the training costs: ten episodes of every seed each 5,000 steps.
`--precision` is that of `stacq train`.
The bars are those of an H200: on a CPU there is nothing to measure here, `training_speed.py` is for that.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

import training_speed
from stacq import Options, generate, load
from stacq.algos.algorithm import Sizes
from stacq.algos.world import World
from stacq.nn.precision import PRECISIONS, products_of
from stacq.pipeline.models import fit_dynamics
from stacq.pipeline.plan import Plan, make_plan
from stacq.pipeline.stages import Work as Training
from stacq.pipeline.stages import make_task, with_actions
from stacq.reach.build import reachable_sets
from stacq.runs.directory import Run
from stacq.training.loop import compiled_advance
from stacq.training.pace import Report
from stacq.training.task import Task
from stacq.training.train import train
from training_speed import Turn, flops, training

SEEDS, CHUNK, CHUNKS = 5, 1000, 6
BAR = {"stacq": 0.6, "td3bc": 0.12}  # ms per step of five seeds
WARM, MEASURED, EVAL_EVERY, EVALUATION_BAR = 15_000, 60_000, 5_000, 0.2  # steps, and a share


class Work(NamedTuple):
    algorithm: str
    world: World
    sizes: Sizes
    config: Any


def real_plan(name: str, options: Options) -> Plan:
    dataset = load(generate(name)) if name.startswith("stacq/") else load(name)
    plan = make_plan(dataset, options)
    if not plan.algorithm.needs.reachable:
        return plan
    dynamics = fit_dynamics(dataset, "default").dynamics
    return plan.with_models(dynamics, reachable_sets(dataset, dynamics, engine="gpu"))


def real_task(plan: Plan) -> Task:
    done = with_actions(Training(plan))
    return make_task(done.plan, done.actions)


def real_work(name: str, options: Options) -> Work:
    task = real_task(real_plan(name, replace(options, evaluate=False)))
    return Work(options.algorithm, task.world, task.sizes, task.config)


def loop_speed(plan: Plan) -> float:
    """Milliseconds per step of the whole loop once it runs evenly, the wait for the last evaluation included."""
    evenly: list[tuple[int, float]] = []  # steps and times since then

    def note(report: Report) -> None:
        if report.step >= WARM and (report.scores or plan.env is None):
            evenly.append((report.step, time.perf_counter()))

    with tempfile.TemporaryDirectory() as folder, Run(Path(folder) / "run", plan.manifest()) as run:
        train(real_task(plan), plan.schedule, run, scoring=plan.scoring, listener=note)
    step, then = evenly[0]
    return (time.perf_counter() - then) / (MEASURED - step) * 1e3


def evaluation(name: str, options: Options) -> Iterator[str]:
    plan = real_plan(name, replace(options, steps=MEASURED, eval_every=EVAL_EVERY))
    if plan.env is None:
        yield f"{name} names no environment: nothing can be evaluated"
        return
    alone, beside = loop_speed(replace(plan, env=None)), loop_speed(plan)
    more = beside / alone - 1
    yield f"{options.algorithm}, the whole loop: {alone:.3f} ms a step, with evaluation {beside:.3f}"
    yield f"  {more:+.0%}; bar +{EVALUATION_BAR:.0%}: {'met' if more <= EVALUATION_BAR else 'MISSED'}"


def random_work(rows: int, options: Options) -> Work:
    world = training_speed.make_world(training_speed.data(rows), precision=options.precision)
    sizes = Sizes(training_speed.STATE, training_speed.ACTION)
    return Work(options.algorithm, world, sizes, training_speed.config(options.algorithm))


def started(work: Work) -> tuple[Turn, float]:
    """A function that goes on by so many steps, and the seconds that its first call took beyond a later one."""
    turn = training(work.algorithm, work.world, work.sizes, work.config, SEEDS)
    seconds = [_seconds(turn), _seconds(turn)]
    return turn, seconds[0] - seconds[1]


def _seconds(turn: Turn) -> float:
    start = time.perf_counter()
    turn(CHUNK)
    return time.perf_counter() - start


def profile(turn: Turn) -> Iterator[str]:
    """The kernels of a step, longest first. Names of fusions are the compiler's."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            turn(CHUNK)
        files = list(Path(folder).rglob("*.trace.json.gz"))
        events = json.loads(gzip.decompress(files[0].read_bytes()))["traceEvents"]
    streams = {each["tid"] for each in events if "Stream" in str(each.get("args", {}).get("name", ""))}
    kernels = [each for each in events if each.get("ph") == "X" and each.get("tid") in streams]
    if not kernels:
        yield "  no kernels in the profile"
        return
    spent, count = Counter[str](), Counter[str]()
    for each in kernels:
        spent[each["name"]] += each["dur"] / CHUNK
        count[each["name"]] += 1
    busy = sum(spent.values())
    yield f"  {len(kernels) / CHUNK:.0f} kernels a step, {busy:.0f} microseconds of them"
    for name, microseconds in spent.most_common(30):
        yield f"  {microseconds:7.1f} us {count[name] / CHUNK:5.1f} times  {name[:90]}"


def show(work: Work, *, kernels: bool) -> None:
    turn, compiled = started(work)
    times = sorted(_seconds(turn) / CHUNK * 1e3 for _ in range(CHUNKS))
    each, bar = times[len(times) // 2], BAR[work.algorithm]
    print(f"{work.algorithm}: {each:.3f} ms a step of {SEEDS} seeds ({times[0]:.3f} to {times[-1]:.3f})")
    if work.algorithm == "stacq":
        print(f"  P = {work.config.batch + work.config.slots} pairs of {work.sizes.state} numbers")
    if work.sizes == (training_speed.STATE, training_speed.ACTION):
        print(f"  {SEEDS * flops(work.algorithm, work.config) / each / 1e9:.1f} TFLOP/s in matrix products")
    print(f"  a million steps in {each * 1e3 / 60:.1f} minutes; bar {bar} ms: {'met' if each <= bar else 'MISSED'}")
    memory = jax.devices()[0].memory_stats() or {}
    print(
        f"  compiled in {compiled:.1f} s; device memory: most so far {memory.get('peak_bytes_in_use', 0) / 1e9:.2f} GB"
    )
    if kernels:
        print("\n".join(profile(turn)), flush=True)
    jax.clear_caches()  # type: ignore[no-untyped-call]
    compiled_advance.cache_clear()
    print(f"  once more, with the program on disk: {started(work)[1]:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the random data, where no dataset is named")
    parser.add_argument("--only", choices=list(BAR))
    parser.add_argument("--variant", default="paper", help="of StaCQ, on a --dataset")
    parser.add_argument("--precision", choices=PRECISIONS, default="auto")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--evaluation", action="store_true", help="of a --dataset")
    chosen = parser.parse_args()
    if chosen.evaluation and not chosen.dataset:
        parser.error("--evaluation needs a --dataset")
    if jax.default_backend() == "cpu":
        print("no GPU here: nothing to measure")
        return
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    with tempfile.TemporaryDirectory() as cache:
        jax.config.update("jax_compilation_cache_dir", cache)  # type: ignore[no-untyped-call]
        for algorithm in [chosen.only] if chosen.only else ["td3bc", "stacq"]:
            variant = chosen.variant if algorithm == "stacq" else "paper"
            options = Options(algorithm, variant=variant, precision=chosen.precision)
            work = real_work(chosen.dataset, options) if chosen.dataset else random_work(chosen.rows, options)
            with products_of(chosen.precision):
                show(work, kernels=chosen.profile)
            if chosen.evaluation:
                print("\n".join(evaluation(chosen.dataset, options)), flush=True)


if __name__ == "__main__":
    main()

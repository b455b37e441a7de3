"""How a study grows: its plan, its schedule on simulated workers, and the report on the runs that it leaves.

    python benchmarks/study_scale.py [--cells 10000] [--workers 1000] [--runs 10000]

Nothing is trained: the durations of jobs are those of the package's records, drawn again and again, and run
directories are made up, with 5 seeds and 20 evaluations of 10 episodes each. Measured on two cores of a shared
machine; the numbers are in docs/study.md.
"""

import argparse
import heapq
import json
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stacq.evaluation.records import COLUMNS, EpisodeRecord, csv_line
from stacq.report.folders import write_report
from stacq.study.cells import cells_of
from stacq.study.jobs import Job, jobs_of
from stacq.study.plan import parse_study
from stacq.study.resolved import resolved
from stacq.study.schedule import Schedule
from stacq.study.states import Places
from stacq.study.tables import gathered, write_all

DATASETS = 20
DURATIONS = {"data": 20.0, "dynamics": 300.0, "sets": 60.0, "actions": 120.0, "cell": 400.0}  # seconds, means
EVALUATIONS, SEEDS, EPISODES = 20, 5, 10


def study_text(cells: int) -> str:
    """Twenty datasets, each with as many values of alpha, for an algorithm with all stages."""
    names = [f"d{n}.hdf5" for n in range(DATASETS)]
    alphas = ", ".join(f"{0.01 * (n + 1):.2f}" for n in range(cells // DATASETS))
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f'datasets = [{listed}]\n[[methods]]\nalgorithm = "stacq"\nvariant = "robust"\nset = {{ alpha = [{alphas}] }}\n'
    )


def planned(cells: int) -> list[Job]:
    return jobs_of(cells_of(parse_study(study_text(cells), "scale", "scale.toml")))


def simulated(jobs: list[Job], workers: int) -> tuple[float, float]:
    """Seconds of scheduling, and of simulated time: every worker takes the next job when it has done one."""
    rng = np.random.default_rng(0)
    lasts = {job.key: DURATIONS[job.kind] * float(rng.lognormal(0, 0.5)) for job in jobs}
    started, now = time.perf_counter(), 0.0
    schedule, running = Schedule(jobs), list[tuple[float, str]]()
    while not schedule.over:
        while len(running) < workers and (job := schedule.next()) is not None:
            heapq.heappush(running, (now + lasts[job.key], job.key))
        now, key = heapq.heappop(running)
        schedule.finish(key)
    assert len(schedule.done) == len(jobs)
    return time.perf_counter() - started, now


def measure_schedule(cells: int, workers: int) -> None:
    started = time.perf_counter()
    jobs = planned(cells)
    plan = time.perf_counter() - started
    tracemalloc.start()
    schedule, span = simulated(jobs, workers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    seconds, _ = simulated(jobs, workers)
    del schedule
    print(
        f"{cells:,} cells, {len(jobs):,} jobs on {workers:,} workers: planned in {plan:.1f} s; scheduled in "
        f"{seconds:.3f} s, {1e6 * seconds / len(jobs):.1f} us a job, {peak / 1e6:.1f} MB; "
        f"{span / 3600:.2f} h of simulated time",
        flush=True,
    )


def records_text(rng: np.random.Generator) -> str:
    rows = []
    for step in range(1, EVALUATIONS + 1):
        for seed in range(SEEDS):
            for episode in range(EPISODES):
                score = 50 + 2 * step + 10 * float(rng.normal())
                rows.append(EpisodeRecord("StaCQ", "d", seed, 5_000 * step, episode, 30 * score, 500, score, None))
    return "".join([csv_line(COLUMNS), *(csv_line(row.row()) for row in rows)])


def metrics_lines(rng: np.random.Generator) -> Iterator[str]:
    for step in range(1, EVALUATIONS + 1):
        for seed in range(SEEDS):
            values = {"critic_loss": 1.0, "actor_loss": -1.0, "q": 100.0, "eval/value": 90.0, "time": 1.0 * step}
            score = 50 + 2 * step + float(rng.normal())
            line = {"step": 5_000 * step, "seed": seed, "eval/return": 30 * score, "eval/score": score, **values}
            yield json.dumps(line)


def make_runs(folder: Path, count: int) -> None:
    """Directories that differ in one setting; their long files are a few, linked many times."""
    rng = np.random.default_rng(0)
    shared = folder / ".shared"
    shared.mkdir(parents=True)
    for number in range(8):
        (shared / f"{number}.csv").write_text(records_text(rng))
        (shared / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in metrics_lines(rng)))
    config = {"algorithm": "stacq", "variant": "paper", "label": "StaCQ", "env": "Hopper-v4", "seeds": [0, 1, 2, 3, 4]}
    for number in range(count):
        run = folder / f"d{number % DATASETS}-stacq-paper-{number:08x}"
        run.mkdir()
        chosen = {**config, "dataset": f"d{number % DATASETS}", "total_steps": 100_000}
        chosen["config"] = {"alpha": 0.01 * (number // DATASETS), "batch": 256, "hidden": [256, 256]}
        (run / "config.json").write_text(json.dumps(chosen))
        final = [50.0 + number % 40 + seed for seed in range(SEEDS)]
        result = {"measure": "score", "lost": [], "final": final, "best": final, "last_ten": final}
        (run / "result.json").write_text(json.dumps(result))
        (run / "environment.json").write_text('{"device": "cpu"}')
        os.link(shared / f"{number % 8}.csv", run / "records.csv")
        os.link(shared / f"{number % 8}.jsonl", run / "metrics.jsonl")


def measure_report(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder) / "runs", count)
        started = time.perf_counter()
        page = write_report(Path(folder) / "page.html", [Path(folder) / "runs"], title="Many runs")
        whole = time.perf_counter() - started
        size = page.stat().st_size / 1e6
    print(f"{count:,} runs: page in {whole:.1f} s, {size:.2f} MB", flush=True)


def measure_tables(cells: int) -> None:
    """Tables and page of a study whose cells are all done."""
    study = parse_study(study_text(cells), "scale", "scale.toml")
    every, rng = cells_of(study), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder), Path(folder))
        (Path(folder) / "result.json").touch()
        places.state("x").parent.mkdir()
        for cell in every:
            scores = (50 + 10 * rng.normal(size=(SEEDS, EVALUATIONS))).round(2).tolist()
            record: dict[str, Any] = {
                "dataset": cell.source.label,
                "method": cell.label,
                "algorithm": "stacq",
                "measure": "score",
            }
            record |= {"seeds": list(range(SEEDS)), "lost": [], "scores": scores}
            record |= {"evaluated": [5_000 * (n + 1) for n in range(EVALUATIONS)], "steps": 100_000, "value": None}
            state = {"state": "done", "seconds": 1.0, "attempts": 1, "reason": "", "run": folder, "record": record}
            state["resolved"] = resolved(cell)
            places.state(cell.key).write_text(json.dumps(state))
        started = time.perf_counter()
        records, missing = gathered(every, places)
        files = write_all(study, every, places, records, missing, records)
        sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in files)
        print(f"{len(every):,} cells: tables in {time.perf_counter() - started:.1f} s ({sizes})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000])
    chosen = parser.parse_args()
    for cells in chosen.cells:
        measure_schedule(cells, chosen.workers)
        measure_tables(cells)
    for runs in chosen.runs:
        measure_report(runs)


if __name__ == "__main__":
    main()

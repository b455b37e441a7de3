"""Evaluation and regeneration on all cores, beside one process doing the same.

    python benchmarks/rollouts.py

Each figure is a ratio of rates measured in turn, worker start-up included unless said otherwise.
"""

import statistics
import time

from stacq.core.workers import WorkerPool, available_cores
from stacq.data.behaviour import load_behaviour
from stacq.data.generate import Group, roll_out, roll_out_group
from stacq.data.registry import recipe
from stacq.data.tasks import TASKS
from stacq.evaluation.rollouts import evaluate, run_episode

EPISODES, ROWS, ROUNDS = 40, 120_000, 3


def in_this_process() -> float:
    """Steps per second of the same episodes, one after the other, no worker at all."""
    policy = load_behaviour("hopper", "medium")
    started = time.perf_counter()
    lengths = [run_episode(policy, "Hopper-v4", "Hopper-v4", (0,), index).length for index in range(EPISODES)]
    return sum(lengths) / (time.perf_counter() - started)


def with_workers(workers: int) -> float:
    policy = load_behaviour("hopper", "medium")
    with WorkerPool(workers) as pool:
        evaluate(policy, "Hopper-v4", workers, 1, pool=pool)  # imports and models are loaded once per run
        started = time.perf_counter()
        records = evaluate(policy, "Hopper-v4", EPISODES, 0, pool=pool)
        return sum(record.length for record in records) / (time.perf_counter() - started)


def generating_here(body: str) -> float:
    """Rows per second of the same groups of episodes in this process, one after the other."""
    task, rows, index = TASKS[body], 0, 0
    started = time.perf_counter()
    while rows < ROWS:
        rows += len(roll_out_group(task, Group("medium", (0, 0, index))).rewards)
        index += 1
    return rows / (time.perf_counter() - started)


def generating(body: str) -> float:
    """Rows per second on all cores, worker start-up included."""
    started = time.perf_counter()
    roll_out(recipe(f"{body}-medium", size=ROWS))
    return ROWS / (time.perf_counter() - started)


def main() -> None:
    cores = available_cores()
    in_this_process()
    rounds = [(in_this_process(), with_workers(1), with_workers(cores)) for _ in range(ROUNDS)]
    alone, one, many = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"evaluate, Hopper-v4, {EPISODES} episodes: steps per second")
    print(f"  this process {alone:8,.0f}   1 worker {one:8,.0f}   {cores} workers {many:8,.0f}")
    print(f"  {cores} workers / this process: {many / alone:.2f} (bar on two cores: 1.6)")
    for body in ("hopper", "walker2d", "halfcheetah"):
        pairs = [(generating_here(body), generating(body)) for _ in range(2)]
        alone, many = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"generate {body}-medium, {ROWS:,} rows: rows per second")
        rates = f"this process {alone:8,.0f}   {cores} workers {many:8,.0f}"
        print(f"  {rates}   per core {many / cores / alone:.0%} (bar: 80%)")


if __name__ == "__main__":
    main()

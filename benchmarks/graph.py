"""A graph of logged states, by number of rows: CPU time of its parts, and memory.

    python benchmarks/graph.py
    python benchmarks/graph.py --rows 25000 100000 400000 --out research/results/graph-growth.jsonl
    python benchmarks/graph.py --rows 25000 100000 400000 1000000 --price 2
    python benchmarks/graph.py --dataset stacq/walker2d-medium-v0 --rows 1000000

Rows are noisy gaits: a phase and two slow numbers, seen through fixed random functions in 17 dimensions. These are
easier to search than the rows of a body; `--dataset` takes the first episodes of one, of 1,000 rows or so. CPU time is
that of this process, all threads together, so that other jobs on the machine count little. At the end, the exponent of
rows that fits the total best, and the same of each part. Values are solved at every price that is tried, so without
`--price` their time depends on how many these are.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from stacq import load
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.select import take_episodes
from stacq.graph import made
from stacq.graph.config import GraphConfig

LENGTH, DIMENSIONS, ACTIONS = 1000, 17, 6
PARTS = {"edges_of": "neighbours", "usual": "usual", "solved_at": "values"}  # functions of `stacq.graph.made`


def gaits(rows: int, dimensions: int = DIMENSIONS) -> Dataset:
    """Episodes of 1,000 steps."""
    rng, episodes = np.random.default_rng(0), rows // LENGTH
    phase = rng.uniform(0, 2 * np.pi, (episodes, 1)) + 0.25 * np.arange(LENGTH + 1)
    phase = phase + np.cumsum(rng.normal(0, 0.03, phase.shape), axis=1)
    slow = np.cumsum(rng.normal(0, 0.05, (2, *phase.shape)), axis=2)
    latent = np.stack([np.sin(phase), np.cos(phase), *np.sin(slow)], axis=-1)
    seen = np.tanh(latent @ rng.normal(size=(4, dimensions))) + rng.normal(0, 0.02, (*phase.shape, dimensions))
    actions = np.tanh(latent @ rng.normal(size=(4, ACTIONS)) + rng.normal(0, 0.2, (*phase.shape, ACTIONS)))
    ends = np.tile(np.arange(LENGTH) == LENGTH - 1, episodes)
    return from_arrays(
        seen[:, :-1].reshape(-1, dimensions).astype(np.float32),
        actions[:, :-1].reshape(-1, ACTIONS).astype(np.float32),
        np.sin(slow[0, :, :-1]).ravel().astype(np.float32),
        np.zeros(len(ends), np.bool_),
        timeouts=ends,
        next_observations=seen[:, 1:].reshape(-1, dimensions).astype(np.float32),
        conventions=Conventions(action_low=-1.0, action_high=1.0, name="gaits"),
    )


def first_rows(dataset: Dataset, rows: int) -> Dataset:
    """Whole episodes, as many as there are in the first rows."""
    count = int(np.searchsorted(dataset.episode_offsets, rows, side="right")) - 1
    return dataset if count >= dataset.episodes else take_episodes(dataset, np.arange(count))


def measure(dataset: Dataset, price: float) -> dict[str, Any]:
    """Seconds of CPU by part, sweeps at the last price, the recall of the search, and memory."""
    seconds = dict.fromkeys(PARTS.values(), 0.0)

    def timed(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed_call(*args: Any, **named: Any) -> Any:
            started = time.process_time()
            result = call(*args, **named)
            seconds[part] += time.process_time() - started
            return result

        return timed_call

    calls = {name: getattr(made, name) for name in PARTS}
    try:
        for name, part in PARTS.items():
            setattr(made, name, timed(part, calls[name]))
        started = time.process_time()
        facts = made.solved_graph(dataset, GraphConfig(price=price))[1]
        total = time.process_time() - started
    finally:
        for name, call in calls.items():
            setattr(made, name, call)
    return {
        "source": dataset.name,
        "rows": len(dataset),
        **{part: round(value, 2) for part, value in seconds.items()},
        "total": round(total, 2),
        "sweeps": facts.sweeps,
        "recall": round(facts.recall, 4),
        "usual_price": facts.usual_price,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def exponent(lines: list[dict[str, Any]], part: str) -> float:
    """The slope of log seconds on log rows."""
    points = np.log([[line["rows"], max(line[part], 1e-2)] for line in lines])
    return float(np.polyfit(points[:, 0], points[:, 1], 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[25_000, 50_000, 100_000, 200_000, 400_000])
    parser.add_argument("--dataset", help="rows of this one")
    parser.add_argument("--price", type=float, default=GraphConfig.price, help="instead of a fitted one")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    measure(gaits(LENGTH), chosen.price)  # compiles
    lines = []
    for rows in chosen.rows:
        dataset = gaits(rows) if chosen.dataset is None else first_rows(load(chosen.dataset), rows)
        lines.append(measure(dataset, chosen.price))
        print(json.dumps(lines[-1]), flush=True)
        if chosen.out is not None:
            with chosen.out.open("a") as file:
                file.write(json.dumps(lines[-1] | {"command": " ".join(["python", *sys.argv])}) + "\n")
    if len(lines) > 1:
        fitted = {part: round(exponent(lines, part), 2) for part in (*PARTS.values(), "total")}
        print(f"exponents of rows: {fitted}")


if __name__ == "__main__":
    main()

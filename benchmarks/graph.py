"""A graph of logged states, by number of rows: CPU time of its parts, and memory.

    python benchmarks/graph.py
    python benchmarks/graph.py --rows 1000000

Rows are noisy gaits: a phase and two slow numbers, seen through fixed random functions in 17 dimensions. CPU time is
that of this process, all threads together, so that other jobs on the machine count little. `ratio` is the time of all
parts over that of half as many rows.
"""

import argparse
import resource
import time

import numpy as np

from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.made import lent_actions, problem_of
from stacq.graph.price import noise_of, prices_of
from stacq.graph.solve import solve, weights
from stacq.graph.usual import usual

LENGTH, DIMENSIONS, ACTIONS = 1000, 17, 6


def gaits(rows: int) -> Dataset:
    """Episodes of 1,000 steps."""
    rng, episodes = np.random.default_rng(0), rows // LENGTH
    phase = rng.uniform(0, 2 * np.pi, (episodes, 1)) + 0.25 * np.arange(LENGTH + 1)
    phase = phase + np.cumsum(rng.normal(0, 0.03, phase.shape), axis=1)
    slow = np.cumsum(rng.normal(0, 0.05, (2, *phase.shape)), axis=2)
    latent = np.stack([np.sin(phase), np.cos(phase), *np.sin(slow)], axis=-1)
    seen = np.tanh(latent @ rng.normal(size=(4, DIMENSIONS))) + rng.normal(0, 0.02, (*phase.shape, DIMENSIONS))
    actions = np.tanh(latent @ rng.normal(size=(4, ACTIONS)) + rng.normal(0, 0.2, (*phase.shape, ACTIONS)))
    ends = np.tile(np.arange(LENGTH) == LENGTH - 1, episodes)
    return from_arrays(
        seen[:, :-1].reshape(-1, DIMENSIONS).astype(np.float32),
        actions[:, :-1].reshape(-1, ACTIONS).astype(np.float32),
        np.sin(slow[0, :, :-1]).ravel().astype(np.float32),
        np.zeros(len(ends), np.bool_),
        timeouts=ends,
        next_observations=seen[:, 1:].reshape(-1, DIMENSIONS).astype(np.float32),
        conventions=Conventions(action_low=-1.0, action_high=1.0, name="gaits"),
    )


def measure(rows: int) -> tuple[dict[str, float], int, float]:
    """Seconds of CPU by part, sweeps, and the recall of the search."""
    config, dataset, marks = GraphConfig(), gaits(rows), [time.process_time()]
    steps = steps_of(dataset)
    edges = edges_of(dataset, steps, config.neighbours)
    marks.append(time.process_time())
    found = usual(steps, config.discount, config.features, config.seed)
    marks.append(time.process_time())
    noise = noise_of(steps, found, config.discount)
    problem = problem_of(edges, steps, found, prices_of(edges, noise, config), config)
    solved = solve(problem, found.value, config.tolerance * noise)
    marks.append(time.process_time())
    lent_actions(edges, steps, found, weights(problem, solved.value), carry=config.carry)
    marks.append(time.process_time())
    parts = dict(zip(("neighbours", "usual", "values", "actions"), np.diff(marks).tolist(), strict=True))
    return parts, solved.sweeps, edges.recall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[25_000, 50_000, 100_000, 200_000, 400_000])
    measure(LENGTH)  # compiles
    before = 0.0
    for rows in parser.parse_args().rows:
        parts, sweeps, recall = measure(rows)
        total = sum(parts.values())
        words = ", ".join(f"{name} {seconds:.1f}" for name, seconds in parts.items())
        ratio = f", ratio {total / before:.2f}" if before else ""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{rows:,} rows: {words} s of CPU; {sweeps} sweeps, recall {recall:.1%}, {peak:.1f} GB{ratio}", flush=True
        )
        before = total


if __name__ == "__main__":
    main()

# mypy: disable-error-code="attr-defined, no-untyped-call"
"""Seconds for ranges, join and agreement over the number of rows, on the device at hand.

    python research/reach_scaling.py --models DIR --body walker2d --rows 125000 250000 500000 1000000 2000000

First compares matrix-product precisions for the ranges (time, and error in units of a range).
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import stacq.reach.ranges as module
from stacq import Conventions, Dataset, from_arrays, generate, load
from stacq.dynamics.models import Dynamics
from stacq.reach.build import reachable_sets
from stacq.reach.options import PAPER

PRECISIONS = ("highest", "TF32_TF32_F32_X3", "high", "default")


def first_rows(dataset: Dataset, rows: int) -> Dataset:
    return from_arrays(
        dataset.observations[:rows],
        dataset.actions[:rows],
        dataset.rewards[:rows],
        dataset.terminals[:rows],
        timeouts=dataset.timeouts[:rows],
        next_observations=dataset.next_observations[:rows],
        conventions=Conventions(name=f"{dataset.name}, first {rows}"),
    )


def compare_precisions(dynamics: Dynamics, dataset: Dataset, states: int = 8192) -> str:
    """Print time and error of each; the fastest whose error is below 1e-4 of a range is returned."""
    s = jnp.asarray(dynamics.normaliser.apply(dataset.observations[:states]))
    tried = jnp.asarray(module.range_actions(dynamics.action_low, dynamics.action_high, 1000, "random", 42))
    reference, good = None, {}
    for precision in PRECISIONS:
        module.PRECISION = precision
        jax.clear_caches()
        try:
            module.ranges(dynamics.models, s[:1024], tried)[0].block_until_ready()
            started = time.perf_counter()
            boxes = [module.ranges(dynamics.models, part, tried) for part in s.reshape(-1, 1024, s.shape[1])]
            jax.block_until_ready(boxes)
            seconds = time.perf_counter() - started
        except Exception as error:
            print(f"  {precision}: {type(error).__name__} {str(error)[:100]}")
            continue
        low, high = (np.concatenate([np.asarray(box[side]) for box in boxes]) for side in (0, 1))
        reference = reference or (low, high)
        worst = np.abs((low - reference[0]) / (reference[1] - reference[0])).max()
        if worst < 1e-4:
            good[precision] = seconds
        flops = states * 1000 * 7 * 2 * (2 * 256 * 256 + 256 * s.shape[1])
        print(
            f"  {precision}: {seconds:.2f} s, {flops / seconds / 1e12:.1f} TFLOP/s, error {worst:.1e} of a range",
            flush=True,
        )
    return min(good, key=lambda precision: good[precision])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--body", default="walker2d")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--engine", default="gpu")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    dynamics = Dynamics.load(chosen.models)
    started = time.perf_counter()
    whole = load(generate(f"{chosen.body}-medium", size=max(chosen.rows)))
    print(
        f"{chosen.body}: {len(whole):,} rows in {time.perf_counter() - started:.0f} s, {jax.devices()[0]}", flush=True
    )
    module.PRECISION = compare_precisions(dynamics, whole)
    print(f"  taken: {module.PRECISION}")
    jax.clear_caches()
    results = []
    for rows in [20_000, *chosen.rows]:  # the first size compiles and is not reported
        with tempfile.TemporaryDirectory() as home:
            os.environ["STACQ_HOME"] = home
            said: list[str] = []
            dataset = first_rows(whole, rows)
            started = time.perf_counter()
            sets = reachable_sets(dataset, dynamics, PAPER, engine=chosen.engine, log=said.append)
            seconds = time.perf_counter() - started
        extra = (sets.pairs - rows) / rows
        recall = sets.facts["own_accepted"] / sets.facts["anchors_with_own"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        result = {"rows": rows, "seconds": round(seconds, 2), "phases": said[-1], "extra": extra, "recall": recall,
                  "candidates": sets.facts["candidates"], "peak_GB": round(peak, 2)}  # fmt: skip
        results.append(result)
        print(json.dumps(result), flush=True)
        if chosen.out:
            chosen.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()

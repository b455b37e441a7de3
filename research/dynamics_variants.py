"""Which recipe fits the dynamics best where reachability needs it? Variants side by side on regenerated data.

    python research/dynamics_variants.py --bodies hopper walker2d --variants default paper-3e-4 --rows 1000000

Prints, for every body and variant: epochs, seconds, the ensemble mean's error on rows no member saw (normalised,
and in units of one step's range), and the share of true successors that pass the paper's criterion.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from stacq import Dataset, generate, load
from stacq.core.types import Float32s
from stacq.dynamics.fit import Curve, Fit, fit
from stacq.dynamics.models import forward_mean
from stacq.dynamics.recipes import DEFAULT, PAPER, FitConfig
from stacq.reach.agreement import residuals
from stacq.reach.ranges import range_actions, ranges, widened

VARIANTS = {
    "default": DEFAULT,
    "paper-3e-4": PAPER,
    "paper-4e-3": replace(PAPER, learning_rate=4e-3),
    "paper-cosine": replace(PAPER, schedule="cosine", learning_rate=1e-3),
    "scaled-3e-4": replace(PAPER, scale_targets=True),
    "wide": replace(DEFAULT, hidden=(512, 512, 512)),
}


def measure(dataset: Dataset, done: Fit, rows: int = 10_000) -> dict[str, object]:
    """Errors and recall on held-out rows, with the paper's 1,000-action ranges."""
    picked = done.held_out[:: max(1, len(done.held_out) // rows)]
    models, normaliser = done.dynamics.models, done.dynamics.normaliser
    s = jnp.asarray(normaliser.apply(dataset.observations[picked]))
    s_next = normaliser.apply(dataset.next_observations[picked])
    actions = jnp.asarray(dataset.actions[picked])
    direct = np.asarray(jax.jit(forward_mean)(models, s, actions)) - s_next
    low, high = done.dynamics.action_low, done.dynamics.action_high
    tried = jnp.asarray(range_actions(low, high, 1000, "random", 42))
    boxes = [ranges(models, part, tried) for part in jnp.array_split(s, max(1, len(picked) // 1000))]
    lows, highs = (np.concatenate([np.asarray(box[side]) for box in boxes]) for side in (0, 1))
    lows, highs = widened(lows, highs, s_next, np.ones(len(picked), dtype=bool))
    free = jnp.full(len(low), jnp.inf)
    around, _ = residuals(models, s, jnp.asarray(s_next), -free, free)
    scaled = np.abs(np.asarray(around)) / (highs - lows)
    return {
        "mse": float((direct**2).mean()),
        "rmse_by_dimension": np.sqrt((direct**2).mean(axis=0)).tolist(),
        "median_range": np.median(highs - lows, axis=0).tolist(),
        "error_in_ranges": float(np.median(np.abs(direct) / (highs - lows), axis=0).max()),
        "recall_0.1": float((scaled.max(axis=1) <= 0.1).mean()),
        "recall_0.05": float((scaled.max(axis=1) <= 0.05).mean()),
        "worst_dimension": _fails_most(scaled),
    }


def _fails_most(scaled: Float32s) -> int | None:
    """The dimension that is most often the farthest off, among the rows that fail."""
    failing = scaled[scaled.max(axis=1) > 0.1]
    return int(np.bincount(failing.argmax(axis=1)).argmax()) if len(failing) else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bodies", nargs="+", default=["hopper"])
    parser.add_argument("--quality", default="medium")
    parser.add_argument("--variants", nargs="+", default=["default"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--members", type=int, nargs=2, help="forward and inverse, where the variant's are too many")
    parser.add_argument("--out", type=Path, default=Path("."))
    chosen = parser.parse_args()
    for body in chosen.bodies:
        started = time.perf_counter()
        dataset = load(generate(f"{body}-{chosen.quality}", size=chosen.rows))
        print(f"{body}: data in {time.perf_counter() - started:.0f} s", flush=True)
        for name in chosen.variants:
            config = VARIANTS[name]
            config = replace(config, max_epochs=chosen.epochs or config.max_epochs)
            if chosen.members:
                config = replace(config, forward_members=chosen.members[0], inverse_members=chosen.members[1])
            run(dataset, body, name, config, chosen.out)


def run(dataset: Dataset, body: str, name: str, config: FitConfig, out: Path) -> None:
    started = time.perf_counter()
    marks: list[float] = []

    def watch(curve: Curve) -> None:
        marks.append(time.perf_counter() - started)
        if curve.epoch % 20 == 0:
            forward, inverse = curve.forward_validation.mean(), curve.inverse_validation.mean()
            print(f"  {name} epoch {curve.epoch}: {forward:.3e} {inverse:.3e} {marks[-1]:.0f} s", flush=True)

    done = fit(dataset, config, on_epoch=watch)
    result = measure(dataset, done)
    result["best_validation"] = [
        np.min([c.forward_validation for c in done.curves], axis=0).tolist(),
        np.min([c.inverse_validation for c in done.curves], axis=0).tolist(),
    ]
    result |= {"epochs": len(marks), "first_epoch_s": marks[0], "seconds": marks[-1]}
    result["epoch_s"] = float(np.median(np.diff(marks))) if len(marks) > 1 else None
    done.dynamics.save(out / f"dynamics-{body}-{name}")
    (out / f"result-{body}-{name}.json").write_text(json.dumps(result))
    short = {key: value for key, value in result.items() if not isinstance(value, list)}
    print(f"{body} {name}: {json.dumps(short)}", flush=True)


if __name__ == "__main__":
    main()

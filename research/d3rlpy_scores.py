"""Scores of the same algorithm here and in d3rlpy: same rows, same sizes, same number of steps, same episodes.

    python research/d3rlpy_scores.py d3rlpy --algo td3bc --seeds 0 1 2 --at 6000 30000 100000
    python research/d3rlpy_scores.py stacq --algo td3bc --seeds 0 1 2 --at 6000 30000 100000
    python research/d3rlpy_scores.py table

d3rlpy needs an environment of its own (docs/data.md). Both sides learn from `stacq/hopper-medium-v0@100000` with two
hidden layers of 128 and batches of 128, and both are scored by `stacq.evaluate`. A line per seed and number of steps
goes to `research/results/d3rlpy-scores.jsonl`; what is there already is not made again.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stacq
from stacq.data.dataset import Dataset
from stacq.report.statistics import difference

RESULTS = Path(__file__).parent / "results" / "d3rlpy-scores.jsonl"
HIDDEN, BATCH = (128, 128), 128
SETTINGS: dict[str, dict[str, Any]] = {
    "td3bc": {},
    "iql": {},
    "rebrac": {"hidden": (128, 128, 128), "batch": 256},
    "bcq": {"batch": 100},
}
Act = Callable[[Any, np.random.Generator], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["d3rlpy", "stacq", "table"])
    parser.add_argument("--algo", choices=SETTINGS, default="td3bc")
    parser.add_argument("--dataset", default="hopper-medium")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--at", type=int, nargs="+", default=[6_000, 30_000, 100_000])
    parser.add_argument("--episodes", type=int, default=10)
    options = parser.parse_args()
    if options.library == "table":
        print("\n".join(table()))
        return
    dataset = stacq.load(stacq.generate(options.dataset, size=options.rows))
    for seed in options.seeds:
        if not all(line_of(options, dataset, seed, step) for step in options.at):
            run(options, dataset, seed)


def run(options: argparse.Namespace, dataset: Dataset, seed: int) -> None:
    """One seed; a line for each number of steps that is asked for."""
    began = time.process_time()
    train = with_d3rlpy if options.library == "d3rlpy" else with_stacq
    for step, policy in train(dataset, options.algo, seed, tuple(options.at)):
        used = time.process_time() - began
        scores = [
            record.score
            for record in stacq.evaluate(
                policy, str(dataset.env_id), episodes=options.episodes, seed=1_000 + seed, workers=1
            )
        ]
        line = {
            **{"library": options.library, "algorithm": options.algo, "dataset": dataset.name, "seed": seed},
            **{"step": step, "score": float(np.mean([s for s in scores if s is not None])), "scores": scores},
            **{"processor_seconds": used, "dataset_hash": dataset.fingerprint},
        }
        print({key: line[key] for key in ("library", "algorithm", "seed", "step", "score")}, flush=True)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def lines() -> list[dict[str, Any]]:
    return [json.loads(text) for text in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def line_of(options: argparse.Namespace, dataset: Dataset, seed: int, step: int) -> bool:
    """Whether it was made from these very rows: another processor generates others."""
    wanted = options.library, options.algo, seed, step, dataset.fingerprint
    keys = ("library", "algorithm", "seed", "step", "dataset_hash")
    return any(tuple(line[key] for key in keys) == wanted for line in lines())


def with_stacq(dataset: Dataset, algo: str, seed: int, at: tuple[int, ...]) -> Iterator[tuple[int, stacq.Policy]]:
    """A run per number of steps: they share all but the schedule of a rate."""
    settings = {"hidden": HIDDEN, "batch": BATCH, **SETTINGS[algo]}
    for step in at:
        trained = stacq.train(
            dataset,
            algorithm=algo,
            settings=settings,
            steps=step,
            seeds=1,
            first_seed=seed,
            evaluate=False,
            root="runs/d3rlpy",
        )
        yield step, trained.policies[seed]


def with_d3rlpy(dataset: Dataset, algo: str, seed: int, at: tuple[int, ...]) -> Iterator[tuple[int, Act]]:
    """d3rlpy's own loop, `fitter`, with states standardised as ours are where the algorithm wants them so."""
    import d3rlpy  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import torch

    torch.set_num_threads(1)
    d3rlpy.seed(seed)
    learner = config_of(d3rlpy, algo).create(device="cpu:0")
    cut = np.zeros(len(dataset), dtype=np.bool_)
    cut[dataset.last_rows] = True
    columns = dataset.observations, dataset.actions, dataset.rewards[:, None]
    replay = d3rlpy.dataset.MDPDataset(
        *(np.asarray(column, np.float32) for column in columns), dataset.terminals, cut & ~dataset.terminals
    )
    every = int(np.gcd.reduce(at))
    for epoch, _ in learner.fitter(
        replay,
        n_steps=max(at),
        n_steps_per_epoch=every,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        save_interval=10**9,
    ):
        if epoch * every in at:
            yield epoch * every, lambda seen, rng: learner.predict(np.asarray(seen, np.float32)[None])[0]


def config_of(d3rlpy: Any, algo: str) -> Any:
    """The sizes of `SETTINGS`, every other number as d3rlpy and the paper have it."""
    sizes = SETTINGS[algo].get("hidden", HIDDEN)
    nets = d3rlpy.models.VectorEncoderFactory(list(sizes))
    both = {"actor_encoder_factory": nets, "critic_encoder_factory": nets}
    scaler = d3rlpy.preprocessing.StandardObservationScaler()
    batch = SETTINGS[algo].get("batch", BATCH)
    if algo == "td3bc":
        return d3rlpy.algos.TD3PlusBCConfig(batch_size=batch, observation_scaler=scaler, **both)
    if algo == "iql":
        rewards = d3rlpy.preprocessing.ReturnBasedRewardScaler(multiplier=1000.0)
        return d3rlpy.algos.IQLConfig(batch_size=batch, value_encoder_factory=nets, reward_scaler=rewards, **both)
    if algo == "bcq":
        return d3rlpy.algos.BCQConfig(batch_size=batch, imitator_encoder_factory=nets, **both)
    normed = d3rlpy.models.VectorEncoderFactory(list(sizes), use_layer_norm=True)
    return d3rlpy.algos.ReBRACConfig(
        batch_size=batch, actor_encoder_factory=nets, critic_encoder_factory=normed, actor_beta=0.01, critic_beta=0.01
    )


def table() -> Iterator[str]:
    """Mean scores and Welch's interval of the difference, by algorithm, rows and number of steps."""
    found: dict[tuple[str, str, str, int], dict[str, list[float]]] = {}
    for line in lines():
        key = line["algorithm"], line["dataset"], line["dataset_hash"][:6], line["step"]
        found.setdefault(key, {}).setdefault(line["library"], []).append(line["score"])
    yield "| algorithm | dataset | rows' hash | steps | d3rlpy | stacq | difference |"
    yield "|---|---|---|---|---|---|---|"
    for (algorithm, dataset, rows, step), scores in sorted(found.items()):
        cells = [spread(scores.get(library, [])) for library in ("d3rlpy", "stacq")]
        yield f"| {algorithm} | {dataset} | {rows} | {step:,} | {' | '.join(cells)} | {lead(scores)} |"


def spread(scores: list[float]) -> str:
    deviation = f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.1f}{deviation} ({len(scores)} seed{'s' * (len(scores) > 1)})" if scores else ""


def lead(scores: dict[str, list[float]]) -> str:
    if min(len(scores.get(library, [])) for library in ("d3rlpy", "stacq")) < 2:
        return ""
    found = difference(scores["stacq"], scores["d3rlpy"])
    return f"{found.value:+.1f} ({found.low:.1f} to {found.high:.1f})"


if __name__ == "__main__":
    main()

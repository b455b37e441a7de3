"""d3rlpy's fitted Q evaluation on the policies of studies/judge.py: what it ranks first, and what it costs.

    python research/d3rlpy_fqe.py fit --policies runs/judge --datasets hopper-medium halfcheetah-medium
    python research/d3rlpy_fqe.py table

d3rlpy needs an environment of its own (docs/data.md). Same rows and policies, observations standardised. With the
settings `ours`, sizes and rate are as in ours (two hidden layers of 128, batches of 128, 1e-3), rewards are divided by
their deviation, and the slow copy is renewed every 40 steps: with 4,000 steps it is renewed 100 times. With `default`,
all that is as d3rlpy has it (two layers of 256, batches of 100, 1e-4, renewed every 100 steps). A line per policy goes
to `research/results/d3rlpy-fqe.jsonl`; what is there already is not made again. The table compares with
studies/results/judge.jsonl.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.policies import Policy

RESULTS = Path(__file__).parent / "results" / "d3rlpy-fqe.jsonl"
OURS = Path(__file__).parent.parent / "studies" / "results" / "judge.jsonl"
DISCOUNT = 0.99
SETTINGS = ("ours", "default")


class Acting:
    """What d3rlpy asks of the implementation of an algorithm that it evaluates: the best action, as a tensor.

    Observations arrive standardised; the policy takes raw ones.
    """

    def __init__(self, policy: Policy, mean: Any, deviation: Any) -> None:
        self.policy, self.mean, self.deviation = policy, mean, deviation
        self.rng = np.random.default_rng(0)

    def predict_best_action(self, observations: Any) -> Any:
        import torch

        raw = observations.numpy() * self.deviation + self.mean
        return torch.from_numpy(np.asarray(self.policy(raw.astype(np.float32), self.rng), np.float32))


class Evaluated:
    """An algorithm as far as d3rlpy's evaluation looks at it."""

    def __init__(self, impl: Acting) -> None:
        self.impl = impl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["fit", "table"])
    parser.add_argument("--policies", type=Path, default=Path("runs/judge"))
    parser.add_argument("--datasets", nargs="+", default=["hopper-medium", "halfcheetah-medium"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--settings", choices=SETTINGS, default="ours")
    options = parser.parse_args()
    if options.stage == "table":
        print("\n".join(table()))
        return
    for name in options.datasets:
        fit_all(options, name, load(f"stacq/{name}-v0@{options.rows}"))


def fit_all(options: argparse.Namespace, name: str, dataset: Dataset) -> None:
    import d3rlpy  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import torch

    torch.set_num_threads(1)
    replay = replay_of(d3rlpy, dataset)
    known = {(line["key"], line["settings"], line["steps"]) for line in lines(RESULTS)}
    for file in sorted((options.policies / "policies" / name).glob("*/*.safetensors")):
        key = f"{name}/{file.parent.name}/{file.stem}"
        if (key, options.settings, options.steps) in known:
            continue
        began = time.process_time()
        d3rlpy.seed(0)
        value = value_of(d3rlpy, replay, dataset, Policy.load(file), options.settings, options.steps)
        facts = {"key": key, "value": value, "settings": options.settings, "steps": options.steps}
        line = {**facts, "seconds": round(time.process_time() - began, 1), "hash": dataset.fingerprint}
        print(line, flush=True)
        with RESULTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def replay_of(d3rlpy: Any, dataset: Dataset) -> Any:
    cut = np.zeros(len(dataset), dtype=np.bool_)
    cut[dataset.last_rows] = True
    columns = dataset.observations, dataset.actions, dataset.rewards[:, None]
    return d3rlpy.dataset.MDPDataset(
        *(np.asarray(column, np.float32) for column in columns), dataset.terminals, cut & ~dataset.terminals
    )


def value_of(d3rlpy: Any, replay: Any, dataset: Dataset, policy: Policy, settings: str, steps: int) -> float:
    """The mean value of the starts of episodes, in the data's rewards."""
    mean, deviation = dataset.observations.mean(axis=0), dataset.observations.std(axis=0) + 1e-3
    scale = (float(dataset.rewards.std()) or 1.0) if settings == "ours" else 1.0
    scaler = d3rlpy.preprocessing.StandardObservationScaler(mean=mean, std=deviation, eps=0.0)
    chosen: dict[str, Any] = {}
    if settings == "ours":
        chosen = {
            "learning_rate": 1e-3,
            "batch_size": 128,
            "target_update_interval": 40,
            "encoder_factory": d3rlpy.models.VectorEncoderFactory([128, 128]),
            "reward_scaler": d3rlpy.preprocessing.StandardRewardScaler(mean=0.0, std=scale, eps=0.0),
        }
    config = d3rlpy.ope.FQEConfig(gamma=DISCOUNT, observation_scaler=scaler, **chosen)
    critic = d3rlpy.ope.FQE(algo=Evaluated(Acting(policy, mean, deviation)), config=config, device="cpu:0")
    critic.fit(
        replay,
        n_steps=steps,
        n_steps_per_epoch=steps,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        save_interval=10**9,
    )
    starts = np.asarray(dataset.observations[dataset.episode_offsets[:-1]], np.float32)
    actions = np.asarray(policy(starts, np.random.default_rng(0)), np.float32)
    return float(critic.predict_value(starts, actions).mean()) * scale


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table() -> Iterator[str]:
    """Spearman with the true return, regret at 1 (the range of the set is 1), and processor seconds a policy."""
    ours = {line["key"]: line for line in lines(OURS)}
    sets: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for line in lines(RESULTS):
        if line["key"] in ours:
            name = line["key"].rsplit("/", 1)[0]
            sets.setdefault((name, line["settings"], line["steps"]), []).append(line)
    yield "| dataset, set | policies | critic | Spearman | regret@1 | seconds a policy |"
    yield "|---|---|---|---|---|---|"
    for (name, settings, steps), group in sets.items():
        beside = [ours[line["key"]] for line in group]
        true = np.array([record["truth"]["1"] for record in beside])
        answers = {
            f"d3rlpy, settings {settings}, {steps:,} steps": (
                [line["value"] for line in group],
                [line["seconds"] for line in group],
            ),
            "ours": (
                [record["judgement"]["critics"]["value"] for record in beside],
                [record["seconds"] for record in beside],
            ),
        }
        for label, (told, seconds) in answers.items():
            regret = (true.max() - true[int(np.argmax(told))]) / np.ptp(true)
            correlation = float(spearmanr(told, true).statistic)
            yield f"| {name} | {len(group)} | {label} | {correlation:.2f} | {regret:.2f} | {np.median(seconds):.1f} |"


if __name__ == "__main__":
    main()

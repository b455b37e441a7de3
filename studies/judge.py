"""How well `stacq judge` ranks policies whose returns are known: docs/judge.md has the table.

    python studies/judge.py policies         # train and build two sets of policies per dataset
    python studies/judge.py truth            # roll every policy out in the simulator
    python studies/judge.py judge            # judge every set from the data alone
    python studies/judge.py table            # print the table from the records

Every stage keeps what is there and goes on. `policies` and `truth` write under --out; `judge` adds lines to
studies/results/judge.jsonl. A set called `trained` holds policies of short trainings of this library, a set called
`foreign` policies that it did not train: behaviour networks of several levels, given through `Policy.from_mlp` and
`gaussian_policy`. Each has a few that are ruined on purpose.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stacq import Dataset, Options, Policy, Stages, load, train
from stacq.data.behaviour import TanhGaussian, load_behaviour, read_actor, snapshots
from stacq.evaluation.rollouts import Counting
from stacq.policies import MLPPolicy
from stacq.policies.gaussian import gaussian_policy

DATASETS = ("hopper-medium", "walker2d-medium", "halfcheetah-medium", "halfcheetah-medium-replay")
ENVS = {"hopper": "Hopper-v4", "walker2d": "Walker2d-v4", "halfcheetah": "HalfCheetah-v4"}
ROWS = 100_000
SETS = ("trained", "foreign")
RECORDS = Path(__file__).parent / "results" / "judge.jsonl"
EPISODES = 20
DISCOUNTS = (0.99, 0.995, 1.0)
RUINED = ("negated", "random", "frozen", "shaken")

# name -> algorithm, variant, steps, first seed, settings
TRAININGS: dict[str, tuple[str, str, int, int, tuple[str, ...]]] = {
    "bc-10k": ("bc", "paper", 10_000, 0, ()),
    "td3bc-2k": ("td3bc", "paper", 2_000, 0, ()),
    "td3bc-6k": ("td3bc", "paper", 6_000, 1, ()),
    "td3bc-20k": ("td3bc", "paper", 20_000, 2, ()),
    "td3bc-20k-alpha40": ("td3bc", "paper", 20_000, 3, ("alpha=40",)),
    "iql-10k": ("iql", "paper", 10_000, 0, ()),
    "stacq-robust-4k": ("stacq", "robust", 4_000, 0, ()),
    "stacq-robust-12k": ("stacq", "robust", 12_000, 1, ()),
    "stacq-paper-8k": ("stacq", "paper", 8_000, 0, ()),
}


def body_of(dataset: str) -> str:
    return dataset.split("-")[0]


def data_of(name: str) -> Dataset:
    return load(f"stacq/{name}-v0@{ROWS}")


# --- policies


def trained_set(dataset: Dataset, root: Path) -> Iterator[tuple[str, Policy]]:
    stages = Stages(dynamics_preset="small")
    found: dict[str, Policy] = {}
    for name, (algorithm, variant, steps, seed, settings) in TRAININGS.items():
        options = Options(
            algorithm, variant, small=True, seeds=1, first_seed=seed, steps=steps, evaluate=False, settings=settings
        )
        trained = train(dataset, options, stages, root=root)
        found[name] = trained.policies[seed]
        yield name, found[name]
    best = found["td3bc-20k"]
    assert isinstance(best, MLPPolicy)
    yield "negated", changed(best, lambda weights: [*weights[:-1], -weights[-1]])
    yield "shaken", changed(best, lambda weights: [shaken(weight, 0.5, 7) for weight in weights])
    yield "frozen", changed(best, lambda weights: [*weights[:-1], 0 * weights[-1]])


def foreign_set(body: str, other: Path | None) -> Iterator[tuple[str, Policy]]:
    """Behaviour networks: means as plain networks, and two that act by chance."""
    levels = snapshots(body)
    chosen = [levels[round(share * (len(levels) - 1))] for share in (0.0, 0.25, 0.5, 0.75)]
    for tag in [*chosen, "medium", "expert"]:
        yield tag.replace("/", "-"), mean_of(load_behaviour(body, tag))
    medium = load_behaviour(body, "medium")
    yield "medium-by-chance", gaussian_policy(medium.weights, medium.biases)
    if other is not None:
        yield "d4rl-medium", mean_of(read_actor(other, body))
    mean = mean_of(medium)
    yield "medium-slightly-shaken", changed(mean, lambda weights: [shaken(weight, 0.1, 5) for weight in weights])
    yield "medium-weaker", changed(mean, lambda weights: [*weights[:-1], 0.5 * weights[-1]])
    yield "negated", changed(mean, lambda weights: [*weights[:-1], -weights[-1]])
    yield "random", changed(mean, lambda weights: [shaken(weight, 2.0, 3) for weight in weights])


def mean_of(actor: TanhGaussian) -> MLPPolicy:
    size = actor.action_size
    weights = [*actor.weights[:-1], actor.weights[-1][:, :size]]
    return Policy.from_mlp(weights, [*actor.biases[:-1], actor.biases[-1][:size]])


def changed(policy: MLPPolicy, change: Callable[[list[Any]], list[Any]]) -> MLPPolicy:
    bounds = policy.space.action_low, policy.space.action_high
    weights = change(list(policy.weights))
    biases = list(policy.biases)
    if np.array_equal(weights[-1], -policy.weights[-1]):
        biases[-1] = -biases[-1]
    if not weights[-1].any():
        biases[-1] = 0 * biases[-1]
    return Policy.from_mlp(weights, biases, policy.space.normaliser, bounds)


def shaken(weight: Any, share: float, seed: int) -> Any:
    """With noise of `share` of the weights' own deviation."""
    noise = np.random.default_rng(seed).standard_normal(weight.shape)
    return (weight + share * weight.std() * noise).astype(np.float32)


def make_policies(names: list[str], out: Path, other: Path | None) -> None:
    for name in names:
        for kind in SETS:
            folder = out / "policies" / name / kind
            folder.mkdir(parents=True, exist_ok=True)
            started = time.process_time()
            made = trained_set(data_of(name), out / "runs") if kind == "trained" else foreign_set(body_of(name), other)
            if (folder / "done").exists():
                continue
            for label, policy in made:
                policy.save(folder / f"{label}.safetensors")
                print(f"{name} {kind} {label}: {time.process_time() - started:.0f} s", flush=True)
            (folder / "done").touch()


# --- truth


def make_truth(names: list[str], out: Path) -> None:
    """Every policy's discounted and whole returns, over episodes, in `truth.json`."""
    path = out / "truth.json"
    truth: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        env = ENVS[body_of(name)]
        for file in sorted((out / "policies" / name).glob("*/*.safetensors")):
            key = f"{name}/{file.parent.name}/{file.stem}"
            if key in truth:
                continue
            policy = Policy.load(file)
            found: dict[str, list[float]] = {}
            for discount in DISCOUNTS:
                whole = discount == 1.0
                if not whole:
                    continue
                runs = [episode_of(policy, env, index) for index in range(EPISODES)]
                for each in DISCOUNTS:
                    found[f"{each:g}"] = [float((rewards * each ** np.arange(len(rewards))).sum()) for rewards in runs]
                found["length"] = [float(len(rewards)) for rewards in runs]
            truth[key] = found
            path.write_text(json.dumps(truth))
            print(f"{key}: {np.mean(found['1']):.0f} ({np.mean(found['length']):.0f} steps)", flush=True)


def episode_of(policy: Policy, env: str, index: int) -> Any:
    """The rewards of one episode."""
    from stacq.evaluation.rollouts import Going, env_of

    rewards = []
    with env_of(env, env) as (body, facts):
        going = Going(body, facts, (0, index), Counting())
        before = 0.0
        while not going.ended:
            going.take(np.asarray(policy(going.observation, going.rng)))
            rewards.append(going.total - before)
            before = going.total
    return np.array(rewards)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("policies", "truth", "judge", "table"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--out", type=Path, default=Path("runs/judge"))
    parser.add_argument("--other", type=Path, help="an .npz file of further behaviour policies, by body")
    chosen = parser.parse_args()
    if chosen.stage == "policies":
        make_policies(chosen.datasets, chosen.out, chosen.other)
    if chosen.stage == "truth":
        make_truth(chosen.datasets, chosen.out)


if __name__ == "__main__":
    main()

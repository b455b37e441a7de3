"""How well `stacq judge` ranks policies whose returns are known: docs/judge.md has the table.

    python studies/judge.py policies         # train and build two sets of policies per dataset
    python studies/judge.py truth            # roll every policy out in the simulator
    python studies/judge.py judge            # judge every set from the data alone
    python studies/judge.py all              # all three, dataset after dataset
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from stacq import Dataset, Options, Policy, Stages, load, train
from stacq.data.behaviour import TanhGaussian, load_behaviour, read_actor, snapshots
from stacq.evaluation.rollouts import Counting, Going, env_of
from stacq.judgement.candidates import Candidate
from stacq.judgement.config import JudgeConfig
from stacq.judgement.judging import court_of, judgement_of, worst_of
from stacq.judgement.verdict import (
    SHARED_ERROR,
    Interval,
    Judgement,
    careful_value,
    recommendation,
    together,
    verdict_of,
)
from stacq.pipeline.models import fit_dynamics
from stacq.policies import MLPPolicy
from stacq.policies.gaussian import gaussian_policy

DATASETS = ("hopper-medium", "walker2d-medium", "halfcheetah-medium", "halfcheetah-medium-replay")
ENVS = {"hopper": "Hopper-v4", "walker2d": "Walker2d-v4", "halfcheetah": "HalfCheetah-v4"}
ROWS = 100_000
SETS = ("trained", "foreign")
WITH_STACQ = ("hopper", "walker2d")  # elsewhere reachable sets alone take longer than the rest of the study
RECORDS = Path(__file__).parent / "results" / "judge.jsonl"
EPISODES = 10
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
    body = body_of(dataset.name.removeprefix("stacq/"))
    found: dict[str, Policy] = {}
    for name, (algorithm, variant, steps, seed, settings) in TRAININGS.items():
        if algorithm == "stacq" and body not in WITH_STACQ:
            continue
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
            runs = [episode_of(policy, env, index) for index in range(EPISODES)]
            for discount in DISCOUNTS:
                found[f"{discount:g}"] = [float(rewards @ discount ** np.arange(len(rewards))) for rewards in runs]
            found["length"] = [float(len(rewards)) for rewards in runs]
            truth[key] = found
            path.write_text(json.dumps(truth))
            print(f"{key}: {np.mean(found['1']):.0f} ({np.mean(found['length']):.0f} steps)", flush=True)


def episode_of(policy: Policy, env: str, index: int) -> Any:
    """The rewards of one episode."""
    rewards = []
    with env_of(env, env) as (body, facts):
        going = Going(body, facts, (0, index), Counting())
        before = 0.0
        while not going.ended:
            going.take(np.asarray(policy(going.observation, going.rng)))
            rewards.append(going.total - before)
            before = going.total
    return np.array(rewards)


# --- judgements


def judge_sets(names: list[str], out: Path) -> None:
    """Every set of every dataset by the library's own functions; a record for each policy."""
    truth = json.loads((out / "truth.json").read_text())
    known = {record["key"] for record in records()}
    for name in names:
        files = sorted((out / "policies" / name).glob("*/*.safetensors"))
        keys = [f"{name}/{file.parent.name}/{file.stem}" for file in files]
        todo = [(key, file) for key, file in zip(keys, files, strict=True) if key not in known and key in truth]
        if not todo:
            continue
        dataset, started = data_of(name), time.process_time()
        config = JudgeConfig()
        dynamics = fit_dynamics(dataset, "small").dynamics
        court = court_of(dataset, dynamics, config, states=any("/stacq-" in key for key, _ in todo))
        print(f"{name}: prepared in {time.process_time() - started:.0f} s", flush=True)
        for key, file in todo:
            started = time.process_time()
            candidate = Candidate(file.stem, Policy.load(file), states="/stacq-" in key)
            found = judgement_of(candidate, court, len(court.evidence.r))
            add(
                {
                    "key": key,
                    "judgement": found.to_json(),
                    "data": court.data._asdict(),
                    "worst": worst_of(court),
                    "truth": {each: float(np.mean(truth[key][each])) for each in truth[key]},
                    "error": float(np.std(truth[key]["0.99"], ddof=1) / len(truth[key]["0.99"]) ** 0.5),
                    "episodes": len(truth[key]["1"]),
                    "seconds": round(time.process_time() - started, 2),
                    "config": asdict(config),
                }
            )
            print(f"{key}: {found.value.value:.0f}, careful {found.careful:.0f}, {found.verdict}", flush=True)


def records() -> list[dict[str, Any]]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def add(record: dict[str, Any]) -> None:
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with RECORDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


WAYS: dict[str, Callable[[dict[str, Any]], float]] = {
    "critics": lambda found: float(found["critics"]["value"]),
    "critics, low end": lambda found: float(found["critics"]["low"]),
    "rollouts, low end": lambda found: float(found["rollouts"]["low"]),
    "actions near the data": lambda found: -float(found["far_actions"]),
    "together (the ranking)": lambda found: float(found["careful"]),
}


def measures(group: list[dict[str, Any]], way: str) -> tuple[float, float, float]:
    """Spearman, and regret at 1 and at 3 on a scale where the set's range is 1."""
    true = np.array([record["truth"]["1"] for record in group])
    told = np.array([WAYS[way](restored(record).to_json()) for record in group])
    order = np.argsort(-told, kind="stable")
    span = max(float(np.ptp(true)), 1e-9)
    regrets = [float(true.max() - true[order[:count]].max()) / span for count in (1, 3)]
    return float(spearmanr(told, true).statistic), regrets[0], regrets[1]


def slack_of(name: str) -> float:
    """What intervals miss 19 times in 20 on the other datasets, in units of the data's value above the worst."""
    missing = [missed(record) for record in records() if record["key"].split("/")[0] != name]
    return float(np.quantile(missing, 0.95)) if missing else SHARED_ERROR


def missed(record: dict[str, Any]) -> float:
    """How far the truth, give or take its own error, lies outside the interval without slack."""
    value, true, error = restored(record, 0.0).value, record["truth"]["0.99"], 1.96 * record["error"]
    outside = max(value.low - true - error, true - error - value.high, 0.0)
    return float(outside / (record["data"]["value"] - record["worst"]))


def table() -> Iterator[str]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records():
        groups.setdefault(record["key"].rsplit("/", 1)[0], []).append(record)
    yield "| dataset / set | policies | way | Spearman | regret@1 | regret@3 |"
    yield "|---|---|---|---|---|---|"
    for way in WAYS:
        found = []
        for name, group in groups.items():
            found.append(measures(group, way))
            cells = " | ".join(f"{value:.2f}" for value in found[-1])
            yield f"| {name} | {len(group)} | {way} | {cells} |"
        if found:
            cells = " | ".join(f"{value:.2f}" for value in np.mean(found, axis=0))
            yield f"| **mean of {len(found)}** | {sum(map(len, groups.values()))} | {way} | {cells} |"
    yield ""
    head = "dataset / set, mean abs. error, of the range, slack, covered, not judged, Spearman of the others"
    columns = [*head.split(", "), "wrongly better", "chosen"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for name, group in groups.items():
        slack = slack_of(name.split("/")[0])
        judged = [restored(record, slack) for record in group]
        true = np.array([record["truth"]["0.99"] for record in group])
        error = float(np.abs(true - [each.value.value for each in judged]).mean())
        unit = group[0]["data"]["value"] - group[0]["worst"]
        share = float(np.mean([missed(record) <= slack for record in group]))
        wrong = [
            each.name
            for each, record in zip(judged, group, strict=True)
            if each.verdict == "better" and record["truth"]["0.99"] < record["data"]["value"]
        ]
        unknown = sum(each.verdict == "not judged" for each in judged)
        yield (
            f"| {name} | {error:.0f} | {error / np.ptp(true):.2f} | {slack * unit:.0f} | {share:.0%} | {unknown} | "
            f"{among_judged(judged, group):.2f} | {len(wrong)} | {chosen_of(judged, group)} |"
        )


def among_judged(judged: list[Judgement], group: list[dict[str, Any]]) -> float:
    """Spearman of the ranking without the policies that the report says it cannot judge."""
    known = [place for place, each in enumerate(judged) if each.verdict != "not judged"]
    told, true = [judged[place].careful for place in known], [group[place]["truth"]["1"] for place in known]
    return float(spearmanr(told, true).statistic)


def chosen_of(judged: list[Judgement], group: list[dict[str, Any]]) -> str:
    """What is recommended, and its true return beside that of the set's best."""
    name, _ = recommendation(judged, Interval(**group[0]["data"]))
    true = {record["judgement"]["name"]: record["truth"]["1"] for record in group}
    return "none" if name is None else f"{name}, {true[name]:.0f} of {max(true.values()):.0f}"


def restored(record: dict[str, Any], slack: float = SHARED_ERROR) -> Judgement:
    """From the answers in a record, put together by the library as it is today."""
    found = dict(record["judgement"])
    ways = ("critics", "critics_of_states", "rollouts")
    found |= {key: found[key] and Interval(**found[key]) for key in ways}
    data, discount, worst = Interval(**record["data"]), record["config"]["discount"], record["worst"]
    parts = [found[key] for key in ways if found[key]]
    critics = [found[key] for key in ways[:2] if found[key]]
    middle = float(np.mean([each.value for each in critics]))
    value = together(parts, middle, slack * (data.value - worst))
    lowest, near = min(critics, key=lambda each: each.low), 1 - found["far_actions"]
    careful = careful_value(lowest, found["rollouts"], near, data.value, worst)
    word, because = verdict_of(value, data, found["far_actions"], found["horizon"], discount)
    return Judgement(**{**found, "value": value, "careful": careful, "verdict": word, "because": because})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("policies", "truth", "judge", "all", "table"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--out", type=Path, default=Path("runs/judge"))
    parser.add_argument("--other", type=Path, help="an .npz file of further behaviour policies, by body")
    chosen = parser.parse_args()
    if chosen.stage == "table":
        print("\n".join(table()))
        return
    for name in chosen.datasets:
        if chosen.stage in ("policies", "all"):
            make_policies([name], chosen.out, chosen.other)
        if chosen.stage in ("truth", "all"):
            make_truth([name], chosen.out)
        if chosen.stage in ("judge", "all"):
            judge_sets([name], chosen.out)


if __name__ == "__main__":
    main()

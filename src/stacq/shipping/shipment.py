"""What is exported: one policy, and what is known about how it came to be."""

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from stacq.core.errors import InputError
from stacq.core.files import exists
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import read_text
from stacq.policies import Policy
from stacq.runs.finished import CONFIG, Finished, read_finished, read_result

NAMES = ("observation_names", "action_names")


class Shipment(NamedTuple):
    """A policy with the facts that go into the file, as JSON holds them."""

    policy: Policy
    facts: Mapping[str, Any]
    chosen: str = ""  # why this seed of several


def shipment(source: Policy | Path | str, seed: int | None, names: Mapping[str, Sequence[str] | None]) -> Shipment:
    """From a policy, its file or the directory of a training run; names that are given come before those of a run."""
    if isinstance(source, Policy):
        found = Shipment(source, {})
    elif exists(Path(source)) and Path(source).is_dir():
        found = _of_run(Path(source), seed)
    else:
        found = Shipment(Policy.load(source), {})
    if seed is not None and "seed" not in found.facts:
        raise InputError(
            f"seed {seed} was asked for",
            where=source if isinstance(source, Path | str) else "export",
            expected="the directory of a training run, where there are several",
            fix="leave the seed out",
        )
    told = {key: list(value) for key, value in names.items() if value}
    facts = {"stacq_version": version("stacq"), **_of_policy(found.policy), **found.facts, **told}
    _check_names(found.policy, facts)
    return found._replace(facts=facts)


def _of_policy(policy: Policy) -> dict[str, Any]:
    return {
        "kind": policy.kind,
        "observation_size": policy.observation_size,
        "action_size": policy.action_size,
        "action_low": policy.space.action_low.tolist(),
        "action_high": policy.space.action_high.tolist(),
    }


def _of_run(directory: Path, seed: int | None) -> Shipment:
    run, scores, measure = read_finished(directory), *_scores(directory)
    chosen, reason = _seed_of(run, scores, measure) if seed is None else (seed, "")
    if chosen not in run.policies:
        raise InputError(
            f"there is no policy of seed {chosen}",
            where=directory,
            expected="one of " + ", ".join(map(str, run.policies)),
            fix="name one of these with --seed",
        )
    facts = {"algorithm": run.label, "dataset": run.dataset, "env": run.env, "seed": chosen, "steps": run.step}
    scored = {f"final_{measure}": scores[chosen], "seeds_scored": len(scores)} if chosen in scores else {}
    return Shipment(run.policies[chosen], {**facts, **scored, **_names_of_run(directory)}, reason)


def _scores(directory: Path) -> tuple[dict[int, float], str]:
    """Final scores by seed, and what they measure; none where nothing was scored."""
    result = read_result(directory)
    seeds, final = result.get("seeds"), result.get("final")
    if not final or not isinstance(seeds, list) or not has_shape(seeds, [int]):
        return {}, ""
    pairs = zip(seeds, map(float, final), strict=False)
    return {seed: score for seed, score in pairs if math.isfinite(score)}, result["measure"]


def _seed_of(run: Finished, scores: Mapping[int, float], measure: str) -> tuple[int, str]:
    """The seed with the best final score, else the first one, and a line that says so."""
    seeds = list(run.policies)
    if len(seeds) == 1:
        return seeds[0], ""
    scored = [seed for seed in seeds if seed in scores]
    if scored:
        best = max(scored, key=lambda seed: scores[seed])
        return best, f"seed {best}: of {len(scored)} seeds the one with the best final {measure} ({scores[best]:,.1f})"
    return seeds[0], f"seed {seeds[0]}, the first of {len(seeds)}: the run has no scores; --seed takes another"


def _names_of_run(directory: Path) -> dict[str, list[str]]:
    """What the dimensions are called, if the data said so."""
    config = json_object(read_text(directory / CONFIG))
    return {key: config[key] for key in NAMES if has_shape(config.get(key), [str]) and config[key]}


def _check_names(policy: Policy, facts: Mapping[str, Any]) -> None:
    for key, size in zip(NAMES, (policy.observation_size, policy.action_size), strict=True):
        if key in facts and len(facts[key]) != size:
            raise InputError(
                f"{len(facts[key])} {key.replace('_', ' ')}",
                where="export",
                expected=f"{size}, one for each dimension",
                fix="name every dimension, in the order of the data, or none",
            )

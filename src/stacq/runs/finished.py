"""What a finished training run left on disk; without JAX, so that policies can be scored where it is not wanted."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stacq.core.errors import InputError
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import read_text
from stacq.envs.ids import StoredId
from stacq.policies import Policy

CONFIG, RESULT, POLICIES = "config.json", "result.json", "policies"
WANTED = {"label": str, "dataset": str, "env": str | None, "seeds": [int], "total_steps": int}  # of config.json
SCORED = {"measure": str, "final": [float], "best": [float], "last_ten": [float]}  # of result.json
POLICY = re.compile(r"seed-([0-9]{1,10})\.safetensors")


class Finished(NamedTuple):
    """The final policies of a run, by seed, and what is known about them."""

    policies: Mapping[int, Policy]
    label: str
    dataset: str
    env: str | None
    step: int  # updates done
    lost: tuple[int, ...]  # seeds that were given up, and have no policy


def read_finished(directory: Path) -> Finished:
    """Read a run directory of `stacq train`; one that is still training has no final policies yet."""
    try:
        config = json_object(read_text(directory / CONFIG))
        if not has_shape(config, WANTED):
            raise ValueError("it lacks what a training run says of itself")
    except (OSError, ValueError) as error:
        raise InputError(
            "this is not the directory of a training run",
            where=directory,
            expected="what `stacq train` leaves: config.json, policies/ and more",
            fix="name such a directory, or a policy file",
        ) from error
    if not (directory / RESULT).exists():
        raise InputError(
            "this training run has not finished",
            where=directory,
            expected="final policies",
            fix="run the command that began it again: it goes on from its last checkpoint",
        )
    policies = final_policies(directory)
    if not policies:
        raise InputError(
            "this training run left no policies", where=directory, expected="policies/", fix="train it again"
        )
    env = config["env"]
    return Finished(
        policies=policies,
        label=config["label"],
        dataset=config["dataset"],
        env=None if env is None else StoredId(env),
        step=config["total_steps"],
        lost=tuple(seed for seed in config["seeds"] if seed not in policies),
    )


def lost_text(lost: Sequence[int], seeds: int) -> str:
    """Lost seeds would have lowered a mean, so they are named. Empty if there are none."""
    names = ", ".join(map(str, lost))
    return f"! {len(lost)} of {seeds} seeds lost ({names}): the numbers are of the others" if lost else ""


def final_policies(directory: Path) -> dict[int, Policy]:
    """By seed; a seed that was lost has none."""
    names = {path: POLICY.fullmatch(path.name) for path in (directory / POLICIES).glob("seed-*")}
    found = {int(name[1]): path for path, name in names.items() if name}
    return {seed: Policy.load(found[seed]) for seed in sorted(found)}


def read_result(directory: Path) -> dict[str, Any]:
    """What came out, by seed: see `runs.summary.result_of`."""
    path = directory / RESULT
    try:
        result = json_object(read_text(path))
        scored = has_shape(result, SCORED) and result["final"]
        if not has_shape(result.get("lost", []), [int]) or not (scored or result.get("final") is None):
            raise ValueError("it holds something else than scores by seed")
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}",
            where=path,
            expected="what a finished run wrote",
            fix="delete it, and give the command again: it is written anew",
        ) from error
    return result

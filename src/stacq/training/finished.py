"""What a finished training run left on disk; without JAX, so that policies can be scored where it is not wanted."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stacq.errors import InputError
from stacq.policy import Policy
from stacq.reading import read_text

CONFIG, RESULT, POLICIES = "config.json", "result.json", "policies"
NAMES = {"stacq": "StaCQ", "onestep-stacq": "OneStep StaCQ", "td3bc": "TD3+BC", "bc": "BC"}
"""What algorithms are called in tables and pictures."""


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
        config = json.loads(read_text(directory / CONFIG))
        settings = config["config"]
        steps = settings["steps"] + settings.get("critic_steps", 0)
        facts = config["label"], config["dataset"], config["env"], steps
        seeds = [int(seed) for seed in config["seeds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
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
    return Finished(policies, *facts, tuple(seed for seed in seeds if seed not in policies))


def lost_text(lost: Sequence[int], seeds: int) -> str:
    """Policies that were given up would have pulled a mean down: whoever reads it must know. Empty if none was."""
    names = ", ".join(map(str, lost))
    return f"! {len(lost)} of {seeds} seeds lost ({names}): the numbers are of the others" if lost else ""


def final_policies(directory: Path) -> dict[int, Policy]:
    """By seed; a seed that was lost has none."""
    paths = (directory / POLICIES).glob("seed-*.safetensors")
    found = {int(path.stem.removeprefix("seed-")): path for path in paths}
    return {seed: Policy.load(found[seed]) for seed in sorted(found)}

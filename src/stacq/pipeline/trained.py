"""What a training run leaves: policies, result and the directory it all lies in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacq.errors import InputError
from stacq.policies import Policy
from stacq.reach.sets import ReachableSets
from stacq.runs.finished import RESULT, read_finished


@dataclass(frozen=True, eq=False)
class Trained:
    """A policy per seed that was not lost, and everything else on disk."""

    policies: Mapping[int, Policy]
    directory: Path
    result: Mapping[str, Any]
    sets: ReachableSets | None = None


def read_trained(directory: Path, sets: ReachableSets | None = None) -> Trained:
    """Policies and result of a finished run."""
    policies = read_finished(directory).policies
    try:
        result = json.loads((directory / RESULT).read_text(encoding="utf-8"))
        if not isinstance(result, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise InputError(
            f"cannot be read: {error}",
            where=directory / RESULT,
            expected="what a finished run wrote",
            fix="delete it, and give the command again: it is written anew",
        ) from error
    return Trained(policies, directory, result, sets)

"""What a training run leaves: policies, result and the directory it all lies in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacq.policies import Policy
from stacq.reach.sets import ReachableSets
from stacq.runs.finished import read_finished, read_result


@dataclass(frozen=True, eq=False)
class Trained:
    """A policy per seed that was not lost, and everything else on disk."""

    policies: Mapping[int, Policy]
    directory: Path
    result: Mapping[str, Any]
    sets: ReachableSets | None = None


def read_trained(directory: Path, sets: ReachableSets | None = None) -> Trained:
    """Policies and result of a finished run."""
    return Trained(read_finished(directory).policies, directory, read_result(directory), sets)

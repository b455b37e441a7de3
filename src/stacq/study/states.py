"""What is known of every job: one small file each, written whole, so that processes anywhere may write at once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stacq.core.files import write_json
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import read_text
from stacq.runs.finished import CONFIG, RESULT
from stacq.study.cells import Cell
from stacq.study.jobs import Job
from stacq.study.resolved import difference, resolved, resolved_before

SHAPE = {"state": str, "seconds": float, "attempts": int, "reason": str, "run": str, "record": dict}


@dataclass(frozen=True)
class State:
    """How a job ended the last time; one that was killed leaves nothing new."""

    state: Literal["done", "failed"]
    seconds: float = 0.0  # of all attempts that came to an end
    attempts: int = 1
    reason: str = ""
    run: str = ""  # the run directory of a cell
    record: Mapping[str, Any] = field(default_factory=dict)  # of a finished cell: see `records.py`
    resolved: Mapping[str, Any] = field(default_factory=dict)  # what a finished cell was run with: see `resolved.py`

    @property
    def all_lost(self) -> bool:
        """Whether it ended with no seed left: a result too, and the same whenever it is tried again."""
        return bool(self.record.get("lost")) and not self.record.get("seeds")


@dataclass(frozen=True)
class Places:
    """Where everything of a study lies."""

    folder: Path  # of the study itself
    runs: Path  # of all run directories

    def state(self, key: str) -> Path:
        return self.folder / "jobs" / f"{key}.json"

    def log(self, key: str) -> Path:
        return self.folder / "logs" / f"{key}.log"


def read_state(places: Places, key: str) -> State | None:
    """None where nothing is known, or where the file is not what we wrote."""
    try:
        found = json_object(read_text(places.state(key)))
    except (OSError, ValueError):
        return None
    if not has_shape(found, SHAPE) or found["state"] not in ("done", "failed"):
        return None
    whole = found.get("resolved")
    return State(**{name: found[name] for name in SHAPE}, resolved=whole if isinstance(whole, dict) else {})


def write_state(places: Places, key: str, state: State) -> None:
    """With the time and the attempts of before added to it."""
    before = read_state(places, key)
    seconds, attempts = (before.seconds, before.attempts) if before else (0.0, 0)
    facts = {**vars(state), "seconds": round(seconds + state.seconds, 2), "attempts": attempts + state.attempts}
    write_json(places.state(key), json.loads(json.dumps(facts)))


def is_done(places: Places, job: Job) -> bool:
    """Whether there is nothing to do; what a stage left is found, or made again."""
    state = read_state(places, job.key)
    return state is not None and state.state == "done" and (job.kind != "cell" or not undone(state, job.cell))


def undone(state: State, cell: Cell) -> str:
    """Why a cell that was done is to be run again; empty if it is not."""
    if not (Path(state.run) / (CONFIG if state.all_lost else RESULT)).exists():
        return "its run directory is gone"
    changed = difference(resolved_before(state.resolved, state.record), resolved(cell))
    return f"run with other settings: {changed}" if changed else ""

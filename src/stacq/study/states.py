"""What is known of every job: one small file each, written whole, so that processes anywhere may write at once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stacq.core.files import write_json
from stacq.core.outside import has_shape, json_object
from stacq.core.reading import read_text
from stacq.study.jobs import Job

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
    return State(**{name: found[name] for name in SHAPE})


def write_state(places: Places, key: str, state: State) -> None:
    """With the time and the attempts of before added to it."""
    before = read_state(places, key)
    seconds, attempts = (before.seconds, before.attempts) if before else (0.0, 0)
    facts = {**vars(state), "seconds": round(seconds + state.seconds, 2), "attempts": attempts + state.attempts}
    write_json(places.state(key), json.loads(json.dumps(facts)))


def is_done(places: Places, job: Job) -> bool:
    """A cell is done as long as its run directory holds a result; what a stage left is found, or made again."""
    state = read_state(places, job.key)
    if state is None or state.state != "done":
        return False
    return job.kind != "cell" or (Path(state.run) / "result.json").exists()

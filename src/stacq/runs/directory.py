"""A run directory: everything that is needed to read, trust and repeat a result.

config.json       the resolved configuration
environment.json  versions, device, git revision, command
metrics.jsonl     one object per line, appended as they come
records.csv       one row per evaluation episode
log.txt           what was done when, and how it ended
tensorboard/      event files, if asked for
wandb/            files of a W&B run, if asked for
lock              held by the process that writes here
"""

import contextlib
import csv
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, TypeVar

from stacq.core.errors import InputError
from stacq.core.files import appearing, check_writable, exists, json_text, spelt, unwritable, write_text, writing
from stacq.core.outside import has_shape, json_object
from stacq.core.printable import printable
from stacq.core.reading import LINES, read_text
from stacq.core.staging import flock, sweep
from stacq.evaluation.records import COLUMNS, EpisodeRecord, csv_line, parse_records
from stacq.runs.trackers import check_logs, open_trackers

RUNS = Path("runs")  # where run directories are made unless another place is named
EVALUATED = "eval/return"  # in every line that is about an evaluation
Line = TypeVar("Line")
PACKAGES = ("stacq", "numpy", "jax", "jaxlib", "h5py", "gymnasium", "mujoco")


class Run:
    """An open run directory. What was written stays, however the process ends.

    With `resume` a directory that holds the same configuration is opened again, and written on. One process at a time
    has it open: a second one would rewind files under the first.
    """

    def __init__(
        self, directory: Path, config: Mapping[str, Any], *, logs: Sequence[str] = (), resume: bool = False
    ) -> None:
        self.directory = directory
        check_logs(logs)  # before anything is written
        self.resumed = resume and exists(directory / "config.json")
        if self.resumed:
            _check_same(directory, config)
        else:
            self._start(directory, config)
        self._lock = _locked(directory)
        try:
            self._trackers = open_trackers(logs, directory, config)
        except BaseException:
            self._lock.close()
            raise

    def _start(self, directory: Path, config: Mapping[str, Any]) -> None:
        """The directory appears whole or not at all, so that a kill at the very start leaves nothing half made."""
        sweep(directory.parent)
        if exists(directory):
            raise _taken(directory)
        try:
            with appearing(directory) as beginning:
                (beginning / "environment.json").write_text(json_text(environment_facts()), encoding="utf-8")
                (beginning / "records.csv").write_text(csv_line(COLUMNS), encoding="utf-8")
                (beginning / "config.json").write_text(json_text(dict(config)), encoding="utf-8")
        except OSError as error:
            raise _busy(directory) if directory.is_dir() else unwritable(directory, error) from error

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.log("finished" if kind is None else f"stopped by {kind.__name__}")
        except InputError:
            if kind is None:  # else the error that stopped it is reported; it may be the same full disk
                raise
        finally:
            for tracker in self._trackers:
                tracker.close()
            self._lock.close()

    def log(self, message: str) -> None:
        _append(self.directory / "log.txt", f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {printable(message)}\n")

    def metrics(self, step: int, values: Mapping[str, float], *, seed: int | None = None) -> None:
        """Add one line; what belongs to one seed of several says which."""
        which = {} if seed is None else {"seed": seed}
        line = json.dumps({"step": step, **which, **values, "time": time.time()})
        _append(self.directory / "metrics.jsonl", line + "\n")
        named = values if seed is None else {f"seed{seed}/{key}": value for key, value in values.items()}
        for tracker in self._trackers:
            tracker.add(step, named)

    def record(self, record: EpisodeRecord) -> None:
        """Add one episode; from here on it outlives the process."""
        _append(self.directory / "records.csv", csv_line(record.row()))

    def rewind(self, step: int, evaluated: Callable[[int], bool]) -> None:
        """Forget what was written about later steps, and about evaluations that are to be made again.

        `evaluated` says of an evaluation's step whether it is whole.
        """
        metrics, records = self.directory / "metrics.jsonl", self.directory / "records.csv"
        if metrics.exists():
            lines = [
                line
                for line, found in zip(_whole_lines(metrics), read_metrics(self.directory), strict=True)
                if found["step"] <= step and (EVALUATED not in found or evaluated(found["step"]))
            ]
            write_text(metrics, "".join(lines))
        kept = [record for record in read_records(self.directory) if record.step <= step and evaluated(record.step)]
        write_text(records, "".join([csv_line(COLUMNS), *(csv_line(record.row()) for record in kept)]))


def check_free(directory: Path) -> None:
    """Refuse a place that no run can have, or go on in, before hours go into what comes first."""
    if exists(directory) and not (directory / "config.json").exists():
        raise _taken(directory)
    check_writable(directory / "config.json" if directory.exists() else directory)


def _taken(directory: Path) -> InputError:
    what = "this directory exists already" if directory.is_dir() else "there is a file of this name"
    return InputError(what, where=directory, expected="a place for a run directory", fix="choose another --out")


def _busy(directory: Path) -> InputError:
    return InputError(
        "another process is writing into this run directory",
        where=directory,
        fix="wait for it, stop it, or choose another --out",
    )


def _locked(directory: Path) -> IO[bytes]:
    """An open file whose lock ends with this process, however it ends.

    It is opened for both ways: to open a pipe of that name for writing alone would wait for a reader.
    """
    with writing(directory):
        file = os.fdopen(os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
    if not flock(file.fileno(), "LOCK_EX", wait=False):
        file.close()
        raise _busy(directory)
    return file


def _check_same(directory: Path, config: Mapping[str, Any]) -> None:
    """Going on with other options would make a run that no command describes."""
    try:
        found = json_object(read_text(directory / "config.json"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"its config.json cannot be read: {error}", where=directory, fix="choose another --out"
        ) from error
    wanted = json.loads(json.dumps(dict(config)))
    changed = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    if changed:
        key = changed[0]
        raise InputError(
            f"this run was started with other options: {key} was {found.get(key)!r}, now {wanted.get(key)!r}",
            where=directory,
            expected="the same command as before",
            fix="repeat that command to go on with it, or choose another --out",
        )


def new_directory(root: Path, kind: str) -> Path:
    """A fresh name under `root` that sorts by time."""
    stem = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{kind}"
    candidate, number = stem, 1
    while candidate.exists():
        number += 1
        candidate = stem.with_name(f"{stem.name}-{number}")
    return candidate


def read_records(directory: Path) -> list[EpisodeRecord]:
    """Every complete record of a run; see `read_metrics`."""
    return _understood(directory / "records.csv", parse_records)


def read_metrics(directory: Path) -> list[dict[str, Any]]:
    """Every complete line; a process killed in the middle of one leaves at most a torn last line."""
    return _understood(directory / "metrics.jsonl", lambda lines: [_metrics(line) for line in lines])


def _metrics(line: str) -> dict[str, Any]:
    found = json_object(line)
    if not has_shape(found, {"step": int}) or found["step"] < 0 or not has_shape(found.get("seed", 0), int):
        raise ValueError("no object with a step, and perhaps a seed, that are whole numbers")
    return found


def _understood(path: Path, parse: Callable[[list[str]], list[Line]]) -> list[Line]:
    lines = _whole_lines(path)
    try:
        return parse(lines)
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            f"a line cannot be understood: {error!r}",
            where=path,
            expected="lines as stacq writes them",
            fix="restore the file or remove the line; a run directory that is deleted is made anew",
        ) from error


def _whole_lines(path: Path) -> list[str]:
    try:
        text = read_text(path, LINES)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot be read: {error}", where=path, expected="a run directory with whole files", fix="check the path"
        ) from error
    return [f"{line}\n" for line in text.split("\n")[:-1]]


def environment_facts() -> dict[str, Any]:
    """What a reader needs in order to doubt or repeat the numbers: the host's name is not among it."""
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "device": _device(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "git_revision": _git_revision(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _append(path: Path, text: str) -> None:
    with writing(path), open(path, "a", encoding="utf-8") as handle:
        handle.write(spelt(text))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _device() -> str:
    """The accelerator in use; JAX is asked only where something has loaded it already."""
    jax = sys.modules.get("jax")
    return "cpu" if jax is None else str(jax.devices()[0])


def _git_revision() -> str | None:
    """The revision of the source tree stacq runs from, with a mark if it was changed; None if installed.

    Installed, it may lie in someone else's tree, as with an environment inside a project: that one is not asked.
    """
    here = Path(__file__).parents[3]
    if not (here / ".git").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        run = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        answer = subprocess.run(run, capture_output=True, text=True, timeout=5, check=True)
        return answer.stdout.strip()
    return None

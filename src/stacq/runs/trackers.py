"""Metrics sent to other programs as they come: TensorBoard's event files, and Weights & Biases."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from stacq.core.errors import InputError, check_choice
from stacq.core.reading import read_text

Log = Literal["tensorboard", "wandb"]
PROJECT = "stacq"  # of W&B, where WANDB_PROJECT names no other
STEP = "training_step"


class Tracker(Protocol):
    """What takes the numbers of a run."""

    def add(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


def check_logs(logs: Sequence[str]) -> None:
    """Refuse an unknown kind or a package that is missing, before hours go into what comes first."""
    for kind in logs:
        check_choice("log", kind, get_args(Log), where="options of the training")
        _package(kind)


def open_trackers(logs: Sequence[str], directory: Path, config: Mapping[str, Any]) -> list[Tracker]:
    """One for each kind, in a run directory that is there already."""
    kinds: dict[str, Any] = {"tensorboard": EventFiles, "wandb": WandbRun}
    return [kinds[kind](directory, config) for kind in dict.fromkeys(logs)]


class EventFiles:
    """TensorBoard's, in `tensorboard/`."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        self._writer = _package("tensorboard").SummaryWriter(str(directory / "tensorboard"))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbRun:
    """A run of W&B, with its files in `wandb/`; with WANDB_MODE=offline nothing leaves the machine.

    Scores arrive later than losses of the same step, and W&B drops what goes back in its own count of steps. So the
    step is a number like others, and the axis of every chart. A training that goes on is the same run there.
    """

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        beginning = read_text(directory / "environment.json") + directory.name
        wandb = _package("wandb")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                id=hashlib.sha256(beginning.encode("utf-8", "replace")).hexdigest()[:16],
                name=directory.name,
                resume="allow",
                config=dict(config),
                dir=str(directory),
            )
        except wandb.Error as error:
            raise InputError(
                f"W&B does not begin a run: {error}",
                where="--log wandb",
                expected="an account, or its offline mode",
                fix="run `wandb login`, or set WANDB_MODE=offline and run `wandb sync` later",
            ) from error
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def close(self) -> None:
        self._run.finish()


def _package(kind: str) -> Any:
    """Imported when it is asked for: both are optional."""
    try:
        if kind == "wandb":
            import wandb

            return wandb
        import tensorboardX

        return tensorboardX
    except ImportError as error:
        raise InputError(
            f"--log {kind} needs a package that is not installed: {error}",
            where="options of the training",
            fix=f"pip install 'stacq[{kind}]', or leave it out",
        ) from error

"""What stages report. The base class prints nothing; `ConsoleReporter` prints."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stacq.core.progress import Update
from stacq.data.dataset import Dataset
from stacq.judgement.verdict import Report as Judged
from stacq.pipeline.plan import Plan
from stacq.pipeline.trained import Trained
from stacq.reach.quality_facts import Quality
from stacq.reach.stitching import Stitching
from stacq.training.pace import Listener, Report


class Reporter:
    """Says nothing. Each stage calls these; a subclass shows what it wants."""

    def say(self, text: str) -> None:
        """A sentence, a note or a warning."""

    def detail(self, text: str) -> None:
        """How a stage does its work."""

    def begun(self, plan: Plan) -> None:
        """Before the first stage: what will be done."""

    def concerns(self, dataset: Dataset) -> None:
        """Before anything is learned from the data."""

    @contextlib.contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Update]:
        """Around a longer piece of work."""
        yield _unseen

    def fitted(self, quality: Quality | Mapping[str, Any], directory: Path) -> None:
        """Dynamics: their quality if they were fitted just now, else its numbers as they were stored."""

    def reachable(self, found: Stitching, options: Mapping[str, Any], directory: Path, picture: Path) -> None:
        """Reachable sets, and where they were drawn."""

    @contextlib.contextmanager
    def training(self, plan: Plan, directory: Path) -> Iterator[Listener]:
        """Around the training itself."""
        yield _unheard

    def diagnostics(self, plan: Plan, directory: Path) -> str:
        """What was found and decided but not shown, for the run's log; it is told once."""
        return ""

    def result(self, plan: Plan, trained: Trained) -> None:
        """What came out."""

    def judged(self, report: Judged) -> None:
        """What policies are worth by the data alone."""


def _unseen(done: int, total: int | None = None, *, kept: bool = False, phase: str = "") -> None:
    pass


def _unheard(report: Report) -> None:
    pass

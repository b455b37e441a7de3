"""The verbs that learn: dynamics, reachable sets, policies."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tyro.conf import OmitArgPrefixes

from stacq.cli.shared import KEPT_RUN, Bounds, Source, Stated, at_hand
from stacq.core.errors import InputError
from stacq.core.unsaid import UNSAID, Count, Place
from stacq.pipeline.options import MAZE, Comparison, Options, RecipeName, Stages
from stacq.runs.trackers import Log
from stacq.study.run import Request


@dataclass(frozen=True)
class RunAll:
    """From data to one page: train several methods, compare them. Without a dataset: a maze one can watch."""

    comparison: OmitArgPrefixes[Comparison]
    generate: bool = False
    """Regenerate the named dataset first, such as hopper-medium, if it is not in the cache."""
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.pipeline.compare import compare_methods
        from stacq.pipeline.console import ConsoleReporter

        chosen = self.comparison
        source = at_hand(chosen.source or MAZE, self.generate, chosen.workers)
        compare_methods(replace(chosen, source=source), self.bounds.conventions, ConsoleReporter(brief=True))


@dataclass(frozen=True)
class Train:
    """Train policies on a dataset; dynamics and reachable sets are made first where the algorithm needs them.

    The same command goes on with a run that was stopped. A setting with several values, `--set alpha=1,5`, is a sweep:
    one run for each.
    """

    source: Source
    """A file, a Minari directory or id, or a name."""
    generate: bool = False
    """Regenerate the named dataset first, such as hopper-medium, if it is not in the cache."""
    training: OmitArgPrefixes[Options] = Options()
    stages: OmitArgPrefixes[Stages] = Stages()
    workers: Count = None
    """Processes that evaluate; by default one per core."""
    out: Place = None
    """The run directory; by default one under runs/ that the options name."""
    log: Annotated[tuple[Log, ...], UNSAID] = ()
    """Send the metrics there too; each needs the extra of its name."""
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline.console import ConsoleReporter
        from stacq.pipeline.train import train
        from stacq.study.sweep import swept, train_swept

        source = at_hand(self.source, self.generate, self.workers)
        dataset, reporter = load(source, conventions=self.bounds.conventions), ConsoleReporter(brief=True)
        how: dict[str, Any] = {"workers": self.workers, "log": self.log}
        runs = swept(self.training)
        if len(runs) > 1:
            train_swept(dataset, runs, self.stages, out=self.out, reporter=reporter, **how)
        else:
            train(dataset, self.training, self.stages, out=self.out, reporter=reporter, **how)


@dataclass(frozen=True)
class FitDynamics:
    """Fit forward and inverse ensembles to a dataset, and say how good they are."""

    source: Source
    """A file, a Minari directory or id, or a name."""
    preset: RecipeName = "default"
    """The recipe: `default` measured best, `paper` is that of the paper's authors, `small` suits a laptop."""
    epochs: Count = None
    """Most epochs; by default as the preset says."""
    seed: int = 0
    """Of the networks' first weights, the batches, and the choice of the rows held out."""
    out: Place = None
    """Directory of the artefact; by default one in the cache."""
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline.console import ConsoleReporter
        from stacq.pipeline.models import fit_dynamics

        dataset = load(self.source, conventions=self.bounds.conventions)
        reporter = ConsoleReporter()
        fit_dynamics(dataset, self.preset, epochs=self.epochs, seed=self.seed, out=self.out, reporter=reporter)


@dataclass(frozen=True)
class DynamicsGroup:
    """Learned dynamics. The one verb is `fit`: `stacq dynamics fit --help`."""

    def run(self) -> None:
        raise InputError("this group has one verb", where="stacq dynamics", fix="run `stacq dynamics fit DATASET`")


@dataclass(frozen=True)
class Reach:
    """Find which states of a dataset are reachable from which, with fitted dynamics."""

    source: Source
    """A file, a Minari directory or id, or a name."""
    stages: OmitArgPrefixes[Stages] = Stages()
    picture: Place = None
    """Where to draw (.png or .svg); by default in the cache directory."""
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = "fitted dynamics and finished chunks are kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline.console import ConsoleReporter
        from stacq.pipeline.models import reach_dataset

        dataset = load(self.source, conventions=self.bounds.conventions)
        reach_dataset(dataset, self.stages, self.picture, ConsoleReporter())


@dataclass(frozen=True)
class Study:
    __doc__ = Request.__doc__

    request: OmitArgPrefixes[Request]
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = "finished cells and the last checkpoints are kept; the same command goes on from there"

    def run(self) -> None:
        from stacq.study.run import study

        study(self.request)

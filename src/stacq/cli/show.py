"""The verbs that score and show."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from stacq.cli.shared import KEPT, plain, tell
from stacq.core.errors import InputError
from stacq.core.unsaid import UNSAID, Count, Place, Text
from stacq.runs.trackers import Log


@dataclass(frozen=True)
class Evaluate:
    """Score policies in their environment, in parallel, one record per episode."""

    policy: Positional[str]
    """A policy file, FILE.npz:TAG, a run (all of its final policies), or such as behaviour/hopper-medium."""
    env: Text = None
    """Gymnasium id; by default the one of the training run, or of the shipped policy's body."""
    episodes: int = 10
    """Of each policy, all from the same starts."""
    seed: int = 0
    """Of the starts, and of what a policy draws."""
    workers: Count = None
    """Processes; by default one per core. The records do not depend on it."""
    dataset: Text = None
    """The policy's dataset, whose reference returns make the scores; of a training run it is known."""
    out: Place = None
    """The run directory; by default a new one under runs/."""
    log: Annotated[tuple[Log, ...], UNSAID] = ()
    """Send the metrics there too; each needs the extra of its name."""
    STOPPED: ClassVar[str] = KEPT

    def run(self) -> None:
        from stacq.pipeline.score import Scoring, candidates_of, score_policies

        candidates, algorithm, env, dataset = candidates_of(self.policy, self.env)
        score_policies(
            candidates,
            Scoring(env, self.episodes, self.seed, self.workers),
            algorithm=algorithm,
            dataset=dataset if self.dataset is None else self.dataset,
            out=self.out,
            logs=self.log,
            config=plain(asdict(self)),
        )


@dataclass(frozen=True)
class ReportPage:
    """One page about one or several runs: curves, tables, comparisons. It opens offline."""

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN [RUN ...]")]]
    """Run directories, or folders of them. Files among them are passed over, and so is a run that is named again."""
    out: Path = Path("report.html")
    """The page, which ends in .html; the numbers behind it are in every run's records.csv and result.json."""
    title: str = "Training runs"
    """At the top of the page."""

    def run(self) -> None:
        from stacq.report.folders import write_report

        if not self.runs:
            raise InputError("no run was named", where="stacq report", expected="run directories", fix="name one")
        tell(f"page: {write_report(self.out, self.runs, title=self.title)}")


@dataclass(frozen=True)
class Algorithms:
    """Every algorithm: what it does, what it needs, its variants."""

    def run(self) -> None:
        from stacq.report.algorithms import algorithms_text

        print(algorithms_text())


@dataclass(frozen=True)
class Maze:
    """Tabular state-constrained Q-learning on a small maze, with its pictures."""

    file: Positional[Annotated[Path | None, arg(metavar="[MAZE]", help_behavior_hint="")]] = None
    """A maze file, or a shipped one: `stitching` (the default) or `sparse`."""
    steps_reach: int = 1
    """States reachable within this many steps."""
    out: Path = Path("maze")
    """Directory for the pictures and summary.json."""

    def run(self) -> None:
        from stacq.tabular.command import maze

        maze(self.file, self.steps_reach, self.out)

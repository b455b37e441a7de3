"""The command line: thin verbs over the library, one frozen dataclass each.

Exit codes: 0 done, 1 the work failed, 2 the input was wrong, 130 stopped by Ctrl-C, 143 by SIGTERM.
Imports are made inside the verbs, so that `stacq --help` answers at once.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg, subcommand

from stacq.core.errors import InputError
from stacq.core.printable import printable_lines
from stacq.pipeline.options import Comparison, Options, RecipeName, Stages

if TYPE_CHECKING:
    from stacq.data.border import Conventions
    from stacq.pipeline.score import Candidate

ACTORS = ".npz"  # files of stochastic actors, several in one
KEPT = "the episodes finished so far are kept in the run directory"
KEPT_RUN = "finished stages and the last checkpoint, if there is one yet, are kept; the same command goes on from there"


@dataclass(frozen=True)
class Bounds:
    """What a file of arrays does not say of its actions and episodes."""

    action_low: tuple[float, ...] | None = None
    """Lower bound of the actions: one number or one per dimension. Default: as declared, else -1."""
    action_high: tuple[float, ...] | None = None
    """Upper bound of the actions. Default: as declared, else 1."""
    max_episode_steps: int | None = None
    """After so many steps a recording was stopped; used only where timeouts are not stored."""

    @property
    def conventions(self) -> "Conventions":
        from stacq.data.border import Conventions

        return Conventions(
            action_low=self.action_low, action_high=self.action_high, max_episode_steps=self.max_episode_steps
        )


Stated = Annotated[Bounds, arg(name="")]


@dataclass(frozen=True)
class List:
    """Every dataset known by name: what it is, whether it is in the cache, and how big."""

    def run(self) -> None:
        from stacq.report.catalogue import print_catalogue

        print_catalogue()


@dataclass(frozen=True)
class Inspect:
    """What a dataset holds, printed and drawn, before anyone trains on it."""

    source: Positional[str]
    """A .hdf5 or .npz file, a Minari directory, or a name from `stacq data list`."""
    out: Path | None = None
    """Where to draw the picture (.png or .svg); by default in the cache directory."""
    env: str | None = None
    """Also check that the data fits this Gymnasium environment."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.data.pins import told_pin
        from stacq.report.inspect import show

        dataset = load(self.source, conventions=self.bounds.conventions)
        if self.env is not None:
            from stacq.data.match import check_match
            from stacq.envs.gym import facts_of, make_env

            check_match(dataset, facts_of(make_env(self.env), self.env))
        _tell(f"picture: {show(dataset, self.out)}")
        if not Path(self.source).exists() and (pin := told_pin(self.source)):
            _tell(pin)


@dataclass(frozen=True)
class Generate:
    """Regenerate a locomotion dataset from the shipped behaviour policies (needs the mujoco extra)."""

    name: Positional[str]
    """Such as stacq/hopper-medium-v0, or hopper-medium for short."""
    size: int | None = None
    """Rows; by default as many as the dataset's usual size."""
    seed: int = 0
    """Another seed gives other data under another name."""
    workers: int | None = None
    """Processes; by default one per core. The data does not depend on it."""
    force: bool = False
    """Generate again even if the file is there."""

    def run(self) -> None:
        from stacq.data.registry import recipe
        from stacq.pipeline.score import generate_with_progress

        plan = recipe(self.name, size=self.size, seed=self.seed)
        _tell(f"{plan.info.name}: {generate_with_progress(plan, self.workers, self.force)}")


@dataclass(frozen=True)
class RollOut:
    """Record a dataset with any saved policy in a Gymnasium environment."""

    policy: Positional[str]
    """A policy file (.safetensors), an actor of an .npz file (FILE.npz:TAG), the directory of a training run, whose
    final policies record a share each, or a shipped policy such as behaviour/hopper-medium."""
    rows: int
    """How many to record."""
    env: str | None = None
    """Gymnasium id; by default the one of the training run, or of the shipped policy's body."""
    noise: float | None = None
    """Disturb the policy's mean action by so much of half the action's range (standard deviation). Without it the
    policy acts as it is, a stochastic one by chance."""
    seed: int = 0
    workers: int | None = None
    """Processes; by default one per core. The data does not depend on it."""
    out: Path | None = None
    """The .hdf5 file; by default one in the working directory, called after the policy and the rows."""
    force: bool = False
    """Write over a file that is there."""

    def run(self) -> None:
        from stacq.evaluation.recording import record

        candidates, _, env, _ = _candidates(self.policy, self.env)
        path = record(
            [candidate.policy for candidate in candidates],
            self.policy,
            env,
            self.rows,
            noise=self.noise,
            seed=self.seed,
            workers=self.workers,
            out=self.out,
            force=self.force,
        )
        print(f"recorded: {path}")


@dataclass(frozen=True)
class Download:
    """Fetch a D4RL file into the cache: resumed if interrupted, checked, renamed into place."""

    name: Positional[str]
    """A D4RL name, such as hopper-medium-v2."""
    mirrors: tuple[str, ...] | None = None
    """Addresses to try in order; also STACQ_MIRRORS or config.toml in the cache directory."""
    sha256: str | None = None
    """The checksum that the file must have; so another file than the pinned or published one is accepted."""
    time_limit: float = 14_400.0
    """Seconds after which to stop; what arrived is kept."""
    least_speed: float = 10_000.0
    """Bytes per second; a server that is slower for 30 seconds is asked again, then left."""
    STOPPED: ClassVar[str] = "what arrived is kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.core.progress import progress
        from stacq.data.download import download
        from stacq.data.pins import told_pin
        from stacq.data.registry import find

        warnings: list[str] = []
        with progress(f"downloading {self.name}", None, "bytes") as update:
            begun = False

            def told(size: int, total: int | None) -> None:
                nonlocal begun
                update(size, total, kept=not begun)  # the first word is of what was there before
                begun = True

            path = download(
                find(self.name),
                mirrors=self.mirrors,
                progress=told,
                sha256=self.sha256,
                time_limit=self.time_limit,
                least_speed=self.least_speed,
                tell=warnings.append,
            )
        _tell(f"{self.name}: {path}\n{told_pin(self.name)}")
        for warning in warnings:
            print(printable_lines(f"warning: {warning}"), file=sys.stderr)


@dataclass(frozen=True)
class Convert:
    """Write a dataset in another format: a .hdf5 file in D4RL's layout, or minari:ID."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    target: Positional[str]
    """A path ending in .hdf5, or minari:ID for Minari's local storage. For d3rlpy and TorchRL write .hdf5: they misread
    Minari's format (docs/data.md)."""
    infos: tuple[str, ...] | None = None
    """Per-row extras to take along, such as qpos qvel; all of them if not said, none if the list is empty."""
    force: bool = False
    """Write over a .hdf5 file that is there."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.data.convert import convert

        infos = "all" if self.infos is None else self.infos
        stated = self.bounds.conventions
        written = convert(self.source, self.target, infos=infos, conventions=stated, force=self.force)
        _tell(f"written: {written}")


@dataclass(frozen=True)
class Evaluate:
    """Score policies in their environment, in parallel, one record per episode."""

    policy: Positional[str]
    """A policy file (.safetensors), an actor of an .npz file (FILE.npz:TAG), the directory of a training run, whose
    final policies are all scored, or a shipped policy such as behaviour/hopper-medium."""
    env: str | None = None
    """Gymnasium id; by default the one of the training run, or of the shipped policy's body."""
    episodes: int = 10
    seed: int = 0
    workers: int | None = None
    """Processes; by default one per core. The records do not depend on it."""
    dataset: str | None = None
    """Name of the dataset the policy comes from, known of training runs: it goes into the records, and scores are made
    with its reference returns."""
    out: Path | None = None
    """The run directory; by default a new one under runs/."""
    tensorboard: bool = False
    """Write TensorBoard event files too (needs the tensorboard extra)."""
    STOPPED: ClassVar[str] = KEPT

    def run(self) -> None:
        from stacq.pipeline.score import Scoring, score_policies

        candidates, algorithm, env, dataset = _candidates(self.policy, self.env)
        score_policies(
            candidates,
            Scoring(env, self.episodes, self.seed, self.workers),
            algorithm=algorithm,
            dataset=dataset if self.dataset is None else self.dataset,
            out=self.out,
            tensorboard=self.tensorboard,
            config=_plain(asdict(self)),
        )


@dataclass(frozen=True)
class RunAll:
    """From data to one page: train several methods, compare them. Without a dataset: a maze one can watch."""

    job: OmitArgPrefixes[Comparison]
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.pipeline.compare import compare_methods
        from stacq.pipeline.console import ConsoleReporter

        compare_methods(self.job, self.bounds.conventions, ConsoleReporter())


@dataclass(frozen=True)
class Maze:
    """Tabular state-constrained Q-learning on a small maze, with its pictures."""

    file: Positional[Path | None] = None
    """A maze file, or a shipped one: `stitching` (the default) or `sparse`."""
    steps_reach: int = 1
    """States reachable within this many steps."""
    out: Path = Path("maze")
    """Directory for the pictures and summary.json."""

    def run(self) -> None:
        from stacq.tabular.command import maze

        maze(self.file, self.steps_reach, self.out)


@dataclass(frozen=True)
class FitDynamics:
    """Fit forward and inverse ensembles to a dataset, and say how good they are."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    preset: RecipeName = "default"
    """The recipe: `default` measured best, `paper` is that of the paper's authors, `small` suits a laptop."""
    epochs: int | None = None
    """Most epochs; by default as the preset says."""
    seed: int = 0
    out: Path | None = None
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
class Reach:
    """Find which states of a dataset are reachable from which, with fitted dynamics."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    stages: OmitArgPrefixes[Stages] = Stages()
    picture: Path | None = None
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
class Train:
    """Train policies on a dataset; dynamics and reachable sets are made first where the algorithm needs them.

    The same command goes on with a run that was stopped.
    """

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    options: OmitArgPrefixes[Options] = Options()
    stages: OmitArgPrefixes[Stages] = Stages()
    workers: int | None = None
    """Processes that evaluate; by default one per core."""
    out: Path | None = None
    """The run directory; by default one under runs/ that the options name."""
    tensorboard: bool = False
    """Write TensorBoard event files too (needs the tensorboard extra)."""
    bounds: Stated = Bounds()
    LEARNS: ClassVar[bool] = True
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline.console import ConsoleReporter
        from stacq.pipeline.train import train

        train(
            load(self.source, conventions=self.bounds.conventions),
            self.options,
            self.stages,
            out=self.out,
            workers=self.workers,
            tensorboard=self.tensorboard,
            reporter=ConsoleReporter(),
        )


@dataclass(frozen=True)
class Algorithms:
    """Every algorithm: what it does, what it needs, its variants."""

    def run(self) -> None:
        from stacq.report.algorithms import algorithms_text

        print(algorithms_text())


@dataclass(frozen=True)
class ReportPage:
    """One page about one or several runs: curves, tables, comparisons. It opens offline."""

    runs: Positional[tuple[Path, ...]]
    """Run directories; files among them are passed over, and so is a run that is named again."""
    out: Path = Path("report.html")
    title: str = "Training runs"

    def run(self) -> None:
        from stacq.core.files import exists
        from stacq.report.page import write_page
        from stacq.runs.summary import read_run

        if not self.runs:
            raise InputError("no run was named", where="stacq report", expected="run directories", fix="name one")
        found = [each for each in self.runs if not exists(each) or each.is_dir()]  # `runs/*` names pages as well
        once = {each.resolve(): each for each in found or self.runs}.values()
        page = write_page(self.out, [read_run(directory) for directory in once], title=self.title)
        _tell(f"page: {page}")


@dataclass(frozen=True)
class DynamicsGroup:
    """Learned dynamics. The one verb is `fit`: `stacq dynamics fit --help`."""

    def run(self) -> None:
        raise InputError("this group has one verb", where="stacq dynamics", fix="run `stacq dynamics fit DATASET`")


@dataclass(frozen=True)
class Data:
    """Datasets: list, inspect, generate, rollout, download, convert."""


Verb = (
    Annotated[RunAll, subcommand("run")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[ReportPage, subcommand("report")]
    | Annotated[Algorithms, subcommand("algos")]
    | Annotated[Maze, subcommand("maze")]
    | Annotated[Reach, subcommand("reach")]
    | Annotated[DynamicsGroup, subcommand("dynamics")]
    | Annotated[Data, subcommand("data")]
)
DataVerb = (
    Annotated[List, subcommand("list")]
    | Annotated[Inspect, subcommand("inspect")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[RollOut, subcommand("rollout")]
    | Annotated[Download, subcommand("download")]
    | Annotated[Convert, subcommand("convert")]
)
DESCRIPTION = "State-constrained offline reinforcement learning."


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run, and turn every expected way of failing into a sentence and an exit code."""
    verb = parse(sys.argv[1:] if arguments is None else arguments)
    from stacq.core.files import too_long
    from stacq.core.interrupts import Terminated, terminate_as_interrupt
    from stacq.core.surroundings import check_here, check_memory, memory_error
    from stacq.core.workers import WorkerFailed
    from stacq.evaluation.rollouts import EvaluationFailed
    from stacq.runs.failed import TrainingFailed

    stopped = f"stopped; {getattr(verb, 'STOPPED', 'nothing was written')}"
    try:
        with terminate_as_interrupt():
            check_here()
            if getattr(verb, "LEARNS", False):
                check_memory()
            verb.run()
    except InputError as error:
        _fail(f"error: {error}", 2)
    except (EvaluationFailed, TrainingFailed) as error:
        _fail(f"error: {error}", 1)
    except WorkerFailed as error:
        _fail(f"error: {error.summary}\n{error.details}".rstrip(), 1)
    except Terminated:
        _fail(stopped, 143)
    except KeyboardInterrupt:
        _fail(stopped, 130)
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        told = memory_error(error) or too_long(error)
        if told is not None:
            _fail(f"error: {told}", 2)
        if not isinstance(error, MemoryError):
            raise
        _fail(f"error: there is not enough memory: {error}".removesuffix(": "), 1)


def parse(arguments: Sequence[str]) -> Any:
    if list(arguments) == ["--version"]:
        print(f"stacq {version('stacq')}")
        sys.exit(0)
    if list(arguments[:2]) == ["dynamics", "fit"]:
        return tyro.cli(FitDynamics, prog="stacq dynamics fit", args=arguments[2:])
    if list(arguments) == ["dynamics"]:
        arguments = ["dynamics", "--help"]
    if arguments and arguments[0] == "data":
        return tyro.cli(DataVerb, prog="stacq data", description=Data.__doc__, args=arguments[1:])
    return tyro.cli(Verb, prog="stacq", description=DESCRIPTION, args=arguments)


def _tell(text: str) -> None:
    print(printable_lines(text))


def _fail(message: str, code: int) -> None:
    with contextlib.suppress(OSError):  # the code says it too
        print(printable_lines(message), file=sys.stderr)
    sys.exit(code)


def _candidates(name: str, env: str | None) -> "tuple[list[Candidate], str, str, str]":
    """What to score: policies, the algorithm's name, the environment, and the dataset if it is known."""
    from stacq.core.files import exists
    from stacq.data.behaviour import PREFIX, load_behaviour, read_actor
    from stacq.data.registry import TASKS
    from stacq.pipeline.score import Candidate
    from stacq.policies import Policy

    if name.startswith(PREFIX):
        body, _, tag = name.removeprefix(PREFIX).partition("-")
        return [Candidate(load_behaviour(body, tag))], name, env or str(TASKS[body].env_id), ""
    if exists(Path(name)) and Path(name).is_dir():
        from stacq.runs.finished import lost_text, read_finished

        run = read_finished(Path(name))
        if run.lost:
            _tell(lost_text(run.lost, len(run.lost) + len(run.policies)))
        found = [Candidate(policy, seed, run.step) for seed, policy in run.policies.items()]
        return found, run.label, env or run.env or _no_env(name), run.dataset
    path, ending, tag = name.rpartition(ACTORS)
    if ending:
        return [Candidate(read_actor(Path(path + ACTORS), tag.removeprefix(":")))], name, env or _no_env(name), ""
    return [Candidate(Policy.load(name))], name, env or _no_env(name), ""


def _no_env(name: str) -> NoReturn:
    fix = "add --env with the id of an environment of the same sizes, such as --env Hopper-v4"
    raise InputError("it does not say its environment", where=name, expected="--env", fix=fix)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

"""The command line: thin verbs over the library, one frozen dataclass each.

Exit codes: 0 done, 1 the work failed, 2 the input was wrong, 130 stopped by Ctrl-C, 143 by SIGTERM.
Imports are made inside the verbs, so that `stacq --help` answers at once.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn

import tyro
from tyro.conf import Positional, arg, subcommand

from stacq.errors import InputError
from stacq.printable import printable_lines

if TYPE_CHECKING:
    from stacq.data.border import Conventions
    from stacq.jobs import Candidate

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
        from stacq.report.inspect import show

        dataset = load(self.source, conventions=self.bounds.conventions)
        if self.env is not None:
            from stacq.envs.gym import check_match, facts_of, make_env

            check_match(dataset, facts_of(make_env(self.env), self.env))
        _tell(f"picture: {show(dataset, self.out)}")


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
        from stacq.jobs import generate_with_progress

        plan = recipe(self.name, size=self.size, seed=self.seed)
        _tell(f"{plan.info.name}: {generate_with_progress(plan, self.workers, self.force)}")


@dataclass(frozen=True)
class Download:
    """Fetch a D4RL file into the cache: resumed if interrupted, checked, renamed into place."""

    name: Positional[str]
    """A D4RL name, such as hopper-medium-v2."""
    mirrors: tuple[str, ...] | None = None
    """Addresses to try in order; also STACQ_MIRRORS or config.toml in the cache directory."""
    STOPPED: ClassVar[str] = "what arrived is kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.data.download import download
        from stacq.data.registry import find
        from stacq.progress import progress

        with progress(f"downloading {self.name}", None, "bytes") as update:
            begun = False

            def told(size: int, total: int | None) -> None:
                nonlocal begun
                update(size, total, kept=not begun)  # the first word is of what was there before
                begun = True

            path = download(find(self.name), mirrors=self.mirrors, progress=told)
        _tell(f"{self.name}: {path}")


@dataclass(frozen=True)
class Convert:
    """Write a dataset in another format: a .hdf5 file in D4RL's layout, or minari:ID."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    target: Positional[str]
    """A path ending in .hdf5, or minari:ID for Minari's local storage."""
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
    """A policy file (.safetensors), the directory of a training run, whose final policies are all scored, or a shipped
    policy such as behaviour/hopper-medium."""
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
        from stacq.jobs import Scoring, score_policies

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

    source: Positional[str | None] = None
    """A file, a Minari directory or id, or a name; by default the continuous maze that comes with stacq."""
    algos: tuple[Literal["stacq", "onestep-stacq", "td3bc", "bc"], ...] = ("stacq", "td3bc", "bc")
    """What to train, one after the other."""
    seeds: int = 5
    """Of each; they train side by side."""
    steps: int | None = None
    """Gradient steps of each; by default what the preset has."""
    env: str | None = None
    """Gymnasium id to score in; by default the one the data names."""
    dynamics_preset: Literal["default", "paper", "small"] | None = None
    """The recipe for dynamics; by default a small one, with --full what measured best."""
    criterion: Literal["paper", "calibrated"] = "paper"
    """Which test of reachability."""
    full: bool = False
    """Networks of full size and a million steps instead of what a laptop can do; the maze has one size."""
    workers: int | None = None
    """Processes that evaluate; by default one per core."""
    out: Path = Path("runs")
    """Folder for the run directories and the page."""
    bounds: Stated = Bounds()
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.firstrun import MAZE, FirstRun, first_run

        job = FirstRun(
            source=self.source or MAZE,
            methods=self.algos,
            seeds=self.seeds,
            steps=self.steps,
            env=self.env,
            small=not self.full,
            recipe=self.dynamics_preset,
            criterion=self.criterion,
            out=self.out,
            workers=self.workers,
            conventions=self.bounds.conventions,
        )
        first_run(job)


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
    preset: Literal["default", "paper", "paper-antmaze", "small", "small-antmaze"] = "default"
    """The recipe: `default` measured best, `paper` is that of the paper's authors, `small` suits a laptop."""
    epochs: int | None = None
    """Most epochs; by default as the preset says."""
    seed: int = 0
    out: Path | None = None
    """Directory of the artefact; by default one in the cache."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline import fit_dynamics

        dataset = load(self.source, conventions=self.bounds.conventions)
        fit_dynamics(dataset, self.preset, epochs=self.epochs, seed=self.seed, out=self.out)


@dataclass(frozen=True)
class Reach:
    """Find which states of a dataset are reachable from which, with fitted dynamics."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    dynamics: Path | None = None
    """Directory that `stacq dynamics fit` made; by default dynamics are fitted first, or taken from the cache."""
    dynamics_preset: Literal["default", "paper", "paper-antmaze", "small", "small-antmaze"] | None = None
    """The recipe, where they are fitted here; by default what measured best for this kind of data."""
    criterion: Literal["paper", "calibrated"] = "paper"
    """The published test, or one that refines the action and knows the models' error on held-out rows."""
    epsilon: float = 0.1
    """Largest disagreement of the models, in units of one step's range."""
    norm: Literal["linf", "l1", "l2", "l2-unrooted"] = "linf"
    """Of the paper's criterion."""
    recall: float = 0.95
    """Share of true successors that must pass the calibrated criterion."""
    estimator: Literal["auto", "random", "corners"] = "auto"
    """Actions behind the ranges: uniform ones, or corners and fewer uniform ones. auto: corners on a CPU."""
    actions: int | None = None
    """Uniform actions behind every range; by default 1,000, and 64 beside the corners."""
    clip: bool = False
    """Clip inverse actions to the action bounds before they are tried; the calibrated criterion always does."""
    cap: int | None = None
    """Most states per set."""
    seed: int = 42
    """Of the uniform actions, of the rows that the test is judged on, and of what a cap leaves out."""
    engine: Literal["cpu", "gpu"] | None = None
    """Which engine searches the boxes; both give the same sets. Default: the GPU's where there is one."""
    picture: Path | None = None
    """Where to draw (.png or .svg); by default in the cache directory."""
    bounds: Stated = Bounds()
    STOPPED: ClassVar[str] = "fitted dynamics and finished chunks are kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.dynamics.models import Dynamics
        from stacq.pipeline import check_picture, find_reachable, fit_dynamics, usual_recipe
        from stacq.reach.build import ReachConfig, resolved

        options = ReachConfig(
            criterion=self.criterion,
            epsilon=self.epsilon,
            norm=self.norm,
            estimator=self.estimator,
            actions=self.actions,
            clip=self.clip,
            recall=self.recall,
            cap=self.cap,
            seed=self.seed,
        )
        resolved(options)
        if self.picture:
            check_picture(self.picture)
        if self.dynamics and self.dynamics_preset:
            raise InputError(
                "both dynamics and a recipe for them were named",
                where="stacq reach",
                expected="one of --dynamics and --dynamics-preset",
                fix="leave one out",
            )
        dataset = load(self.source, conventions=self.bounds.conventions)
        if self.dynamics:
            fitted = Dynamics.load(self.dynamics)
        else:
            fitted = fit_dynamics(dataset, self.dynamics_preset or usual_recipe(dataset)).dynamics
        find_reachable(dataset, fitted, options, engine=self.engine, picture=self.picture)


@dataclass(frozen=True)
class Train:
    """Train policies on a dataset; dynamics and reachable sets are made first where the algorithm needs them.

    The same command goes on with a run that was stopped.
    """

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    algo: Literal["stacq", "onestep-stacq", "td3bc", "bc"] = "stacq"
    variant: str = "recommended"
    """A named bundle of choices, such as `paper` or `robust` for StaCQ; docs/stacq.md lists them and recommends."""
    small: bool = False
    """Small networks and few steps, for a laptop."""
    seeds: int = 5
    """How many; they train side by side."""
    first_seed: int = 0
    steps: int | None = None
    """Gradient steps; by default the preset's: a million, in the mazes and with --small a few thousand."""
    eval_every: int | None = None
    """Steps between evaluations; by default 200 evaluations in all, in the mazes and with --small 20."""
    episodes: int | None = None
    """Per evaluation; by default 10, in AntMaze 100."""
    env: str | None = None
    """Gymnasium id to score in; by default the one the data names."""
    evaluate: bool = True
    """Score policies while they are trained."""
    top: float = 1.0
    """Learn from this share of the episodes, the best by return."""
    own_only: bool = False
    """Reduce reachable sets to the own successor: what does reachability itself buy?"""
    set: tuple[str, ...] = ()
    """Hyperparameters as name=value, such as learning_rate=1e-4 hidden=128,128."""
    dynamics: Path | None = None
    """Dynamics that were fitted already."""
    dynamics_preset: Literal["default", "paper", "paper-antmaze", "small", "small-antmaze"] | None = None
    """The recipe for dynamics; by default a small one with --small, else what measured best for this kind of data."""
    criterion: Literal["paper", "calibrated"] = "paper"
    """Which test of reachability."""
    epsilon: float = 0.1
    norm: Literal["linf", "l1", "l2", "l2-unrooted"] = "linf"
    workers: int | None = None
    """Processes that evaluate; by default one per core."""
    out: Path | None = None
    """The run directory; by default one under runs/ that the options name."""
    tensorboard: bool = False
    """Write TensorBoard event files too (needs the tensorboard extra)."""
    bounds: Stated = Bounds()
    STOPPED: ClassVar[str] = KEPT_RUN

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.pipeline import Stages, train
        from stacq.reach.build import ReachConfig
        from stacq.training.job import Options

        options = Options(
            algorithm=self.algo,
            variant=self.variant,
            small=self.small,
            seeds=self.seeds,
            first_seed=self.first_seed,
            steps=self.steps,
            eval_every=self.eval_every,
            episodes=self.episodes,
            env=self.env,
            evaluate=self.evaluate,
            top=self.top,
            own_only=self.own_only,
            settings=self.set,
        )
        reach = ReachConfig(criterion=self.criterion, epsilon=self.epsilon, norm=self.norm)
        train(
            load(self.source, conventions=self.bounds.conventions),
            options,
            Stages(self.dynamics, self.dynamics_preset, reach),
            out=self.out,
            workers=self.workers,
            tensorboard=self.tensorboard,
        )


@dataclass(frozen=True)
class ReportPage:
    """One page about one or several runs: curves, tables, comparisons. It opens offline."""

    runs: Positional[tuple[Path, ...]]
    """Run directories; files among them are passed over, and so is a run that is named again."""
    out: Path = Path("report.html")
    title: str = "Training runs"

    def run(self) -> None:
        from stacq.report.page import read_run, write_page

        if not self.runs:
            raise InputError("no run was named", where="stacq report", expected="run directories", fix="name one")
        found = [each for each in self.runs if each.is_dir() or not each.exists()]  # `runs/*` names pages as well
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
    """Datasets: list, inspect, generate, download, convert."""


Verb = (
    Annotated[RunAll, subcommand("run")]
    | Annotated[Train, subcommand("train")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[ReportPage, subcommand("report")]
    | Annotated[Maze, subcommand("maze")]
    | Annotated[Reach, subcommand("reach")]
    | Annotated[DynamicsGroup, subcommand("dynamics")]
    | Annotated[Data, subcommand("data")]
)
DataVerb = (
    Annotated[List, subcommand("list")]
    | Annotated[Inspect, subcommand("inspect")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[Download, subcommand("download")]
    | Annotated[Convert, subcommand("convert")]
)
DESCRIPTION = "State-constrained offline reinforcement learning."


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run, and turn every expected way of failing into a sentence and an exit code."""
    verb = parse(sys.argv[1:] if arguments is None else arguments)
    from stacq.evaluation import EvaluationFailed
    from stacq.interrupts import Terminated, terminate_as_interrupt
    from stacq.training.failed import TrainingFailed
    from stacq.workers import WorkerFailed

    stopped = f"stopped; {getattr(verb, 'STOPPED', 'nothing was written')}"
    try:
        with terminate_as_interrupt():
            verb.run()
    except InputError as error:
        _fail(f"error: {error}", 2)
    except (EvaluationFailed, TrainingFailed) as error:
        _fail(f"error: {error}", 1)
    except WorkerFailed as error:
        _fail(f"error: {error.summary}\n{error.details}".rstrip(), 1)
    except MemoryError as error:
        _fail(f"error: there is not enough memory: {error}".removesuffix(": "), 1)
    except Terminated:
        _fail(stopped, 143)
    except KeyboardInterrupt:
        _fail(stopped, 130)


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
    print(printable_lines(message), file=sys.stderr)
    sys.exit(code)


def _candidates(name: str, env: str | None) -> "tuple[list[Candidate], str, str, str]":
    """What to score: policies, the algorithm's name, the environment, and the dataset if it is known."""
    from stacq.data.behaviour import PREFIX, load_behaviour
    from stacq.data.registry import TASKS
    from stacq.jobs import Candidate
    from stacq.policy import Policy

    if name.startswith(PREFIX):
        body, _, tag = name.removeprefix(PREFIX).partition("-")
        return [Candidate(load_behaviour(body, tag))], name, env or str(TASKS[body].env_id), ""
    if Path(name).is_dir():
        from stacq.training.finished import lost_text, read_finished

        run = read_finished(Path(name))
        if run.lost:
            _tell(lost_text(run.lost, len(run.lost) + len(run.policies)))
        found = [Candidate(policy, seed, run.step) for seed, policy in run.policies.items()]
        return found, run.label, env or run.env or _no_env(name), run.dataset
    return [Candidate(Policy.load(name))], name, env or _no_env(name), ""


def _no_env(name: str) -> NoReturn:
    fix = "add --env with the id of an environment of the same sizes, such as --env Hopper-v4"
    raise InputError("it does not say its environment", where=name, expected="--env", fix=fix)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

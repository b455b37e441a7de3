"""The command line: thin verbs over the library, one frozen dataclass each.

Exit codes: 0 done, 1 the work failed, 2 the input was wrong, 130 stopped by Ctrl-C, 143 by SIGTERM.
Imports are made inside the verbs, so that `stacq --help` answers at once.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro
from tyro.conf import Positional, subcommand

from stacq.errors import InputError

if TYPE_CHECKING:
    from stacq.data.border import Conventions
    from stacq.policy import Actor

KEPT = "the episodes finished so far are kept in the run directory"


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
    action_low: tuple[float, ...] | None = None
    """Lower bound of the actions: one number or one per dimension. Default: as declared, else -1."""
    action_high: tuple[float, ...] | None = None
    """Upper bound of the actions. Default: as declared, else 1."""

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.report.inspect import show

        dataset = load(self.source, conventions=_stated(self.action_low, self.action_high))
        if self.env is not None:
            from stacq.envs.gym import check_match, facts_of, make_env

            check_match(dataset, facts_of(make_env(self.env), self.env))
        print(f"picture: {show(dataset, self.out)}")


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
        print(f"{plan.info.name}: {generate_with_progress(plan, self.workers, self.force)}")


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
            path = download(find(self.name), mirrors=self.mirrors, progress=update)
        print(f"{self.name}: {path}")


@dataclass(frozen=True)
class Convert:
    """Write a dataset in another format: a .hdf5 file in D4RL's layout, or minari:ID."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    target: Positional[str]
    """A path ending in .hdf5, or minari:ID for Minari's local storage."""
    infos: tuple[str, ...] | None = None
    """Per-row extras to take along, such as qpos qvel; all of them if not said, none if the list is empty."""
    action_low: tuple[float, ...] | None = None
    """Lower bound of the actions: one number or one per dimension. Default: as declared, else -1."""
    action_high: tuple[float, ...] | None = None
    """Upper bound of the actions. Default: as declared, else 1."""

    def run(self) -> None:
        from stacq.data.convert import convert

        conventions = _stated(self.action_low, self.action_high)
        infos = "all" if self.infos is None else self.infos
        print(f"written: {convert(self.source, self.target, infos=infos, conventions=conventions)}")


@dataclass(frozen=True)
class Evaluate:
    """Score a policy in its environment, in parallel, one record per episode."""

    policy: Positional[str]
    """A policy file (.safetensors), or a shipped one such as behaviour/hopper-medium."""
    env: str | None = None
    """Gymnasium id; by default the one of the shipped policy's body."""
    episodes: int = 10
    seed: int = 0
    workers: int | None = None
    """Processes; by default one per core. The records do not depend on it."""
    dataset: str = ""
    """Name of the dataset the policy comes from: written into the records, and its reference scores used."""
    out: Path | None = None
    """The run directory; by default a new one under runs/."""
    tensorboard: bool = False
    """Write TensorBoard event files too (needs the tensorboard extra)."""
    STOPPED: ClassVar[str] = KEPT

    def run(self) -> None:
        from stacq.jobs import Scoring, score_policy

        actor, env = _policy(self.policy, self.env)
        score_policy(
            actor,
            Scoring(env, self.episodes, self.seed, self.workers),
            algorithm=self.policy,
            dataset=self.dataset,
            out=self.out,
            tensorboard=self.tensorboard,
            config=_plain(asdict(self)),
        )


@dataclass(frozen=True)
class Demo:
    """The default job: make a small dataset, look at it, and score the policies behind it."""

    size: int = 20_000
    """Rows to generate."""
    episodes: int = 20
    """Evaluation episodes for each policy."""
    workers: int | None = None
    """Processes; by default one per core."""
    out: Path | None = None
    """The run directory; by default a new one under runs/."""
    STOPPED: ClassVar[str] = KEPT

    def run(self) -> None:
        from stacq.jobs import run_demo

        run_demo(self.size, self.episodes, self.workers, self.out, _plain(asdict(self)))


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
    preset: Literal["default", "paper", "paper-antmaze", "small"] = "default"
    """The recipe: `default` measured best, `paper` is the published one, `small` suits a laptop."""
    epochs: int | None = None
    """Most epochs; by default as the preset says."""
    seed: int = 0
    out: Path | None = None
    """Directory of the artefact; by default one in the cache."""

    def run(self) -> None:
        from stacq.pipeline import fit_dynamics

        fit_dynamics(self.source, self.preset, self.epochs, self.seed, self.out)


@dataclass(frozen=True)
class Reach:
    """Find which states of a dataset are reachable from which, with fitted dynamics."""

    source: Positional[str]
    """A file, a Minari directory or id, or a name."""
    dynamics: Path
    """Directory that `stacq dynamics fit` made."""
    epsilon: float = 0.1
    """Largest disagreement of the models, in units of one step's range."""
    norm: Literal["linf", "l1", "l2", "l2-unrooted"] = "linf"
    estimator: Literal["auto", "random", "corners"] = "auto"
    """Actions behind the ranges: uniform ones, or corners and fewer uniform ones. auto: corners on a CPU."""
    actions: int = 1000
    """Uniform actions behind every range."""
    clip: bool = False
    """Clip inverse actions to the action bounds before they are tried."""
    cap: int | None = None
    """Most states per set."""
    engine: Literal["cpu", "gpu"] = "cpu"
    """Which engine searches the boxes; both give the same sets."""
    out: Path | None = None
    """Where to draw the picture (.png or .svg); by default in the cache directory."""
    STOPPED: ClassVar[str] = "finished chunks are kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.pipeline import find_reachable
        from stacq.reach.build import ReachConfig

        options = ReachConfig(self.epsilon, self.norm, self.estimator, self.actions, self.clip, self.cap)
        find_reachable(self.source, self.dynamics, options, self.engine, self.out)


@dataclass(frozen=True)
class DynamicsGroup:
    """Learned dynamics. The one verb is `fit`: `stacq dynamics fit --help`."""

    def run(self) -> None:
        raise InputError("this group has one verb", where="stacq dynamics", fix="run `stacq dynamics fit DATASET`")


@dataclass(frozen=True)
class Data:
    """Datasets: list, inspect, generate, download, convert."""


Verb = (
    Annotated[Demo, subcommand("run")]
    | Annotated[Evaluate, subcommand("evaluate")]
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
    from stacq.runs import Terminated, terminate_as_interrupt
    from stacq.workers import WorkerFailed

    stopped = f"stopped; {getattr(verb, 'STOPPED', 'nothing was written')}"
    try:
        with terminate_as_interrupt():
            verb.run()
    except InputError as error:
        _fail(f"error: {error}", 2)
    except EvaluationFailed as error:
        _fail(f"error: {error}", 1)
    except WorkerFailed as error:
        _fail(f"error: {error.summary}\n{error.details}".rstrip(), 1)
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


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)


def _stated(low: tuple[float, ...] | None, high: tuple[float, ...] | None) -> "Conventions":
    from stacq.data.border import Conventions

    return Conventions(action_low=low, action_high=high)


def _policy(name: str, env: str | None) -> "tuple[Actor, str]":
    """A policy by file or shipped name, and the environment to run it in."""
    from stacq.data.behaviour import PREFIX, load_behaviour
    from stacq.data.registry import TASKS
    from stacq.policy import Policy

    if name.startswith(PREFIX):
        body, _, tag = name.removeprefix(PREFIX).partition("-")
        actor = load_behaviour(body, tag)
        return actor, env or str(TASKS[body].env_id)
    if env is None:
        raise InputError(
            "a policy file does not say its environment", where=name, expected="--env", fix="add --env Hopper-v4"
        )
    return Policy.load(name), env


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

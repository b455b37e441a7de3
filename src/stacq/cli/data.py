"""The verbs about datasets."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, subcommand

from stacq.cli.shared import Bounds, Source, Stated, tell
from stacq.core.printable import printable_lines
from stacq.core.unsaid import Count, Number, Place, Text, Texts


@dataclass(frozen=True)
class Data:
    """Datasets: list, inspect, generate, rollout, download, convert, replay."""


@dataclass(frozen=True)
class List:
    """Every dataset known by name: what it is, whether it is in the cache, and how big."""

    def run(self) -> None:
        from stacq.report.catalogue import print_catalogue

        print_catalogue()


@dataclass(frozen=True)
class Inspect:
    """What a dataset holds, printed and drawn, before anyone trains on it."""

    source: Source
    """A file, a Minari directory or id, or a name. Of a table whose columns are not said, a mapping is proposed."""
    out: Place = None
    """Where to draw the picture (.png or .svg); by default in the cache directory."""
    env: Text = None
    """Also check that the data fits this Gymnasium environment."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.data.load import load
        from stacq.data.pins import pin_text
        from stacq.data.table import is_table
        from stacq.report.inspect import show

        if is_table(self.source) and self.bounds.mapping is None:
            from stacq.data.proposal import proposal

            tell(proposal(Path(self.source)).rstrip("\n"))
            return
        dataset = load(self.source, conventions=self.bounds.conventions)
        if self.env is not None:
            from stacq.data.match import check_match
            from stacq.envs.gym import facts_of, make_env

            check_match(dataset, facts_of(make_env(self.env), self.env))
        tell(f"picture: {show(dataset, self.out)}")
        if not Path(self.source).exists() and (pin := pin_text(self.source)):
            tell(pin)


@dataclass(frozen=True)
class Generate:
    """Regenerate a locomotion or maze dataset from the shipped behaviour policies (needs the mujoco extra)."""

    name: Positional[str]
    """Such as stacq/hopper-medium-v0, or for short hopper-medium, antmaze-umaze or pointmaze-medium-stitch."""
    size: Count = None
    """Rows; by default as many as the dataset's usual size."""
    seed: int = 0
    """Another seed gives other data under another name."""
    workers: Count = None
    """Processes; by default one per core. The data does not depend on it."""
    force: bool = False
    """Generate again even if the file is there."""

    def run(self) -> None:
        from stacq.data.registry import recipe
        from stacq.pipeline.score import generate_with_progress

        plan = recipe(self.name, size=self.size, seed=self.seed)
        tell(f"{plan.info.name}: {generate_with_progress(plan, self.workers, self.force)}")


@dataclass(frozen=True)
class RollOut:
    """Record a dataset with any saved policy in a Gymnasium environment."""

    policy: Positional[str]
    """A policy file, FILE.npz:TAG, a run (a share for each final policy), or such as behaviour/hopper-medium."""
    rows: int
    """How many to record."""
    env: Text = None
    """Gymnasium id; by default the one of the training run, or of the shipped policy's body."""
    noise: Number = None
    """Standard deviation of noise on the mean action, in half ranges; without it the policy acts as it is."""
    seed: int = 0
    """Of the starts, the noise, and what a policy draws."""
    workers: Count = None
    """Processes; by default one per core. The data does not depend on it."""
    out: Place = None
    """The .hdf5 file; by default one in the working directory, called after the policy and the rows."""
    force: bool = False
    """Write over a file that is there."""

    def run(self) -> None:
        from stacq.evaluation.recording import record
        from stacq.pipeline.score import candidates_of

        candidates, _, env, _ = candidates_of(self.policy, self.env)
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
    mirrors: Texts = None
    """Addresses to try in order; also STACQ_MIRRORS or config.toml in the cache directory."""
    sha256: Text = None
    """The checksum that the file must have; so another file than the pinned or published one is accepted."""
    time_limit: float = 14_400.0
    """Seconds after which to stop; what arrived is kept."""
    least_speed: float = 10_000.0
    """Bytes per second; a server that is slower for 30 seconds is asked again, then left."""
    STOPPED: ClassVar[str] = "what arrived is kept, and the same command goes on from there"

    def run(self) -> None:
        from stacq.core.progress import progress
        from stacq.data.download import download
        from stacq.data.pins import pin_text
        from stacq.data.registry import find

        warnings: list[str] = []
        with progress(f"downloading {self.name}", None, "bytes") as update:
            begun = False

            def report(size: int, total: int | None) -> None:
                nonlocal begun
                update(size, total, kept=not begun)  # the first word is of what was there before
                begun = True

            path = download(
                find(self.name),
                mirrors=self.mirrors,
                progress=report,
                sha256=self.sha256,
                time_limit=self.time_limit,
                least_speed=self.least_speed,
                tell=warnings.append,
            )
        tell(f"{self.name}: {path}\n{pin_text(self.name)}")
        for warning in warnings:
            print(printable_lines(f"warning: {warning}"), file=sys.stderr)


@dataclass(frozen=True)
class Convert:
    """Write a dataset in another format: a .hdf5 file in D4RL's layout, or minari:ID."""

    source: Source
    """A file, a Minari directory or id, or a name."""
    target: Positional[str]
    """A .hdf5 file, or minari:ID. For d3rlpy and TorchRL write .hdf5: they misread Minari's (docs/data.md)."""
    infos: Texts = None
    """Per-row extras to take along, such as qpos qvel; all of them if not said, none if the list is empty."""
    force: bool = False
    """Write over a .hdf5 file that is there."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.data.convert import convert

        infos = "all" if self.infos is None else self.infos
        stated = self.bounds.conventions
        written = convert(self.source, self.target, infos=infos, conventions=stated, force=self.force)
        tell(f"written: {written}")


@dataclass(frozen=True)
class Replay:
    """Do recorded rows again in a simulator: set their stored states, apply their actions, measure the distance to what
    was recorded."""

    source: Source
    """A file with infos/qpos and infos/qvel, or a name."""
    env: Text = None
    """The Gymnasium environment; by default the one that the data names."""
    rows: int = 2000
    """How many rows, spread evenly over the data."""
    bounds: Stated = Bounds()

    def run(self) -> None:
        from stacq.core.errors import InputError
        from stacq.data.load import load
        from stacq.evaluation.replay import STATE, replay
        from stacq.report.replay_text import print_replay

        dataset = load(self.source, infos=STATE, conventions=self.bounds.conventions)
        env = self.env or dataset.env_id
        if env is None:
            fix = "add --env with a Gymnasium id, or --as with the dataset that the file is"
            raise InputError(
                "the data names no environment", where=self.source, expected="one to replay it in", fix=fix
            )
        print_replay(replay(dataset, env, rows=self.rows))


DataVerb = (
    Annotated[List, subcommand("list")]
    | Annotated[Inspect, subcommand("inspect")]
    | Annotated[Generate, subcommand("generate")]
    | Annotated[RollOut, subcommand("rollout")]
    | Annotated[Download, subcommand("download")]
    | Annotated[Convert, subcommand("convert")]
    | Annotated[Replay, subcommand("replay")]
)

"""A study's file: which data, which methods, which sizes, and what its table shows."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from stacq.core.errors import InputError
from stacq.core.reading import read_text
from stacq.data.registry import DATASETS, find, stated_name
from stacq.pipeline.options import RecipeName
from stacq.reach.config import ReachConfig
from stacq.study import fields as read
from stacq.study.published import SOURCES

Scale = Literal["small", "full"]
Origin = Literal["stacq", "d4rl"]
Statistic = Literal["final", "best", "last_ten"]
SHIPPED = resources.files("stacq.study") / "shipped"
HDF5_OR_NPZ = (".hdf5", ".h5", ".npz")
REACH = tuple(each.name for each in fields(ReachConfig))
Values = tuple[Any, ...]  # of one field of a grid


@dataclass(frozen=True)
class Source:
    """One dataset of a study."""

    label: str  # in tables
    name: str  # of a file, or of a known dataset
    known_as: str = ""  # the known dataset that a file is

    @property
    def full_name(self) -> str:
        """What presets and published numbers are looked up by."""
        return self.known_as or self.name


@dataclass(frozen=True)
class Method:
    """One or several columns of the table: every list in it is a side of a grid."""

    algorithm: str
    label: str = ""  # instead of the algorithm's title
    variants: tuple[str, ...] = ("recommended",)
    settings: Mapping[str, Values] = field(default_factory=dict)
    reach: Mapping[str, Values] = field(default_factory=dict)
    dynamics: tuple[RecipeName | None, ...] = (None,)
    own_only: bool = False
    top: float = 1.0
    datasets: tuple[str, ...] = ()  # labels; all if there are none


@dataclass(frozen=True)
class Protocol:
    """Sizes of every run; what is None comes from the preset."""

    rows: int | None = None  # of regenerated data
    seeds: int = 5
    first_seed: int = 0
    seeds_per_run: int | None = None  # by default all train side by side in one run
    steps: int | None = None
    eval_every: int | None = None
    episodes: int | None = None


@dataclass(frozen=True)
class Study:
    """Everything that a study's file says."""

    name: str
    title: str
    about: str
    scale: Scale
    sources: tuple[Source, ...]
    methods: tuple[Method, ...]
    protocol: Protocol
    shows: Statistic = "final"
    published: tuple[str, ...] = ()  # names of `published.SOURCES`

    @property
    def small(self) -> bool:
        return self.scale == "small"


TOP = ("title", "about", "scale", "source", "datasets", "algorithms", "methods", "protocol", "small", "full", "table")
METHOD = ("algorithm", "label", "variant", "set", "reach", "dynamics", "own_only", "top", "datasets")
MOST, MOST_SEEDS = 2**31 - 1, 10_000
BOUNDS = {"seeds": (1, MOST_SEEDS), "seeds_per_run": (1, 1_000), "first_seed": (0, MOST - MOST_SEEDS)}
SIZES = tuple(each.name for each in fields(Protocol))


def shipped() -> tuple[str, ...]:
    """Names of the studies that come with the package."""
    return tuple(sorted(each.name.removesuffix(".toml") for each in SHIPPED.iterdir() if each.name.endswith(".toml")))


def read_study(name: str, scale: Scale | None = None, origin: Origin | None = None) -> Study:
    """A shipped study by its name, or a file; `scale` and `origin` are taken instead of the file's own."""
    known = shipped()
    if name in known:
        return parse_study((SHIPPED / f"{name}.toml").read_text("utf-8"), name, name, scale, origin)
    if not name.endswith(".toml"):
        raise InputError(
            f"there is no study {name!r}",
            where="stacq study",
            expected=f"one of {', '.join(known)}, or a file whose name ends in .toml",
            fix=read.near(name, known),
        )
    try:
        content = read_text(Path(name))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=name, expected="a study's file", fix="check it") from error
    return parse_study(content, Path(name).stem, name, scale, origin)


def parse_study(content: str, name: str, where: str, scale: Scale | None = None, origin: Origin | None = None) -> Study:
    """A study from its text."""
    try:
        top = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"not TOML: {error}", where=where, expected="a study (docs/study.md)", fix="correct it"
        ) from error
    read.check_names(top, TOP, where)
    chosen = scale or read.choice(top, "scale", where, get_args(Scale), "small")
    protocol = _protocol(top, chosen, where)
    sources = _sources(
        top, where, origin or read.choice(top, "source", where, get_args(Origin), "stacq"), protocol.rows
    )
    shown = read.inner(top, "table", where)
    read.check_names(shown, ("shows", "published"), f"{where}: table")
    return Study(
        name=name,
        title=read.text(top, "title", where, name),
        about=read.text(top, "about", where),
        scale=chosen,  # type: ignore[arg-type]
        sources=sources,
        methods=_methods(top, where, tuple(each.label for each in sources)),
        protocol=protocol,
        shows=read.choice(shown, "shows", f"{where}: table", get_args(Statistic), "final"),  # type: ignore[arg-type]
        published=_published(shown, f"{where}: table"),
    )


def _published(shown: read.Table, where: str) -> tuple[str, ...]:
    names = read.texts(shown, "published", where)
    for name in names:
        if name not in SOURCES:
            raise InputError(
                f"no published numbers are called {name!r}",
                where=where,
                expected=", ".join(SOURCES),
                fix=read.near(name, SOURCES),
            )
    return names


def _protocol(top: read.Table, scale: str, where: str) -> Protocol:
    """Sizes of all runs, with those of the scale on top."""
    found: dict[str, int] = {}
    for name in ("protocol", "small", "full"):
        part, place = read.inner(top, name, where), f"{where}: {name}"
        read.check_names(part, SIZES, place)
        sizes = {each: read.count(part, each, place, *BOUNDS.get(each, (1, MOST))) for each in SIZES}
        if name in ("protocol", scale):
            found |= {each: size for each, size in sizes.items() if size is not None}
    return replace(Protocol(), **found)


def _sources(top: read.Table, where: str, origin: str, rows: int | None) -> tuple[Source, ...]:
    """A list of names, or a table from labels to names, or to tables with `file` and `as`."""
    value = top.get("datasets")
    named = {each: each for each in read.texts(top, "datasets", where)} if not isinstance(value, dict) else value
    if not named:
        raise InputError("no datasets", where=where, expected='datasets = ["hopper-medium", ...]', fix="name some")
    return tuple(_source(label, each, f"{where}: datasets", origin, rows) for label, each in named.items())


def _source(label: str, value: object, where: str, origin: str, rows: int | None) -> Source:
    if isinstance(value, dict):
        read.check_names(value, ("file", "as"), f"{where}: {label}")
        file, known_as = read.text(value, "file", where), read.text(value, "as", where)
        if not file.endswith(HDF5_OR_NPZ):
            raise InputError(
                f"file is {file!r}", where=f"{where}: {label}", expected="a .hdf5 or .npz file", fix="name one"
            )
        return Source(label, file, stated_name(known_as) if known_as else "")
    if not isinstance(value, str):
        raise InputError(f"{label} is {value!r:.80}", where=where, expected="a name, or a table", fix="correct it")
    return Source(label, value if value.endswith(HDF5_OR_NPZ) else _known(value, where, origin, rows))


def _known(name: str, where: str, origin: str, rows: int | None) -> str:
    """The full name of a known dataset: one without a version is looked up in the origin."""
    usual = f"stacq/{name}-v0" if origin == "stacq" else f"{name}-v2"
    full = usual if usual in DATASETS else name
    try:
        info = find(full)
    except InputError as error:
        raise InputError(error.problem, where=where, expected=error.expected, fix=error.fix) from error
    if info.source != "stacq" or rows is None or "@" in full:
        return info.name
    return find(f"{full}@{rows}").name


def _methods(top: read.Table, where: str, labels: tuple[str, ...]) -> tuple[Method, ...]:
    plain = [Method(each) for each in read.texts(top, "algorithms", where)]
    found = read.tables(top, "methods", where)
    methods = [*plain, *(_method(each, f"{where}: methods, {n}", labels) for n, each in enumerate(found, 1))]
    if not methods:
        raise InputError(
            "no methods", where=where, expected='algorithms = ["td3bc", ...], or [[methods]]', fix="name some"
        )
    return tuple(methods)


def _method(table: read.Table, where: str, labels: tuple[str, ...]) -> Method:
    read.check_names(table, METHOD, where)
    if not (algorithm := read.text(table, "algorithm", where)):
        raise InputError(
            "it has no algorithm", where=where, expected='algorithm = "..."', fix="name one of `stacq algos`"
        )
    reach, settings = read.inner(table, "reach", where), read.inner(table, "set", where)
    read.check_names(reach, REACH, f"{where}: reach")
    datasets = read.texts(table, "datasets", where)
    read.check_names(dict.fromkeys(datasets), labels, f"{where}: datasets")
    recipes = read.texts(table, "dynamics", where)
    for recipe in recipes:
        read.choice({"dynamics": recipe}, "dynamics", where, get_args(RecipeName), "")
    top = read.number(table, "top", where)
    return Method(
        algorithm=algorithm,
        label=read.text(table, "label", where),
        variants=read.texts(table, "variant", where) or Method.variants,
        settings={name: _side(value) for name, value in settings.items()},
        reach={name: _side(value) for name, value in reach.items()},
        dynamics=recipes or (None,),  # type: ignore[arg-type]
        own_only=read.flag(table, "own_only", where),
        top=1.0 if top is None else top,
        datasets=datasets,
    )


def _side(value: object) -> Values:
    """One value, or the values of one side of a grid."""
    return tuple(value) if isinstance(value, list) else (value,)

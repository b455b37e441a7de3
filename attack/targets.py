"""What is damaged, and who reads it: every reader of a file that may come from elsewhere."""

import hashlib
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fuzz
from attack.hostile import FILE, INFO, payload
from attack.mutations import SCRIPT, damage, odd_array, odd_json, pick
from attack.processes import NOWHERE

Rng = np.random.Generator


@dataclass(frozen=True)
class Target:
    """A reader: `prepare` puts a whole sample into a folder, `spoil` damages it, `read` must survive it."""

    name: str
    prepare: Callable[[Path, Path, Rng], Path]  # samples, folder -> what is read
    spoil: Callable[[Path, Rng], None]
    read: Callable[[Path], object]
    weight: int = 1


def copied(name: str) -> Callable[[Path, Path, Rng], Path]:
    """One file or folder of the samples; `*` stands for the one that is there."""

    def prepare(sample: Path, folder: Path, rng: Rng) -> Path:
        source = next(iter(sorted(sample.glob(name))))
        target = folder / source.name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    return prepare


def layout(suffix: str) -> Callable[[Path, Path, Rng], Path]:
    """One of the layouts that the tests of the readers damage as well."""

    def prepare(sample: Path, folder: Path, rng: Rng) -> Path:
        source = pick(rng, [path for path in _originals(sample.parent) if path.suffix == suffix])
        return Path(shutil.copy(source, folder / f"data{suffix}"))

    return prepare


@cache
def _originals(folder: Path) -> Sequence[Path]:
    made = folder / f"originals-{os.getpid()}"
    made.mkdir(exist_ok=True)
    return fuzz.originals(made)


def spoil_hdf5(path: Path, rng: Rng) -> None:
    """Bytes anywhere, or a well-formed file with senseless contents."""
    if rng.random() < 0.3:
        fuzz.rearrange(path, rng)
    else:
        damage(path, rng)


def spoil_one(*names: str) -> Callable[[Path, Rng], None]:
    """Damage one of several files of a folder."""

    def spoil(folder: Path, rng: Rng) -> None:
        damage(folder / pick(rng, [name for name in names if (folder / name).exists()]), rng)

    return spoil


def spoil_artefact(folder: Path, rng: Rng) -> None:
    """Damage a file, or write a sound artefact of senseless arrays, whose hash fits."""
    if rng.random() < 0.5:
        spoil_one("manifest.json", "arrays.safetensors")(folder, rng)
        return
    from safetensors.numpy import load_file, save_file

    from stacq.core.files import content_hash

    arrays = {**load_file(folder / "arrays.safetensors")}
    key = pick(rng, sorted(arrays))
    if rng.random() < 0.3:
        del arrays[key]
    else:
        arrays[key] = np.asarray(odd_array(arrays[key], rng), order="C")
    save_file(arrays, folder / "arrays.safetensors")
    manifest = folder / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    before = text.partition('"content": "')[2][:64]
    manifest.write_text(text.replace(before, content_hash(arrays)), encoding="utf-8")
    if rng.random() < 0.3:
        manifest.write_bytes(odd_json(manifest.read_bytes(), rng))


def read_data(path: Path) -> object:
    from stacq.data.load import load

    return load(path, infos="all")


def read_policy(path: Path) -> object:
    """A policy that loads must act."""
    from stacq import Policy

    policy = Policy.load(path)
    return policy(np.zeros(policy.observation_size))


def read_table(path: Path) -> object:
    """A table or its mapping, one of them damaged; what inspect proposes without a mapping must be TOML."""
    from stacq.data.load import load
    from stacq.data.proposal import proposal

    columns = tomllib.loads(proposal(path.with_name("logs.csv")))
    assert "observations" in columns
    return load(path.with_name("logs.csv"), columns=path.with_name("columns.toml"))


def make_table(name: str) -> Callable[[Path, Path, Rng], Path]:
    """The table and its mapping; one of them is to be damaged."""

    def prepare(sample: Path, folder: Path, rng: Rng) -> Path:
        for each in ("logs.csv", "columns.toml"):
            copied(f"work/{each}")(sample, folder, rng)
        return folder / name

    return prepare


def spoil_policy(path: Path, rng: Rng) -> None:
    if rng.random() < 0.5:
        damage(path, rng)
        return
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(path, framework="numpy") as file:
        arrays, facts = {key: file.get_tensor(key) for key in file.keys()}, file.metadata()  # noqa: SIM118
    key = pick(rng, sorted(arrays))
    arrays[key] = np.asarray(odd_array(arrays[key], rng), order="C")
    save_file(arrays, path, metadata=facts)


def read_dynamics(path: Path) -> object:
    """Dynamics that load must predict."""
    from stacq.dynamics.models import Dynamics

    models = Dynamics.load(path)
    sizes = len(models.normaliser.mean), len(models.action_low)
    return models.predict(np.zeros((3, sizes[0])), np.zeros((3, sizes[1])))


def make_sets(sample: Path, folder: Path, rng: Rng) -> Path:
    """Sets beside the data that they were made for."""
    copied("work/logs.npz")(sample, folder, rng)
    return copied("home/reach/*")(sample, folder, rng)


def read_sets(path: Path) -> object:
    from stacq.data.load import load
    from stacq.reach.sets import ReachableSets

    dataset = load(path.parent / "logs.npz")
    sets = ReachableSets.load(path, dataset)
    sets.check(dataset)
    return sets.of(0)


def make_checkpoint(sample: Path, folder: Path, rng: Rng) -> Path:
    from stacq.training.checkpoints import save_checkpoint

    save_checkpoint(folder / "checkpoints", 7, _tree())
    return folder / "checkpoints"


def _tree() -> Any:
    return {"weights": np.ones((3, 2), np.float32), "step": np.asarray(7, np.int32)}


def read_checkpoint(path: Path) -> object:
    from stacq.training.checkpoints import latest_checkpoint

    return latest_checkpoint(path, _tree(), lambda text: None)


def read_run(path: Path) -> object:
    """The run of a stranger, as a page and as policies; nothing of it may be taken for HTML."""
    from stacq.core.errors import InputError
    from stacq.report.page import write_page
    from stacq.runs.finished import read_finished
    from stacq.runs.summary import read_run

    page = write_page(path.parent / "page.html", [read_run(path)], title="page")
    assert SCRIPT not in page.read_text(encoding="utf-8"), "a script of the run's maker is on the page"
    try:
        return read_finished(path)
    except InputError:
        return None


def read_maze(path: Path) -> object:
    from stacq.tabular.maze import data_of, mdp_of, read

    maze = read(path)
    return data_of(maze, mdp_of(maze))


def make_cache(sample: Path, folder: Path, rng: Rng) -> Path:
    """A cache with a download half done, another one complete, and the notes about them."""
    data = folder / "home" / "data"
    (data / "d4rl").mkdir(parents=True)
    (data / "hashes.json").write_text(json.dumps({FILE: hashlib.sha256(payload()).hexdigest(), "other.hdf5": "11"}))
    (folder / "home" / "config.toml").write_text(f'[download]\nmirrors = ["{NOWHERE}"]\n')
    if rng.random() < 0.5:
        (data / "d4rl" / FILE).write_bytes(payload())
    (data / "d4rl" / f"{FILE}.part").write_bytes(payload()[:5000])
    origin: dict[str, object] = {
        "url": NOWHERE.format(file=FILE),
        "etag": "x",
        "modified": None,
        "total": 9,
        "digests": {},
    }
    (data / "d4rl" / f"{FILE}.part.json").write_text(json.dumps(origin))
    return folder / "home"


def read_cache(path: Path) -> object:
    """The notes of earlier downloads, and what the user configured; where that is damaged, nothing is asked."""
    import stacq.data.mirrors
    from stacq.data.download import download

    os.environ["STACQ_HOME"] = str(path)
    stacq.data.mirrors.DEFAULT_MIRRORS = (NOWHERE, NOWHERE, NOWHERE)
    return download(INFO, attempts=1, delay=0.0)


ARTEFACT = ("manifest.json", "arrays.safetensors")
RUN = ("config.json", "result.json", "metrics.jsonl", "records.csv", "environment.json", "log.txt")
NOTES = ("data/hashes.json", "config.toml", f"data/d4rl/{FILE}.part.json")
TARGETS = (
    Target("hdf5", layout(".hdf5"), spoil_hdf5, read_data, 5),
    Target("npz", layout(".npz"), damage, read_data, 4),
    Target(
        "minari", copied("minari/mine/logs-v0"), spoil_one("data/metadata.json", "data/main_data.hdf5"), read_data, 3
    ),
    Target("csv", make_table("logs.csv"), damage, read_table, 3),
    Target("columns", make_table("columns.toml"), damage, read_table, 2),
    Target("policy", copied("work/policy.safetensors"), spoil_policy, read_policy, 3),
    Target("dynamics", copied("work/dynamics"), spoil_artefact, read_dynamics, 2),
    Target("sets", make_sets, spoil_artefact, read_sets, 2),
    Target("checkpoint", make_checkpoint, lambda at, rng: spoil_artefact(at / "000000007", rng), read_checkpoint, 2),
    Target("run", copied("work/run"), spoil_one(*RUN), read_run, 3),
    Target("maze", copied("work/maze.txt"), damage, read_maze, 2),
    Target("cache", make_cache, spoil_one(*NOTES), read_cache, 1),
)

"""Every dataset and environment known by name, with the properties that its files do not state."""

import difflib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from stacq.core.errors import InputError, check_seed, check_whole
from stacq.data.published import PUBLISHED
from stacq.data.tasks import TASKS, Family, Source, Task


@dataclass(frozen=True)
class DatasetInfo:
    """One named dataset: where it comes from and what is known about it beforehand."""

    name: str
    source: Source
    task: Task
    rows: int | None = None  # raw rows of the file
    rows_certain: bool = False  # asserted on load if True, only compared otherwise
    remote: str | None = None  # folder and file below a mirror's root
    size: int | None = None  # bytes of that file
    sha256: str | None = None  # of that file, as others recorded it: see `published.py`
    minari: str | None = None  # nearest Minari dataset: same task, other data
    resets_after_terminal: bool = True
    remark: str = ""

    @property
    def env_id(self) -> str | None:
        return self.task.env_id

    @property
    def size_bound(self) -> int:
        """More bytes than its file can have, from rows and columns alone: three times or more what D4RL's files have.

        Per row two observations, their two halves of the simulator's state, an action, and eight numbers more.
        """
        numbers = 4 * self.task.observation_size + 2 * self.task.action_size + 8
        return 8 * numbers * (self.rows or MOST_ROWS) + BESIDE_ROWS


BODIES = ("hopper", "walker2d", "halfcheetah")
QUALITIES = ("random", "medium", "medium-replay", "medium-expert", "expert")

# Every HalfCheetah episode has 1,000 rows, so these counts follow from the episode counts. The other
# bodies' files may or may not keep a trailing unfinished episode: their counts are compared, not asserted.
D4RL_ROWS = {
    ("halfcheetah", "medium-replay"): 202_000,
    ("hopper", "medium-replay"): 402_000,
    ("walker2d", "medium-replay"): 302_000,
    ("halfcheetah", "medium-expert"): 2_000_000,
    ("hopper", "medium-expert"): 1_999_906,
    ("walker2d", "medium-expert"): 1_999_995,
}
# As long as the snapshots that were saved: one per 20,000 environment steps.
STACQ_REPLAY_ROWS = {"hopper": 380_000, "walker2d": 260_000, "halfcheetah": 140_000}
MAZE_ROWS = {"stitching": 3_757, "sparse": 2_596}

MOST_ROWS = 2_000_000  # of any set
BESIDE_ROWS = 64 << 20  # bytes for what is not per row, such as the weights of the behaviour policy

MIN_ROWS = 100  # below this a regenerated set cannot hold all its policies
MAX_ROWS = 2**31 - 1  # rows are numbered with 32 bits

# Variant of AntMaze -> maze name and (multistart, multigoal) in D4RL's file names.
ANTMAZE = {
    "umaze": ("u-maze", False, False),
    "umaze-diverse": ("u-maze", True, True),
    "medium-play": ("big-maze", True, False),
    "medium-diverse": ("big-maze", True, True),
    "large-play": ("hardest-maze", True, False),
    "large-diverse": ("hardest-maze", True, True),
}
ANTMAZE_REMARK = (
    "D4RL's ant differs from gymnasium-robotics' AntMaze (time step, motors, origin, goal radius, ends), "
    "so scores there are not comparable and no environment is assigned"
)


def _locomotion(body: str, quality: str, version: int) -> DatasetInfo:
    folder = f"gym_mujoco_v{version}" if version else "gym_mujoco"
    underscored = quality.replace("-", "_")
    file = f"{body}_{underscored}-v{version}" if version else f"{body}_{underscored}"
    if version == 0 and quality == "medium-replay":
        file = f"{'walker' if body == 'walker2d' else body}_mixed"
    return DatasetInfo(
        name=f"{body}-{quality}-v{version}",
        source="d4rl",
        task=TASKS[body],
        rows=D4RL_ROWS.get((body, quality), 1_000_000) if version == 2 else None,
        rows_certain=version == 2 and body == "halfcheetah",
        remote=f"{folder}/{file}.hdf5",
        minari=f"mujoco/{body}/{quality}-v0" if quality in ("medium", "expert") else None,
    )


def _antmaze(variant: str, version: int) -> DatasetInfo:
    maze, multistart, multigoal = ANTMAZE[variant]
    folder, suffix = ("ant_maze_v2", "_fixed") if version == 2 else ("ant_maze_new", "")
    file = f"Ant_maze_{maze}_noisy_multistart_{multistart}_multigoal_{multigoal}_sparse{suffix}.hdf5"
    return DatasetInfo(
        name=f"antmaze-{variant}-v{version}",
        source="d4rl",
        task=TASKS[f"antmaze-{variant.split('-')[0]}"],
        rows=1_000_000,
        remote=f"{folder}/{file}",
        minari=f"D4RL/antmaze/{variant}-v1",
        # The collector walked on after reaching the goal: rewards and terminals were labelled afterwards.
        resets_after_terminal=False,
        remark=ANTMAZE_REMARK,
    )


def _regenerated(body: str, quality: str) -> DatasetInfo:
    rows = {"medium-replay": STACQ_REPLAY_ROWS[body], "medium-expert": 2_000_000}.get(quality, 1_000_000)
    return DatasetInfo(
        name=f"stacq/{body}-{quality}-v0",
        source="stacq",
        task=TASKS[body],
        rows=rows,
        remark="regenerated from the shipped behaviour policies; not D4RL's data",
    )


def _embedded(maze: str, rows: int) -> DatasetInfo:
    return DatasetInfo(
        name=f"stacq/maze-{maze}-v0",
        source="embedded",
        task=TASKS[f"stacq/maze-{maze}"],
        rows=rows,
        remark="walks in the shipped maze, made anew whenever it is loaded",
    )


def _minari(info: DatasetInfo) -> DatasetInfo:
    assert info.minari is not None
    return DatasetInfo(
        name=info.minari,
        source="minari",
        task=info.task,
        minari=info.minari,
        remark="other data and, for AntMaze, another ant than D4RL's; environment as stored in the dataset",
    )


def _with_published(info: DatasetInfo) -> DatasetInfo:
    size, sha256 = PUBLISHED.get(info.name, (None, None))
    return replace(info, size=size, sha256=sha256)


def _all() -> dict[str, DatasetInfo]:
    ours = [
        *(_embedded(maze, rows) for maze, rows in MAZE_ROWS.items()),
        *(_regenerated(body, quality) for body in BODIES for quality in QUALITIES),
    ]
    d4rl = [
        *(_locomotion(body, quality, version) for version in (2, 1, 0) for body in BODIES for quality in QUALITIES),
        *(_antmaze(variant, version) for version in (2, 0) for variant in ANTMAZE),
    ]
    d4rl = [_with_published(info) for info in d4rl]
    minari = {info.minari: _minari(info) for info in d4rl if info.minari}
    return {info.name: info for info in (*ours, *d4rl, *minari.values())}


DATASETS = _all()
_BY_FILE = {Path(info.remote).stem: info.name for info in DATASETS.values() if info.remote}


def find(name: str) -> DatasetInfo:
    """The entry of that name; an unknown name is answered with the nearest ones.

    Regenerated sets of another size or seed have the name that `recipe` gives them.
    """
    if name in DATASETS:
        return DATASETS[name]
    if variant := re.fullmatch(r"(stacq/.+?)(?:@([0-9]{1,20}))?(?:\+seed([0-9]{1,20}))?", name):
        base, size, seed = variant.groups()
        if base in DATASETS:
            return recipe(base, size=int(size) if size else None, seed=int(seed or 0)).info
    near = difflib.get_close_matches(name, DATASETS, n=3, cutoff=0.4)
    raise InputError(
        f"'{name}' is no known dataset and no file",
        expected="a path to a .hdf5 or .npz file, or a name from `stacq data list`",
        fix=f"did you mean {', '.join(near)}?" if near else "run `stacq data list` to see every name",
    )


@dataclass(frozen=True)
class Recipe:
    """How one regenerated dataset is made: which one, how many rows, from which seed."""

    info: DatasetInfo
    quality: str
    rows: int
    seed: int


def recipe(name: str, *, size: int | None = None, seed: int = 0) -> Recipe:
    """The recipe behind a `stacq/...` name; another size or seed than the default goes into the name."""
    short = f"stacq/{name}-v0"
    info = find(short if short in DATASETS else name)
    if info.source == "embedded":
        raise InputError(
            f"'{info.name}' comes with the package, in one size",
            expected="a set such as stacq/hopper-medium-v0",
            fix="load it by its name",
        )
    if info.source != "stacq":
        raise InputError(
            f"'{name}' cannot be regenerated",
            expected="a name that starts with stacq/",
            fix=f"`stacq data generate stacq/{re.sub(r'-v[0-9]$', '-v0', name)}`, or download the original"
            if f"stacq/{re.sub(r'-v[0-9]$', '-v0', name)}" in DATASETS
            else "run `stacq data list` to see every name",
        )
    base = DATASETS[re.split(r"[@+]", info.name)[0]]
    assert base.rows is not None and info.rows is not None
    rows = info.rows if size is None else size
    expected = f"at least {MIN_ROWS} rows, and at most {MAX_ROWS:,}"
    check_whole(f"{rows} rows", rows, MIN_ROWS, MAX_ROWS, where=name, expected=expected, fix="choose another --size")
    check_seed(seed, where=name)
    full = base.name + (f"@{rows}" if rows != base.rows else "") + (f"+seed{seed}" if seed else "")
    quality = base.name.removeprefix(f"stacq/{base.task.key}-").removesuffix("-v0")
    return Recipe(replace(base, name=full, rows=rows), quality, rows, seed)


def own_name(name: str) -> str:
    """The name of the dataset whose file is called so on D4RL's server; any other name as it is."""
    return _BY_FILE.get(name, name)


def recognised(name: str) -> DatasetInfo | None:
    """The dataset that a name, or a file's name without its ending, means; else None.

    D4RL's names are known without their version too: files are often called so.
    """
    base = re.split(r"[@+]", own_name(name))[0]
    return DATASETS.get(base) or DATASETS.get(f"{base}-v2")


def task_of(name: str) -> Task | None:
    """The task behind a dataset name, a Gymnasium id such as `Hopper-v5`, or a D4RL task name; else None."""
    if info := recognised(name):
        return info.task
    key = re.split(r"[@+]", name)[0].lower().rsplit("-v", 1)[0]
    return TASKS.get(key)


def family_of(name: str) -> Family | Literal[""]:
    """The kind of task behind a name that `task_of` knows; empty for other data."""
    task = task_of(name)
    return "" if task is None else task.family


def base_name(name: str) -> str:
    """Such as `hopper-medium`, whoever recorded it, in whatever version and size."""
    return re.sub(r"^stacq/|-v\d+.*$", "", own_name(name))

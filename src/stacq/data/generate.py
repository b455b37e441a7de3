"""Data regenerated from the shipped behaviour policies, the same bits on any number of cores.

Locomotion is rolled out here, walks through mazes in `walking.py`.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import alone, check_writable
from stacq.core.staging import sweep
from stacq.core.types import Array, Bools, Float32s, Float64s
from stacq.core.workers import WorkerPool
from stacq.data.behaviour import Uniform, load_behaviour, snapshots
from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.hdf5 import write_hdf5
from stacq.data.load import cached_file
from stacq.data.registry import Recipe, recipe
from stacq.data.tasks import Task
from stacq.data.walks import Walk
from stacq.envs.gym import STEP_LIMIT, flatten, make_env
from stacq.policies import Actor

GROUP_ROWS = 1000  # a worker's task: whole episodes until this many rows; fixed, so that seeds are too
UNIFORM = "uniform"
SIMULATORS = ("gymnasium", "mujoco")  # named in what they recorded


@dataclass(frozen=True)
class Stream:
    """One policy acting for a number of rows; a dataset is one or several streams in a row."""

    tag: str  # a behaviour policy's tag, or UNIFORM
    rows: int


class Rollout(NamedTuple):
    """Rows of whole episodes, as recorded; qpos and qvel are the simulator's state before the step.

    Where the simulator is not MuJoCo they have no columns; nor have `goals` where nobody was sent anywhere.
    """

    observations: Float32s
    actions: Float32s
    rewards: Float32s
    next_observations: Float32s
    terminals: Bools
    timeouts: Bools
    qpos: Float64s
    qvel: Float64s
    goals: Float64s


def generate(
    name: str,
    *,
    size: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
    waiting: Callable[[], object] | None = None,
) -> Path:
    """Regenerate a `stacq/...` dataset into the cache and return its file.

    The file depends on name, size, seed and the simulator's version only. It is kept if it is already
    there, unless `force`. A stream's last episode is cut where its rows are full and marked timeout:
    only the recording ended. `waiting` is called if another process is making the same file; then it is waited for.
    """
    plan = recipe(name, size=size, seed=seed)
    path = cached_file(plan.info)
    sweep(path.parent)
    if path.exists() and not force:
        return path
    check_writable(path)
    with alone(path, waiting):
        if force or not path.exists():
            write_hdf5(roll_out(plan, workers=workers, progress=progress), path)
    return path


def roll_out(plan: Recipe, *, workers: int | None = None, progress: Callable[[int], None] | None = None) -> Dataset:
    """The recipe's rows in memory, simulator state included."""
    walk = plan.info.walk
    group_of, rules = _walked(walk) if walk is not None else (partial(roll_out_group, plan.info.task), {})
    with WorkerPool(workers) as pool:
        columns = collect(streams(plan), plan.seed, group_of, pool, progress)
    resets = plan.info.resets_after_terminal
    conventions = Conventions(env_id=plan.info.env_id, name=plan.info.name, resets_after_terminal=resets)
    return replace(as_dataset(columns, conventions), provenance={**provenance(plan.seed), **rules})


def _walked(walk: Walk) -> tuple[Callable[["Group"], Rollout], dict[str, str]]:
    """Who makes the groups of a walk, and its rules in words."""
    from stacq.data.walking import told, walk_group  # imports this module

    return partial(walk_group, walk), told(walk)


def collect(
    streams: Sequence[Stream],
    seed: int,
    group_of: Callable[["Group"], Rollout],
    pool: WorkerPool,
    progress: Callable[[int], None] | None = None,
) -> Rollout:
    """The rows of all streams, one after the other, from groups that workers roll out."""
    writer = _Writer(streams, seed)
    for part in pool.map(group_of, writer.tasks()):
        writer.take(part)
        if progress:
            progress(writer.filled)
    assert writer.columns is not None
    return writer.columns


def streams(plan: Recipe) -> list[Stream]:
    """Which policy acts for how many rows, in order."""
    rows = plan.rows
    match plan.quality:
        case "random":
            return [Stream(UNIFORM, rows)]
        case "medium-expert":
            return [Stream("medium", rows // 2), Stream("expert", rows - rows // 2)]
        case "medium-replay":
            return _replay_streams(plan.info.task.key, rows)
        case tag:
            return [Stream(tag, rows)]


def _replay_streams(body: str, rows: int) -> list[Stream]:
    """Every snapshot acts for its share of the training; the first half of the first share is the warm-up's
    uniform actions."""
    tags = snapshots(body)
    borders = [rows * index // len(tags) for index in range(len(tags) + 1)]
    shares = [stop - start for start, stop in itertools.pairwise(borders)]
    warm_up = Stream(UNIFORM, shares[0] // 2)
    acted = [Stream(tag, share) for tag, share in zip(tags, [shares[0] - warm_up.rows, *shares[1:]], strict=True)]
    return [stream for stream in (warm_up, *acted) if stream.rows]


class Group(NamedTuple):
    """A worker's task; its seed path is all that its rows depend on."""

    tag: str
    seed: tuple[int, ...]


class _Writer:
    """Asks for groups, stream after stream, and lays their rows side by side.

    A group has GROUP_ROWS rows or more, so a stream stops asking once the groups under way must fill it,
    and the next stream begins at once: no worker is idle between streams, and few rows are made that are not used.
    """

    def __init__(self, streams: Sequence[Stream], seed: int) -> None:
        self.streams = streams
        self.seed = seed
        self.rows = sum(stream.rows for stream in streams)
        self.left = [stream.rows for stream in self.streams]
        self.under_way = [0] * len(self.streams)
        self.order: deque[int] = deque()  # the stream of every group asked for, oldest first
        self.columns: Rollout | None = None

    @property
    def filled(self) -> int:
        return self.rows - sum(self.left)

    def tasks(self) -> Iterator[Group]:
        for number, stream in enumerate(self.streams):
            for index in itertools.count():
                if self.under_way[number] * GROUP_ROWS >= self.left[number]:
                    break
                self.under_way[number] += 1
                self.order.append(number)
                yield Group(stream.tag, (self.seed, number, index))

    def take(self, part: Rollout) -> None:
        """Place the next group's rows; what goes past the stream's end is dropped, cutting the last episode."""
        number = self.order.popleft()
        self.under_way[number] -= 1
        kept = min(len(part.rewards), self.left[number])
        if self.columns is None:
            self.columns = _room(part, self.rows)
        place = slice(self.filled, self.filled + kept)
        columns: Sequence[Array] = self.columns
        values: Sequence[Array] = part
        for column, value in zip(columns, values, strict=True):
            column[place] = value[:kept]
        self.left[number] -= kept
        if kept and self.left[number] == 0:
            last = self.filled - 1
            self.columns.timeouts[last] |= not self.columns.terminals[last]


def _room(part: Rollout, rows: int) -> Rollout:
    """Columns of so many rows, for parts such as this one."""
    try:
        return Rollout(*[np.empty((rows, *each.shape[1:]), each.dtype) for each in part])
    except MemoryError as error:
        size = rows * sum(each.nbytes for each in part) // len(part.rewards)
        raise InputError(
            f"{rows:,} rows need {size / 1e9:,.0f} GB of memory",
            expected="as many rows as this machine's memory holds",
            fix="choose a smaller --size",
        ) from error


def roll_out_group(task: Task, group: Group) -> Rollout:
    """Whole episodes until GROUP_ROWS rows, in a worker process."""
    assert task.env_id is not None
    policy = Uniform(task.action_size) if group.tag == UNIFORM else load_behaviour(task.key, group.tag)
    return whole_episodes(_env(task.env_id), policy, group.seed)


def whole_episodes(env: Any, policy: Actor, seed: tuple[int, ...]) -> Rollout:
    """As many as make GROUP_ROWS rows or more, from the random numbers of the seed alone."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    episodes: list[Rollout] = []
    while sum(len(episode.rewards) for episode in episodes) < GROUP_ROWS:
        episodes.append(_episode(env, policy, rng))
    return Rollout(*[np.concatenate(columns) for columns in zip(*episodes, strict=True)])


_ENVS: dict[str, Any] = {}


def _env(name: str) -> Any:
    if name not in _ENVS:
        _ENVS[name] = make_env(name)
    return _ENVS[name]


def _episode(env: Any, policy: Actor, rng: np.random.Generator) -> Rollout:
    started, _ = env.reset(seed=int(rng.integers(2**31)))
    observation = flatten(started)
    rows: list[tuple[Any, ...]] = []
    ended = False
    while not ended:
        qpos, qvel = _simulated(env)
        action = policy(observation, rng)
        seen, reward, terminated, truncated, _ = env.step(action)
        following, truncated = flatten(seen), truncated or len(rows) + 1 >= STEP_LIMIT
        # D4RL's rule: a fall at the very last step counts as the time limit.
        rows.append((observation, action, reward, following, terminated and not truncated, truncated, qpos, qvel))
        observation = following
        ended = terminated or truncated
    types = (np.float32, np.float32, np.float32, np.float32, np.bool_, np.bool_, np.float64, np.float64)
    columns: list[Any] = [
        np.array(column, dtype=kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]
    columns.append(np.empty((len(rows), 0)))
    return Rollout(*columns)


def _simulated(env: Any) -> tuple[Float64s, Float64s]:
    """MuJoCo's positions and velocities; nothing of another simulator."""
    data: Any = getattr(env.unwrapped, "data", None)
    if not (hasattr(data, "qpos") and hasattr(data, "qvel")):
        return np.empty(0), np.empty(0)
    return data.qpos.copy(), data.qvel.copy()


def as_dataset(columns: Rollout, conventions: Conventions) -> Dataset:
    """Recorded columns as a Dataset, with the simulator's state and the goal walked to as infos where there are."""
    extras = {"qpos": columns.qpos, "qvel": columns.qvel, "goal": columns.goals}
    return from_arrays(
        columns.observations,
        columns.actions,
        columns.rewards,
        columns.terminals,
        timeouts=columns.timeouts,
        next_observations=columns.next_observations,
        infos={key: values for key, values in extras.items() if values.shape[1]},
        conventions=conventions,
    )


def provenance(seed: int) -> dict[str, str]:
    """What a recorded file says of its making."""
    simulator = ", ".join(f"{name} {version(name)}" for name in SIMULATORS if find_spec(name))
    return {"made_by": f"stacq {version('stacq')}", "simulator": simulator, "seed": str(seed)}

"""OGBench's maze files as they are: npz archives of states, with the rewards of one of its tasks.

A file has no rewards. Its package defines five tasks for each maze, and labels states for one of them: reward 0 and the
end where the *current* state is at the goal, else -1. Goal and radius are asked of the package's own environment.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Array, Float64s, Infos
from stacq.data.border import assemble
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.npz import told_archive
from stacq.data.single_tasks import SingleTask
from stacq.envs.gym import make_env

NEEDED = ("observations", "actions", "terminals", "qpos")
STATE = ("qpos", "qvel")  # kept as infos where they are asked for


class Goal(NamedTuple):
    """Where a task leads."""

    place: Float64s  # [2]
    radius: float


def read_ogbench(
    path: Path, task: SingleTask, *, infos: Infos = (), conventions: Conventions = NOTHING_STATED
) -> Dataset:
    """Rows, labelled for the task. The last state of a trajectory has no action that led anywhere: it is no row."""
    goal = goal_of(task)
    arrays = _arrays(path, _wanted(infos, path))
    last = arrays["terminals"].reshape(-1) != 0
    last[-1] = True
    rows = np.flatnonzero(~last)
    if not len(rows):
        raise InputError("no trajectory has two states", where=path, expected="steps", fix="check the file")
    places = arrays["qpos"][rows, :2].astype(np.float64)
    reached = np.hypot(*(places - goal.place).T) <= goal.radius
    columns = {
        "observations": arrays["observations"][rows],
        "actions": arrays["actions"][rows],
        "rewards": reached - np.float32(1),
        "terminals": reached,
        "timeouts": last[rows + 1],
        "next_observations": arrays["observations"][rows + 1],
    }
    extras = {key: arrays[key][rows] for key in _wanted(infos, path)}
    known = Conventions(name=task.name, env_id=task.env_id, resets_after_terminal=False)
    return assemble(columns, extras, where=str(path), conventions=conventions.over(known))


def goal_of(task: SingleTask) -> Goal:
    """As OGBench's own environment has it."""
    try:
        import_module("ogbench")
    except ImportError as error:
        raise InputError(
            f"the rewards of OGBench's tasks come from its package, which cannot be loaded: {error}",
            where=task.name,
            expected="the ogbench extra",
            fix="pip install 'stacq[ogbench]'",
        ) from error
    env = make_env(task.env_id)
    env.reset(seed=0)
    bare = env.unwrapped
    return Goal(np.asarray(bare.cur_goal_xy, dtype=np.float64), float(bare._goal_tol))


def _wanted(infos: Infos, path: Path) -> tuple[str, ...]:
    asked = STATE if infos == "all" else tuple(infos)
    if unknown := set(asked) - set(STATE):
        raise InputError(
            f"key '{min(unknown)}' is no per-row extra of OGBench's files", where=path, expected=" or ".join(STATE)
        )
    return asked


def _arrays(path: Path, extras: tuple[str, ...]) -> Mapping[str, Array]:
    with told_archive(path) as archive:
        wanted = dict.fromkeys((*NEEDED, *extras))
        if missing := [key for key in wanted if key not in archive.names]:
            raise InputError(
                f"key '{missing[0]}' is missing",
                where=path,
                expected="OGBench's keys: " + ", ".join(wanted),
                fix="give the file another name if it is not OGBench's",
            )
        arrays = archive.read({key: archive.header(key) for key in wanted})
    rows = {key: values.shape[:1] for key, values in arrays.items()}
    if len(set(rows.values())) != 1 or not rows["terminals"][0] or arrays["qpos"].ndim != 2:
        shapes = ", ".join(f"{key} {values.shape}" for key, values in arrays.items())
        raise InputError(f"the shapes do not fit: {shapes}", where=path, expected="as many rows in each")
    return arrays

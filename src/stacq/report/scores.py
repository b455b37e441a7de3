"""Scores of several runs and tasks in one shape, checked."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.types import Float64s, Ints

Scores = ArrayLike | Mapping[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class Runs:
    """Scores of all runs, task after task."""

    tasks: tuple[str, ...]
    values: Float64s  # [N]
    sizes: Ints  # [T]

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.sizes) - self.sizes

    @property
    def weights(self) -> Float64s:
        """Of each run, [N]; they add up to one."""
        return np.repeat(1 / (len(self.sizes) * self.sizes), self.sizes)

    @property
    def once(self) -> Float64s:
        """Counts, [1, N], of the sample as it is."""
        return np.ones((1, len(self.values)))


def checked_scores(scores: Scores, where: str = "scores") -> Runs:
    named = _by_name(scores, where) if isinstance(scores, Mapping) else _by_column(scores, where)
    sizes = np.array([len(runs) for runs in named.values()], dtype=np.int64)
    return Runs(tuple(named), np.concatenate(list(named.values())), sizes)


def _by_name(scores: Mapping[str, ArrayLike], where: str) -> dict[str, Float64s]:
    if not scores:
        raise empty(where, "no tasks")
    return {str(task): vector(runs, f"{where} of {task}") for task, runs in scores.items()}


def _by_column(scores: ArrayLike, where: str) -> dict[str, Float64s]:
    array = _numbers(scores, where)
    if array.ndim != 2:
        raise InputError(
            f"an array of shape {array.shape}",
            where=where,
            expected="an array [runs, tasks], or a mapping from tasks to runs",
            fix="give the runs on a single task as {'task': runs}",
        )
    if not array.size:
        raise empty(where, f"{array.shape[0]} runs on {array.shape[1]} tasks")
    return {str(task): array[:, task] for task in range(array.shape[1])}


def vector(values: ArrayLike, where: str) -> Float64s:
    array = _numbers(values, where)
    if array.ndim != 1:
        raise InputError(f"an array of shape {array.shape}", where=where, expected="one number after the other")
    if not array.size:
        raise empty(where, "no numbers")
    return array


def _numbers(values: ArrayLike, where: str) -> Float64s:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"cannot be read as numbers: {error}",
            where=where,
            expected="numbers, as many in every row",
            fix="give tasks with different numbers of runs as {task: runs}",
        ) from error
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(
            f"{array[tuple(place)]} at {place}",
            where=where,
            expected="finite numbers",
            fix="look at the run it came from, and repeat it if it failed",
        )
    return array


def finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"{value}", where=where, expected="a finite number")
    return float(value)


def matched(x: Runs, y: Runs) -> Runs:
    """y with its tasks in the order of x."""
    if set(x.tasks) != set(y.tasks):
        odd = sorted(set(x.tasks) ^ set(y.tasks))
        raise InputError(
            f"{len(x.tasks)} tasks against {len(y.tasks)}; not in both: {', '.join(odd[:5])}",
            where="x and y",
            expected="runs of both on the same tasks",
            fix="leave out tasks that only one of them ran on",
        )
    parts = dict(zip(y.tasks, (y.values[part] for part in task_slices(y)), strict=True))
    chosen = [parts[task] for task in x.tasks]
    return Runs(x.tasks, np.concatenate(chosen), np.array([len(runs) for runs in chosen], dtype=np.int64))


def check_pairs(x: int, y: int) -> None:
    if x != y:
        raise InputError(
            f"{x} runs against {y}",
            where="x and y",
            expected="as many runs of both, in the same order",
            fix="compare them unpaired, or leave out runs without a partner",
        )


def task_slices(runs: Runs) -> list[slice]:
    return [slice(start, start + size) for start, size in zip(runs.starts, runs.sizes, strict=True)]


def empty(where: str, problem: str) -> InputError:
    return InputError(problem, where=where, expected="at least one run on at least one task", fix="finish a run first")

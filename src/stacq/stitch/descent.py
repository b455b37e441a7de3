"""Many gradient steps on random batches of a table, compiled once for tables of any length."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Float32s
from stacq.nn.learner import Learner

CHUNK = 5_000  # steps between two looks at the clock, and at Ctrl-C
Batch = dict[str, jax.Array]
Numbers = Mapping[str, float]
Step = Callable[[Learner[Any], Batch, jax.Array, Any], tuple[Learner[Any], jax.Array]]
"""(learner, batch, key, numbers) -> (learner, loss): one gradient step. `numbers` are rates and the like."""


class Job(NamedTuple):
    """What is learned from what, and for how long."""

    step: Step
    columns: Mapping[str, Float32s]  # each [N, ...]
    numbers: Numbers
    steps: int
    batch: int


def descended(learner: Learner[Any], job: Job, key: jax.Array) -> tuple[Learner[Any], float]:
    """The learner after all steps, and the mean loss of the last ones.

    A step draws rows with replacement, from the key and its own number.
    """
    columns, rows = padded(job.columns)
    loss = jnp.asarray(jnp.nan)
    for first in range(0, job.steps, CHUNK):
        turns = min(CHUNK, job.steps - first)
        learner, loss = _chunk(learner, columns, rows, key, first, dict(job.numbers), job.step, turns, job.batch)
    return learner, float(loss)


def padded(columns: Mapping[str, Float32s]) -> tuple[Batch, int]:
    """On the device, with zeros up to a power of two: a table that grows a little needs no new program."""
    rows = len(next(iter(columns.values())))
    room = 1 << (rows - 1).bit_length()
    filled = {name: np.zeros((room, *each.shape[1:]), np.float32) for name, each in columns.items()}
    for name, each in columns.items():
        filled[name][:rows] = each
    return {name: jnp.asarray(each) for name, each in filled.items()}, rows


@partial(jax.jit, static_argnames=("step", "turns", "size"), donate_argnums=0)
def _chunk(
    learner: Learner[Any],
    columns: Batch,
    rows: int,
    key: jax.Array,
    first: int,
    numbers: dict[str, float],
    step: Step,
    turns: int,
    size: int,
) -> tuple[Learner[Any], jax.Array]:
    def one(learner: Learner[Any], number: jax.Array) -> tuple[Learner[Any], jax.Array]:
        k_rows, k_step = jax.random.split(jax.random.fold_in(key, number))
        drawn = jax.random.randint(k_rows, (size,), 0, rows)
        return step(learner, {name: each[drawn] for name, each in columns.items()}, k_step, numbers)

    learner, losses = jax.lax.scan(one, learner, first + jnp.arange(turns))
    return learner, losses.mean()

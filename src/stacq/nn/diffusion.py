"""Noise on windows and its undoing, guided by the gradient of a value (Janner et al. 2022; Ho et al. 2020)."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Bools, Float32s

OFFSET = 0.008  # of the cosine schedule: the first step adds little noise
LARGEST_BETA = 0.999
LEAST_VARIANCE = 1e-20


class Schedule(NamedTuple):
    """What the steps of the noise are made of, each [T] in float32."""

    beta: Float32s  # the share of noise that a step adds
    kept: Float32s  # the share of the window that is left after a step: the running product of 1 - beta
    of_clean: Float32s  # in the mean of the step before, given the clean window ...
    of_noisy: Float32s  # ... and the noisy one
    variance: Float32s  # of the step before, given both


@cache
def cosine_schedule(steps: int) -> Schedule:
    """Nichol and Dhariwal (2021), with the published code's spacing of steps."""
    x = np.linspace(0, steps + 1, steps + 1) / (steps + 1)
    curve = np.cos((x + OFFSET) / (1 + OFFSET) * np.pi / 2) ** 2
    beta = np.clip(1 - curve[1:] / curve[:-1], 0, LARGEST_BETA)
    kept = np.cumprod(1 - beta)
    before = np.concatenate([[1.0], kept[:-1]])
    parts = (
        beta,
        kept,
        beta * np.sqrt(before) / (1 - kept),
        (1 - before) * np.sqrt(1 - beta) / (1 - kept),
        np.maximum(beta * (1 - before) / (1 - kept), LEAST_VARIANCE),
    )
    return Schedule(*(part.astype(np.float32) for part in parts))


def noised(schedule: Schedule, x: jax.Array, t: jax.Array, noise: jax.Array) -> jax.Array:
    """q(x_t | x_0): sqrt(kept) x + sqrt(1 - kept) noise, [..., H, D] with `t` [...]."""
    kept = jnp.asarray(schedule.kept)[t][..., None, None]
    return jnp.sqrt(kept) * x + jnp.sqrt(1 - kept) * noise


def fixed_places(horizon: int, actions: int, size: int, *, goal: bool) -> Bools:
    """Which numbers of a window are known and never noisy, [H, D]: the first state, and the last one of a goal."""
    fixed = np.zeros((horizon, size), dtype=np.bool_)
    fixed[0, actions:] = True
    fixed[-1, actions:] |= goal
    return fixed


def held(x: jax.Array, known: jax.Array, fixed: Bools) -> jax.Array:
    """In-painting: what is known in the place of what was drawn."""
    return jnp.where(fixed, known, x)


class Guide(NamedTuple):
    """How plans are pushed to higher values."""

    value: Callable[[jax.Array, jax.Array], jax.Array]  # (windows [B, H, D], t) -> [B]
    scale: jax.Array | float
    steps: int  # before each step of the noise is undone
    until: int  # below this step of the noise plans are not pushed


def guided(
    x: jax.Array, t: jax.Array, guide: Guide, schedule: Schedule, hold: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """x <- x + scale variance_t gradient of the value, several times."""
    gradient = jax.grad(lambda x: guide.value(x, t).sum())
    push = guide.scale * jnp.asarray(schedule.variance)[t]
    pushed: jax.Array = jax.lax.fori_loop(0, guide.steps, lambda _, x: hold(x + push * gradient(x)), x)
    return pushed


def undone(
    x: jax.Array,
    start: int,
    schedule: Schedule,
    denoise: Callable[[jax.Array, jax.Array], jax.Array],
    guide: Guide,
    hold: Callable[[jax.Array], jax.Array],
    noise: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Windows [B, H, D] without their noise, from step `start` - 1 down to 0, and their values, [B].

    The value is the one before the last step. In the last steps the gradient has no effect, and is not computed.
    """

    def one(turn: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        t, x, value = start - 1 - jnp.asarray(turn), *carry
        x = jax.lax.cond(t >= guide.until, lambda x: guided(x, t, guide, schedule, hold), lambda x: x, x)
        value = jax.lax.cond(t == 0, lambda: guide.value(x, t), lambda: value)
        return hold(step_before(schedule, x, denoise(x, t), t, noise(t))), value

    found: tuple[jax.Array, jax.Array] = jax.lax.fori_loop(0, start, one, (hold(x), jnp.zeros(x.shape[0])))
    return found


def step_before(schedule: Schedule, x: jax.Array, clean: jax.Array, t: jax.Array, noise: jax.Array) -> jax.Array:
    """A sample of q(x_{t-1} | x_t, x_0), and at t = 0 its mean."""
    of_clean, of_noisy, variance = (
        jnp.asarray(part)[t] for part in (schedule.of_clean, schedule.of_noisy, schedule.variance)
    )
    return of_clean * clean + of_noisy * x + jnp.where(t > 0, jnp.sqrt(variance), 0.0) * noise

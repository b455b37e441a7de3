"""Is there an action that leads there? Forward and inverse models must agree (section 4.1, appendix C)."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from stacq.dynamics.models import Models, forward_mean, inverse_mean

Norm = Literal["linf", "l1", "l2", "l2-unrooted"]


@jax.jit
def residuals(
    models: Models, s: jax.Array, s_next: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """f(s, I(s, s')) - s', [..., S], and the action I(s, s') clipped to [low, high], [..., A].

    Infinite bounds leave the inverse action as it is, as the authors do.
    """
    actions = jnp.clip(inverse_mean(models, s, s_next), low, high)
    return forward_mean(models, s, actions) - s_next, actions


def norm_of(scaled: jax.Array, norm: Norm) -> jax.Array:
    """Appendix F's norms over state dimensions, [...].

    "l2-unrooted" is the sum of squares that the authors' code calls an L2 norm: its 0.01 is an L2 norm of 0.1.
    """
    if norm == "linf":
        return jnp.abs(scaled).max(axis=-1)
    if norm == "l1":
        return jnp.abs(scaled).sum(axis=-1)
    squares = (scaled**2).sum(axis=-1)
    return jnp.sqrt(squares) if norm == "l2" else squares


@partial(jax.jit, static_argnames="norm")
def distance(
    models: Models, s: jax.Array, s_next: jax.Array, sizes: jax.Array, low: jax.Array, high: jax.Array, norm: Norm
) -> jax.Array:
    """Appendix C: the models' disagreement about (s, s') in units of the range of one step from s, [...]."""
    return norm_of(residuals(models, s, s_next, low, high)[0] / sizes, norm)

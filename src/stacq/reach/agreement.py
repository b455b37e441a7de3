"""Is there an action that leads there? Forward and inverse models must agree (section 4.1, appendix C)."""

from functools import partial

import jax
import jax.numpy as jnp

from stacq.dynamics.models import PRECISION, Models
from stacq.nn.mlp import MLP
from stacq.reach.config import Norm


@jax.jit
def residuals(
    models: Models, s: jax.Array, s_next: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """f(s, I(s, s')) - s', [..., S], and the action I(s, s') clipped to [low, high], [..., A].

    Infinite bounds leave the inverse action as it is, as the authors do.
    """
    with jax.default_matmul_precision(PRECISION):
        actions = jnp.clip(_mean(models.inverse, jnp.concatenate([s, s_next], axis=-1)), low, high)
        steps = _mean(models.forward, jnp.concatenate([s, actions], axis=-1))
    return s + models.step_mean + models.step_scale * steps - s_next, actions


def _mean(ensemble: MLP, inputs: jax.Array) -> jax.Array:
    """The members' mean. They take turns: a CPU then finds each layer's result still in its cache."""

    def add(total: jax.Array, member: MLP) -> tuple[jax.Array, None]:
        return total + member(inputs), None

    nothing = jnp.zeros((*inputs.shape[:-1], ensemble.biases[-1].shape[-1]), dtype=inputs.dtype)
    total: jax.Array = jax.lax.scan(add, nothing, ensemble)[0]
    return total / ensemble.members


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

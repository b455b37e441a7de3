"""The other start that published code uses: orthogonal weights, no biases."""

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp

from stacq.nn.mlp import MLP

GAIN = 2**0.5  # keeps the size of what passes a layer with ReLU


def orthogonal_mlp(key: jax.Array, sizes: Sequence[int]) -> MLP:
    """All layers alike, the last one too. One draw serves them all, as in `init_mlp`."""
    layers = list(pairwise(sizes))
    flat = jax.random.normal(key, (sum(i * o for i, o in layers),))
    weights, start = [], 0
    for inputs, outputs in layers:
        stop = start + inputs * outputs
        weights.append(GAIN * orthogonal(flat[start:stop].reshape(inputs, outputs)))
        start = stop
    return MLP(tuple(weights), tuple(jnp.zeros(outputs) for _, outputs in layers))


def orthogonal_ensemble(key: jax.Array, members: int, sizes: Sequence[int]) -> MLP:
    """Independent members, stacked along a leading axis."""
    return jax.vmap(lambda member: orthogonal_mlp(member, sizes))(jax.random.split(key, members))


def orthogonal(draws: jax.Array) -> jax.Array:
    """Orthonormal columns, or rows where these are fewer, from normal draws: uniform among all such matrices.

    The signs of R's diagonal make it uniform; without them the choice would be that of the QR algorithm.
    """
    tall = draws.shape[0] >= draws.shape[1]
    q, r = jnp.linalg.qr(draws if tall else draws.T)
    q = q * jnp.sign(jnp.diag(r))
    return q if tall else q.T

"""The one network shape of the library."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MLP:
    """Affine layers with ReLU between them, none after the last.

    Called on one example or on a batch. An ensemble holds the same arrays with a leading member axis, and
    is called through `jax.vmap`.
    """

    weights: tuple[jax.Array, ...]  # each [inputs, outputs]
    biases: tuple[jax.Array, ...]  # each [outputs]

    def __call__(self, x: jax.Array) -> jax.Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jax.nn.relu(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]

    @property
    def members(self) -> int:
        """Size of the leading axis; only an ensemble has one."""
        return int(self.biases[0].shape[0])


def init_mlp(key: jax.Array, sizes: Sequence[int]) -> MLP:
    """Weights and biases uniform in +-1/sqrt(inputs), the initialisation behind every published number."""
    weights, biases = [], []
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        k_weight, k_bias = jax.random.split(jax.random.fold_in(key, layer))
        bound = inputs**-0.5
        weights.append(jax.random.uniform(k_weight, (inputs, outputs), jnp.float32, -bound, bound))
        biases.append(jax.random.uniform(k_bias, (outputs,), jnp.float32, -bound, bound))
    return MLP(tuple(weights), tuple(biases))


def init_ensemble(key: jax.Array, members: int, sizes: Sequence[int]) -> MLP:
    """Independent members, stacked along a leading axis."""
    return jax.vmap(lambda member: init_mlp(member, sizes))(jax.random.split(key, members))

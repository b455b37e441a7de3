"""Dropout, for networks in training; acting never uses it."""

import jax
import jax.numpy as jnp

from stacq.nn.mlp import MLP


def with_dropout(network: MLP, x: jax.Array, key: jax.Array, share: float) -> jax.Array:
    """The network's output, where a random `share` of the hidden units is zero and the others are scaled up for it.

    So the mean of a hidden layer stays the same, and a network needs no change when it acts.
    """
    assert not network.layer_norm, "dropout between ReLU and standardisation is not published anywhere"
    *hidden, last = (MLP((w,), (b,)) for w, b in zip(network.weights, network.biases, strict=True))
    for layer, k_layer in zip(hidden, jax.random.split(key, len(hidden)), strict=True):
        x = jax.nn.relu(layer(x))
        x = jnp.where(jax.random.bernoulli(k_layer, 1 - share, x.shape), x / (1 - share), 0.0)
    return last(x)

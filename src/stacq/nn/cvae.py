"""A conditional variational autoencoder: outputs in (-1, 1) from a condition and a latent."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from stacq.nn.mlp import MLP, init_mlp

LOG_DEVIATION = (-4.0, 15.0)  # what the encoder's are cut to


class CVAE(NamedTuple):
    """Two networks that are trained together."""

    encoder: MLP  # [C + X] -> [2 Z], mean and logarithm of the deviation
    decoder: MLP  # [C + Z] -> [X], squashed by tanh


def init_cvae(key: jax.Array, condition: int, output: int, latent: int, hidden: Sequence[int]) -> CVAE:
    k_encoder, k_decoder = jax.random.split(key)
    encoder = init_mlp(k_encoder, (condition + output, *hidden, 2 * latent))
    return CVAE(encoder, init_mlp(k_decoder, (condition + latent, *hidden, output)))


def encode(encoder: MLP, condition: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and deviation of q(z | condition, x), [..., Z] each."""
    mean, log_deviation = jnp.split(encoder(jnp.concatenate([condition, x], axis=-1)), 2, axis=-1)
    return mean, jnp.exp(jnp.clip(log_deviation, *LOG_DEVIATION))


def decode(decoder: MLP, condition: jax.Array, z: jax.Array) -> jax.Array:
    """[..., X] in (-1, 1)."""
    return jnp.tanh(decoder(jnp.concatenate([condition, z], axis=-1)))


def reconstruction_and_divergence(
    cvae: CVAE, condition: jax.Array, x: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean squared error of a reparameterised sample, and KL(q || N(0, I)) averaged over batch and latent numbers."""
    mean, deviation = encode(cvae.encoder, condition, x)
    z = mean + deviation * jax.random.normal(key, mean.shape)
    error = jnp.mean((decode(cvae.decoder, condition, z) - x) ** 2)
    variance = deviation**2
    return error, -0.5 * jnp.mean(1 + jnp.log(variance) - mean**2 - variance)

"""The squashed Gaussian: tanh of a normal variable, whose mean and log deviation a network gives."""

import jax
import jax.numpy as jnp

from stacq.nn.mlp import MLP

LOG_STD_RANGE = (-20.0, 2.0)


def mean_and_log_std(actor: MLP, s: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Before the squashing, [..., A] each."""
    mean, log_std = jnp.split(actor(s), 2, axis=-1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def mean_action(actor: MLP, s: jax.Array) -> jax.Array:
    """tanh of the mean, [..., A]: how the policy acts without chance."""
    return jnp.tanh(mean_and_log_std(actor, s)[0])


def sampled_action(actor: MLP, s: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """a = tanh(u), u = mean + deviation noise, [..., A], and log pi(a | s), [...]; `noise` is standard normal."""
    mean, log_std = mean_and_log_std(actor, s)
    u = mean + jnp.exp(log_std) * noise
    return jnp.tanh(u), log_density(mean, log_std, u)


def log_density(mean: jax.Array, log_std: jax.Array, u: jax.Array) -> jax.Array:
    """log pi of a = tanh(u), [...]: the normal's, less log (1 - a^2) per dimension, in a safe form."""
    normal = -((u - mean) ** 2) * jnp.exp(-2 * log_std) / 2 - log_std - jnp.log(2 * jnp.pi) / 2
    return jnp.sum(normal - 2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u)), axis=-1)


def mean_network(actor: MLP) -> MLP:
    """The half of the policy's network that gives the mean."""
    half = actor.biases[-1].shape[-1] // 2
    weights, biases = (*actor.weights[:-1], actor.weights[-1][:, :half]), (*actor.biases[:-1], actor.biases[-1][:half])
    return MLP(weights, biases, actor.layer_norm)

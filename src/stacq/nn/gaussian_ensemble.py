"""An ensemble of networks that predict a Gaussian: a mean and a variance for every output."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from stacq.nn.mlp import input_precision

LOWEST, HIGHEST = -6.0, 1.0  # where the bounds of the log variances begin
BOUNDS_PULL = 1e-3  # weight of the distance between these bounds in the loss
DECAYS = (2.5e-5, 5e-5, 7.5e-5, 1e-4)  # of the first layer, the second, those between, and the last


class GaussianEnsemble(NamedTuple):
    """Affine layers with swish between them. The last one gives D means, then D log variances.

    The bounds of the log variances are learned too, and are the same for all members.
    """

    weights: tuple[jax.Array, ...]  # each [M, inputs, outputs]
    biases: tuple[jax.Array, ...]  # each [M, outputs]
    low: jax.Array  # [D]
    high: jax.Array  # [D]

    @property
    def members(self) -> int:
        return int(self.biases[0].shape[0])


class Gaussian(NamedTuple):
    mean: jax.Array  # [..., D]
    log_variance: jax.Array  # [..., D]


def init_gaussian_ensemble(
    key: jax.Array, members: int, inputs: int, hidden: Sequence[int], outputs: int
) -> GaussianEnsemble:
    """Weights from a normal of deviation 1 / (2 sqrt(inputs)) cut at two deviations, biases 0."""
    layers = list(pairwise((inputs, *hidden, 2 * outputs)))
    ends = [sum(i * o for i, o in layers[:count]) for count in range(len(layers) + 1)]
    flat = jax.random.truncated_normal(key, -2, 2, (members, ends[-1]))
    weights = [
        flat[:, first:last].reshape(members, i, o) / (2 * i**0.5)
        for (first, last), (i, o) in zip(pairwise(ends), layers, strict=True)
    ]
    biases = [jnp.zeros((members, o)) for _, o in layers]
    return GaussianEnsemble(
        tuple(weights), tuple(biases), jnp.full(outputs, LOWEST, jnp.float32), jnp.full(outputs, HIGHEST, jnp.float32)
    )


def predicted(ensemble: GaussianEnsemble, x: jax.Array) -> Gaussian:
    """Every member on inputs of its own, [M, B, inputs] -> [M, B, D] each."""
    raw = jax.vmap(_outputs)(ensemble.weights, ensemble.biases, x)
    mean, log_variance = jnp.split(raw, 2, axis=-1)
    return Gaussian(mean, bounded(log_variance, ensemble.low, ensemble.high))


def _outputs(weights: tuple[jax.Array, ...], biases: tuple[jax.Array, ...], x: jax.Array) -> jax.Array:
    """One member, [B, inputs] -> [B, 2 D]; inputs are multiplied to full accuracy, as in `MLP`."""
    x = jnp.matmul(x, weights[0], precision=input_precision()) + biases[0]
    for weight, bias in zip(weights[1:], biases[1:], strict=True):
        x = jax.nn.swish(x) @ weight + bias
    return x


def bounded(value: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Softly kept below `high`, then above `low`."""
    value = high - jax.nn.softplus(high - value)
    return low + jax.nn.softplus(value - low)


def likelihood_loss(ensemble: GaussianEnsemble, x: jax.Array, y: jax.Array) -> jax.Array:
    """Sum over members of mean (mu - y)^2 / var + mean log var, with weight decay and the bounds held together."""
    mean, log_variance = predicted(ensemble, x)
    fit = (mean - y) ** 2 * jnp.exp(-log_variance) + log_variance
    bounds = BOUNDS_PULL * (ensemble.high.sum() - ensemble.low.sum())
    return fit.mean(axis=(1, 2)).sum() + decay(ensemble) + bounds


def decay(ensemble: GaussianEnsemble) -> jax.Array:
    """Half the squared weights of every layer by the layer's own factor; biases are free."""
    first, second, between, last = DECAYS
    inner = len(ensemble.weights) - 1
    factors = [*(first, second, *(between,) * inner)[:inner], last]
    parts = [factor * (weight**2).sum() / 2 for factor, weight in zip(factors, ensemble.weights, strict=True)]
    return jnp.stack(parts).sum()


def squared_errors(ensemble: GaussianEnsemble, x: jax.Array, y: jax.Array) -> jax.Array:
    """Every member's mean squared error on shared rows, [M]."""
    mean = predicted(ensemble, jnp.broadcast_to(x, (ensemble.members, *x.shape))).mean
    return ((mean - y) ** 2).mean(axis=(1, 2))


def log_mixture(gaussian: Gaussian, y: jax.Array) -> jax.Array:
    """log of the members' mean density of y [B, D], [B]; in logarithms, since densities overflow."""
    mean, log_variance = gaussian
    exponent = (mean - y) ** 2 * jnp.exp(-log_variance) + log_variance + jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(-exponent.sum(axis=-1) / 2, axis=0) - jnp.log(mean.shape[0])


def chosen_members(ensemble: GaussianEnsemble, which: jax.Array | slice) -> GaussianEnsemble:
    """Some members, or all in another order."""
    weights, biases = jax.tree.map(lambda each: each[which], (ensemble.weights, ensemble.biases))
    return ensemble._replace(weights=weights, biases=biases)

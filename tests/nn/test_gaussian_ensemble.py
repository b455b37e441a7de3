"""The Gaussian ensemble against float64 loops over members, rows and numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stacq.core.types import Float64s
from stacq.nn.gaussian_ensemble import (
    Gaussian,
    GaussianEnsemble,
    chosen_members,
    init_gaussian_ensemble,
    likelihood_loss,
    log_mixture,
    predicted,
    squared_errors,
)

MEMBERS, ROWS, INPUTS, OUTPUTS = 3, 5, 4, 2
CLOSE: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}


def ensemble(hidden: tuple[int, ...] = (6, 5, 7)) -> GaussianEnsemble:
    """Networks of no particular origin, with bounds that bite."""
    rng = np.random.default_rng(0)
    found = init_gaussian_ensemble(jax.random.key(0), MEMBERS, INPUTS, hidden, OUTPUTS)
    draw = lambda each: jnp.asarray(rng.normal(0, 0.7, each.shape), jnp.float32)  # noqa: E731
    strange: GaussianEnsemble = jax.tree.map(draw, found)
    return strange._replace(low=jnp.asarray([-1.5, -1.0]), high=jnp.asarray([0.4, 0.7]))


def swish(x: Float64s) -> Float64s:
    return np.asarray(x / (1 + np.exp(-x)))


def soft(x: float) -> float:
    return float(np.log1p(np.exp(x)))


def by_hand(net: GaussianEnsemble, member: int, x: Any) -> tuple[list[float], list[float]]:
    """One member's means and log variances at one input."""
    values = np.asarray(x, np.float64)
    for layer in range(len(net.weights)):
        values = swish(values) if layer else values
        values = values @ np.asarray(net.weights[layer][member], np.float64) + np.asarray(net.biases[layer][member])
    means, raw = values[:OUTPUTS].tolist(), values[OUTPUTS:].tolist()
    logs = []
    for value, low, high in zip(raw, np.asarray(net.low).tolist(), np.asarray(net.high).tolist(), strict=True):
        below_top = high - soft(high - value)
        logs.append(low + soft(below_top - low))
    return means, logs


def rows() -> tuple[Float64s, Float64s]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(MEMBERS, ROWS, INPUTS)), rng.normal(size=(MEMBERS, ROWS, OUTPUTS))


@pytest.mark.parametrize(
    ("hidden", "factors"),
    [
        ((6,), (2.5e-5, 1e-4)),
        ((6, 5, 7), (2.5e-5, 5e-5, 7.5e-5, 1e-4)),
        ((6, 5, 7, 6), (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)),
    ],
)
def test_the_loss_is_the_likelihoods_with_decay_and_bounds(hidden: tuple[int, ...], factors: tuple[float, ...]) -> None:
    net, (x, y) = ensemble(hidden), rows()
    wanted = 0.001 * (float(net.high.sum()) - float(net.low.sum()))
    for member in range(MEMBERS):
        terms = []
        for row in range(ROWS):
            means, logs = by_hand(net, member, x[member, row])
            for mean, log, goal in zip(means, logs, y[member, row], strict=True):
                terms.append((mean - goal) ** 2 * np.exp(-log) + log)
        wanted += float(np.mean(terms))
        for factor, weight in zip(factors, net.weights, strict=True):
            wanted += factor * 0.5 * float((np.asarray(weight[member], np.float64) ** 2).sum())
    found = likelihood_loss(net, jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    np.testing.assert_allclose(found, wanted, **CLOSE)


def test_errors_are_of_the_means_alone() -> None:
    net, (x, y) = ensemble(), rows()
    wanted = [
        np.mean([(np.array(by_hand(net, member, x[0, row])[0]) - y[0, row]) ** 2 for row in range(ROWS)])
        for member in range(MEMBERS)
    ]
    found = squared_errors(net, jnp.asarray(x[0], jnp.float32), jnp.asarray(y[0], jnp.float32))
    np.testing.assert_allclose(found, wanted, **CLOSE)


def test_the_mixtures_density_is_the_mean_of_the_members() -> None:
    net, (x, y) = ensemble(), rows()
    told = predicted(net, jnp.broadcast_to(jnp.asarray(x[0], jnp.float32), x.shape))
    wanted = []
    for row in range(ROWS):
        densities = []
        for member in range(MEMBERS):
            density = 1.0
            for mean, log, value in zip(*by_hand(net, member, x[0, row]), y[0, row], strict=True):
                density *= np.exp(-((value - mean) ** 2) / (2 * np.exp(log))) / np.sqrt(2 * np.pi * np.exp(log))
            densities.append(density)
        wanted.append(np.log(np.mean(densities)))
    np.testing.assert_allclose(log_mixture(told, jnp.asarray(y[0], jnp.float32)), wanted, **CLOSE)


def test_a_density_beyond_float32_has_its_logarithm() -> None:
    """Densities of 40 sharp dimensions overflow."""
    sharp = Gaussian(jnp.zeros((2, 1, 40)), jnp.full((2, 1, 40), -12.0))
    wanted = 40 * (6 - np.log(2 * np.pi) / 2)
    np.testing.assert_allclose(log_mixture(sharp, jnp.zeros((1, 40))), [wanted], rtol=1e-5)


def test_weights_begin_as_published() -> None:
    net = init_gaussian_ensemble(jax.random.key(3), 4, 50, (80,), 30)
    for weight, inputs in zip(net.weights, (50, 80), strict=True):
        limit = 2 / (2 * inputs**0.5)
        assert np.abs(weight).max() <= limit
        assert np.asarray(weight).std() == pytest.approx(0.8796 * limit / 2, rel=0.03)  # of a normal cut at 2
    assert not any(np.asarray(bias).any() for bias in net.biases)
    assert (np.asarray(net.low) == -6).all() and (np.asarray(net.high) == 1).all()


def test_members_can_be_put_in_another_order() -> None:
    net, (x, _) = ensemble(), rows()
    turned = predicted(chosen_members(net, jnp.asarray([2, 0])), jnp.asarray(x[[2, 0]], jnp.float32))
    own = predicted(net, jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(turned.mean, own.mean[jnp.asarray([2, 0])], rtol=1e-6)

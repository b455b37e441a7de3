"""What the stitching's models learn, against loops over single numbers in float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from algo_cases import joined, net, random_net

from stacq.core.types import Float32s
from stacq.nn.cvae import CVAE
from stacq.nn.learner import Learner, new_learner
from stacq.stitch.descent import Job, descended, padded
from stacq.stitch.forward import forward_losses, log_densities, moments
from stacq.stitch.inverse import inverse_loss, reward_loss, reward_step
from stacq.stitch.value import least_values, value_loss, value_step, value_target

S, A, B = 3, 2, 5


def batch() -> dict[str, Float32s]:
    rng = np.random.default_rng(0)
    columns = {
        "s": rng.normal(size=(B, S)),
        "a": rng.uniform(-1, 1, (B, A)),
        "r": rng.normal(size=B),
        "s_next": rng.normal(size=(B, S)),
        "done": np.array([0, 1, 0, 0, 1]),
    }
    return {name: each.astype(np.float32) for name, each in columns.items()}


def device(columns: dict[str, Float32s]) -> dict[str, jax.Array]:
    return {name: jnp.asarray(each) for name, each in columns.items()}


def test_the_likelihood_of_a_next_state() -> None:
    rng, rows = np.random.default_rng(1), batch()
    network = random_net(rng, (S, 8, 2 * S))
    wide = network.__class__(
        network.weights, (network.biases[0], network.biases[1] + jnp.asarray([0, 0, 0, 9, 0, -30]))
    )
    for each in (network, wide):
        losses = np.asarray(forward_losses(each, jnp.asarray(rows["s"]), jnp.asarray(rows["s_next"])))
        mean, log_deviation = (np.asarray(part, np.float64) for part in moments(each, jnp.asarray(rows["s"])))
        found = log_densities(mean, log_deviation, rows["s_next"].astype(np.float64))
        for row in range(B):
            told, density = net(each, rows["s"][row]), 0.0
            for place in range(S):
                sigma = np.exp(min(max(told[S + place], -20.0), 2.0))
                z = (float(rows["s_next"][row, place]) - told[place]) / sigma
                density += -0.5 * z * z - np.log(sigma * np.sqrt(2 * np.pi))
            np.testing.assert_allclose(found[row], density, rtol=1e-4)
            np.testing.assert_allclose(losses[row], (-density - S * 0.5 * np.log(2 * np.pi)) / S, rtol=1e-4)


def test_the_value_of_a_state() -> None:
    rng, rows = np.random.default_rng(2), batch()
    network, slow = random_net(rng, (S, 8, 1), 2), random_net(rng, (S, 8, 1), 2)
    y, loss = [], 0.0
    for row in range(B):
        ahead = min(net(slow, rows["s_next"][row], member)[0] for member in range(2))
        y.append(float(rows["r"][row]) + 0.9 * (1 - float(rows["done"][row])) * ahead)
    for member in range(2):
        loss += sum((net(network, rows["s"][row], member)[0] - y[row]) ** 2 for row in range(B)) / B
    found = value_target(slow, device(rows), 0.9)
    np.testing.assert_allclose(found, y, rtol=1e-5)
    np.testing.assert_allclose(float(value_loss(network, device(rows), found)), loss, rtol=1e-5)
    least = [min(net(network, row, member)[0] for member in range(2)) for row in rows["s"]]
    np.testing.assert_allclose(least_values(network, rows["s"]), least, rtol=1e-5)


def test_a_step_of_the_value_moves_the_slow_copies_and_learns_from_them() -> None:
    rng = np.random.default_rng(3)
    network = random_net(rng, (S, 8, 1), 2)
    learner = new_learner(network, optax.adam(1e-3))
    numbers = {"learning_rate": 1e-3, "discount": 0.9, "tau": 0.25}
    step = jax.jit(value_step)
    moved, loss = step(learner, device(batch()), jax.random.key(0), numbers)
    assert moved.target is not None and learner.target is not None
    for slow, fast, old in zip(*map(jax.tree.leaves, (moved.target, moved.network, network)), strict=True):
        np.testing.assert_allclose(slow, old + 0.25 * (fast - old), rtol=1e-5, atol=1e-7)
    other = learner._replace(target=random_net(rng, (S, 8, 1), 2))
    assert float(step(other, device(batch()), jax.random.key(0), numbers)[1]) != float(loss)


def test_the_action_of_a_stitch() -> None:
    rng, rows, key = np.random.default_rng(4), batch(), jax.random.key(1)
    cvae = CVAE(random_net(rng, (2 * S + A, 8, 4 * A)), random_net(rng, (2 * S + 2 * A, 8, A)))
    noise = np.asarray(jax.random.normal(key, (B, 2 * A)), np.float64)
    errors, terms = [], []
    for row in range(B):
        both = joined(rows["s"][row], rows["s_next"][row])
        told = net(cvae.encoder, joined(both, rows["a"][row]))
        mean, log_deviation = told[: 2 * A], np.clip(told[2 * A :], -4.0, 15.0)
        terms += list(-0.5 * (1 + 2 * log_deviation - mean**2 - np.exp(2 * log_deviation)))
        again = np.tanh(net(cvae.decoder, joined(both, mean + np.exp(log_deviation) * noise[row])))
        errors += list((again - rows["a"][row]) ** 2)
    expected = 0.5 * (np.mean(errors) + np.mean(terms))
    np.testing.assert_allclose(float(inverse_loss(cvae, device(rows), key)), expected, rtol=1e-4)


def test_the_reward_of_a_stitch() -> None:
    rows = batch()
    network = random_net(np.random.default_rng(5), (2 * S + A, 8, 1))
    errors = [
        net(network, joined(rows["s"][row], rows["a"][row], rows["s_next"][row]))[0] - rows["r"][row]
        for row in range(B)
    ]
    np.testing.assert_allclose(float(reward_loss(network, device(rows))), np.mean(np.square(errors)), rtol=1e-5)


def test_padding_is_never_drawn_and_steps_are_counted() -> None:
    """A linear reward is learned from 33 rows; rows that fill up the table would pull it to zero."""
    rng = np.random.default_rng(6)
    columns = {"s": rng.normal(size=(33, 1)), "a": rng.normal(size=(33, 1)), "s_next": rng.normal(size=(33, 1))}
    columns |= {"r": columns["s"][:, 0] + 2 * columns["a"][:, 0] - columns["s_next"][:, 0] + 3}
    table = {name: each.astype(np.float32) for name, each in columns.items()}
    assert padded(table)[0]["s"].shape == (64, 1) and padded(table)[1] == 33
    network = random_net(rng, (3, 1))
    job = Job(reward_step, table, {"learning_rate": 0.05}, 800, 16)
    start: Learner[Any] = new_learner(network, optax.adam(0.05), target=False)
    learner, loss = descended(start, job, jax.random.key(0))
    np.testing.assert_allclose(np.asarray(learner.network.weights[0])[:, 0], [1, 2, -1], atol=1e-3)
    assert float(learner.network.biases[0][0]) == pytest.approx(3.0, abs=1e-3)
    moments_of_adam: Any = learner.moments
    assert int(moments_of_adam[0].count) == 800 and np.isfinite(loss)

"""The conditional autoencoder against float64 loops, and what it learns of two modes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from algo_cases import joined, net, random_net

from stacq.nn.cvae import CVAE, decode, init_cvae, reconstruction_and_divergence
from stacq.nn.learner import descend, new_learner


def test_both_terms_equal_loops_over_single_numbers() -> None:
    rng = np.random.default_rng(3)
    cvae = CVAE(random_net(rng, (5, 8, 6)), random_net(rng, (6, 8, 2)))  # C 3, X 2, Z 3
    condition, x = rng.normal(size=(4, 3)).astype(np.float32), rng.uniform(-0.9, 0.9, (4, 2)).astype(np.float32)
    key = jax.random.key(1)
    error, divergence = reconstruction_and_divergence(cvae, jnp.asarray(condition), jnp.asarray(x), key)
    noise = np.asarray(jax.random.normal(key, (4, 3)), np.float64)
    errors, terms = [], []
    for row in range(4):
        told = net(cvae.encoder, joined(condition[row], x[row]))
        z = np.zeros(3)
        for place in range(3):
            log_deviation = min(max(told[3 + place], -4.0), 15.0)
            z[place] = told[place] + np.exp(log_deviation) * noise[row, place]
            terms.append(-0.5 * (1 + 2 * log_deviation - told[place] ** 2 - np.exp(2 * log_deviation)))
        again = np.tanh(net(cvae.decoder, joined(condition[row], z)))
        errors += [(again[place] - float(x[row, place])) ** 2 for place in range(2)]
    np.testing.assert_allclose(float(error), np.mean(errors), rtol=1e-5)
    np.testing.assert_allclose(float(divergence), np.mean(terms), rtol=1e-4)


def test_deviations_are_cut_where_the_encoder_goes_too_far() -> None:
    rng = np.random.default_rng(4)
    cvae = CVAE(random_net(rng, (2, 2)), random_net(rng, (2, 1)))
    far = CVAE(cvae.encoder.__class__(cvae.encoder.weights, (jnp.asarray([0.0, -50.0]),)), cvae.decoder)
    nothing = jnp.zeros((1, 1))
    _, divergence = reconstruction_and_divergence(far, nothing, nothing, jax.random.key(0))
    np.testing.assert_allclose(float(divergence), -0.5 * (1 - 8 - np.exp(-8.0)), rtol=1e-4)


def test_two_modes_are_learned_as_two_modes() -> None:
    """Least squares would answer 0; samples of the decoder lie near -0.6 or near 0.6."""
    adam = optax.adam(3e-3)
    rng = np.random.default_rng(5)
    x = jnp.asarray(rng.choice([-0.6, 0.6], (512, 1)), jnp.float32)
    nothing = jnp.zeros((512, 1))

    @jax.jit
    def train(key: jax.Array) -> CVAE:
        def step(learner, k):  # type: ignore[no-untyped-def]
            def loss(cvae: CVAE) -> tuple[jax.Array, dict[str, jax.Array]]:
                error, divergence = reconstruction_and_divergence(cvae, nothing, x, k)
                return error + 0.02 * divergence, {}

            return descend(learner, loss, adam)[0], None

        start = new_learner(init_cvae(key, 1, 1, 2, (32, 32)), adam, target=False)
        network: CVAE = jax.lax.scan(step, start, jax.random.split(key, 1500))[0].network
        return network

    cvae = train(jax.random.key(0))
    z = jax.random.normal(jax.random.key(7), (1000, 2))
    samples = np.asarray(decode(cvae.decoder, jnp.zeros((1000, 1)), z))[:, 0]
    near = np.minimum(np.abs(samples - 0.6), np.abs(samples + 0.6)) < 0.15
    assert near.mean() > 0.8
    assert 0.3 < (samples > 0).mean() < 0.7

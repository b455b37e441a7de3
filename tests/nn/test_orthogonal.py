"""Orthogonal starts: what makes them orthogonal, how large they are, and what a key decides."""

import jax
import numpy as np

from stacq.nn.orthogonal import orthogonal, orthogonal_ensemble, orthogonal_mlp

SIZES = (5, 9, 9, 1)


def test_every_layer_keeps_lengths_times_the_root_of_two() -> None:
    """Rows are orthogonal where a layer widens, columns where it narrows, and both in a square."""
    network = jax.jit(lambda key: orthogonal_mlp(key, SIZES))(jax.random.key(0))
    assert [weight.shape for weight in network.weights] == [(5, 9), (9, 9), (9, 1)]
    wide, square, narrow = (np.asarray(weight, np.float64) for weight in network.weights)
    for product in (wide @ wide.T, square @ square.T, square.T @ square, narrow.T @ narrow):
        np.testing.assert_allclose(product, 2 * np.eye(len(product)), atol=1e-5)
    assert [bias.tolist() for bias in network.biases] == [[0.0] * 9, [0.0] * 9, [0.0]]
    assert {array.dtype for array in (*network.weights, *network.biases)} == {np.dtype(np.float32)}


def test_all_directions_are_alike() -> None:
    """QR alone would fix the signs of R, and with them that of a number on the diagonal."""
    found = np.asarray(jax.vmap(orthogonal)(jax.random.normal(jax.random.key(1), (400, 3, 3))))
    assert np.abs(found.mean(axis=0)).max() < 5 / np.sqrt(3 * 400)
    np.testing.assert_allclose(found.std(axis=0), 3**-0.5, atol=0.1)


def test_members_are_independent_and_decided_by_the_key() -> None:
    start = jax.jit(lambda key: orthogonal_ensemble(key, 2, SIZES))
    ours, again, other = (start(jax.random.key(seed)) for seed in (0, 0, 1))
    assert ours.members == 2
    for mine, same, different in zip(ours.weights, again.weights, other.weights, strict=True):
        assert np.array_equal(mine, same) and not np.allclose(mine, different)
        assert not np.allclose(mine[0], mine[1])

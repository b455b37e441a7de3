"""Dropout: which units it removes, how often, and that means stay."""

import jax
import jax.numpy as jnp
import numpy as np

from stacq.nn.dropout import with_dropout
from stacq.nn.mlp import MLP, init_mlp

WIDTH = 200


def counting() -> MLP:
    """One unit per input that is passed on as it is; the output is their mean."""
    return MLP((jnp.eye(WIDTH), jnp.full((WIDTH, 1), 1 / WIDTH)), (jnp.zeros(WIDTH), jnp.zeros(1)))


def test_the_share_is_removed_and_the_rest_scaled_up() -> None:
    for share in (0.1, 0.6):
        kept = np.asarray(with_dropout(counting(), WIDTH * jnp.eye(WIDTH), jax.random.key(0), share))[:, 0]
        assert np.allclose(kept[kept != 0], 1 / (1 - share))  # a unit each, whole or not at all
        assert abs((kept == 0).mean() - share) < 5 * np.sqrt(share * (1 - share) / WIDTH)


def test_each_example_and_layer_draws_by_itself_and_the_mean_stays() -> None:
    network = counting()
    deep = MLP((*network.weights[:1], *network.weights), (*network.biases[:1], *network.biases))
    found = np.asarray(with_dropout(deep, jnp.ones((500, WIDTH)), jax.random.key(1), 0.5))[:, 0]
    assert len(np.unique(found)) > 50 and abs(found.mean() - 1) < 0.05
    assert abs((found / 4).mean() - 0.25) < 0.02  # both layers halve, independently
    np.testing.assert_allclose(found.std(), np.sqrt(3 / WIDTH), rtol=0.2)  # of a unit that is 4 in a quarter of cases


def test_no_share_is_the_network_itself() -> None:
    network, x = init_mlp(jax.random.key(0), (3, 8, 8, 2)), jax.random.normal(jax.random.key(1), (7, 3))
    np.testing.assert_allclose(with_dropout(network, x, jax.random.key(2), 0.0), network(x), rtol=1e-6)

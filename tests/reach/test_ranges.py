"""Ranges: the least and greatest next state over the actions, however the work is cut into blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stacq.reach.ranges as module
from stacq.core.types import Float32s
from stacq.dynamics.models import Models, forward_mean
from stacq.nn.mlp import init_ensemble
from stacq.reach.ranges import range_actions, ranges, widened

STATE, ACTION = 5, 3
LOW, HIGH = np.full(ACTION, -1, np.float32), np.array([1, 2, 3], np.float32)


def random_models(hidden: tuple[int, ...] = (16, 24), members: int = 3) -> Models:
    """Step means and scales far from 0 and 1, so that forgetting one would show."""
    forward, inverse, mean, scale = jax.random.split(jax.random.key(0), 4)
    return Models(
        init_ensemble(forward, members, (STATE + ACTION, *hidden, STATE)),
        init_ensemble(inverse, members, (2 * STATE, *hidden, ACTION)),
        jax.random.normal(mean, (STATE,)),
        jax.random.uniform(scale, (STATE,), minval=0.1, maxval=3),
    )


def states(count: int) -> Float32s:
    return np.random.default_rng(1).standard_normal((count, STATE)).astype(np.float32)


@pytest.mark.parametrize("hidden", [(16,), (16, 24), (8, 8, 8)])
@pytest.mark.parametrize("pairs", [1, 40, 2048])
@pytest.mark.parametrize("count", [1, 7, 50])
def test_least_and_greatest_prediction(
    hidden: tuple[int, ...], pairs: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.PAIRS_AT_ONCE, "cpu", pairs)
    models, s = random_models(hidden), jnp.asarray(states(6))
    actions = jnp.asarray(range_actions(LOW, HIGH, count, "random", 0))
    low, high = ranges(models, s, actions)
    tried = jnp.broadcast_to(actions, (len(s), *actions.shape))
    reached = forward_mean(models, jnp.broadcast_to(s[:, None], (*tried.shape[:2], STATE)), tried)
    np.testing.assert_allclose(low, reached.min(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(high, reached.max(axis=1), rtol=1e-5, atol=1e-5)
    assert (np.asarray(high) > np.asarray(low)).all() == (count > 1)


def test_more_states_than_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    models, s = random_models(), jnp.asarray(states(30))
    actions = jnp.asarray(range_actions(LOW, HIGH, 11, "random", 0))
    expected = ranges(models, s, actions)
    monkeypatch.setitem(module.PAIRS_AT_ONCE, "cpu", 8)
    for found, whole in zip(ranges(models, s, actions), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)


def test_corners_come_before_uniform_actions() -> None:
    actions = range_actions(LOW, HIGH, 4, "corners", 0)
    assert actions.shape == (2**ACTION + 4, ACTION) and actions.dtype == np.float32
    assert len(np.unique(actions[: 2**ACTION], axis=0)) == 2**ACTION
    assert np.isin(actions[: 2**ACTION], np.concatenate([LOW, HIGH])).all()
    assert ((actions >= LOW) & (actions <= HIGH)).all()


@pytest.mark.parametrize(("size", "corners"), [(1, 2), (6, 64), (8, 256), (9, 256), (12, 256)])
def test_all_corners_up_to_eight_dimensions_and_a_seeded_choice_beyond(size: int, corners: int) -> None:
    high = np.arange(1, size + 1, dtype=np.float32)
    found = range_actions(-high, high, 3, "corners", 0)
    assert found.shape == (corners + 3, size) and (np.abs(found[:corners]) == high).all()
    assert np.array_equal(found, range_actions(-high, high, 3, "corners", 0))
    if size <= 8:
        assert len(np.unique(found[:corners], axis=0)) == corners
    else:
        assert (np.abs(np.sign(found[:corners]).mean(axis=0)) < 0.25).all()  # four standard errors: both sides as often
        assert not np.array_equal(found[:corners], range_actions(-high, high, 3, "corners", 1)[:corners])


def test_boxes_are_widened_to_known_successors_only() -> None:
    low, high = np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32)
    s_next = np.array([[2], [np.nan]], np.float32)
    wide_low, wide_high = widened(low, high, s_next, np.array([True, False]))
    assert wide_low.tolist() == [[0], [0]]
    assert wide_high[0] > 2 and wide_high[1] == 1

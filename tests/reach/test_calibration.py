"""The refined criterion: hand-worked steps and tolerances, and recall on pairs it has not seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stacq.core.errors import InputError
from stacq.dynamics.models import Models, forward_mean, forward_members, inverse_mean
from stacq.nn.mlp import MLP
from stacq.reach.calibration import Calibration, minimax_step, refined


def linear(matrix: list[list[float]]) -> MLP:
    """One member without hidden layers: x -> x @ matrix."""
    weight = jnp.asarray(matrix)[None]
    return MLP((weight,), (jnp.zeros((1, weight.shape[2])),))


def line_models(guess: float) -> Models:
    """s' = s + (a, 2 a) exactly; the inverse model always answers `guess`."""
    inverse = MLP((jnp.zeros((1, 4, 1)),), (jnp.full((1, 1), guess),))
    forward = linear([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    return Models(forward, inverse, jnp.zeros(2), jnp.ones(2))


def test_a_wrong_inverse_action_is_corrected_on_the_forward_model() -> None:
    s, s_next, sizes = jnp.zeros((1, 2)), jnp.array([[0.5, 1.0]]), jnp.array([[2.0, 4.0]])
    models, one = line_models(guess=-0.25), jnp.ones(1)
    residual, _, action = refined(models, s, s_next, sizes, -one, one)
    np.testing.assert_allclose(action, [[0.5]], atol=2e-3)  # the damping keeps a thousandth of the way
    np.testing.assert_allclose(residual, [[0.0, 0.0]], atol=4e-3)


def test_refined_actions_stay_within_bounds() -> None:
    s, s_next, sizes = jnp.zeros((1, 2)), jnp.array([[3.0, 6.0]]), jnp.ones((1, 2))
    models, one = line_models(guess=5.0), jnp.ones(1)
    residual, _, action = refined(models, s, s_next, sizes, -one, one)
    np.testing.assert_allclose(action, [[1.0]])
    np.testing.assert_allclose(residual, [[-2.0, -4.0]])


def test_refinement_never_raises_the_score() -> None:
    keys = jax.random.split(jax.random.key(0), 8)
    net = [jax.random.normal(key, shape) * 0.5 for key, shape in zip(keys, [(3, 6, 16), (3, 16, 4)], strict=False)]
    back = [jax.random.normal(key, shape) * 0.5 for key, shape in zip(keys[2:], [(2, 8, 16), (2, 16, 2)], strict=False)]
    forward = MLP(tuple(net), (jnp.zeros((3, 16)), jnp.zeros((3, 4))))
    models = Models(forward, MLP(tuple(back), (jnp.zeros((2, 16)), jnp.zeros((2, 2)))), jnp.zeros(4), jnp.ones(4))
    s, one = jax.random.normal(keys[4], (50, 4)), jnp.ones(2)
    s_next = forward_mean(models, s, jax.random.uniform(keys[5], (50, 2), minval=-1.0))  # reachable, so much is to gain
    sizes = jax.random.uniform(keys[6], (50, 4), minval=0.1, maxval=2.0)
    residual, spread, action = refined(models, s, s_next, sizes, -one, one)
    guess = jnp.clip(inverse_mean(models, s, s_next), -one, one)
    before = np.abs((forward_mean(models, s, guess) - s_next) / sizes).max(axis=1)
    after = np.abs(residual / sizes).max(axis=1)
    assert (after <= before + 1e-5).all() and np.median(after) < 0.5 * np.median(before)
    members = forward_members(models, s, action)
    np.testing.assert_allclose(members.mean(axis=0) - s_next, residual, atol=1e-5)
    np.testing.assert_allclose(members.std(axis=0), spread, atol=1e-5)


def test_the_step_minimises_the_maximum_and_not_the_sum_of_squares() -> None:
    # Errors 0, 0 and 3 that all move with the action: least squares goes 1 down, the minimax 1.5.
    slopes, error, a = jnp.ones((3, 1)), jnp.array([0.0, 0.0, 3.0]), jnp.zeros(1)
    moved = minimax_step(slopes, error, a, jnp.full(1, -9.0), jnp.full(1, 9.0))
    assert -1.75 < float(moved[0]) < -1.25


def test_scores_by_hand() -> None:
    # Tolerances: sqrt((0.1 * 3)^2 + (2 * 0.2)^2) = 0.5 and sqrt((0.1 * 10)^2 + 0) = 1.
    fitted = Calibration(trust=(2.0, 1.0), epsilon=0.1, threshold=1.0, recall=1.0, worst_dimension=0)
    spreads, sizes = np.array([[0.2, 0.0], [0.2, 0.0]]), np.array([[3.0, 10.0], [3.0, 10.0]])
    residuals = np.array([[0.25, -0.75], [-0.6, 0.5]])
    np.testing.assert_allclose(fitted.scores(residuals, spreads, sizes), [0.75, 1.2])
    assert fitted.accepts(residuals, spreads, sizes).tolist() == [True, False]


def test_trust_is_error_per_spread_and_the_threshold_an_order_statistic() -> None:
    # Without spread only ranges count: scores 1, 2, 3 and 8 at epsilon 0.1 and ranges of 2.
    residuals = np.array([[0.2, 0.0], [0.0, -0.4], [0.6, 0.1], [0.0, 1.6]])
    sizes, none = np.full((4, 2), 2.0), np.zeros((4, 2))
    fitted = Calibration.fit(residuals, none, sizes, recall=0.75)
    assert fitted.threshold == pytest.approx(3.0) and fitted.recall == 0.75
    assert fitted.accepts(residuals, none, sizes).tolist() == [True, True, True, False]
    spreads = np.full((4, 2), [0.1, 0.2])
    trust = Calibration.fit(residuals, spreads, sizes).trust
    np.testing.assert_allclose(trust, [np.sqrt((0.04 + 0.36) / 4) / 0.1, np.sqrt((0.16 + 0.01 + 2.56) / 4) / 0.2])


def test_good_models_keep_the_tolerance() -> None:
    residuals = np.array([[0.0, 0.01], [0.0, -0.02]])
    fitted = Calibration.fit(residuals, np.zeros((2, 2)), np.ones((2, 2)))
    assert (fitted.threshold, fitted.recall, fitted.worst_dimension) == (1.0, 1.0, 1)


def test_recall_holds_on_unseen_pairs() -> None:
    rng = np.random.default_rng(0)
    shape = (20_000, 5)
    sizes, spreads = rng.uniform(0.1, 2.0, shape), rng.lognormal(-4.0, 1.0, shape)
    residuals = rng.standard_t(3, shape) * spreads * [1.0, 30.0, 2.0, 3.0, 1.0]
    fitted = Calibration.fit(residuals[:10_000], spreads[:10_000], sizes[:10_000])
    assert fitted.threshold > 1.0
    assert abs(fitted.accepts(residuals[10_000:], spreads[10_000:], sizes[10_000:]).mean() - 0.95) < 0.01


@pytest.mark.parametrize("shapes", [((3, 2), (3, 1)), ((0, 2), (0, 2)), ((2,), (2,))])
def test_shapes_are_checked(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(InputError, match="have shapes"):
        Calibration.fit(np.ones(shapes[0]), np.ones(shapes[0]), np.ones(shapes[1]))


def test_recall_is_checked() -> None:
    with pytest.raises(InputError, match="recall is 0"):
        Calibration.fit(np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), recall=0.0)


def test_the_unit_of_actions_does_not_matter() -> None:
    """Damping is relative to the bounds: the same system with its second actuator in thousandths is moved alike."""
    slopes, error = jnp.array([[1.0, 0.1], [0.3, 0.2], [0.0, 0.4]]), jnp.array([0.2, -0.1, 0.15])
    one, units = jnp.ones(2), jnp.array([1.0, 1000.0])
    plain = minimax_step(slopes, error, jnp.zeros(2), -one, one)
    other = minimax_step(slopes / units, error, jnp.zeros(2), -units, units)
    np.testing.assert_allclose(other / units, plain, rtol=1e-4)
    assert np.abs(plain).min() > 0.05

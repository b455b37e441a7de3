"""Fitted Q evaluation against values that are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from judge_cases import DISCOUNT, LENGTH, QUICK, always, chain, exact_value
from stacq.judgement.evidence import actions_at, evidence_of
from stacq.judgement.fqe import episode_weights, evaluated, fqe_loss, of_data, prepared, td_target
from stacq.nn.mlp import each_member, init_ensemble


def test_the_target_by_hand() -> None:
    y = td_target(jnp.array([1.0, 2.0]), jnp.array([0.9, 0.0]), jnp.array([[10.0, 10.0], [20.0, 5.0]]))
    np.testing.assert_allclose(y, [[10.0, 2.0], [19.0, 2.0]])


def test_the_loss_by_hand() -> None:
    critic = init_ensemble(jax.random.key(0), 2, (3, 4, 1))
    x, y = jnp.ones((2, 3)), jnp.array([[1.0, 2.0], [0.0, 0.0]])
    q = np.asarray(each_member(critic, x)[..., 0])
    weights = np.array([[1.0, 3.0], [0.0, 2.0]])
    expected = (weights * (q - np.asarray(y)) ** 2).mean(axis=1).sum()
    assert fqe_loss(critic, x, y, jnp.asarray(weights))[0] == pytest.approx(expected, rel=1e-5)


def test_bootstrap_weights_are_of_episodes_positive_and_mean_one() -> None:
    weights = episode_weights(np.random.default_rng(0), 3, 500)
    assert weights.shape == (3, 500) and (weights > 0).all()
    np.testing.assert_allclose(weights.mean(axis=1), 1, rtol=1e-5)
    assert weights.std() == pytest.approx(1, abs=0.1)  # as counts of a classic bootstrap
    assert not np.allclose(weights[0], weights[1])


@pytest.mark.parametrize("right", [True, False])
def test_values_of_a_chain_are_the_exact_ones(right: bool) -> None:
    evidence, policy = evidence_of(chain()), always(0.9 if right else -0.9)
    critics = prepared(evidence, DISCOUNT, QUICK.fqe, 0)
    a_next, a_start = (
        evidence.scaled(actions_at(policy, evidence.raw(states), 0)) for states in (evidence.s_next, evidence.starts)
    )
    found = evaluated(critics, evidence, evidence.a, a_next, a_start)
    places = evidence.raw(evidence.starts).argmax(axis=1)
    wanted = float(np.mean([exact_value(right, place) for place in places]))
    np.testing.assert_allclose(found, wanted, atol=0.12)


def test_the_datas_own_table_stays_within_episodes() -> None:
    data = chain()
    evidence = evidence_of(data)
    table = of_data(evidence, DISCOUNT, states=True)
    assert table.x.shape[1] == 2 * LENGTH
    s_next, after = np.asarray(table.x)[:, LENGTH:], np.asarray(table.x_next)
    np.testing.assert_allclose(after[:, :LENGTH], s_next)  # the state that the second step begins at
    moved = np.abs(evidence.raw(after[:, LENGTH:]).argmax(axis=1) - evidence.raw(s_next).argmax(axis=1))
    assert moved.max() <= 1  # never a leap into another episode
    assert len(table.r) == len(data) - int(data.timeouts.sum())  # what came after a timeout is not known

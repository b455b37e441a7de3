import numpy as np
import pytest
from hypothesis import given, settings

from stacq.core.errors import InputError
from stacq.tabular.mdp import NOWHERE
from stacq.tabular.solve import scql, synchronous
from stacq.tabular.stochastic import StochasticMDP, expected_returns, likely_pairs, plan
from tabular_cases import Case, cases


def slippery(slip: float) -> StochasticMDP:
    """0 moves to the final state 1 for 1, or slips into the pit 2; 2 stays for -1 a step."""
    p = np.zeros((3, 1, 3))
    p[0, 0] = [0, 1 - slip, slip]
    p[2, 0, 2] = 1
    r = np.zeros((3, 1, 3))
    r[0, 0, 1], r[2, 0, 2] = 1.0, -1.0
    return StochasticMDP(p, r, np.array([False, True, False]), 0.5)


def test_own_estimate_beside_the_truth_by_hand() -> None:
    """It believes in 1. In truth 0.75 * 1 + 0.25 * 0.5 * V(2), with V(2) = -2 where the pit is known."""
    known = plan(slippery(0.25), np.array([True, True, True]), q0=-2.0)
    np.testing.assert_allclose(known.estimate, [1.0, 0.0, -2.0])
    np.testing.assert_allclose(known.expected_return, [0.5, 0.0, -2.0])
    assert known.action.tolist() == [0, NOWHERE, 0]


def test_falling_out_of_the_data_counts_the_initial_value() -> None:
    found = plan(slippery(0.25), np.array([True, True, False]), q0=-8.0)
    np.testing.assert_allclose(found.expected_return[0], 0.75 + 0.25 * 0.5 * -8.0)
    assert found.action[2] == NOWHERE


def test_equally_likely_successors_are_all_reachable() -> None:
    assert likely_pairs(slippery(0.5)).target.tolist() == [1, 2, 2]
    assert likely_pairs(slippery(0.4)).target.tolist() == [1, 2]


def test_inverse_takes_the_action_that_makes_the_successor_most_probable() -> None:
    p = np.zeros((2, 3, 2))
    p[0, 0], p[0, 1], p[0, 2] = [0.4, 0.6], [0.1, 0.9], [0.8, 0.2]
    mdp = StochasticMDP(p, np.zeros((2, 3, 2)), np.array([False, True]), 0.9)
    pairs = likely_pairs(mdp)
    assert list(zip(pairs.target.tolist(), pairs.action.tolist(), strict=True)) == [(0, 2), (1, 1)]


def test_expected_return_is_what_simulation_gives() -> None:
    mdp, random = slippery(0.25), np.random.default_rng(0)
    fell = random.random(20_000) < 0.25
    simulated = np.where(fell, 0.5 * -2.0, 1.0).mean()
    assert expected_returns(mdp, np.array([0, NOWHERE, 0]), -2.0)[0] == pytest.approx(simulated, abs=0.03)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases())
def test_certain_dynamics_give_scql_and_an_honest_estimate(case: Case) -> None:
    mdp, n = case.mdp, case.mdp.n_states
    p = np.zeros((n, mdp.next_state.shape[1], n))
    r = np.zeros_like(p)
    s, a = np.nonzero(mdp.available)
    p[s, a, mdp.next_state[s, a]] = 1
    r[s, a, mdp.next_state[s, a]] = mdp.reward[s, a]
    found = plan(StochasticMDP(p, r, mdp.final, mdp.discount), case.seen, q0=case.q0)
    v = synchronous(scql(mdp, case.data), q0=case.q0, tolerance=1e-12).v
    np.testing.assert_allclose(found.estimate[case.seen], v[case.seen], atol=1e-9)
    np.testing.assert_allclose(found.expected_return[case.seen], v[case.seen], atol=1e-7)


def test_malformed_dynamics_are_refused() -> None:
    good = slippery(0.25)
    with pytest.raises(InputError, match="action 0 in state 0 are not a distribution"):
        StochasticMDP(good.transition * 2, good.reward, good.final, 0.5)
    with pytest.raises(InputError, match="fit together"):
        StochasticMDP(good.transition, good.reward[:, 0], good.final, 0.5)
    with pytest.raises(InputError, match="discount"):
        StochasticMDP(good.transition, good.reward, good.final, 1.0)

import numpy as np
import pytest
from hypothesis import given, settings

from stacq.core.errors import InputError
from stacq.tabular.mdp import MDP, NOWHERE, IntArray, action_pairs, logged
from stacq.tabular.policy import actions, arrives, clone, exact_inverse, greedy, next_states, returns
from stacq.tabular.solve import bcql, qsa, qss, scql, synchronous
from tabular_cases import Case, cases

# A ring 0 -> 1 -> 2 -> 0 (action 0) with an exit 1 -> 3 (action 1); 3 is final.
RING = MDP(
    np.array([[1, NOWHERE], [2, 3], [0, NOWHERE], [NOWHERE, NOWHERE]]),
    np.array([[-1.0, 0.0], [-1.0, 4.0], [-1.0, 0.0], [0.0, 0.0]]),
    np.array([False, False, False, True]),
    0.5,
)


def test_greedy_policy_and_its_actions() -> None:
    table = qss(RING)
    choice = greedy(table, synchronous(table, q0=-2.0).q)
    assert next_states(table.pairs, choice).tolist() == [1, 3, 0, NOWHERE]
    assert actions(table.pairs, choice, exact_inverse(RING)).tolist() == [0, 1, 0, NOWHERE]


def test_any_inverse_model_will_do() -> None:
    def guess(s: IntArray, s_next: IntArray) -> IntArray:
        return 10 * s + s_next

    table = qss(RING)
    choice = greedy(table, synchronous(table, q0=-2.0).q)
    assert actions(table.pairs, choice, guess).tolist() == [1, 13, 20, NOWHERE]


def test_exact_inverse_refuses_pairs_that_no_action_joins() -> None:
    with pytest.raises(InputError, match="from state 0 to state 2"):
        exact_inverse(RING)(np.array([1, 0]), np.array([3, 2]))


def test_first_of_equal_entries_is_taken() -> None:
    table = qsa(RING)
    assert greedy(table, np.zeros(4)).tolist() == [0, 1, 3, NOWHERE]


def test_policy_says_nothing_where_no_entry_is_allowed() -> None:
    table = bcql(RING, logged(RING, [0], [0]))
    choice = greedy(table, synchronous(table, q0=-2.0).q)
    assert choice.tolist() == [0, NOWHERE, NOWHERE, NOWHERE]


def test_returns_by_hand() -> None:
    """1 exits: 4. 0: -1 + 2 = 1. 2: -1 + 0.5 = -0.5."""
    table = qss(RING)
    choice = greedy(table, synchronous(table, q0=-2.0).q)
    np.testing.assert_allclose(returns(table, choice, -2.0), [1.0, 4.0, -0.5, 0.0])
    assert arrives(table, choice).tolist() == [True, True, True, True]


def test_a_loop_is_worth_its_infinite_sum_and_does_not_arrive() -> None:
    table = scql(RING, logged(RING, [0, 1, 2], [0, 0, 0]))
    choice = greedy(table, synchronous(table, q0=-9.0).q)
    np.testing.assert_allclose(returns(table, choice, -9.0)[:3], [-2.0, -2.0, -2.0])
    assert not arrives(table, choice)[:3].any()


def test_stuck_counts_as_the_given_value() -> None:
    """0 goes to 1 and stands still there: -1 + 0.5 * -2."""
    table = bcql(RING, logged(RING, [0], [0]))
    np.testing.assert_allclose(returns(table, np.array([0, -1, -1, -1]), -2.0)[:2], [-2.0, -2.0])


def test_cloning_takes_the_most_frequent_action_and_the_first_of_equals() -> None:
    pairs = action_pairs(RING)

    def action_in_1(actions: list[int]) -> int:
        return int(pairs.action[clone(pairs, logged(RING, [1] * len(actions), actions))[1]])

    assert action_in_1([0, 1, 1]) == 1
    assert action_in_1([1, 0, 0]) == 0
    assert action_in_1([1, 0]) == 1
    assert action_in_1([0, 1]) == 0


def test_cloning_says_nothing_in_states_without_action() -> None:
    pairs = action_pairs(RING)
    assert clone(pairs, logged(RING, [0], [0])).tolist() == [0, NOWHERE, NOWHERE, NOWHERE]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases())
def test_returns_equal_a_step_by_step_walk(case: Case) -> None:
    table = scql(case.mdp, case.data)
    choice = greedy(table, synchronous(table, q0=case.q0).q)
    expected, arrived = [], []
    for s in range(case.mdp.n_states):
        total, factor, here = 0.0, 1.0, s
        for _ in range(1500):
            if table.final[here] or choice[here] == NOWHERE:
                break
            total += factor * table.pairs.reward[choice[here]]
            factor *= case.mdp.discount
            here = int(table.pairs.target[choice[here]])
        stuck = not table.final[here] and choice[here] == NOWHERE
        expected.append(total + factor * case.q0 * stuck)
        arrived.append(bool(table.final[here]))
    np.testing.assert_allclose(returns(table, choice, case.q0), expected, rtol=0, atol=1e-9)
    assert arrives(table, choice).tolist() == arrived

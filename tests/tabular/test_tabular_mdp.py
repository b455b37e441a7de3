import numpy as np
import pytest
import scipy.sparse

from stacq.core.errors import InputError
from stacq.tabular.mdp import (
    MDP,
    NOWHERE,
    Dataset,
    Reachability,
    action_pairs,
    check_data,
    logged,
    lowest_return,
    reachable,
    reachable_by_matrix,
    reachable_by_rule,
    state_pairs,
)

# 0 -a-> 1, 0 -b-> 1 (the same pair), 0 -c-> 2; 1 -a-> 0; 2 is final.
TRIANGLE = MDP(
    np.array([[1, 1, 2], [0, NOWHERE, NOWHERE], [0, 0, 0]]),
    np.array([[-1.0, -1.0, 5.0], [-2.0, 0.0, 0.0], [9.0, 9.0, 9.0]]),
    np.array([False, False, True]),
    0.5,
)


def test_action_pairs_are_all_actions_that_lead_somewhere() -> None:
    pairs = action_pairs(TRIANGLE)
    assert pairs.source.tolist() == [0, 0, 0, 1]
    assert pairs.action.tolist() == [0, 1, 2, 0]
    assert pairs.target.tolist() == [1, 1, 2, 0]
    assert pairs.reward.tolist() == [-1, -1, 5, -2]


def test_state_pairs_merge_redundant_actions() -> None:
    pairs = state_pairs(TRIANGLE)
    assert list(zip(pairs.source, pairs.target, pairs.action, strict=True)) == [
        (0, 1, 0),
        (0, 2, 2),
        (1, 0, 0),
    ]


def test_reachability_from_dynamics_matrix_rule_and_scipy_agree() -> None:
    matrix = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=np.bool_)
    sparse = scipy.sparse.csr_matrix(matrix)
    for reach in (
        reachable(TRIANGLE),
        reachable_by_matrix(matrix),
        reachable_by_rule(lambda s: np.flatnonzero(matrix[s]).tolist(), 3),
        Reachability(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64)),
    ):
        assert reach.indptr.tolist() == [0, 2, 3, 3]
        assert reach.indices.tolist() == [1, 2, 0]
        assert reach.includes(np.array([0, 0, 1, 2]), np.array([0, 2, 0, 1])).tolist() == [
            False,
            True,
            True,
            False,
        ]


def test_states_of_the_data_include_the_last_one_of_a_trajectory() -> None:
    data = logged(TRIANGLE, [0], [2])
    assert data.states(3).tolist() == [True, False, True]


def test_lowest_return_bounds_every_policy() -> None:
    assert lowest_return(TRIANGLE) == -4.0
    pleasant = MDP(np.array([[0]]), np.array([[3.0]]), np.array([False]), 0.5)
    assert lowest_return(pleasant) <= 6.0


def changed(**arguments: object) -> MDP:
    values: dict[str, object] = {
        "next_state": TRIANGLE.next_state,
        "reward": TRIANGLE.reward,
        "final": TRIANGLE.final,
        "discount": TRIANGLE.discount,
    }
    return MDP(**(values | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"discount": 1.0}, "discount 1.0"),
        ({"discount": float("nan")}, "discount nan"),
        ({"final": np.zeros(2, dtype=np.bool_)}, "do not fit together"),
        ({"next_state": np.full((3, 3), 3)}, "action 0 in state 0 leads to 3"),
        ({"next_state": np.full((3, 3), -2)}, "leads to -2"),
        ({"reward": np.full((3, 3), np.inf)}, "not finite"),
        ({"reward": np.arange(9.0).reshape(3, 3)}, "from state 0 to state 1 with different rewards"),
    ],
)
def test_malformed_mdp_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(**arguments)


def test_data_that_contradicts_the_mdp_is_refused() -> None:
    wrong = Dataset(np.array([0, 1]), np.array([2, 0]), np.array([2, 2]), np.array([5.0, -2.0]))
    with pytest.raises(InputError, match=r"transition 1: action 0 in state 1 does not lead to state 2"):
        check_data(TRIANGLE, wrong)
    with pytest.raises(InputError, match="transition 0"):
        logged(TRIANGLE, [1], [1])
    with pytest.raises(InputError, match="transition 1: action 3 in state 0"):
        logged(TRIANGLE, [0, 0], [0, 3])
    with pytest.raises(InputError, match="transition 0: action 0 in state -1"):
        check_data(TRIANGLE, Dataset(np.array([-1]), np.array([0]), np.array([0]), np.array([0.0])))


def test_impossible_reachability_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        reachable_by_matrix(np.ones((2, 3)))
    with pytest.raises(InputError, match="state 7 is reachable from state 0"):
        reachable_by_rule(lambda s: [7], 2)

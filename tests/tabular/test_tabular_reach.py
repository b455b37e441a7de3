import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stacq.core.errors import InputError
from stacq.tabular.mdp import MDP, NOWHERE, logged, reachable
from stacq.tabular.policy import arrives, greedy, returns
from stacq.tabular.reach import best_paths, follow, k_step, path_values, scql_k
from stacq.tabular.solve import scql, synchronous
from tabular_cases import Case, cases

# 0 -> 1 -> 2 -> 4 costs 1 a step, 0 -> 3 -> 2 costs 1 and 3; 4 is final and worth 8 to enter.
GAP = MDP(
    np.array([[1, 3], [2, NOWHERE], [4, NOWHERE], [2, NOWHERE], [NOWHERE, NOWHERE]]),
    np.array([[-1.0, -1.0], [-1.0, 0.0], [8.0, 0.0], [-3.0, 0.0], [0.0, 0.0]]),
    np.array([False, False, False, False, True]),
    0.5,
)
# 0 -> 1 and 2 -> 4 are logged: 1 has no way on inside the data except to 2.
DATA = logged(GAP, [0, 2], [1, 0])  # 0 -> 3, 2 -> 4


def test_k_step_sets_by_hand() -> None:
    at_most = k_step(reachable(GAP), 2)
    assert [at_most.indices[a:b].tolist() for a, b in zip(at_most.indptr, at_most.indptr[1:], strict=False)] == [
        [1, 2, 3],
        [2, 4],
        [4],
        [2, 4],
        [],
    ]
    exactly = k_step(reachable(GAP), 2, exactly=True)
    assert [exactly.indices[a:b].tolist() for a, b in zip(exactly.indptr, exactly.indptr[1:], strict=False)] == [
        [2],
        [4],
        [],
        [4],
        [],
    ]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases(), st.integers(1, 5))
def test_k_step_sets_are_boolean_matrix_powers(case: Case, k: int) -> None:
    reach = reachable(case.mdp)
    one = np.zeros((case.mdp.n_states, case.mdp.n_states), dtype=np.bool_)
    one[reach.source, reach.indices] = True
    power, union = one, one
    for _ in range(k - 1):
        power = (power.astype(int) @ one.astype(int)) > 0
        union = union | power
    for exactly, expected in ((True, power), (False, union)):
        found = k_step(reach, k, exactly=exactly)
        assert list(zip(found.source, found.indices, strict=True)) == list(zip(*np.nonzero(expected), strict=True))


def test_best_path_may_leave_the_data_and_takes_the_better_way() -> None:
    """From 0 to 2 in two steps: by 1, outside the data, for -1.5; by 3 it would cost -2.5."""
    paths = best_paths(GAP, DATA, 2)
    entry = int(np.flatnonzero((paths.pairs.source == 0) & (paths.pairs.target == 2))[0])
    assert paths.pairs.reward[entry] == -1.5
    assert paths.pairs.discount[entry] == 0.25
    assert paths.pairs.action[entry] == 0
    assert paths.states[entry].tolist() == [1, 2]


def test_values_of_paths_and_the_policy_that_follows_them_by_hand() -> None:
    """V(2) = 8; V(0) = -1.5 + 0.25 * 8 = 0.5; V(3) = -3 + 4 = 1 by one step and by two."""
    paths = best_paths(GAP, DATA, 2)
    found = synchronous(paths.table, q0=-6.0)
    np.testing.assert_allclose(found.v, [0.5, -6.0, 8.0, 1.0, 0.0])
    np.testing.assert_allclose(path_values(paths, found.v), found.q)
    choice = greedy(paths.table, found.q)
    assert follow(paths, choice, 0, 9) == [0, 1, 2, 4]
    assert arrives(paths.table, choice)[[0, 2, 3, 4]].all()
    np.testing.assert_allclose(returns(paths.table, choice, -6.0)[[0, 2, 3]], [0.5, 8.0, 1.0])


def test_longer_path_of_the_same_ends_is_kept_beside_the_shorter_one() -> None:
    """The end is worth less than nothing and the way costs nothing: the longer path discounts it more."""
    mdp = MDP(
        np.array([[1, 2], [1, NOWHERE], [1, NOWHERE]]),
        np.array([[0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]),
        np.zeros(3, dtype=np.bool_),
        0.5,
    )
    paths = best_paths(mdp, logged(mdp, [0], [0]), 2)
    assert synchronous(paths.table, q0=-2.0).v[0] == pytest.approx(-0.5)


def test_exactly_k_steps_ends_early_only_at_a_final_state() -> None:
    paths = best_paths(GAP, DATA, 2, exactly=True)
    listed = zip(paths.pairs.source, paths.pairs.target, paths.steps, strict=True)
    assert [tuple(map(int, entry)) for entry in listed] == [(0, 2, 2), (2, 4, 1), (3, 4, 2)]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases())
def test_one_step_is_scql(case: Case) -> None:
    one, plain = scql_k(case.mdp, case.data, 1), scql(case.mdp, case.data)
    np.testing.assert_array_equal(synchronous(one, q0=case.q0).v, synchronous(plain, q0=case.q0).v)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cases(), st.integers(2, 4))
def test_followed_states_are_real_steps_between_data_states(case: Case, k: int) -> None:
    paths = best_paths(case.mdp, case.data, k)
    one = reachable(case.mdp)
    for entry, source in enumerate(paths.pairs.source):
        way = np.append(source, paths.states[entry, : paths.steps[entry]])
        assert one.includes(way[:-1], way[1:]).all()
        assert case.seen[way[[0, -1]]].all()
        assert way[-1] == paths.pairs.target[entry]


def test_fewer_than_one_step_is_refused() -> None:
    with pytest.raises(InputError, match="0 steps"):
        best_paths(GAP, DATA, 0)

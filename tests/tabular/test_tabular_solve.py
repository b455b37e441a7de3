import numpy as np
import pytest

from stacq.core.errors import InputError
from stacq.tabular.mdp import MDP, NOWHERE, logged, reachable, reachable_by_matrix
from stacq.tabular.solve import bcql, qsa, qss, sampled, scql, state_constrained, sweep, synchronous

# A corridor 0 - 1 - 2 - 3 with a final state 3: left, right; -1 a move, 8 for the last one.
CORRIDOR = MDP(
    np.array([[NOWHERE, 1], [0, 2], [1, 3], [NOWHERE, NOWHERE]]),
    np.array([[0.0, -1.0], [-1.0, -1.0], [-1.0, 8.0], [0.0, 0.0]]),
    np.array([False, False, False, True]),
    0.5,
)


def test_optimal_values_by_hand() -> None:
    """V(2) = 8, V(1) = -1 + 4 = 3, V(0) = -1 + 1.5 = 0.5."""
    for table in (qsa(CORRIDOR), qss(CORRIDOR)):
        np.testing.assert_allclose(synchronous(table, q0=0.0, tolerance=1e-12).v, [0.5, 3.0, 8.0, 0.0])


def test_batch_constrained_values_by_hand() -> None:
    """Logged 1 to 0 and 2 to 3: state 0 keeps q0 = -2, so V(1) = -1 - 1 = -2."""
    data = logged(CORRIDOR, [1, 2], [0, 1])
    found = synchronous(bcql(CORRIDOR, data), q0=-2.0)
    np.testing.assert_allclose(found.v, [-2.0, -2.0, 8.0, 0.0])


def test_state_constrained_values_by_hand() -> None:
    """The same data knows all four states, so SCQL finds the optimum."""
    data = logged(CORRIDOR, [1, 2], [0, 1])
    np.testing.assert_allclose(synchronous(scql(CORRIDOR, data), q0=-2.0).v, [0.5, 3.0, 8.0, 0.0])


def test_entries_outside_the_mask_keep_the_initial_value() -> None:
    data = logged(CORRIDOR, [0], [1])
    table = scql(CORRIDOR, data)
    found = synchronous(table, q0=-2.0)
    assert found.q[~table.allowed].tolist() == [-2.0] * 3
    assert found.v[2] == -2.0


def test_state_constrained_mdp_by_hand() -> None:
    """Data 0 to 1: state 2 and the unseen final state go to s_terminal (4) with q0, states 0 and 1 stay."""
    constrained = state_constrained(CORRIDOR, logged(CORRIDOR, [0], [1]), -2.0)
    assert constrained.next_state.tolist() == [[-1, 1], [0, -1], [4, 4], [4, 4], [-1, -1]]
    assert constrained.reward[2:4].tolist() == [[-2.0, -2.0], [-2.0, -2.0]]
    assert constrained.final.tolist() == [False, False, False, False, True]


def test_data_state_without_allowed_successor_keeps_the_initial_value() -> None:
    one_way = MDP(np.array([[1], [2], [0]]), np.full((3, 1), -1.0), np.zeros(3, dtype=np.bool_), 0.5)
    found = synchronous(scql(one_way, logged(one_way, [0], [0])), q0=-7.0)
    np.testing.assert_allclose(found.v, [-1 - 3.5, -7.0, -7.0])


def test_one_sweep_with_a_learning_rate_by_hand() -> None:
    """Q(2, 3) = 0.75 * 0 + 0.25 * 8 = 2; all others 0.25 * -1."""
    table = qss(CORRIDOR)
    q = sweep(table, np.zeros(5), q0=0.0, learning_rate=0.25)
    assert q.tolist() == [-0.25, -0.25, -0.25, -0.25, 2.0]


def test_a_sweep_reads_only_the_values_before_it() -> None:
    found = synchronous(qss(CORRIDOR), q0=0.0, tolerance=0.0, sweeps=1)
    assert found.v.tolist() == [-1.0, -1.0, 8.0, 0.0]
    assert (found.sweeps, found.change) == (1, 8.0)


def test_convergence_is_reported_in_sweeps() -> None:
    """Three sweeps carry the goal's value to state 0, a fourth to the entry (1, 0), a fifth sees nothing move."""
    found = synchronous(qss(CORRIDOR), q0=-2.0)
    assert found.change < 1e-6
    assert found.sweeps == 5


def test_whole_numbers_as_initial_value_are_not_truncated() -> None:
    assert synchronous(qss(CORRIDOR), q0=0).v[0] == pytest.approx(0.5)


def test_sampled_updates_are_repeatable_and_converge() -> None:
    table = qss(CORRIDOR)
    one, two = (
        sampled(table, q0=0.0, learning_rate=0.25, updates=5000, random=np.random.default_rng(3)) for _ in range(2)
    )
    assert one.q.tolist() == two.q.tolist()
    np.testing.assert_allclose(one.v, [0.5, 3.0, 8.0, 0.0])


def test_no_allowed_entry_is_not_an_error() -> None:
    nowhere = reachable_by_matrix(np.zeros((4, 4)))
    table = scql(CORRIDOR, logged(CORRIDOR, [0], [1]), nowhere)
    assert synchronous(table, q0=-2.0).v.tolist() == [-2.0] * 4
    assert sampled(table, q0=-2.0, learning_rate=1.0, updates=9, random=np.random.default_rng(0)).v[0] == -2.0


def test_given_reachability_narrows_the_mask() -> None:
    data = logged(CORRIDOR, [0, 1, 2], [1, 1, 1])
    assert scql(CORRIDOR, data, reachable(CORRIDOR)).allowed.all()
    forward = reachable_by_matrix(np.eye(4, k=1))
    assert scql(CORRIDOR, data, forward).pairs.target[scql(CORRIDOR, data, forward).allowed].tolist() == [
        1,
        2,
        3,
    ]


def test_reachability_may_name_states_outside_the_data_only() -> None:
    far = np.zeros((4, 4), dtype=np.bool_)
    far[0, [1, 3]] = True
    assert scql(CORRIDOR, logged(CORRIDOR, [0], [1]), reachable_by_matrix(far)).allowed.sum() == 1
    with pytest.raises(InputError, match="state 3 is called reachable from state 0, but no action"):
        scql(CORRIDOR, logged(CORRIDOR, [0, 2], [1, 1]), reachable_by_matrix(far))
    with pytest.raises(InputError, match="5 states for an MDP of 4"):
        scql(CORRIDOR, logged(CORRIDOR, [0], [1]), reachable_by_matrix(np.eye(5)))


@pytest.mark.parametrize("rate", [0.0, 1.5, float("nan")])
def test_learning_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="learning rate"):
        synchronous(qss(CORRIDOR), q0=0.0, learning_rate=rate)


def test_infinite_initial_value_is_refused() -> None:
    with pytest.raises(InputError, match="initial value"):
        synchronous(qss(CORRIDOR), q0=-np.inf)

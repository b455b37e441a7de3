"""Values of the graph: against plain loops, against the tabular solver, and that the update contracts."""

import numpy as np
import pytest

from graph_cases import jittered_grid, random_problem, values_by_loops
from stacq.core.errors import InputError
from stacq.graph import kernels
from stacq.graph.config import GraphConfig
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.made import problem_of
from stacq.graph.neighbours import NONE
from stacq.graph.price import Prices
from stacq.graph.solve import Problem, solve, weights, worth
from stacq.graph.usual import Usual
from stacq.tabular import mdp as tabular
from stacq.tabular.solve import scql, synchronous


@pytest.mark.parametrize("temperature", [0.0, 0.3, 5.0])
def test_values_are_those_of_plain_loops(temperature: float) -> None:
    problem = random_problem(1, temperature)
    found = solve(problem, np.zeros(len(problem.rows)), 1e-12)
    assert np.allclose(found.value, values_by_loops(problem), atol=1e-9)
    assert found.residual <= 1e-12 and found.bound == pytest.approx(9 * found.residual)


@pytest.mark.parametrize("temperature", [0.0, 0.3])
def test_a_sweep_contracts_with_the_discount(temperature: float) -> None:
    """From any two values, also with sweeps that use what they have just found; and no faster for every pair."""
    shrunk = []
    for seed in range(20):
        problem, rng = random_problem(seed, temperature), np.random.default_rng(seed)
        one, other = rng.normal(0, 5, (2, len(problem.rows)))
        before = np.abs(one - other).max()
        for value in (one, other):
            kernels.sweeps(*problem[:4], problem.discount, temperature, value, 0.0, 1)
        shrunk.append(np.abs(one - other).max() / before)
    assert max(shrunk) <= 0.9 + 1e-12 and max(shrunk) > 0.3


def test_the_bound_holds() -> None:
    """After few sweeps the distance from the fixed point is within what was reported."""
    problem = random_problem(3)
    true = values_by_loops(problem)
    for sweeps in (1, 3, 10):
        found = solve(problem, np.zeros(len(true)), 0.0, sweeps)
        assert found.sweeps == sweeps and 0 < np.abs(found.value - true).max() <= found.bound


def test_a_terminal_row_has_no_future() -> None:
    rows, gains = np.array([[0], [1]]), np.array([[1.0], [2.0]])
    problem = Problem(rows, np.array([1, NONE]), gains, np.zeros((2, 1)), 0.5, 0.0)
    assert solve(problem, np.full(2, 7.0), 1e-12).value.tolist() == [2.0, 2.0]


def test_an_infinite_cost_closes_an_edge() -> None:
    """Every row keeps its own action, whatever the others promise, at any temperature."""
    for temperature in (0.0, 1.0):
        problem = random_problem(4, temperature)
        closed = problem._replace(costs=np.where(np.arange(5) == 0, 0.0, np.inf)[None].repeat(30, axis=0))
        found = solve(closed, np.zeros(30), 1e-12)
        own = closed._replace(rows=closed.rows[:, :1], gains=closed.gains[:, :1], costs=closed.costs[:, :1])
        assert np.allclose(found.value, values_by_loops(own), atol=1e-9)
        assert (weights(closed, found.value)[:, 0] == 1).all()


def test_weights_are_those_of_the_exponentials() -> None:
    problem, value = random_problem(5, 0.7), np.random.default_rng(0).normal(size=30)
    q, share = worth(problem, value), weights(problem, value)
    assert np.allclose(share.sum(axis=1), 1) and (share[problem.rows == NONE] == 0).all()
    i, a, b = next((i, 0, c) for i in range(30) for c in range(1, 5) if problem.rows[i, c] != NONE)
    assert share[i, a] / share[i, b] == pytest.approx(np.exp((q[i, a] - q[i, b]) / 0.7))
    hard = weights(problem._replace(temperature=0.0), value)
    assert (hard.argmax(axis=1) == q.argmax(axis=1)).all() and set(hard.ravel()) == {0.0, 1.0}


def test_values_that_are_not_finite_are_refused() -> None:
    problem = random_problem(6)
    with pytest.raises(InputError, match="not finite"):
        solve(problem._replace(gains=problem.gains * np.nan), np.zeros(30), 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_prices_as_rewards_make_it_scql_of_a_changed_mdp(seed: int) -> None:
    """Rows are states, j is an action of i that earns g_ij - c_ij and leads to follow_j: the same values."""
    problem = random_problem(seed, temperature=0.0)
    rng = np.random.default_rng(seed)  # one reward for each pair of states, as the theory wants it
    problem = problem._replace(follow=np.where(problem.follow == NONE, NONE, rng.permutation(30)))
    end = 30
    lender = np.maximum(problem.rows, 0)
    target = np.where(problem.follow[lender] == NONE, end, problem.follow[lender])
    reward = problem.gains - problem.costs
    best: dict[tuple[int, int], float] = {}
    for i, column in np.ndindex(*problem.rows.shape):
        if problem.rows[i, column] != NONE:
            key = i, int(target[i, column])
            best[key] = max(best.get(key, -np.inf), float(reward[i, column]))
    next_state = np.full((31, 5), tabular.NOWHERE)
    rewards = np.zeros((31, 5))
    for number, ((i, to), r) in enumerate(sorted(best.items())):
        column = number - sum(key[0] < i for key in best)
        next_state[i, column], rewards[i, column] = to, r
    mdp = tabular.MDP(next_state, rewards, np.arange(31) == end, problem.discount)
    source, action = np.nonzero(mdp.available)
    q0 = tabular.lowest_return(mdp)
    exact = synchronous(scql(mdp, tabular.logged(mdp, source, action)), q0=q0, tolerance=1e-12).v[:30]
    assert np.allclose(solve(problem, np.zeros(30), 1e-12).value, exact, atol=1e-8)


def test_a_jittered_grid_is_the_grid() -> None:
    """Near rows stand in the same cell: values are those of tabular SCQL, less at most the prices on the way."""
    grid = jittered_grid()
    steps = steps_of(grid.dataset)
    edges = edges_of(grid.dataset, steps, 11)
    near = edges.rows != NONE
    assert (grid.cells[np.maximum(edges.rows, 0)] == grid.cells[:, None])[near].all()
    q0 = tabular.lowest_return(grid.mdp)
    exact = synchronous(scql(grid.mdp, grid.logs), q0=q0, tolerance=1e-12).v[grid.cells]
    nothing = Usual(np.zeros(len(steps.r)), np.zeros(len(steps.r)), np.zeros_like(steps.a))
    for slope in (0.0, 0.5):
        problem = problem_of(edges, steps, nothing, Prices(0.0, slope), GraphConfig(discount=0.9, carry=False))
        found = solve(problem, np.zeros(len(exact)), 1e-12).value
        assert (found <= exact + 1e-9).all()
        assert (found >= exact - slope * edges.distance[near].max() / (1 - 0.9) - 1e-9).all()
    assert (found < exact - 1e-6).any()  # a price is paid

"""Each theorem on hundreds of random MDPs, and each of these tests shown to catch its bugs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import tabular_oracle as oracle
import tabular_theorems as theorems
from stacq.tabular import reach, solve
from stacq.tabular.mdp import MDP, Dataset, state_pairs
from tabular_cases import Case, cases
from tabular_theorems import Implementation, slow_sweep, slow_values

Theorem = Callable[[Implementation, Case], None]

LIBRARY = Implementation()
THEOREMS: dict[str, tuple[Theorem, str]] = {
    "contraction": (theorems.contraction, "any"),
    "state_constrained_optimum": (theorems.state_constrained_optimum, "any"),
    "all_states_seen": (theorems.all_states_seen, "covering"),
    "never_worse_than_batch": (theorems.never_worse_than_batch, "any"),
    "equal_without_extra_pairs": (theorems.equal_without_extra_pairs, "closed"),
    "longer_paths_never_hurt": (theorems.longer_paths_never_hurt, "any"),
    "actions_and_states_agree": (theorems.actions_and_states_agree, "any"),
}
FAST = settings(max_examples=600, deadline=None, derandomize=True, database=None)
LONG = settings(max_examples=5000, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
HUNT = settings(FAST, phases=[Phase.generate], report_multiple_bugs=False)


def put_to_test(name: str, library: Implementation, how: settings, largest: int = 7) -> None:
    theorem, kind = THEOREMS[name]

    def check(case: Case) -> None:
        theorem(library, case)

    how(given(cases(kind, largest))(check))()


@pytest.mark.parametrize("name", THEOREMS)
def test_theorem_holds(name: str) -> None:
    put_to_test(name, LIBRARY, FAST)


@pytest.mark.slow
@pytest.mark.parametrize("name", THEOREMS)
def test_theorem_holds_on_many_larger_mdps(name: str) -> None:
    put_to_test(name, LIBRARY, LONG, largest=14)


def batch_instead_of_states(mdp: MDP, data: Dataset) -> solve.Table:
    return replace(solve.scql(mdp, data), pairs=state_pairs(mdp), allowed=solve.batch_mask(state_pairs(mdp), data))


def leaking(mdp: MDP, data: Dataset) -> solve.Table:
    """s in D, but s' anywhere."""
    table = solve.scql(mdp, data)
    return replace(table, allowed=data.states(mdp.n_states)[table.pairs.source])


def leaking_paths(mdp: MDP, data: Dataset, k: int) -> solve.Table:
    """Paths that may end anywhere: those of a dataset that has seen every state."""
    state, action = np.nonzero(mdp.available)
    everything = Dataset(state, action, mdp.next_state[state, action], mdp.reward[state, action])
    return reach.scql_k(mdp, everything, k)


def undiscounted(mdp: MDP) -> solve.Table:
    table = solve.qss(mdp)
    return replace(table, pairs=replace(table.pairs, discount=np.minimum(1.2 * table.pairs.discount, 0.99)))


def one_pair_short(mdp: MDP) -> solve.Table:
    """A mask that loses the last entry."""
    table = solve.qss(mdp)
    return replace(table, allowed=np.arange(len(table.allowed)) < len(table.allowed) - 1)


NO_MAX = Implementation(
    sweep=partial(slow_sweep, pick=lambda options: options[0]),
    values=partial(slow_values, pick=lambda options: options[0]),
)
MUTANTS: list[tuple[str, str, Implementation]] = [
    ("contraction", "no maximum", NO_MAX),
    ("contraction", "a minimum", Implementation(sweep=partial(slow_sweep, pick=min))),
    ("contraction", "wrong mask", Implementation(qss=one_pair_short)),
    ("contraction", "wrong discount", Implementation(qss=undiscounted)),
    ("state_constrained_optimum", "no maximum", NO_MAX),
    ("state_constrained_optimum", "wrong mask", Implementation(scql=batch_instead_of_states)),
    ("state_constrained_optimum", "leak", Implementation(scql=leaking)),
    ("all_states_seen", "no maximum", NO_MAX),
    ("all_states_seen", "wrong mask", Implementation(scql=batch_instead_of_states)),
    ("never_worse_than_batch", "no maximum", NO_MAX),
    ("never_worse_than_batch", "wrong mask", Implementation(scql=batch_instead_of_states)),
    ("never_worse_than_batch", "leak", Implementation(scql=leaking)),
    ("equal_without_extra_pairs", "no maximum", NO_MAX),
    ("equal_without_extra_pairs", "wrong mask", Implementation(scql=lambda mdp, data: solve.qss(mdp))),
    ("equal_without_extra_pairs", "leak", Implementation(scql=leaking)),
    ("longer_paths_never_hurt", "no maximum", NO_MAX),
    ("longer_paths_never_hurt", "exactly k", Implementation(scql_k=partial(reach.scql_k, exactly=True))),
    ("longer_paths_never_hurt", "leak", Implementation(scql_k=leaking_paths)),
    ("actions_and_states_agree", "no maximum", NO_MAX),
    ("actions_and_states_agree", "wrong mask", Implementation(qss=one_pair_short)),
]


@pytest.mark.parametrize(("name", "bug", "mutant"), MUTANTS, ids=[f"{name}-{bug}" for name, bug, _ in MUTANTS])
def test_theorem_catches(name: str, bug: str, mutant: Implementation) -> None:
    with pytest.raises(AssertionError):
        put_to_test(name, mutant, HUNT)


@settings(FAST, max_examples=200)
@given(cases())
def test_compiled_sweep_is_the_written_out_sweep(case: Case) -> None:
    for table in (solve.qsa(case.mdp), solve.bcql(case.mdp, case.data), solve.scql(case.mdp, case.data)):
        q = case.random.normal(size=len(table.allowed))
        q[~table.allowed] = case.q0
        theorems.near(solve.sweep(table, q, q0=case.q0), slow_sweep(table, q, q0=case.q0))


@settings(FAST, max_examples=200)
@given(cases())
def test_library_definition_of_the_state_constrained_mdp(case: Case) -> None:
    """Definition 3.3 built as an MDP and solved by plain QSS-learning gives SCQL's values."""
    constrained = solve.state_constrained(case.mdp, case.data, case.q0)
    v = theorems.converged(solve.qss(constrained), 0.0)
    theorems.near(v[:-1], theorems.converged(solve.scql(case.mdp, case.data), case.q0))
    assert v[-1] == 0


@settings(FAST, max_examples=100)
@given(cases())
def test_the_two_independent_solvers_agree(case: Case) -> None:
    ends = oracle.worth_of_ends(case.mdp, case.q0, case.mdp.final & case.seen)
    edges = oracle.state_constrained(case.mdp, case.data, case.q0)
    np.testing.assert_allclose(
        oracle.linear_program(edges, ends), oracle.policy_iteration(edges, ends), rtol=0, atol=1e-6
    )


@settings(FAST, max_examples=150)
@given(cases())
def test_sampled_updates_converge_to_the_same_values(case: Case) -> None:
    for table in (
        solve.qsa(case.mdp),
        solve.qss(case.mdp),
        solve.bcql(case.mdp, case.data),
        solve.scql(case.mdp, case.data),
    ):
        found = solve.sampled(table, q0=case.q0, learning_rate=0.7, updates=60_000, random=case.random)
        np.testing.assert_allclose(found.v, theorems.converged(table, case.q0), rtol=0, atol=1e-6)


def test_theorem_as_printed_fails_for_initial_values_above_the_lowest_return() -> None:
    """Data A to B, edges A to B and back, reward -0.1, q0 = 0: stopping at B is free, walking on is not."""
    mdp = MDP(np.array([[1], [0]]), np.full((2, 1), -0.1), np.zeros(2, dtype=np.bool_), 0.99)
    data = Dataset(np.array([0]), np.array([0]), np.array([1]), np.array([-0.1]))
    batch, state = (
        solve.synchronous(method(mdp, data), q0=0, tolerance=1e-13).v for method in (solve.bcql, solve.scql)
    )
    np.testing.assert_allclose(batch, [-0.1, 0.0])
    np.testing.assert_allclose(state, [-10.0, -10.0])
    theorems.never_worse_than_batch(LIBRARY, Case(mdp, data, -10.0, np.random.default_rng(0)))
    with pytest.raises(AssertionError):
        theorems.never_worse_than_batch(LIBRARY, Case(mdp, data, 0.0, np.random.default_rng(0)))

"""The theorems as functions of an implementation, so that a broken implementation can be put to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

import tabular_oracle as oracle
from stacq.tabular import policy, reach, solve
from stacq.tabular.mdp import MDP, Dataset, FloatArray
from tabular_cases import Case

Pick = Callable[[Sequence[float]], float]


class Sweep(Protocol):
    def __call__(self, table: solve.Table, q: FloatArray, *, q0: float) -> FloatArray: ...


class MultiStep(Protocol):
    def __call__(self, mdp: MDP, data: Dataset, k: int) -> solve.Table: ...


def converged(table: solve.Table, q0: float) -> FloatArray:
    return solve.synchronous(table, q0=q0, tolerance=1e-13).v


@dataclass(frozen=True)
class Implementation:
    """What a theorem speaks about; the defaults are the library."""

    sweep: Sweep = solve.sweep
    values: Callable[[solve.Table, float], FloatArray] = converged
    qss: Callable[[MDP], solve.Table] = solve.qss
    bcql: Callable[[MDP, Dataset], solve.Table] = solve.bcql
    scql: Callable[[MDP, Dataset], solve.Table] = solve.scql
    scql_k: MultiStep = reach.scql_k


def near(a: FloatArray, b: FloatArray) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


def contraction(library: Implementation, case: Case) -> None:
    """Theorem 3.2 and its proof: a sweep brings any two tables closer by gamma, and Q* is the fixed point."""
    mdp, q0 = case.mdp, case.q0
    table = library.qss(mdp)
    v_star = oracle.policy_iteration(oracle.whole(mdp), oracle.worth_of_ends(mdp, q0))
    q_star = table.pairs.reward + mdp.discount * v_star[table.pairs.target]
    one, other = case.random.normal(0, 10, size=(2, len(q_star)))
    swept = library.sweep(table, one, q0=q0)
    distance = partial(np.max, initial=0.0)
    for second, image in ((other, library.sweep(table, other, q0=q0)), (q_star, q_star)):
        assert distance(abs(swept - image)) <= mdp.discount * distance(abs(one - second)) + 1e-9
    near(library.values(table, q0), v_star)


def state_constrained_optimum(library: Implementation, case: Case) -> None:
    """Theorems 3.4 and 3.6: SCQL's values are the optimum of the state-constrained MDP of definition 3.3."""
    mdp, data, q0 = case.mdp, case.data, case.q0
    ends = oracle.worth_of_ends(mdp, q0, mdp.final & case.seen)
    optimum = oracle.policy_iteration(oracle.state_constrained(mdp, data, q0), ends)[:-1]
    near(library.values(library.scql(mdp, data), q0), optimum)


def all_states_seen(library: Implementation, case: Case) -> None:
    """Theorem 3.5: with every state in the data SCQL finds Q*. The data must cover the states."""
    mdp, q0 = case.mdp, case.q0
    v_star = oracle.policy_iteration(oracle.whole(mdp), oracle.worth_of_ends(mdp, q0))
    near(library.values(library.scql(mdp, case.data), q0)[case.seen], v_star[case.seen])


def never_worse_than_batch(library: Implementation, case: Case) -> None:
    """Theorem 3.7, for values and for the returns of the greedy policies, with both sides checked."""
    mdp, data, q0, seen = case.mdp, case.data, case.q0, case.seen
    ends = oracle.worth_of_ends(mdp, q0)
    batch, state = library.bcql(mdp, data), library.scql(mdp, data)
    v_batch, v_state = library.values(batch, q0)[seen], library.values(state, q0)[seen]
    assert (v_state >= v_batch - 1e-9).all()
    near(v_batch, oracle.policy_iteration(oracle.batch_constrained(mdp, data), ends)[seen])
    constrained = oracle.state_constrained(mdp, data, q0)
    near(v_state, oracle.policy_iteration(constrained, ends)[:-1][seen])
    for table, v in ((batch, v_batch), (state, v_state)):
        choice = policy.greedy(table, solve.synchronous(table, q0=q0, tolerance=1e-13).q)
        near(policy.returns(table, choice, q0)[seen], v)


def equal_without_extra_pairs(library: Implementation, case: Case) -> None:
    """Theorem 3.7, case 1: no pair beyond the data's own. The data must be closed."""
    mdp, data, q0 = case.mdp, case.data, case.q0
    ends = oracle.worth_of_ends(mdp, q0)
    optimum = oracle.policy_iteration(oracle.batch_constrained(mdp, data), ends)[case.seen]
    near(library.values(library.bcql(mdp, data), q0)[case.seen], optimum)
    near(library.values(library.scql(mdp, data), q0)[case.seen], optimum)


def longer_paths_never_hurt(library: Implementation, case: Case) -> None:
    """Appendix H with exact dynamics: paths of at most k + 1 steps are as good as at most k, or better."""
    mdp, q0 = case.mdp, case.q0
    ends = oracle.worth_of_ends(mdp, q0)
    before = np.full(mdp.n_states, -np.inf)
    for k in (1, 2, 3):
        v = library.values(library.scql_k(mdp, case.data, k), q0)
        assert (v >= before - 1e-9)[case.seen].all()
        near(v[case.seen], oracle.policy_iteration(oracle.k_step(mdp, case.data, k), ends)[case.seen])
        before = v


def actions_and_states_agree(library: Implementation, case: Case) -> None:
    """Theorem A.1: in a deterministic MDP Q(s, a) = Q(s, s') for the s' that a leads to."""
    mdp, q0 = case.mdp, case.q0
    v_star = oracle.policy_iteration(oracle.whole(mdp), oracle.worth_of_ends(mdp, q0))
    near(library.values(solve.qsa(mdp), q0), v_star)
    near(library.values(library.qss(mdp), q0), v_star)


def slow_sweep(table: solve.Table, q: FloatArray, *, q0: float, pick: Pick = max) -> FloatArray:
    """The sweep written out, with the choice between a state's entries left open."""
    pairs = table.pairs
    new = np.full(len(q), q0)
    for e in np.flatnonzero(table.allowed):
        target = pairs.target[e]
        row = range(pairs.indptr[target], pairs.indptr[target + 1])
        options = [float(q[i]) for i in row if table.allowed[i]]
        v = 0.0 if table.final[target] else pick(options) if options else q0
        new[e] = pairs.reward[e] + pairs.discount[e] * v
    return new


def slow_values(table: solve.Table, q0: float, pick: Pick = max) -> FloatArray:
    """Sweeps until nothing moves; not a maximum at the end either, unless `pick` is one."""
    q = solve.initial(table, q0)
    for _ in range(2000):
        before, q = q, slow_sweep(table, q, q0=q0, pick=pick)
        if np.max(abs(q - before), initial=0.0) < 1e-12:
            break
    v = np.where(table.final, 0.0, q0)
    for s in np.flatnonzero(~table.final):
        row = range(table.pairs.indptr[s], table.pairs.indptr[s + 1])
        options = [float(q[i]) for i in row if table.allowed[i]]
        v[s] = pick(options) if options else q0
    return v

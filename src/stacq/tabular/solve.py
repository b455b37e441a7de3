"""One fixed-point update; QSA, QSS, BCQL and SCQL are that update under four masks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stacq.core.errors import InputError
from stacq.tabular.mdp import (
    MDP,
    NOWHERE,
    BoolArray,
    Dataset,
    Entries,
    FloatArray,
    IntArray,
    Reachability,
    action_pairs,
    check_data,
    offsets,
    reachable,
    state_pairs,
)

SAMPLES_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Table:
    """A Q table and the entries that may be learned from; all others keep the initial value q0 for ever."""

    pairs: Entries
    allowed: BoolArray  # [E]
    final: BoolArray  # [S]; worth 0 and never left


def qsa(mdp: MDP) -> Table:
    """QSA-learning, eq. (1): every (s, a)."""
    pairs = action_pairs(mdp)
    return Table(pairs, np.ones(len(pairs.target), dtype=np.bool_), mdp.final)


def qss(mdp: MDP) -> Table:
    """QSS-learning, eqs. (2) and (4): every (s, s') with s' in SR(s)."""
    pairs = state_pairs(mdp)
    return Table(pairs, np.ones(len(pairs.target), dtype=np.bool_), mdp.final)


def bcql(mdp: MDP, data: Dataset) -> Table:
    """BCQL, eq. (3): every (s, a) in D."""
    check_data(mdp, data)
    pairs = action_pairs(mdp)
    return Table(pairs, batch_mask(pairs, data), mdp.final & data.states(mdp.n_states))


def scql(mdp: MDP, data: Dataset, reach: Reachability | None = None) -> Table:
    """SCQL, eq. (5): every (s, s') with s and s' in D and s' in SR(s).

    `reach` replaces the SR of the dynamics. It may leave pairs out and may name states outside D, walls for
    instance, but a pair inside D that no action realises has no reward and is refused.
    """
    check_data(mdp, data)
    pairs = state_pairs(mdp)
    seen = data.states(mdp.n_states)
    allowed = state_mask(pairs, seen)
    if reach is not None:
        _check_real(mdp, reach, seen)
        allowed &= reach.includes(pairs.source, pairs.target)
    return Table(pairs, allowed, mdp.final & seen)


def batch_mask(pairs: Entries, data: Dataset) -> BoolArray:
    """(s, a) in D, the condition under the maximum of eq. (3) and of BCQL's policy in section 3.2."""
    n_actions = 1 + max(int(pairs.action.max(initial=0)), int(data.action.max(initial=0)))
    return np.isin(pairs.source * n_actions + pairs.action, data.state * n_actions + data.action)


def state_mask(pairs: Entries, seen: BoolArray) -> BoolArray:
    """s in D and s' in D, the condition under the maximum of eqs. (5) and (6)."""
    return seen[pairs.source] & seen[pairs.target]


def _check_real(mdp: MDP, reach: Reachability, seen: BoolArray) -> None:
    if reach.n_states != mdp.n_states:
        raise InputError(
            f"reachability of {reach.n_states} states for an MDP of {mdp.n_states}",
            expected="the same number",
        )
    source, target = reach.source, reach.indices
    claimed = seen[source] & seen[target] & ~mdp.final[source]
    source, target = source[claimed], target[claimed]
    real = reachable(mdp).includes(source, target)
    if not real.all():
        i = int(np.argmin(real))
        raise InputError(
            f"state {target[i]} is called reachable from state {source[i]}, but no action leads there",
            where="reachability",
            fix="correct the matrix or the rule",
        )


def state_constrained(mdp: MDP, data: Dataset, q0: float) -> MDP:
    """Definition 3.3: M_S, with s_terminal as the last state.

    States outside D go to s_terminal with the initial value as reward. So do data states without an allowed
    successor, for which the definition leaves no transition at all: both are worth q0.
    """
    seen = data.states(mdp.n_states)
    terminal = mdp.n_states
    kept = mdp.available & seen[:, None] & seen[mdp.next_state]
    over = mdp.final & seen
    leaves = ~kept.any(axis=1) & ~over
    next_state = np.where(kept, mdp.next_state, NOWHERE)
    next_state[leaves] = terminal
    reward = np.where(leaves[:, None], q0, mdp.reward)
    return MDP(
        np.vstack([next_state, np.full((1, next_state.shape[1]), NOWHERE)]),
        np.vstack([reward, np.zeros((1, reward.shape[1]))]),
        np.append(over, True),
        mdp.discount,
    )


@dataclass(frozen=True, eq=False)
class Solution:
    """What a table has learned."""

    q: FloatArray  # [E]
    v: FloatArray  # [S]; the maximum over allowed entries, q0 where there is none
    sweeps: int
    change: float  # the largest change of an entry in the last sweep


def synchronous(
    table: Table, *, q0: float, learning_rate: float = 1.0, tolerance: float = 1e-6, sweeps: int = 1_000_000
) -> Solution:
    """Sweep over all allowed entries at once, until the largest change is below `tolerance`.

    A tolerance of 0 makes exactly `sweeps` sweeps.
    """
    _check_rate(learning_rate)
    return _swept(table, initial(table, q0), q0, learning_rate, tolerance, sweeps)


def sweep(table: Table, q: FloatArray, *, q0: float, learning_rate: float = 1.0) -> FloatArray:
    """One synchronous sweep from any values: the operator whose contraction theorem 3.2 proves."""
    _check_rate(learning_rate)
    return _swept(table, q, q0, learning_rate, 0.0, 1).q


def sampled(table: Table, *, q0: float, learning_rate: float, updates: int, random: np.random.Generator) -> Solution:
    """Asynchronous updates of allowed entries drawn uniformly with replacement; no sweeps are counted."""
    from stacq.tabular import kernels

    _check_rate(learning_rate)
    rows = _rows(table)
    q = initial(table, q0)[rows.pair]
    v = values(table, initial(table, q0), q0)
    row_of = np.repeat(np.arange(len(rows.state), dtype=np.uint32), np.diff(rows.indptr).astype(np.int64))
    for start in range(0, updates if len(q) else 0, SAMPLES_AT_ONCE):
        order = random.integers(len(q), size=min(SAMPLES_AT_ONCE, updates - start))
        kernels.updates(order, row_of, *rows.arrays, q, v, learning_rate)
    return _solution(table, rows, q, q0, 0, float("nan"))


def initial(table: Table, q0: float) -> FloatArray:
    """Assumption A3: the same finite value everywhere."""
    if not np.isfinite(q0):
        raise InputError(f"initial value {q0}", expected="a finite number")
    return np.full(len(table.pairs.target), q0, dtype=np.float64)


def values(table: Table, q: FloatArray, q0: float) -> FloatArray:
    """V(s) = max Q(s, .) over allowed entries; q0 where none is allowed and 0 where the episode is over."""
    v = np.full(table.pairs.n_states, -np.inf)
    np.maximum.at(v, table.pairs.source[table.allowed], q[table.allowed])
    v[np.isneginf(v)] = q0
    v[table.final] = 0.0
    return v


@dataclass(frozen=True, eq=False)
class _Rows:
    """The allowed entries only, rows of equal length side by side so that the inner loop is predictable."""

    state: NDArray[np.uint32]
    indptr: NDArray[np.uint64]
    pair: IntArray  # [E'] where each entry stands in the table
    target: NDArray[np.uint32]
    reward: FloatArray
    discount: FloatArray

    @property
    def arrays(
        self,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint32], FloatArray, FloatArray]:
        return self.state, self.indptr, self.target, self.reward, self.discount


def _rows(table: Table) -> _Rows:
    pairs, kept = table.pairs, np.flatnonzero(table.allowed)
    length = np.bincount(pairs.source[kept], minlength=pairs.n_states)
    start = offsets(length)
    state = np.argsort(length, kind="stable")
    state = state[length[state] > 0]
    indptr = offsets(length[state])
    pair = kept[np.repeat(start[state] - indptr[:-1], length[state]) + np.arange(indptr[-1])]
    return _Rows(
        state.astype(np.uint32),
        indptr.astype(np.uint64),
        pair,
        pairs.target[pair].astype(np.uint32),
        pairs.reward[pair],
        _discounts(pairs.discount[pair]),
    )


def _discounts(discount: FloatArray) -> FloatArray:
    """The same numbers; if all are equal, a view of the first one, which saves a fifth of the memory traffic."""
    same = len(discount) > 0 and bool((discount == discount[0]).all())
    return np.broadcast_to(discount[0], discount.shape) if same else discount


def _swept(table: Table, q: FloatArray, q0: float, alpha: float, tolerance: float, limit: int) -> Solution:
    from stacq.tabular import kernels

    rows = _rows(table)
    entries = q[rows.pair]
    v = values(table, q, q0)
    done, change = kernels.sweeps(*rows.arrays, entries, v, alpha, tolerance, limit)
    return _solution(table, rows, entries, q0, done, change)


def _solution(table: Table, rows: _Rows, entries: FloatArray, q0: float, sweeps: int, change: float) -> Solution:
    q = initial(table, q0)
    q[rows.pair] = entries
    return Solution(q, values(table, q, q0), sweeps, change)


def _check_rate(learning_rate: float) -> None:
    if not 0 < learning_rate <= 1:
        raise InputError(f"learning rate {learning_rate}", expected="0 < learning rate <= 1")

"""Deterministic MDPs, datasets and reachability, all as plain arrays."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stacq.core.errors import InputError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class MDP:
    """(S, A, P, R, gamma) of section 2 with p(s'|s,a) in {0, 1} and a reward that depends on (s, s') only.

    A final state ends the episode: it is worth 0 and nothing leaves it.
    """

    next_state: IntArray  # [S, A]; NOWHERE where an action cannot be taken
    reward: FloatArray  # [S, A]
    final: BoolArray  # [S]
    discount: float

    def __post_init__(self) -> None:
        _check_shapes(self)
        check_discount(self.discount)
        _check_targets(self)
        _check_rewards(self)

    @property
    def n_states(self) -> int:
        return len(self.final)

    @property
    def available(self) -> BoolArray:
        """[S, A]: the actions that lead somewhere."""
        leads: BoolArray = self.next_state != NOWHERE
        return leads & ~self.final[:, None]


def _check_shapes(mdp: MDP) -> None:
    shape = mdp.next_state.shape
    if len(shape) != 2 or mdp.reward.shape != shape or mdp.final.shape != shape[:1]:
        raise InputError(
            f"next_state {shape}, reward {mdp.reward.shape} and final {mdp.final.shape} do not fit together",
            expected="[states, actions] twice and [states]",
        )


def check_discount(discount: float) -> None:
    """Assumption A4."""
    if not 0 <= discount < 1:
        raise InputError(f"discount {discount}", expected="0 <= discount < 1")


def _check_targets(mdp: MDP) -> None:
    wrong = np.argwhere((mdp.next_state < NOWHERE) | (mdp.next_state >= mdp.n_states))
    if len(wrong):
        s, a = wrong[0]
        raise InputError(
            f"action {a} in state {s} leads to {mdp.next_state[s, a]}",
            expected=f"a state from 0 to {mdp.n_states - 1}, or {NOWHERE} for an action that cannot be taken",
        )


def _check_rewards(mdp: MDP) -> None:
    """Assumption A2, and r(s,a,s') = r(s,s'): without it Q(s,a) and Q(s,s') are different things."""
    if not np.isfinite(mdp.reward[mdp.available]).all():
        raise InputError("a reward is not finite", expected="bounded rewards")
    order = np.argsort(mdp.next_state, axis=1, kind="stable")
    target = np.take_along_axis(np.where(mdp.available, mdp.next_state, NOWHERE), order, axis=1)
    reward = np.take_along_axis(mdp.reward, order, axis=1)
    twice = (target[:, 1:] == target[:, :-1]) & (target[:, 1:] != NOWHERE)
    wrong = np.argwhere(twice & (reward[:, 1:] != reward[:, :-1]))
    if len(wrong):
        s, i = wrong[0]
        raise InputError(
            f"two actions lead from state {s} to state {target[s, i]} with different rewards",
            expected="one reward for each pair (s, s')",
        )


def lowest_return(mdp: MDP) -> float:
    """r_min / (1 - gamma): no policy can do worse, so it is the largest safe initial value q0."""
    lowest = float(mdp.reward[mdp.available].min(initial=0.0))
    return lowest / (1 - mdp.discount)


@dataclass(frozen=True, eq=False)
class Dataset:
    """D: transitions (s, a, s', r) in the order in which they were logged."""

    state: IntArray  # [N]
    action: IntArray  # [N]
    next_state: IntArray  # [N]
    reward: FloatArray  # [N]

    def states(self, n_states: int) -> BoolArray:
        """[S]: s is "in D" when it was left or arrived at; the last state of a trajectory counts too."""
        seen = np.zeros(n_states, dtype=np.bool_)
        seen[self.state] = True
        seen[self.next_state] = True
        return seen


def logged(mdp: MDP, state: ArrayLike, action: ArrayLike) -> Dataset:
    """The dataset of an agent that took `action[i]` in `state[i]`."""
    s, a = np.asarray(state, dtype=np.int64), np.asarray(action, dtype=np.int64)
    _check_known(mdp, s, a)
    data = Dataset(s, a, mdp.next_state[s, a], mdp.reward[s, a])
    check_data(mdp, data)
    return data


def _check_known(mdp: MDP, state: IntArray, action: IntArray) -> None:
    n_states, n_actions = mdp.next_state.shape
    wrong = np.flatnonzero((state < 0) | (state >= n_states) | (action < 0) | (action >= n_actions))
    if len(wrong):
        raise InputError(
            f"transition {wrong[0]}: action {action[wrong[0]]} in state {state[wrong[0]]}",
            where="dataset",
            expected=f"states from 0 to {n_states - 1} and actions from 0 to {n_actions - 1}",
        )


def check_data(mdp: MDP, data: Dataset) -> None:
    """A deterministic MDP leaves no freedom: each logged transition must be the MDP's own."""
    s, a = data.state, data.action
    _check_known(mdp, s, a)
    same = (mdp.next_state[s, a] == data.next_state) & np.isclose(mdp.reward[s, a], data.reward)
    wrong = np.flatnonzero(~(same & mdp.available[s, a]))
    if len(wrong):
        i = wrong[0]
        raise InputError(
            f"transition {i}: action {a[i]} in state {s[i]} does not lead to state {data.next_state[i]} "
            f"with reward {data.reward[i]}",
            where="dataset",
            expected=f"state {mdp.next_state[s[i], a[i]]} with reward {mdp.reward[s[i], a[i]]}",
        )


@dataclass(frozen=True, eq=False)
class Reachability:
    """A sparse boolean matrix: row s lists SR(s), sorted and without repeats.

    `indptr` and `indices` are those of any CSR matrix, so `Reachability(m.indptr, m.indices)` takes SciPy's.
    """

    indptr: IntArray  # [S + 1]
    indices: IntArray  # [M]

    @property
    def n_states(self) -> int:
        return len(self.indptr) - 1

    @property
    def source(self) -> IntArray:
        return np.repeat(np.arange(self.n_states), np.diff(self.indptr))

    def includes(self, source: IntArray, target: IntArray) -> BoolArray:
        """[n]: is target[i] in SR(source[i])?"""
        return np.isin(source * self.n_states + target, self.source * self.n_states + self.indices)


def reachability_of(source: IntArray, target: IntArray, n_states: int) -> Reachability:
    """From any list of pairs, in any order and with repeats."""
    key = np.unique(source * n_states + target)
    counts = np.bincount(key // n_states, minlength=n_states)
    return Reachability(offsets(counts), key % n_states)


def reachable(mdp: MDP) -> Reachability:
    """Definition 3.1: s' is reachable from s if some action leads there."""
    source, action = np.nonzero(mdp.available)
    return reachability_of(source, mdp.next_state[source, action], mdp.n_states)


def reachable_by_matrix(matrix: ArrayLike) -> Reachability:
    """From a dense [S, S] boolean matrix."""
    dense = np.asarray(matrix, dtype=np.bool_)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
        raise InputError(f"a reachability matrix of shape {dense.shape}", expected="[states, states]")
    source, target = np.nonzero(dense)
    return reachability_of(source, target, len(dense))


def reachable_by_rule(rule: Callable[[int], Iterable[int]], n_states: int) -> Reachability:
    """From a rule that names the states reachable from a state, as the maze example does."""
    rows = [np.fromiter(rule(s), dtype=np.int64) for s in range(n_states)]
    source = np.repeat(np.arange(n_states), [len(row) for row in rows])
    target = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
    wrong = np.flatnonzero((target < 0) | (target >= n_states))
    if len(wrong):
        raise InputError(
            f"the rule says that state {target[wrong[0]]} is reachable from state {source[wrong[0]]}",
            expected=f"states from 0 to {n_states - 1}",
        )
    return reachability_of(source, target, n_states)


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of a Q table, (s, a) or (s, s'), grouped by the state they start from."""

    indptr: IntArray  # [S + 1]
    action: IntArray  # [E]
    target: IntArray  # [E]
    reward: FloatArray  # [E]
    discount: FloatArray  # [E]; gamma, or gamma ** j for an entry that stands for j steps

    @property
    def n_states(self) -> int:
        return len(self.indptr) - 1

    @property
    def source(self) -> IntArray:
        return np.repeat(np.arange(self.n_states), np.diff(self.indptr))


def action_pairs(mdp: MDP) -> Entries:
    """All (s, a): the table of QSA-learning, eq. (1)."""
    return _pairs(mdp, mdp.available)


def state_pairs(mdp: MDP) -> Entries:
    """All (s, s') with s' in SR(s): the table of QSS-learning, eq. (2).

    Actions with the same result are one entry; it carries the first of them, an exact inverse model.
    """
    first = mdp.available.copy()
    for a in range(first.shape[1]):
        for b in range(a):
            first[:, a] &= ~(first[:, b] & (mdp.next_state[:, a] == mdp.next_state[:, b]))
    return _pairs(mdp, first)


def _pairs(mdp: MDP, chosen: BoolArray) -> Entries:
    source, action = np.nonzero(chosen)
    reward = mdp.reward[source, action]
    return Entries(
        offsets(chosen.sum(axis=1)),
        action,
        mdp.next_state[source, action],
        reward,
        np.full(len(reward), mdp.discount),
    )


def offsets(counts: IntArray) -> IntArray:
    """Row lengths to CSR offsets."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])

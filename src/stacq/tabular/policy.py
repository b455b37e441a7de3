"""Policies that a table gives, and the returns of following them.

A policy is one entry of the table for each state, or NOWHERE where it has nothing to say.
"""

from collections.abc import Callable

import numpy as np

from stacq.core.errors import InputError
from stacq.tabular.mdp import MDP, NOWHERE, BoolArray, Dataset, Entries, FloatArray, IntArray
from stacq.tabular.solve import Table, values

InverseModel = Callable[[IntArray, IntArray], IntArray]


def greedy(table: Table, q: FloatArray) -> IntArray:
    """Eq. (6), and BCQL's policy in section 3.2: the best allowed entry of each state, the first one of equals."""
    source = table.pairs.source
    best = table.allowed & (q == values(table, q, -np.inf)[source])
    return _first(np.flatnonzero(best & ~table.final[source]), source, table.pairs.n_states)


def clone(pairs: Entries, data: Dataset) -> IntArray:
    """Behavioural cloning: the action most often logged in each state, the one logged first of equals."""
    n_actions = 1 + int(data.action.max(initial=0))
    key, first, count = np.unique(data.state * n_actions + data.action, return_index=True, return_counts=True)
    ranked = key[np.lexsort((first, -count, key // n_actions))]
    chosen = ranked[np.unique(ranked // n_actions, return_index=True)[1]]
    entries = np.flatnonzero(np.isin(pairs.source * n_actions + pairs.action, chosen) & (pairs.action < n_actions))
    return _first(entries, pairs.source, pairs.n_states)


def _first(entries: IntArray, source: IntArray, n_states: int) -> IntArray:
    choice = np.full(n_states, NOWHERE)
    choice[source[entries[::-1]]] = entries[::-1]
    return choice


def next_states(pairs: Entries, choice: IntArray) -> IntArray:
    """pi_s(s), the state that the policy moves to."""
    return np.where(choice == NOWHERE, NOWHERE, pairs.target[choice]) if len(pairs.target) else choice


def actions(pairs: Entries, choice: IntArray, inverse: InverseModel) -> IntArray:
    """a = I(s, pi_s(s)), section 2; NOWHERE where the policy has nothing to say."""
    action = np.full(len(choice), NOWHERE)
    known = np.flatnonzero(choice != NOWHERE)
    action[known] = inverse(known, pairs.target[choice[known]])
    return action


def exact_inverse(mdp: MDP) -> InverseModel:
    """I(s, s'): the first action that leads from s to s'."""

    def inverse(s: IntArray, s_next: IntArray) -> IntArray:
        leads: BoolArray = mdp.available[s] & (mdp.next_state[s] == s_next[:, None])
        if not leads.any(axis=1).all():
            i = int(np.argmin(leads.any(axis=1)))
            raise InputError(f"no action leads from state {s[i]} to state {s_next[i]}")
        action: IntArray = leads.argmax(axis=1)
        return action

    return inverse


def arrives(table: Table, choice: IntArray) -> BoolArray:
    """[S]: does the policy reach a final state? A final state counts as reached from itself.

    Squaring the step function S times over log2(S) rounds looks S steps ahead, further than any path is long.
    """
    here = np.arange(len(choice))
    ahead = np.where(choice == NOWHERE, here, next_states(table.pairs, choice))
    for _ in range(len(choice).bit_length()):
        ahead = ahead[ahead]
    return table.final[ahead]


def returns(table: Table, choice: IntArray, stuck: float) -> FloatArray:
    """[S]: the discounted return of following the policy for ever, exactly, loops included.

    Where the policy has nothing to say the agent gets `stuck`, as definition 3.3 gives q0 at s_terminal.
    """
    known = (choice != NOWHERE) & ~table.final
    ahead = np.where(known, next_states(table.pairs, choice), np.arange(len(choice)))
    total = np.where(table.final, 0.0, stuck)
    factor = np.zeros(len(choice))
    total[known] = table.pairs.reward[choice[known]]
    factor[known] = table.pairs.discount[choice[known]]
    while factor.any():
        total = total + factor * total[ahead]
        factor = factor * factor[ahead]
        ahead = ahead[ahead]
    return total

"""An independent solver: edges in dictionaries, then policy iteration or a linear program.

Nothing here uses the library's tables, masks or sweeps.
"""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linprog

from stacq.tabular.mdp import MDP, NOWHERE, BoolArray, Dataset, FloatArray

Edge = tuple[int, float, float]  # target, reward, discount
Edges = dict[int, list[Edge]]
Values = dict[int, float]


def steps_from(mdp: MDP, s: int) -> list[tuple[int, float]]:
    if mdp.final[s]:
        return []
    row = zip(mdp.next_state[s], mdp.reward[s], strict=True)
    return [(int(target), float(r)) for target, r in row if target != NOWHERE]


def whole(mdp: MDP) -> Edges:
    """M itself."""
    return {s: [(t, r, mdp.discount) for t, r in steps_from(mdp, s)] for s in range(mdp.n_states)}


def known_states(data: Dataset) -> set[int]:
    return {int(s) for s in data.state} | {int(s) for s in data.next_state}


def batch_constrained(mdp: MDP, data: Dataset) -> Edges:
    edges: Edges = {s: [] for s in range(mdp.n_states)}
    for s, t, r in zip(data.state, data.next_state, data.reward, strict=True):
        edges[int(s)].append((int(t), float(r), mdp.discount))
    return edges


def state_constrained(mdp: MDP, data: Dataset, q0: float) -> Edges:
    """Definition 3.3, literally: s_terminal is state number S, its incoming reward the initial value."""
    known, terminal = known_states(data), mdp.n_states
    edges: Edges = {terminal: []}
    for s in range(mdp.n_states):
        inside = [(t, r, mdp.discount) for t, r in steps_from(mdp, s) if t in known]
        edges[s] = inside if s in known else [(terminal, q0, mdp.discount)]
    return edges


def k_step(mdp: MDP, data: Dataset, k: int) -> Edges:
    """All paths of 1 to k steps from a data state to a data state, found one by one."""
    known = known_states(data)

    def paths(s: int, steps: int) -> Iterable[tuple[int, float, int]]:
        for t, r in steps_from(mdp, s):
            yield t, r, 1
            if steps > 1:
                for end, rest, length in paths(t, steps - 1):
                    yield end, r + mdp.discount * rest, length + 1

    return {
        s: [(t, r, mdp.discount**n) for t, r, n in paths(s, k) if t in known] if s in known else []
        for s in range(mdp.n_states)
    }


def worth_of_ends(mdp: MDP, q0: float, final: BoolArray | None = None) -> Values:
    """States without edges: 0 where the episode is over, else the initial value. s_terminal is over."""
    over = mdp.final if final is None else final
    return {s: 0.0 if over[s] else q0 for s in range(mdp.n_states)} | {mdp.n_states: 0.0}


def policy_iteration(edges: Edges, ends: Values) -> FloatArray:
    n = 1 + max(edges)
    policy = dict.fromkeys((s for s in edges if edges[s]), 0)
    while True:
        v = _evaluate(edges, ends, policy, n)
        better = {}
        for s, chosen in policy.items():
            scores = [r + g * v[t] for t, r, g in edges[s]]
            best = int(np.argmax(scores))
            if scores[best] > scores[chosen] + 1e-9:
                better[s] = best
        if not better:
            return v
        policy |= better


def _evaluate(edges: Edges, ends: Values, policy: dict[int, int], n: int) -> FloatArray:
    matrix, right = np.eye(n), np.array([ends[s] for s in range(n)])
    for s, chosen in policy.items():
        target, right[s], discount = edges[s][chosen]
        matrix[s, target] -= discount
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def linear_program(edges: Edges, ends: Values) -> FloatArray:
    """min sum v subject to v(s) >= r + g v(s') for every edge."""
    n = 1 + max(edges)
    rows, right = [], []
    for s in range(n):
        for target, r, g in edges[s]:
            row = np.zeros(n)
            row[s] -= 1
            row[target] += g
            rows.append(row)
            right.append(-r)
    bounds = [(None, None) if edges[s] else (ends[s], ends[s]) for s in range(n)]
    found = linprog(np.ones(n), A_ub=np.array(rows), b_ub=np.array(right), bounds=bounds)
    assert found.success, found.message
    return np.asarray(found.x, dtype=np.float64)

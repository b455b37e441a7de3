"""The loops that numba compiles. Import this module late: importing numba costs most of a second.

Indices are unsigned: numba tests every signed one for being negative, which costs a third of the time.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])
Floats = NDArray[np.float64]
Unsigned = NDArray[np.unsignedinteger[Any]]


def compiled(function: Function) -> Function:
    """`numba.njit`, cached on disk where that is possible (a read-only installation has no such place)."""
    try:
        return cast(Function, numba.njit(cache=True)(function))
    except RuntimeError:
        return cast(Function, numba.njit(function))


@compiled
def backup(q: float, r: float, gamma: float, v: float, alpha: float) -> float:
    """Eqs. (1), (2), (3) and (5): one update towards r + gamma max Q(s', .), where v is that maximum."""
    return (1 - alpha) * q + alpha * (r + gamma * v)


@compiled
def sweep(
    state: Unsigned,  # [N] the state of each row
    indptr: Unsigned,  # [N + 1]
    target: Unsigned,  # [E]
    reward: Floats,  # [E]
    discount: Floats,  # [E]
    q: Floats,  # [E], updated in place
    v: Floats,  # [S], read
    v_next: Floats,  # [S], written in the rows' states
    alpha: float,
) -> float:
    """Update every entry once from the values before the sweep; return the largest change of an entry."""
    change = 0.0
    for row in range(len(state)):
        best = -np.inf
        for e in range(indptr[row], indptr[row + 1]):
            new = backup(q[e], reward[e], discount[e], v[target[e]], alpha)
            change = max(change, abs(new - q[e]))
            q[e] = new
            best = max(best, new)
        v_next[state[row]] = best
    return change


@compiled
def sweeps(
    state: Unsigned,
    indptr: Unsigned,
    target: Unsigned,
    reward: Floats,
    discount: Floats,
    q: Floats,
    v: Floats,
    alpha: float,
    tolerance: float,
    limit: int,
) -> tuple[int, float]:
    """Sweep until no entry changes by `tolerance` or more; return the sweeps made and the last change."""
    v_next = v.copy()
    change = np.inf
    for done in range(limit):
        change = sweep(state, indptr, target, reward, discount, q, v, v_next, alpha)
        v, v_next = v_next, v
        if change < tolerance:
            return done + 1, change
    return limit, change


@compiled
def updates(
    order: NDArray[np.int64],  # [n] entries in the order in which they are updated
    row_of: Unsigned,  # [E]
    state: Unsigned,
    indptr: Unsigned,
    target: Unsigned,
    reward: Floats,
    discount: Floats,
    q: Floats,
    v: Floats,
    alpha: float,
) -> None:
    """Update one entry after the other, each seeing all earlier ones."""
    for e in order:
        q[e] = backup(q[e], reward[e], discount[e], v[target[e]], alpha)
        row = row_of[e]
        best = -np.inf
        for other in range(indptr[row], indptr[row + 1]):
            best = max(best, q[other])
        v[state[row]] = best

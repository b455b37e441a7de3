"""The loops that numba compiles. Import this module late: importing numba costs most of a second."""

import math

import numpy as np

from stacq.core.types import Float64s, Ints
from stacq.tabular.kernels import compiled


@compiled
def backup(
    i: int,
    rows: Ints,
    follow: Ints,
    gains: Float64s,
    costs: Float64s,
    discount: float,
    temperature: float,
    value: Float64s,
    q: Float64s,
) -> float:
    """The new value of row i, `solve.Problem`; `q` is room for its candidates."""
    best, free = -np.inf, 0.0
    for column in range(rows.shape[1]):
        j = rows[i, column]
        q[column] = -np.inf
        if j < 0 or costs[i, column] == np.inf:
            continue
        q[column] = gains[i, column] - costs[i, column]
        if follow[j] >= 0:
            q[column] += discount * value[follow[j]]
        best = max(best, q[column])
        if temperature > 0:
            free += math.exp(-costs[i, column] / temperature)
    if temperature == 0:
        return best
    total = 0.0
    for column in range(rows.shape[1]):
        total += math.exp((q[column] - best) / temperature)
    return best + temperature * (math.log(total) - math.log(free))


@compiled
def sweeps(
    rows: Ints,
    follow: Ints,
    gains: Float64s,
    costs: Float64s,
    discount: float,
    temperature: float,
    value: Float64s,
    tolerance: float,
    most: int,
) -> tuple[int, float]:
    """Update `value` in place, the last row first; how many sweeps, and the largest change in the last one."""
    q, change, done = np.empty(rows.shape[1]), np.inf, 0
    while done < most and change > tolerance:
        change = 0.0
        for i in range(len(rows) - 1, -1, -1):
            found = backup(i, rows, follow, gains, costs, discount, temperature, value, q)
            change = max(change, abs(found - value[i]))
            value[i] = found
        done += 1
    return done, change

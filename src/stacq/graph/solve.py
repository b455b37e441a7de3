"""Exact values of the graph: sweeps of one contraction until nothing changes, in reverse time."""

from typing import NamedTuple

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Float64s, Ints
from stacq.graph.neighbours import NONE

SWEEPS = 5_000  # at most; at a discount of 0.99 each leaves at most 99 percent of the error


class Problem(NamedTuple):
    """V(i) = T log sum_j exp((g_ij + gamma V(follow_j) - c_ij) / T) - T log sum_j exp(-c_ij / T).

    With T = 0 it is the maximum of g_ij + gamma V(follow_j) - c_ij.
    """

    rows: Ints  # [N, K] the rows j of every row i; NONE where there is none
    follow: Ints  # [N]; NONE leads nowhere
    gains: Float64s  # [N, K]
    costs: Float64s  # [N, K], infinite where an edge must not be taken
    discount: float
    temperature: float


class Solved(NamedTuple):
    """Values, and how sure they are."""

    value: Float64s  # [N]
    sweeps: int
    residual: float  # the largest change in the last sweep
    bound: float  # on the distance of any value from the fixed point: gamma / (1 - gamma) residual


def solve(problem: Problem, start: Float64s, tolerance: float, sweeps: int = SWEEPS) -> Solved:
    """The values that the update leaves as they are, up to a residual of `tolerance`.

    Each sweep goes through the rows from the last to the first and uses what it has just found, so that one sweep
    carries a reward through a whole episode. This too is a contraction with the discount.
    """
    from stacq.graph import kernels

    p, value = problem, start.astype(np.float64)
    done, residual = kernels.sweeps(
        p.rows, p.follow, p.gains, p.costs, p.discount, p.temperature, value, tolerance, sweeps
    )
    if not (np.isfinite(residual) and np.isfinite(value).all()):
        raise InputError(
            "the values of the graph are not finite", where="the graph", expected="finite rewards of moderate size"
        )
    return Solved(value, int(done), float(residual), p.discount / (1 - p.discount) * float(residual))


def worth(problem: Problem, value: Float64s) -> Float64s:
    """q_ij = g_ij + gamma V(follow_j) - c_ij, [N, K]; minus infinity where there is no edge."""
    lender = np.maximum(problem.rows, 0)
    follow = problem.follow[lender]
    future = np.where(follow != NONE, problem.discount * value[np.maximum(follow, 0)], 0.0)
    found: Float64s = np.where(problem.rows != NONE, problem.gains + future - problem.costs, -np.inf)
    return found


def weights(problem: Problem, value: Float64s) -> Float64s:
    """Of every row's candidates, [N, K]: proportional to exp(q_ij / T), or 1 for the best where T = 0.

    Ties go to the own row, then to the nearest.
    """
    q = worth(problem, value)
    best = q.max(axis=1, keepdims=True)
    if problem.temperature == 0:
        hard: Float64s = (np.arange(q.shape[1]) == q.argmax(axis=1)[:, None]).astype(np.float64)
        return hard
    raw = np.exp((q - best) / problem.temperature)
    found: Float64s = raw / raw.sum(axis=1, keepdims=True)
    return found

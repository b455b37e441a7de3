"""Is there an action that leads somewhere? A search with steps that are tried out, as a simulator allows."""

from collections.abc import Callable

import numpy as np

from stacq.core.types import Float64s

SEARCH_STEPS = 8
REACHED_AT = 0.05  # largest distance in true ranges at which the search has found what it wants
HOPELESS = 0.8  # it ends where even the linearised simulator stays this far away
NUDGE = 0.02  # action difference behind a simulated Jacobian


def search(distance: Callable[[Float64s], Float64s], action: Float64s, low: Float64s, high: Float64s) -> float:
    """The smallest L-inf distance that damped, nearly minimax Gauss-Newton steps within the bounds find."""
    error, damping, stale = distance(action), 1e-3, 0
    slopes = None
    for _ in range(SEARCH_STEPS):
        if np.abs(error).max() <= REACHED_AT or stale == 3:
            break
        if slopes is None:
            slopes = jacobian(distance, action, error, high)
        step = minimax_step(slopes, error, action, low, high, damping)
        if damping < 1e-3 and np.abs(error + slopes @ step).max() > HOPELESS:
            break
        proposal = np.clip(action + step, low, high)
        moved = distance(proposal)
        gain = np.abs(error).max() - np.abs(moved).max()
        stale = 0 if gain > 0.02 * np.abs(error).max() else stale + 1
        if gain > 0:
            action, error, damping, slopes = proposal, moved, damping * 0.3, None
        else:
            damping *= 10
    return float(np.abs(error).max())


def jacobian(distance: Callable[[Float64s], Float64s], action: Float64s, error: Float64s, high: Float64s) -> Float64s:
    """[S, A], by differences that stay within the bounds."""
    columns = []
    for i, size in enumerate(np.where(action + NUDGE <= high, NUDGE, -NUDGE)):
        moved = action.copy()
        moved[i] += size
        columns.append((distance(moved) - error) / size)
    return np.array(columns).T


def minimax_step(
    slopes: Float64s, error: Float64s, action: Float64s, low: Float64s, high: Float64s, damping: float
) -> Float64s:
    """Iteratively reweighted least squares towards the least maximum; coordinates that hit a bound stay there."""
    step = np.zeros_like(action)
    weights = np.ones_like(error)
    for _ in range(6):
        free = np.ones(len(action), dtype=bool)
        for _ in range(len(action)):
            fixed = slopes[:, ~free] @ step[~free] + error
            squares = (slopes[:, free].T * weights) @ slopes[:, free]
            squares += damping * np.trace(squares) / free.sum() * np.eye(free.sum()) + 1e-12 * np.eye(free.sum())
            step[free] = np.linalg.solve(squares, -(slopes[:, free].T * weights) @ fixed)
            outside = free & ((action + step < low - 1e-9) | (action + step > high + 1e-9))
            step = np.clip(action + step, low, high) - action
            free &= ~outside
            if not outside.any() or not free.any():
                break
        left = np.abs(error + slopes @ step)
        weights = weights * (left / left.max() + 0.02)
        weights /= weights.max()
    return step

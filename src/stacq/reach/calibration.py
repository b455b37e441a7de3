"""A truer test of reachability than the paper's: it refines the inverse action and knows the models' error.

Measured in the simulator by `research/reachability_truth.py`, on hopper, walker2d and halfcheetah medium:

- The residual f(s, I(s, s')) - s' says as much about the inverse model's guess as about s'. One step on the
  forward model towards the least maximum removes most of that: more true successors pass, and of the truly
  reachable candidates as many as before are found among far fewer false ones (walker2d: among slightly more).
- Models err where contacts are made, and their members disagree there. A tolerance that grows with this spread,
  scaled per dimension to the error on held-out rows, lets true successors pass in hard states without opening easy
  ones to everything. An error per dimension that is the same in all states does less of the one and more of the other.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Bools, Floats
from stacq.dynamics.models import PRECISION, Models, forward_mean, forward_members, inverse_mean
from stacq.reach.config import RECALL

EPSILON = 0.1  # the paper's tolerance, in ranges
REWEIGHTINGS = 3
DAMPING = 1e-3  # of the normal equations, relative to their mean diagonal
FLOOR = 0.02  # least factor of a reweighting: a dimension that fits now may not fit after the next one
TINY = 1e-30  # against division by zero where nothing is left to correct


@jax.jit
def refined(
    models: Models, s: jax.Array, s_next: jax.Array, sizes: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """f(s, a) - s' and the members' spread there, each [B, S], and a, [B, A].

    The action a is I(s, s') clipped to the bounds, then moved by one Gauss-Newton step on the forward ensemble where
    that lowers the residual's L-infinity norm in units of `sizes` [B, S], the ranges of one step. This costs about
    A + 2 forward passes where the paper's test takes one.
    """
    actions = jnp.clip(inverse_mean(models, s, s_next), low, high)

    def improve(s: jax.Array, s_next: jax.Array, size: jax.Array, a: jax.Array) -> tuple[jax.Array, ...]:
        def error(a: jax.Array) -> jax.Array:
            return (forward_mean(models, s, a) - s_next) / size

        before = error(a)
        moved = minimax_step(jax.jacfwd(error)(a), before, a, low, high)
        better = jnp.abs(error(moved)).max() < jnp.abs(before).max()
        best = jnp.where(better, moved, a)
        members = forward_members(models, s, best)  # [F, S]
        return members.mean(axis=0) - s_next, members.std(axis=0), best

    residuals, spreads, best = jax.vmap(improve)(s, s_next, sizes, actions)
    return residuals, spreads, best


def minimax_step(slopes: jax.Array, error: jax.Array, a: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """The action within bounds that nearly minimises max |error + slopes (a' - a)|, by reweighted least squares.

    `slopes` is [S, A]. Each round weighs a dimension up by what the round before left in it (Lawson's method). Steps
    are in half widths of the bounds, so that the damping does not depend on the units of actions.
    """
    weights, moved, half = jnp.ones_like(error), a, (high - low) / 2
    slopes = slopes * half
    with jax.default_matmul_precision(PRECISION):
        for _ in range(1 + REWEIGHTINGS):
            weighted = slopes.T * weights[None, :]  # [A, S]
            squares = weighted @ slopes
            ridge = DAMPING * jnp.trace(squares) / a.shape[0] + TINY
            step = jnp.linalg.solve(squares + ridge * jnp.eye(a.shape[0]), weighted @ error)
            moved = jnp.clip(a - half * step, low, high)
            left = jnp.abs(error + slopes @ ((moved - a) / half))
            weights = weights * (left / jnp.maximum(left.max(), TINY) + FLOOR)
            weights = weights / weights.max()
    return moved


def errors(residuals: Any, spreads: Any, sizes: Any, trust: Any, epsilon: float, xp: Any = np) -> Any:
    """Residuals in units of what is tolerated, [..., S]; `xp` is NumPy, or jax.numpy inside a compiled program."""
    return xp.abs(residuals) / xp.hypot(epsilon * sizes, trust * spreads)


@jax.jit
def refined_scores(
    models: Models,
    s: jax.Array,
    s_next: jax.Array,
    sizes: jax.Array,
    low: jax.Array,
    high: jax.Array,
    trust: jax.Array,
    epsilon: float,
) -> jax.Array:
    """`Calibration.scores` of pairs on the device, after refining their actions, [B]."""
    residuals, spreads, _ = refined(models, s, s_next, sizes, low, high)
    scores: jax.Array = errors(residuals, spreads, sizes, trust, epsilon, jnp).max(axis=-1)
    return scores


@dataclass(frozen=True)
class Calibration:
    """How far the models may be off: at score 1 the error is epsilon ranges and one standard error, in quadrature."""

    trust: tuple[float, ...]  # [S]: held-out error per unit of the ensemble's spread
    epsilon: float
    threshold: float  # on the score; above 1 only where fewer known pairs than wanted would pass
    recall: float  # share of the held-out pairs that pass
    worst_dimension: int  # the one that most often decides the score of held-out pairs that fail, or nearly

    @staticmethod
    def fit(
        residuals: Floats, spreads: Floats, sizes: Floats, *, recall: float = RECALL, epsilon: float = EPSILON
    ) -> "Calibration":
        """From held-out rows and their recorded successors, each [N, S]; rows the models were fitted on flatter."""
        if not residuals.shape == spreads.shape == sizes.shape or residuals.ndim != 2 or len(residuals) == 0:
            raise InputError(
                f"residuals, spreads and sizes have shapes {residuals.shape}, {spreads.shape} and {sizes.shape}",
                where="calibration",
                expected="all [N, S], with at least one held-out row",
            )
        if not 0 < recall <= 1:
            raise InputError(f"recall is {recall}", where="calibration", expected="a share above 0 and up to 1")
        trust = np.sqrt((residuals**2).mean(axis=0) / np.maximum((spreads**2).mean(axis=0), TINY))  # [S]
        scaled = errors(residuals, spreads, sizes, trust, epsilon)
        found = scaled.max(axis=1)
        threshold = _threshold(found, recall)
        hardest = found >= min(threshold, float(found.max()))
        worst = int(np.bincount(scaled[hardest].argmax(axis=1)).argmax())
        return Calibration(tuple(trust.tolist()), epsilon, threshold, float((found <= threshold).mean()), worst)

    def passed_by(self, scores: Floats, recall: float) -> "Calibration":
        """The same with the threshold that at least this share of known pairs passes, whose scores these are, [N]."""
        threshold = _threshold(scores, recall)
        return replace(self, threshold=threshold, recall=float((scores <= threshold).mean()))

    def scores(self, residuals: Floats, spreads: Floats, sizes: Floats) -> Floats:
        """The L-infinity norm of residuals in units of what is tolerated, [...]; low is reachable."""
        scores: Floats = self.errors(residuals, spreads, sizes).max(axis=-1)
        return scores

    def errors(self, residuals: Floats, spreads: Floats, sizes: Floats) -> Floats:
        """Residuals in units of what is tolerated, [..., S]."""
        scaled: Floats = errors(residuals, spreads, sizes, np.asarray(self.trust, spreads.dtype), self.epsilon)
        return scaled

    def accepts(self, residuals: Floats, spreads: Floats, sizes: Floats) -> Bools:
        """Which pairs count as reachable, [...]."""
        return np.asarray(self.scores(residuals, spreads, sizes) <= self.threshold)


def _threshold(scores: Floats, recall: float) -> float:
    """The order statistic, not an interpolation: at least this share passes."""
    return max(1.0, float(np.quantile(scores, recall, method="inverted_cdf")))

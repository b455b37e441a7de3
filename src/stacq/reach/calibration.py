"""A truer test of reachability than the paper's: refine the inverse action, and set the tolerance by known pairs.

Why, from `experiments/reachability_truth.py`: the paper's test fails true successors and admits false ones for
the same reason, the inverse model. Its action is a fair guess, and the residual f(s, I(s, s')) - s' says as much
about the guess as about s'. One step on the forward model towards the least maximum removes most of that part.
Weighting dimensions by the models' error instead, the obvious calibration, was measured and makes matters worse:
where a step's range is as small as the error, candidates differ as well, and a wider tolerance lets them all in.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from stacq.dynamics.models import Models, forward_mean, inverse_mean
from stacq.errors import InputError
from stacq.types import Bools, Floats

EPSILON = 0.1  # the paper's tolerance, in ranges
RECALL = 0.95  # of known pairs
REWEIGHTINGS = 3
DAMPING = 1e-3  # of the normal equations, relative to their mean diagonal
TINY = 1e-30  # against division by zero where nothing is left to correct
FLOOR = 0.02  # least factor of a reweighting: a dimension that fits now may not fit after the next one


@jax.jit
def refined(
    models: Models, s: jax.Array, s_next: jax.Array, sizes: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """f(s, a) - s', [B, S], and a, [B, A]: I(s, s') clipped to the bounds, then improved on the forward ensemble.

    `sizes` [B, S] are the ranges of one step. The improvement is one Gauss-Newton step, taken only where it lowers
    the L-infinity norm in units of `sizes`; A + 2 forward passes where the paper's test takes one.
    """
    actions = jnp.clip(inverse_mean(models, s, s_next), low, high)

    def improve(s: jax.Array, s_next: jax.Array, size: jax.Array, a: jax.Array) -> tuple[jax.Array, jax.Array]:
        def error(a: jax.Array) -> jax.Array:
            return (forward_mean(models, s, a) - s_next) / size

        before = error(a)
        moved = minimax_step(jax.jacfwd(error)(a), before, a, low, high)
        after = error(moved)
        better = jnp.abs(after).max() < jnp.abs(before).max()
        return jnp.where(better, after, before) * size, jnp.where(better, moved, a)

    found: tuple[jax.Array, jax.Array] = jax.vmap(improve)(s, s_next, sizes, actions)
    return found


def minimax_step(slopes: jax.Array, error: jax.Array, a: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """The action within bounds that nearly minimises max |error + slopes (a' - a)|, by reweighted least squares.

    `slopes` is [S, A]. Each round weighs a dimension up by what the round before left in it (Lawson's method).
    """
    weights, moved = jnp.ones_like(error), a
    with jax.default_matmul_precision("highest"):
        for _ in range(1 + REWEIGHTINGS):
            weighted = slopes.T * weights[None, :]  # [A, S]
            squares = weighted @ slopes
            ridge = DAMPING * jnp.trace(squares) / a.shape[0] + TINY
            moved = jnp.clip(a - jnp.linalg.solve(squares + ridge * jnp.eye(a.shape[0]), weighted @ error), low, high)
            left = jnp.abs(error + slopes @ (moved - a))
            weights = weights * (left / jnp.maximum(left.max(), TINY) + FLOOR)
            weights = weights / weights.max()
    return moved


def scores(residuals: Floats, sizes: Floats) -> Floats:
    """The L-infinity norm of residuals in units of one step's range, [...]."""
    scaled: Floats = np.abs(residuals / sizes).max(axis=-1)
    return scaled


@dataclass(frozen=True)
class Calibration:
    """The tolerance that lets a wanted share of known pairs pass, and never a smaller one than epsilon."""

    threshold: float
    recall: float  # share of the held-out pairs that pass
    worst_dimension: int  # decides the score of most held-out pairs that fail, or that come nearest to failing

    @staticmethod
    def fit(residuals: Floats, sizes: Floats, *, recall: float = RECALL, epsilon: float = EPSILON) -> "Calibration":
        """From held-out rows and their recorded successors, each [N, S]; rows the models were fitted on flatter."""
        if residuals.shape != sizes.shape or residuals.ndim != 2 or len(residuals) == 0:
            raise InputError(
                f"residuals have shape {residuals.shape} and sizes {sizes.shape}",
                where="calibration",
                expected="both [N, S], with at least one held-out row",
            )
        if not 0 < recall <= 1:
            raise InputError(f"recall is {recall}", where="calibration", expected="a share above 0 and up to 1")
        found = scores(residuals, sizes)
        # The order statistic, not an interpolation: at least this share passes.
        threshold = max(epsilon, float(np.quantile(found, recall, method="inverted_cdf")))
        hardest = found >= min(threshold, float(found.max()))
        worst = np.abs(residuals / sizes)[hardest].argmax(axis=1)
        return Calibration(threshold, float((found <= threshold).mean()), int(np.bincount(worst).argmax()))

    def accepts(self, residuals: Floats, sizes: Floats) -> Bools:
        """Which pairs count as reachable, [...]."""
        return np.asarray(scores(residuals, sizes) <= self.threshold)

"""How far one step can go from each state: the box of next states over sampled actions (appendix B)."""

from itertools import product
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from stacq.dynamics.models import PRECISION, Models
from stacq.types import Float32s

Estimator = Literal["random", "corners"]
PAIRS_AT_ONCE = 16_384  # state-action pairs per block: bounds the activations' memory
MOST_CORNERS = 256  # of the action box; beyond 8 dimensions a seeded choice of them
TOUCH = 1e-6  # room around a true successor, so that it never lies on a face


def range_actions(low: Float32s, high: Float32s, count: int, estimator: Estimator, seed: int) -> Float32s:
    """The actions behind every range, [n, A]: `count` uniform ones, preceded by the box's corners if asked.

    Next states are nearly monotone in each action dimension, so most extremes lie at corners: a few dozen
    actions with corners measure what takes a thousand without.
    """
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(low, high, (count, len(low))).astype(np.float32)
    if estimator == "random":
        return uniform
    return np.concatenate([_corners(low, high, rng), uniform])


def _corners(low: Float32s, high: Float32s, rng: np.random.Generator) -> Float32s:
    size = len(low)
    if 2**size <= MOST_CORNERS:
        sides = np.array(list(product([False, True], repeat=size)))
    else:
        sides = rng.random((MOST_CORNERS, size)) < 0.5
    return np.where(sides, high, low).astype(np.float32)


def ranges(models: Models, s: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Appendix B: R_min(s) and R_max(s), per dimension over the actions, of the ensemble's mean, each [B, S]."""
    block = max(1, PAIRS_AT_ONCE // s.shape[0])
    count = -(-actions.shape[0] // block)
    padded = jnp.concatenate([actions, jnp.repeat(actions[:1], count * block - actions.shape[0], axis=0)])
    low, high = _ranges(models, s, padded.reshape(count, block, -1))
    return low, high


@jax.jit
def _ranges(models: Models, s: jax.Array, blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
    from_state = _first_layer(models, s)

    def widen(box: tuple[jax.Array, jax.Array], actions: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        steps = _steps(models, from_state, actions)  # [B, K, S]
        return (jnp.minimum(box[0], steps.min(axis=1)), jnp.maximum(box[1], steps.max(axis=1))), None

    with jax.default_matmul_precision(PRECISION):
        nothing = jnp.full_like(s, jnp.inf)
        (low, high), _ = jax.lax.scan(widen, (nothing, -nothing), blocks)
    base = s + models.step_mean
    return base + models.step_scale * low, base + models.step_scale * high


def _first_layer(models: Models, s: jax.Array) -> jax.Array:
    """The state's part of the first layer, [F, B, H]: it is the same for every action."""
    with jax.default_matmul_precision(PRECISION):
        return jnp.einsum("bs,fsh->fbh", s, models.forward.weights[0][:, : s.shape[1]])


def _steps(models: Models, from_state: jax.Array, actions: jax.Array) -> jax.Array:
    """Scaled steps of the ensemble's mean for every state and action, [B, K, S]."""
    network = models.forward
    members, batch, _ = from_state.shape
    from_action = jnp.einsum("ka,fah->fkh", actions, network.weights[0][:, -actions.shape[1] :])
    hidden = from_state[:, :, None] + (from_action + network.biases[0][:, None])[:, None]
    hidden = jax.nn.relu(hidden).reshape(members, batch * actions.shape[0], -1)  # [F, B K, H]
    for weight, bias in zip(network.weights[1:-1], network.biases[1:-1], strict=True):
        hidden = jax.nn.relu(hidden @ weight + bias[:, None])
    # The mean over members folds into the last layer: one product over members and units together.
    last = jnp.einsum("fph,fhs->ps", hidden, network.weights[-1]) / members + network.biases[-1].mean(axis=0)
    return last.reshape(batch, actions.shape[0], -1)


def widened(low: Float32s, high: Float32s, s_next: Float32s, known: np.ndarray) -> tuple[Float32s, Float32s]:
    """Boxes that contain the true successor where it is known, as the authors' do; never thinner than 2 TOUCH."""
    rows = known[:, None]
    touch = np.float32(TOUCH)
    low = np.where(rows, np.fmin(low, s_next - touch), low)
    return low, np.where(rows, np.fmax(high, s_next + touch), high)

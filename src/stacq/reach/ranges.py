"""How far one step can go from each state: the box of next states over sampled actions (appendix B)."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Float32s
from stacq.dynamics.models import PRECISION, Models
from stacq.nn.mlp import MLP
from stacq.reach.config import Estimator

PAIRS_AT_ONCE = {"cpu": 2_048, "gpu": 131_072}  # state-action pairs per block: a CPU keeps its activations in cache
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
    most = max(1, PAIRS_AT_ONCE["cpu" if jax.default_backend() == "cpu" else "gpu"] // s.shape[0])
    count = -(-actions.shape[0] // most)
    block = -(-actions.shape[0] // count)
    padded = jnp.concatenate([actions, jnp.repeat(actions[:1], count * block - actions.shape[0], axis=0)])
    low, high = _ranges(models, s, padded.reshape(count, block, -1))
    return low, high


@jax.jit
def _ranges(models: Models, s: jax.Array, blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
    network = models.forward

    def widen(box: tuple[jax.Array, jax.Array], actions: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        steps = _total_steps(network, from_state, actions)  # [B, K, S]
        return (jnp.minimum(box[0], steps.min(axis=1)), jnp.maximum(box[1], steps.max(axis=1))), None

    with jax.default_matmul_precision(PRECISION):
        # The state's part of the first layer, [F, B, H], is the same for every action.
        from_state = jnp.einsum("bs,fsh->fbh", s, network.weights[0][:, : s.shape[1]]) + network.biases[0][:, None]
        nothing = jnp.full_like(s, jnp.inf)
        (low, high), _ = jax.lax.scan(widen, (nothing, -nothing), blocks)
    base = s + models.step_mean + models.step_scale * network.biases[-1].mean(axis=0)
    scale = models.step_scale / network.members
    return base + scale * low, base + scale * high


def _total_steps(network: MLP, from_state: jax.Array, actions: jax.Array) -> jax.Array:
    """Scaled steps for every state and action, summed over members and without the last bias, [B, K, S].

    Members take turns, so that one product's result is still in cache when the next one reads it.
    """
    batch, count = from_state.shape[1], actions.shape[0]
    weights = (network.weights[0][:, -actions.shape[1] :], *network.weights[1:])

    def add(total: jax.Array, member: tuple[jax.Array, MLP]) -> tuple[jax.Array, None]:
        state, rest = member
        hidden = jax.nn.relu(state[:, None] + actions @ rest.weights[0]).reshape(batch * count, -1)
        for weight, bias in zip(rest.weights[1:-1], rest.biases[1:-1], strict=True):
            hidden = jax.nn.relu(hidden @ weight + bias)
        return total + hidden @ rest.weights[-1], None

    nothing = jnp.zeros((batch * count, weights[-1].shape[-1]), dtype=from_state.dtype)
    total, _ = jax.lax.scan(add, nothing, (from_state, MLP(weights, network.biases)))
    return total.reshape(batch, count, -1)


def widened(low: Float32s, high: Float32s, s_next: Float32s, known: np.ndarray) -> tuple[Float32s, Float32s]:
    """Boxes that contain the true successor where it is known, as the authors' do, with room on either side of it."""
    rows, touch, end = known[:, None], np.float32(TOUCH), np.float32(np.inf)
    below = np.minimum(s_next - touch, np.nextafter(s_next, -end))  # beyond 32, float32 cannot tell TOUCH from nothing
    above = np.maximum(s_next + touch, np.nextafter(s_next, end))
    return np.where(rows, np.fmin(low, below), low), np.where(rows, np.fmax(high, above), high)


def box_sizes(low: Float32s, high: Float32s) -> Float32s:
    """How far one step goes, [B, S]: what errors are measured in, so never nothing, even where no action moves."""
    sizes: Float32s = np.maximum(high - low, np.float32(2 * TOUCH))
    return sizes

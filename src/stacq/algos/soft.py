"""Soft actor-critic's equations (Haarnoja et al., 2018), and cloning by likelihood for the same policy."""

import jax
import jax.numpy as jnp

from stacq.algos.algorithm import Metrics
from stacq.algos.common import member_values
from stacq.algos.world import Batch
from stacq.nn.mlp import MLP
from stacq.nn.squashed import log_density, mean_and_log_std, sampled_action


def glorot(network: MLP) -> MLP:
    """Weights uniform in +-sqrt(6 / (inputs + outputs)) and no biases, from ones uniform in +-1/sqrt(inputs)."""
    weights = [w * (6 * w.shape[-2] / (w.shape[-2] + w.shape[-1])) ** 0.5 for w in network.weights]
    return MLP(tuple(weights), tuple(jnp.zeros_like(b) for b in network.biases), network.layer_norm)


def soft_target(
    critic: MLP, actor: MLP, log_alpha: jax.Array, batch: Batch, noise: jax.Array, discount: jax.Array | float
) -> jax.Array:
    """y = r + gamma (1 - d) (min_j Q'_j(s', a') - alpha log pi(a' | s')) with a' from the policy, [B]."""
    a, log_pi = sampled_action(actor, batch.s_next, noise)
    v = member_values(critic, batch.s_next, a).min(axis=0) - jnp.exp(log_alpha) * log_pi
    return batch.r + discount * (1 - batch.done) * v


def critic_loss(critic: MLP, batch: Batch, y: jax.Array) -> tuple[jax.Array, Metrics]:
    """Sum over critics of half the mean squared error to one shared target."""
    q = member_values(critic, batch.s, batch.a)
    loss = jnp.mean((q - y) ** 2, axis=1).sum() / 2
    return loss, {"critic_loss": loss, "q": q.mean(), "target": y.mean()}


def actor_loss(
    actor: MLP, critic: MLP, log_alpha: jax.Array, batch: Batch, noise: jax.Array
) -> tuple[jax.Array, Metrics]:
    """mean alpha log pi(a | s) - min_j Q_j(s, a) with a from the policy."""
    a, log_pi = sampled_action(actor, batch.s, noise)
    q = member_values(critic, batch.s, a).min(axis=0)
    loss = jnp.mean(jnp.exp(log_alpha) * log_pi - q)
    return loss, {"actor_loss": loss, "q_policy": q.mean(), "entropy": -log_pi.mean()}


def temperature_loss(log_alpha: jax.Array, entropy: jax.Array, actions: int) -> tuple[jax.Array, Metrics]:
    """log alpha (entropy - wanted), where an entropy of -|A| is wanted."""
    loss = log_alpha * (entropy + actions)
    return loss, {"alpha": jnp.exp(log_alpha)}


def clone_loss(actor: MLP, batch: Batch) -> tuple[jax.Array, Metrics]:
    """-log pi(a | s), the mean over rows whose action is inside the bounds: at a bound the density has no limit."""
    inside = jnp.all(jnp.abs(batch.a) < 1, axis=-1)
    u = jnp.arctanh(jnp.where(inside[:, None], batch.a, 0.0))
    each = jnp.where(inside, -log_density(*mean_and_log_std(actor, batch.s), u), 0.0)
    loss = each.sum() / jnp.maximum(inside.sum(), 1)
    return loss, {"clone_loss": loss}

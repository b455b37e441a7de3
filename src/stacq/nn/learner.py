"""A network in training: its parameters, the slow copy that targets are made with, and Adam's moments."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax

N = TypeVar("N")  # a network: any tree of arrays


class Learner(NamedTuple, Generic[N]):
    """Everything about one network that changes during training.

    Baselines without a slow copy hold None as `target`; so does a snapshot, which needs parameters alone.
    """

    network: N
    target: N | None
    moments: optax.OptState | None


Loss = Callable[[N], tuple[jax.Array, dict[str, jax.Array]]]


def new_learner(network: N, optimiser: optax.GradientTransformation, *, target: bool = True) -> Learner[N]:
    return Learner(network, jax.tree.map(jnp.copy, network) if target else None, optimiser.init(network))


def descend(
    learner: Learner[N], loss: Loss[N], optimiser: optax.GradientTransformation
) -> tuple[Learner[N], dict[str, jax.Array]]:
    """One gradient step on `loss(network) -> (value, what to log)`; the slow copy stays."""
    (_, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(learner.network)
    updates, moments = optimiser.update(gradients, learner.moments, learner.network)
    return learner._replace(network=optax.apply_updates(learner.network, updates), moments=moments), metrics


def follow(learner: Learner[N], rate: jax.typing.ArrayLike) -> Learner[N]:
    """Move the slow copy towards the parameters: theta' <- rate theta + (1 - rate) theta'."""
    target = jax.tree.map(lambda slow, fast: slow + rate * (fast - slow), learner.target, learner.network)
    return learner._replace(target=target)


def stripped(state: Any) -> Any:
    """The same tree with nothing but parameters: what acting and judging need, and training does not.

    What is no learner stays, such as a number that a policy is made with.
    """

    def kept(node: Any) -> Any:
        return Learner(node.network, None, None) if isinstance(node, Learner) else node

    return jax.tree.map(kept, state, is_leaf=lambda node: isinstance(node, Learner))

"""Work that is due now and then, in a program that steps many seeds side by side."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def when(due: jax.Array, work: Callable[..., T], state: T, *given: Any) -> T:
    """`work(state, *given)` where it is due, else the state as it was.

    `jax.lax.cond` under `vmap` does the work of every lane all the time and throws the result away. Here it is left
    out as long as no lane needs it. `work` must get every array that it reads as an argument.
    """

    @jax.custom_batching.custom_vmap
    def one(due: jax.Array, state: T, given: tuple[Any, ...]) -> T:
        result: T = jax.lax.cond(due, lambda: work(state, *given), lambda: state)
        return result

    @one.def_vmap
    def many(size: int, batched: Any, due: jax.Array, state: T, given: tuple[Any, ...]) -> tuple[T, Any]:
        def lanes(values: Any, has: Any) -> Any:
            return jax.tree.map(
                lambda each, own: each if own else jnp.broadcast_to(each, (size, *each.shape)), values, has
            )

        due, state = lanes(due, batched[0]), lanes(state, batched[1])
        axes = jax.tree.map(lambda own: 0 if own else None, batched[2])

        def some() -> T:
            done = jax.vmap(lambda state, given: work(state, *given), in_axes=(0, axes))(state, given)
            chosen: T = jax.tree.map(lambda new, old: jnp.where(_beside(due, new), new, old), done, state)
            return chosen

        result: T = jax.lax.cond(due.any(), some, lambda: state)
        return result, jax.tree.map(lambda _: True, result)

    result: T = one(due, state, given)
    return result


def _beside(flag: jax.Array, values: jax.Array) -> jax.Array:
    """A flag per lane, shaped to broadcast against values with more axes."""
    return flag.reshape(flag.shape + (1,) * (values.ndim - flag.ndim))

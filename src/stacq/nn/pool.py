"""A ring of rows: the newest ones, of those that were put in."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Pool(NamedTuple):
    table: jax.Array  # [C, W]
    place: jax.Array  # where the next row goes
    size: jax.Array  # rows in it


def empty_pool(capacity: int, width: int) -> Pool:
    return Pool(jnp.zeros((capacity, width)), jnp.asarray(0, jnp.int32), jnp.asarray(0, jnp.int32))


def put(pool: Pool, rows: jax.Array, keep: jax.Array) -> Pool:
    """With those of `rows` [n, W] that `keep` [n] says, over the oldest ones; n is at most the capacity."""
    capacity = pool.table.shape[0]
    assert rows.shape[0] <= capacity, "a row would be written twice"
    rank = jnp.cumsum(keep, dtype=jnp.int32) - 1
    beyond = capacity + jnp.arange(rows.shape[0], dtype=jnp.int32)  # places that are none: these rows are dropped
    slots = jnp.where(keep, (pool.place + rank) % capacity, beyond)
    table = pool.table.at[slots].set(rows, mode="drop", unique_indices=True)
    count = keep.sum(dtype=jnp.int32)
    return Pool(table, (pool.place + count) % capacity, jnp.minimum(pool.size + count, capacity))


def draw(pool: Pool, key: jax.Array, count: int) -> jax.Array:
    """Rows at random with replacement, [count, W]; the pool must not be empty."""
    return pool.table[below(key, (count,), pool.size)]


def below(key: jax.Array, shape: tuple[int, ...], end: jax.Array | int) -> jax.Array:
    """Whole numbers from 0 below `end`, uniform to within end / 2^32; `jax.random.randint` compiles twice as long."""
    return (jax.random.bits(key, shape) % jnp.asarray(end, jnp.uint32)).astype(jnp.int32)

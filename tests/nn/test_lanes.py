"""Work that is due now and then: done for the lanes that need it, and left out where none does."""

import jax
import jax.numpy as jnp
import numpy as np

from stacq.nn.lanes import when


def test_lanes_get_what_they_asked_for() -> None:
    @jax.jit
    def run(due: jax.Array, state: dict[str, jax.Array], given: jax.Array) -> dict[str, jax.Array]:
        def one(due: jax.Array, state: dict[str, jax.Array]) -> dict[str, jax.Array]:
            return when(due, lambda now, more: {"a": now["a"] + more, "b": now["b"] * 2}, state, given)

        return jax.vmap(one)(due, state)

    state = {"a": jnp.zeros((3, 2)), "b": jnp.arange(3)}
    found = run(jnp.asarray([True, False, True]), state, jnp.asarray(5.0))
    np.testing.assert_array_equal(found["a"], [[5, 5], [0, 0], [5, 5]])
    np.testing.assert_array_equal(found["b"], [0, 1, 4])


def test_what_no_lane_needs_is_not_done() -> None:
    """The callback counts: two lanes at the third and sixth step of a loop, where one of them is due."""
    count: list[int] = []

    def work(total: jax.Array, step: jax.Array) -> jax.Array:
        jax.debug.callback(lambda _: count.append(1), total)
        return total + step

    def lane(offset: jax.Array) -> jax.Array:
        def body(step: jax.Array, total: jax.Array) -> jax.Array:
            return when((step + offset) % 3 == 0, work, total, step)

        found: jax.Array = jax.lax.fori_loop(1, 7, body, jnp.asarray(0))
        return found

    np.testing.assert_array_equal(jax.jit(jax.vmap(lane))(jnp.asarray([0, 3])), [9, 9])
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    assert len(count) == 4  # both lanes, twice
    count.clear()
    assert jax.jit(lane)(jnp.asarray(1)) == 7  # a lane of its own, at the second and fifth step
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    assert len(count) == 2

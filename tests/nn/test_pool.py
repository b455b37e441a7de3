"""The ring of rows against a list that forgets its oldest ones."""

import jax
import jax.numpy as jnp
import numpy as np

from stacq.nn.pool import below, draw, empty_pool, put

CAPACITY, WIDTH, ROWS = 7, 2, 5


def test_the_newest_rows_stay_wherever_the_ring_begins() -> None:
    rng = np.random.default_rng(0)
    pool, kept, fill = empty_pool(CAPACITY, WIDTH), list[list[float]](), jax.jit(put)
    wrapped = False
    for turn in range(12):
        rows = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
        keep = rng.random(ROWS) < 0.7 if turn else np.zeros(ROWS, bool)
        before = int(pool.place)
        pool = fill(pool, jnp.asarray(rows), jnp.asarray(keep))
        wrapped |= int(pool.place) < before
        kept = (kept + rows[keep].tolist())[-CAPACITY:]
        table = np.asarray(pool.table)
        oldest = int(pool.place) if len(kept) == CAPACITY else 0
        assert int(pool.size) == len(kept)
        assert np.roll(table, -oldest, axis=0)[: len(kept)].tolist() == kept
    assert wrapped


def test_only_rows_that_were_put_in_are_drawn() -> None:
    rows = jnp.arange(1.0, 4.0)[:, None]
    pool = put(empty_pool(CAPACITY, 1), rows, jnp.asarray([True, False, True]))
    found = np.asarray(draw(pool, jax.random.key(0), 400))[:, 0]
    assert set(found) == {1.0, 3.0} and abs((found == 1.0).mean() - 0.5) < 0.1


def test_numbers_below_an_end_are_even() -> None:
    found = np.bincount(np.asarray(below(jax.random.key(1), (6000,), 6)), minlength=6)
    assert len(found) == 6 and np.abs(found - 1000).max() < 120

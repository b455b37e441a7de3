"""Which stitches are made and which are not; what the rewritten data holds."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from stacq.core.types import Floats, Ints
from stacq.data.dataset import Dataset
from stacq.nn.mlp import MLP
from stacq.stitch.jumps import best_jumps, usual_radius
from stacq.stitch.paths import ROW, STITCHED, TO, Made, Paths, accepted, returns_of, rewards_along, rewritten, traced
from stacq.stitch.report import report_of
from stitch_cases import jumps_by_loops, line, moving

ONE = moving([1.0], [0.0])  # a Gaussian of deviation 1 around s + 1


def chain() -> Dataset:
    """Two walks that cross at 2: one goes on slowly and stops, the other goes on fast to the end of the task."""
    slow = [0.0, 1.0, 2.0, 2.2, 2.3]
    fast = [5.0, 2.0, 3.0, 4.0]
    return line([slow, fast], [[0, 0, 0, 0], [0, 0, 9]], "ot")


def promise(dataset: Dataset) -> Floats:
    """The further on the line the better."""
    return dataset.next_observations[:, 0].astype(np.float64)


def jumps_of(dataset: Dataset, radius: float = 0.05, elites: MLP = ONE, values: Floats | None = None) -> Ints:
    return best_jumps(dataset, elites, promise(dataset) if values is None else values, radius)


def test_the_one_stitch_of_two_chains() -> None:
    """From the slow walk's 2 (row 2) to the fast walk's 3 (row 5): near, likelier by the model, and worth more."""
    dataset = chain()
    jumps = jumps_of(dataset)
    assert jumps.tolist() == [0, 1, 5, 3, 4, 5, 6]
    paths = traced(dataset, jumps, 100)
    assert paths.offsets.tolist() == [0, 4, 7]
    assert paths.row.tolist() == [0, 1, 2, 6, 4, 5, 6]
    assert paths.to.tolist() == [0, 1, 5, 6, 4, 5, 6]
    made = Made(np.array([[0.75]], np.float32), np.array([1.0], np.float32))
    assert returns_of(rewards_along(dataset, paths, made), paths.offsets).tolist() == [10.0, 9.0]
    after = rewritten(dataset, paths, made, np.array([True, False]))
    assert after.observations[:, 0].tolist() == [0, 1, 2, 3, 5, 2, 3]
    assert after.next_observations[:, 0].tolist() == [1, 2, 3, 4, 2, 3, 4]
    assert after.actions[:, 0].tolist() == [1, 1, 0.75, 1, -3, 1, 1]
    assert after.rewards.tolist() == [0, 0, 1, 9, 0, 0, 9]
    assert after.terminals.tolist() == [False, False, False, True, False, False, True] and not after.timeouts.any()
    assert after.infos[STITCHED].tolist() == [False, False, True, False, False, False, False]
    assert (after.infos[ROW].tolist(), after.infos[TO].tolist()) == ([0, 1, 2, 6, 4, 5, 6], [0, 1, 5, 6, 4, 5, 6])


def test_its_report() -> None:
    dataset = chain()
    paths = traced(dataset, jumps_of(dataset), 100)
    found = report_of(3, dataset, paths, np.array([10.0, 9.0]), np.array([True, False]), 7)
    assert (found.iteration, found.episodes, found.accepted, found.rows) == (3, 2, 1, 7)
    assert (found.stitches, found.across, found.links) == (1, 1, ((0, 1, 1),))
    assert (found.return_before, found.return_after, found.best_before, found.best_after) == (4.5, 9.5, 9.0, 10.0)
    assert (found.returns_before, found.returns_after) == ((0.0,), (10.0,))
    none = report_of(1, dataset, paths, np.array([10.0, 9.0]), np.array([False, False]), 7)
    assert (none.stitches, none.links, none.return_after) == (0, (), 4.5)


def test_a_near_successor_is_a_candidate_too() -> None:
    """Row 0 and row 2 begin far apart; their successors are near, and that is enough."""
    dataset = line([[0.0, 1.0, 1.1], [0.5, 1.02, 3.0]], [[0, 0], [0, 0]], "oo")
    assert jumps_of(dataset, 0.05)[0] == 0  # 1.02 is less likely than 1.0 by this model
    assert jumps_of(dataset, 0.05, moving([1.02], [0.0]))[0] == 2
    assert jumps_of(dataset, 0.01, moving([1.02], [0.0]))[0] == 0


@pytest.mark.parametrize("what", ["far", "unlikely", "worthless", "unknown", "doubted"])
def test_what_is_not_allowed_is_not_stitched(what: str) -> None:
    dataset, values, radius, elites = chain(), promise(chain()), 0.05, ONE
    if what == "far":
        dataset = line([[0.0, 1.0, 2.0, 2.2, 2.3], [5.0, 2.25, 3.0, 4.0]], [[0, 0, 0, 0], [0, 0, 9]], "ot")
        radius = 0.04
    elif what == "unlikely":
        elites = moving([0.2], [-2.0])  # the slow walk's own step is what it expects
    elif what == "worthless":
        values = -values
    elif what == "unknown":
        known = np.arange(7) != 5
        dataset = dataclasses.replace(dataset, successor_known=known)
    elif what == "doubted":  # the mean member finds it likelier, but one of them does not
        elites = moving([1.0, 0.2], [0.0, -3.0])
    jumps = jumps_of(dataset, radius, elites, values)
    assert jumps.tolist() == list(range(7))


def test_nothing_goes_on_behind_the_end_of_a_recording_or_beyond_the_limit() -> None:
    """A jump to the last step of another recording ends there, and is stopped like it."""
    dataset = line([[0.0, 0.1, 0.2, 0.3], [0.0, 1.0], [7.0, 8.0]], [[0, 0, 0], [0], [0]], "ooo")
    jumps = np.array([3, 1, 2, 3, 4])
    paths = traced(dataset, jumps, 100)
    assert paths.row.tolist() == [0, 3, 4] and not paths.stopped.any()
    short = traced(dataset, np.arange(5), 2)
    assert short.row.tolist() == [0, 1, 3, 4] and short.stopped.tolist() == [True, False, False]
    none = Made(np.zeros((0, 1), np.float32), np.zeros(0, np.float32))
    after = rewritten(dataset, short, none, np.array([True, True, True]))
    assert after.timeouts.tolist() == [False, True, True, True]


def test_a_circle_ends_at_the_limit() -> None:
    dataset = line([[0.0, 1.0, 2.0, 3.0]], [[1, 1, 1]], "o")
    paths = traced(dataset, np.array([0, 0, 2]), 7)
    assert paths.row.tolist() == [0, 1, 1, 1, 1, 1, 1] and paths.stopped.all()


def test_returns_must_grow_by_a_share_of_their_size() -> None:
    before, after = np.array([10.0, 10.0, -10.0, -10.0, 0.0]), np.array([11.0, 11.5, -9.0, -8.5, 0.1])
    assert accepted(before, after, 0.1).tolist() == [False, True, False, True, True]


@pytest.mark.parametrize(("seed", "between_only"), [(0, False), (1, False), (1, True)])
def test_on_random_recordings_the_rule_equals_loops_over_pairs(seed: int, between_only: bool) -> None:
    rng = np.random.default_rng(seed)
    lengths, steps, sigmas = (9, 14, 6, 11), [0.3, 0.45, 0.2], [0.5, 0.6, 0.4]
    walks = [np.cumsum(rng.normal(0.25, 0.4, (n + 1, 2)), axis=0) for n in lengths]
    parts = [line([walk[:, 0].tolist() for walk in walks], [[0.0] * n for n in lengths], "ooto")]
    s, s_next = (
        np.concatenate([walk[part] for walk in walks]).astype(np.float32) for part in (slice(0, -1), slice(1, None))
    )
    known = rng.random(len(s)) > 0.1
    dataset = dataclasses.replace(parts[0], observations=s, next_observations=s_next, successor_known=known)
    weights = jnp.tile(jnp.concatenate([jnp.eye(2), jnp.zeros((2, 2))], axis=1), (3, 1, 1))
    biases = jnp.asarray(
        [[step, step, np.log(sigma), np.log(sigma)] for step, sigma in zip(steps, sigmas, strict=True)]
    )
    values = rng.normal(size=len(s))
    found = best_jumps(dataset, MLP((weights,), (biases,)), values, 0.8, between_only=between_only)
    expected = jumps_by_loops(dataset, steps, sigmas, values, 0.8, between_only)
    assert found.tolist() == expected and sum(i != j for i, j in enumerate(expected)) > 3


def test_the_usual_radius_is_half_a_step() -> None:
    assert usual_radius(chain()) == pytest.approx(0.5)


def test_infos_follow_the_state_of_a_row() -> None:
    dataset = chain()
    dataset = dataclasses.replace(dataset, infos={"qpos": np.arange(7) * 10.0})
    paths = Paths(
        np.array([0, 1, 2, 6, 4, 5, 6]), np.array([0, 1, 5, 6, 4, 5, 6]), np.array([0, 4, 7]), np.zeros(2, bool)
    )
    made = Made(np.array([[0.75]], np.float32), np.array([1.0], np.float32))
    after = rewritten(dataset, paths, made, np.array([True, True]))
    assert after.infos["qpos"].tolist() == [0, 10, 20, 60, 40, 50, 60]

"""What updates read: rows as the data has them, models with their scaling folded in, sets without the own pairs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import S, listed, point_dynamics, random_dynamics, recording, sets_of

from stacq.algos.pairs import own_only, pair_slots
from stacq.algos.world import Extras, draw_rows, folded, make_world
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.nn.mlp import frozen_for
from stacq.reach.actions import leading_actions
from stacq.reach.sets import ReachableSets, own_present

LOW, HIGH = (-2.0, 0.5), (3.0, 0.75)


def logs(seed: int = 0) -> Dataset:
    """Four episodes: the task ends with and without a recorded successor, a time limit, and a cut."""
    rng = np.random.default_rng(seed)
    paths = [rng.normal(size=(length + 1, S)) for length in (3, 4, 2, 3)]
    actions = [rng.uniform(LOW, HIGH, (len(path) - 1, 2)) for path in paths]
    rewards = [rng.normal(size=len(path) - 1) for path in paths]
    terminal, known = [True, True, False, False], [True, False, True, False]
    return recording(paths, actions, rewards, terminal=terminal, known=known, low=LOW, high=HIGH)


@pytest.mark.parametrize("hidden", [(), (9, 7)])
def test_folded_models_predict_as_the_dynamics_do(hidden: tuple[int, ...]) -> None:
    dynamics = random_dynamics(1, LOW, HIGH, hidden=hidden)
    world = replace(make_world(logs(), dynamics.normaliser, dynamics), ensemble=folded(dynamics))
    rng = np.random.default_rng(2)
    s, a = rng.normal(size=(50, S)).astype(np.float32), rng.uniform(LOW, HIGH, (50, 2)).astype(np.float32)
    scaled = (a - np.array(LOW)) / (np.array(HIGH) - np.array(LOW)) * 2 - 1
    found = world.forward(jnp.asarray(dynamics.normaliser.apply(s)), jnp.asarray(scaled, jnp.float32))
    np.testing.assert_allclose(dynamics.normaliser.invert(np.asarray(found)), dynamics.predict(s, a), atol=1e-5)
    members = world.forward_members(jnp.asarray(dynamics.normaliser.apply(s)), jnp.asarray(scaled, jnp.float32))
    np.testing.assert_allclose(members.std(axis=0) * dynamics.normaliser.scale, dynamics.spread(s, a), atol=1e-5)
    unscaled = world.forward(jnp.asarray(dynamics.normaliser.apply(s)), jnp.asarray(a))
    assert np.abs(np.asarray(unscaled) - np.asarray(found)).max() > 1e-2  # the bounds do matter here


def test_updates_see_the_models_to_the_precision_of_the_device() -> None:
    dynamics = random_dynamics(1, LOW, HIGH, hidden=(9, 7))
    world = make_world(logs(), dynamics.normaliser, dynamics)
    assert world.ensemble is not None
    frozen = frozen_for(jax.default_backend(), folded(dynamics))
    for ours, wanted in zip(jax.tree.leaves(world.ensemble), jax.tree.leaves(frozen), strict=True):
        assert ours.dtype == wanted.dtype
        np.testing.assert_array_equal(ours, wanted)


def test_rows_are_the_data_normalised_and_scaled() -> None:
    dataset, dynamics = logs(), random_dynamics(1, LOW, HIGH)
    rows = make_world(dataset, dynamics.normaliser, dynamics).rows.all
    known = dataset.successor_known
    np.testing.assert_allclose(dynamics.normaliser.invert(np.asarray(rows.s)), dataset.observations, atol=1e-5)
    back = dynamics.normaliser.invert(np.asarray(rows.s_next))
    np.testing.assert_allclose(back[known], dataset.next_observations[known], atol=1e-5)
    half, middle = (np.array(HIGH) - LOW) / 2, (np.array(HIGH) + LOW) / 2
    np.testing.assert_allclose(np.asarray(rows.a) * half + middle, dataset.actions, atol=1e-6)
    assert np.abs(rows.a).max() <= 1 + 1e-6
    np.testing.assert_array_equal(rows.r, dataset.rewards)
    np.testing.assert_array_equal(np.asarray(rows.done), dataset.terminals.astype(np.float32))
    assert not np.isnan(np.asarray(rows.s_next)).any()


def test_a_terminal_without_successor_gets_a_prediction_and_ends_there() -> None:
    dataset, dynamics = logs(), random_dynamics(1, LOW, HIGH)
    world = make_world(dataset, dynamics.normaliser, dynamics)
    row = 6  # the second episode's last
    assert dataset.terminals[row] and not dataset.successor_known[row]
    predicted = dynamics.predict(dataset.observations[row], dataset.actions[row])
    np.testing.assert_allclose(dynamics.normaliser.invert(np.asarray(world.rows.all.s_next[row])), predicted, atol=1e-5)
    assert float(world.rows.all.done[row]) == 1 and row in np.asarray(world.anchors)
    bare = make_world(dataset, Normaliser.identity(S))
    np.testing.assert_array_equal(bare.rows.all.s_next[row], bare.rows.all.s[row])
    assert bare.ensemble is None and bare.extras is None


def test_cloning_draws_every_row() -> None:
    dataset = logs()
    assert make_world(dataset, Normaliser.identity(S), every_row=True).anchors.tolist() == list(range(len(dataset)))


def test_rows_whose_successor_was_predicted_are_known() -> None:
    dataset, dynamics = logs(), random_dynamics(1, LOW, HIGH)
    recorded = make_world(dataset, dynamics.normaliser, dynamics).recorded
    assert recorded is not None
    np.testing.assert_array_equal(recorded, dataset.successor_known)
    whole = recording([np.zeros((3, S))], [np.zeros((2, 2))], [np.zeros(2)], terminal=[True], low=LOW, high=HIGH)
    assert make_world(whole, dynamics.normaliser, dynamics).recorded is None


def test_a_cut_row_is_no_anchor_and_episodes_are_not_chained_to_the_next() -> None:
    world = make_world(logs(), Normaliser.identity(S))
    assert np.asarray(world.anchors).tolist() == list(range(11))  # row 11 is the cut
    assert np.asarray(world.usable).tolist() == [True] * 11 + [False]
    links = np.asarray(world.chained)
    assert np.flatnonzero(~links).tolist() == [2, 6, 8, 11]
    s, s_next = np.asarray(world.rows.all.s), np.asarray(world.rows.all.s_next)
    inside = np.flatnonzero(links)
    np.testing.assert_array_equal(s_next[inside], s[inside + 1])
    batches = np.asarray(jax.vmap(lambda key: draw_rows(world, key, 64))(jax.random.split(jax.random.key(0), 50)))
    counts = np.bincount(batches.ravel(), minlength=12)
    assert counts[11] == 0 and (np.abs(counts[:11] - 3200 / 11) < 5 * np.sqrt(3200 / 11)).all()


def test_nothing_to_learn_from_is_an_error() -> None:
    path = np.zeros((2, S))
    lone = recording([path], [np.zeros((1, 2))], [np.zeros(1)], terminal=[False], known=[False])
    with pytest.raises(InputError, match="no row"):
        make_world(lone, Normaliser.identity(S))


def grid_logs() -> Dataset:
    """Two short walks in the plane, steps within a tenth in raw units of actions in [-1, 1]."""
    paths = [np.array([[0, 0], [0.05, 0], [0.1, 0]]), np.array([[0.0, 0.05], [0.08, 0.05], [0.1, 0.1]])]
    actions = [np.diff(path, axis=0) * 10 for path in paths]
    return recording(paths, actions, [np.zeros(2)] * 2, terminal=[False, True])


def extras_of(dataset: Dataset, dynamics: Dynamics, sets: ReachableSets) -> tuple[Extras, jax.Array]:
    """With the actions that lead there."""
    ways = leading_actions(dataset, dynamics, sets)
    extras = make_world(dataset, dynamics.normaliser, dynamics, sets, actions=ways).extras
    assert extras is not None and extras.actions is not None
    return extras, extras.actions


def test_extras_are_the_sets_without_the_own_pairs_and_know_the_way() -> None:
    dataset, dynamics = grid_logs(), point_dynamics(0.1)
    sets = sets_of([[0, 2], [1, 2, 3], [2], [0, 1, 3]])
    extras, actions = extras_of(dataset, dynamics, sets)
    assert [listed(extras, row) for row in range(4)] == [[2], [2, 3], [], [0, 1]]
    assert np.asarray(extras.size).tolist() == [1, 2, 0, 2]
    anchors, members = [0, 1, 1, 3, 3], np.asarray(extras.rows)
    wanted = (dataset.next_observations[members] - dataset.observations[anchors]) * 10
    assert np.abs(wanted).max() <= 1
    np.testing.assert_allclose(actions, wanted, atol=1e-3)


def test_ways_are_scaled_to_the_bounds_and_stay_within() -> None:
    dataset = grid_logs()
    exact = point_dynamics(0.1)
    wide = replace(exact, action_low=np.full(2, -4, np.float32), action_high=np.full(2, 2, np.float32))
    sets = sets_of([[0, 3], [1], [2], [3]])  # from (0, 0) to (0.1, 0.1): raw action (1, 1)
    for dynamics, wanted in ((exact, 1.0), (wide, (1 + 4) / 6 * 2 - 1)):
        np.testing.assert_allclose(extras_of(dataset, dynamics, sets)[1], [[wanted, wanted]], atol=1e-3)
    near = replace(exact, action_high=np.full(2, 0.5, np.float32))
    np.testing.assert_allclose(extras_of(dataset, near, sets)[1], [[1.0, 1.0]], atol=1e-5)


def test_no_extras_at_all_can_still_be_indexed() -> None:
    extras, actions = extras_of(grid_logs(), point_dynamics(0.1), sets_of([[0], [1], [2], [3]]))
    assert extras.rows.shape == (1,)
    assert actions.shape == (1, 2)
    assert np.asarray(extras.size).tolist() == [0] * 4


def test_own_only_leaves_the_own_successor_where_it_was() -> None:
    sets = sets_of([[0, 2], [1, 2, 3], [], [0, 1]])
    reduced = own_only(sets)
    assert [reduced.of(row).tolist() for row in range(4)] == [[0], [1], [], []]
    np.testing.assert_array_equal(own_present(reduced), own_present(sets))
    assert reduced.config["own_only"] is True and "own_only" not in sets.config


@pytest.mark.parametrize(
    ("extra", "batch", "wanted"),
    [(0, 256, 64), (1, 64, 64), (1, 128, 128), (1, 256, 256), (50, 256, 256), (3, 100, 128)],
)
def test_slots_hold_most_batches_but_no_more_than_the_batch(extra: int, batch: int, wanted: int) -> None:
    sets = sets_of([[row, *((row + k) % 60 for k in range(1, extra + 1))] for row in range(60)])
    assert pair_slots(sets, batch) == wanted


def test_slots_fit_95_of_100_batches() -> None:
    rng = np.random.default_rng(0)
    lists = [[row, *((row + k) % 300 for k in range(1, rng.geometric(0.7)))] for row in range(300)]
    sets = sets_of(lists)
    slots = pair_slots(sets, 256)
    extra = np.array([len(each) - 1 for each in lists])
    totals = np.random.default_rng(1).choice(extra, (4000, 256)).sum(axis=1)
    assert (totals <= slots).mean() >= 0.94 and (totals <= slots - 64).mean() < 0.95

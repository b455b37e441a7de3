"""The loans of the graph as reachable sets, their prices, and what critics make of these."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import batch_of, pairs_by_hand, point_dynamics, recording, sets_of, small_world

from graph_cases import walks
from stacq import InputError
from stacq.algos import graph_scql, onestep, stacq
from stacq.algos.algorithm import Sizes
from stacq.algos.pairs import own_only
from stacq.algos.settings import preset
from stacq.algos.world import make_world
from stacq.core.files import home
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.made import made_graph
from stacq.graph.neighbours import NONE
from stacq.graph.sets import LOANS, lent_actions, loans, priced_at, priced_sets
from stacq.graph.usual import usual
from stacq.pipeline.models import find_reachable
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.options import resolved
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import stitching
from stacq.report.reach_text import criterion_line

ROWS = [0, 1, 5, 7, 4]


def test_the_loans_are_those_of_the_variant_soft() -> None:
    assert graph_scql.graph_config(preset(graph_scql.ALGORITHM, variant="soft").config) == LOANS


def test_prices_that_are_no_prices_are_refused() -> None:
    dataset = walks()
    made_graph(dataset, LOANS)
    (facts,) = home().rglob("facts.json")
    facts.write_text(facts.read_text(encoding="utf-8").replace('"slope"', '"hill"'), encoding="utf-8")
    with pytest.raises(InputError, match="slope is ''"):
        priced_sets(dataset)


def test_sets_hold_the_near_rows_with_a_successor_at_their_price() -> None:
    dataset = walks(known=False)
    edges = edges_of(dataset, steps_of(dataset), 4)
    sets = loans(dataset, edges, 3.0, 2.0)
    sets.check(dataset)
    assert not dataset.successor_known.all() and sets.prices is not None
    for i, row in enumerate(edges.rows.tolist()):
        wanted = {j: 3.0 * d for j, d in zip(row, edges.distance[i], strict=True) if j != NONE}
        wanted = {j: price for j, price in wanted.items() if dataset.successor_known[j]}
        assert sets.of(i).tolist() == sorted(wanted)
        prices = sets.prices[sets.indptr[i] : sets.indptr[i + 1]]
        np.testing.assert_allclose(prices, [wanted[j] for j in sorted(wanted)], rtol=1e-6)
    assert "neighbours 4, price 2.0" in criterion_line(stitching(sets, dataset), sets.config)


def test_an_infinite_price_leaves_own_successors_alone() -> None:
    dataset = walks()
    sets = loans(dataset, edges_of(dataset, steps_of(dataset), 4), None, None)
    assert sets.indices.tolist() == sets.anchors.tolist() == np.flatnonzero(dataset.successor_known).tolist()


def test_they_are_kept_and_read_back(tmp_path: Path) -> None:
    dataset = walks()
    made, again = priced_sets(dataset), priced_sets(dataset)
    assert priced_at(dataset).exists() and made.prices is not None and again.prices is not None
    np.testing.assert_array_equal(made.prices, again.prices)
    assert own_only(made).prices is None
    broken = replace(made, prices=made.prices[:-1])
    broken.save(tmp_path / "sets")
    with pytest.raises(InputError, match="prices"):
        ReachableSets.load(tmp_path / "sets")
    with pytest.raises(InputError, match="own successors with a price"):
        replace(made, prices=made.prices + 1).check(dataset)


def test_lent_actions_carry_what_is_more_than_usual() -> None:
    dataset = walks()
    steps, sets = steps_of(dataset), loans(dataset, edges_of(dataset, steps_of(dataset), 4), 3.0, 2.0)
    mean = usual(steps, 0.99, 512, 1).action
    found, other = lent_actions(dataset, sets), sets.anchors != sets.indices
    for action, i, j in zip(found, sets.anchors[other], sets.indices[other], strict=True):
        np.testing.assert_allclose(action, np.clip(steps.a[j] + mean[i] - mean[j], -1, 1), atol=1e-6)


@pytest.mark.parametrize("pairs", ["cross", "dataset"])
def test_critics_pay_the_price_of_a_pair_and_own_pairs_are_free(pairs: Literal["cross", "dataset"]) -> None:
    free = small_world()
    assert free.extras is not None
    prices = jnp.arange(1.0, 1.0 + len(free.extras.rows))
    world = replace(free, extras=free.extras._replace(prices=prices))
    cfg, batch = stacq.Config(pairs=pairs, reward="row"), batch_of(free, ROWS)
    drawn = pairs_by_hand(free.extras, ROWS, 16)
    reward = stacq.init(jax.random.key(0), Sizes(3, 2), cfg).reward.network
    paid = stacq.edges(batch, drawn, free, reward, cfg).r - stacq.edges(batch, drawn, world, reward, cfg).r
    wanted = prices[drawn.entry] if pairs == "cross" else jnp.zeros(16)
    np.testing.assert_allclose(paid, jnp.concatenate([jnp.zeros(len(ROWS)), wanted]), atol=1e-6)


@pytest.mark.parametrize("price", [0.0, 1e6])
def test_a_state_that_costs_too_much_is_not_chosen(price: float) -> None:
    """OneStep charges where it chooses; StaCQ where its critics saw recorded pairs alone."""
    free = small_world()
    assert free.extras is not None
    world = replace(free, extras=free.extras._replace(prices=jnp.full(len(free.extras.rows), price)))
    batch, drawn = batch_of(free, ROWS), pairs_by_hand(free.extras, ROWS, 16)
    cfg = stacq.Config(pairs="dataset", critics=2)
    critic = stacq.init(jax.random.key(0), Sizes(3, 2), cfg).critic.network
    best = stacq.best_reachable(critic, batch, drawn, world, cfg).s_next
    one = onestep.init(jax.random.key(0), Sizes(3, 2), onestep.Config(slots=16))
    index = jnp.asarray(ROWS, jnp.int32)
    args = (one.critic.network, one.reward.network, batch.s, index, world, jax.random.key(1), onestep.Config(slots=16))
    chosen = onestep.best_candidate(*args)[1].s_next
    stays = [bool((each == batch.s_next).all()) for each in (best, chosen)]
    assert stays == [price > 0, price > 0]


def test_prices_are_in_the_units_of_scaled_rewards_and_without_the_own_ones() -> None:
    paths = [np.array([[0, 0], [0.05, 0], [0.1, 0]]), np.array([[0.0, 0.05], [0.08, 0.05], [0.1, 0.1]])]
    actions = [np.diff(path, axis=0) * 10 for path in paths]
    dataset = recording(paths, actions, [np.zeros(2)] * 2, terminal=[False, True])
    dynamics, sets = point_dynamics(0.1), sets_of([[0, 2], [1, 2, 3], [2], [0, 1, 3]])
    priced = replace(sets, prices=np.array([0, 1, 0, 2, 3, 0, 4, 5, 0], np.float32))
    extras = make_world(dataset, dynamics.normaliser, dynamics, priced, reward_scale=10.0).extras
    assert extras is not None and extras.prices is not None
    assert extras.prices.tolist() == [10, 20, 30, 40, 50]
    none = make_world(dataset, dynamics.normaliser, dynamics, loans_without(sets), reward_scale=10.0).extras
    assert none is not None and none.prices is not None and none.prices.tolist() == [0]


def loans_without(sets: ReachableSets) -> ReachableSets:
    """Own pairs alone, each with its price of 0."""
    reduced = own_only(sets)
    return replace(reduced, prices=np.zeros(reduced.pairs, np.float32))


def test_options_of_other_criteria_are_refused_and_dynamics_find_no_priced_sets() -> None:
    dataset, dynamics = walks(), point_dynamics(0.1)
    with pytest.raises(InputError, match="an option of another criterion was set"):
        find_reachable(dataset, dynamics, ReachConfig(criterion="priced", cap=3))
    with pytest.raises(InputError, match="an option of another criterion was set"):
        resolved(ReachConfig(criterion="priced", recall=0.5))
    with pytest.raises(InputError, match="priced sets are not found with dynamics"):
        reachable_sets(dataset, dynamics, ReachConfig(criterion="priced"))
    found = find_reachable(dataset, dynamics, ReachConfig(criterion="priced"))
    assert found.sets.prices is not None and found.stitching.criterion == "priced" and found.stitching.extra > 1

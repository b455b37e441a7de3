"""From a dataset to chosen actions: edges, prices, what is usual, facts, and the artefact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from graph_cases import walks
from stacq.core.artefacts import Damaged
from stacq.core.errors import InputError
from stacq.graph.config import GraphConfig, check_graph_config
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.facts import ENDLESS, longest_chain
from stacq.graph.made import KIND, PRICES, made_graph, read_graph, solved_graph
from stacq.graph.neighbours import NONE, nearest, tree_of
from stacq.graph.price import Prices, costs, gains, joins, prices_of
from stacq.graph.usual import random_features, regressions, usual

SMALL = GraphConfig(neighbours=4, features=16)


def test_near_rows_are_the_nearest_others() -> None:
    s = np.random.default_rng(0).normal(size=(40, 3))
    found = nearest(tree_of(s, np.ones(40, dtype=np.bool_)), s, np.arange(40), 5)
    true = cdist(s, s) / np.sqrt(3)
    np.fill_diagonal(true, np.inf)
    assert np.array_equal(found.rows, np.argsort(true, axis=1)[:, :5])
    assert np.allclose(found.distance, np.sort(true, axis=1)[:, :5]) and found.recall == 1


def test_copies_of_a_state_are_near_rows_and_the_row_itself_is_not() -> None:
    found = nearest(tree_of(np.zeros((6, 2)), np.ones(6, dtype=np.bool_)), np.zeros((6, 2)), np.arange(6), 3)
    assert (found.rows != np.arange(6)[:, None]).all() and (found.rows != NONE).all()
    few = nearest(tree_of(np.zeros((2, 2)), np.ones(2, dtype=np.bool_)), np.zeros((2, 2)), np.arange(2), 3)
    assert few.rows.tolist() == [[1, NONE, NONE], [0, NONE, NONE]] and np.isinf(few.distance[:, 1:]).all()


def test_the_recall_of_an_approximate_search_is_measured() -> None:
    s = np.random.default_rng(0).normal(size=(3000, 6))
    tree = tree_of(s, np.ones(3000, dtype=np.bool_), exact_rows=100)
    found = nearest(tree, s, np.arange(3000), 5)
    true = nearest(tree._replace(slack=0.0), s, np.arange(3000), 5)
    share = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.rows.tolist(), true.rows.tolist(), strict=True)])
    assert 0.5 < found.recall < 1 and found.recall == pytest.approx(share, abs=0.05)


def test_edges_begin_with_the_row_itself_and_lead_on_in_time() -> None:
    dataset = walks()
    steps = steps_of(dataset)
    edges = edges_of(dataset, steps, 4)
    assert (edges.rows[:, 0] == np.arange(72)).all() and (edges.distance[:, 0] == 0).all()
    inside = np.setdiff1d(np.arange(72), dataset.last_rows)
    assert (edges.follow[inside] == inside + 1).all() and not edges.joined[inside].any()
    assert edges.follow[11] == NONE and dataset.terminals[11]
    away = np.linalg.norm(steps.s - steps.s_next[23], axis=1)
    away[23] = np.inf
    assert edges.follow[23] == away.argmin() and edges.joined[23]


def test_a_row_without_a_future_lends_to_nobody() -> None:
    dataset = walks(known=False)
    steps, lost = steps_of(dataset), np.flatnonzero(~dataset.successor_known & ~dataset.terminals)
    edges = edges_of(dataset, steps, 8)
    assert len(lost) and not np.isin(edges.rows[:, 1:], lost).any()
    assert (edges.rows[lost, 0] == lost).all()


def test_the_own_row_is_free_and_others_cost_their_distance() -> None:
    dataset = walks()
    edges = edges_of(dataset, steps_of(dataset), 4)
    found = costs(edges, 2.0)
    assert np.allclose(found, 2 * edges.distance) and (found[:, 0] == 0).all()
    assert (costs(edges, np.inf)[:, 0] == 0).all() and np.isinf(costs(edges, np.inf)[:, 1:]).all()
    prices = prices_of(edges, 3.0, GraphConfig(spread=0.5, price=2.0))
    assert prices.temperature == 1.5 and prices.slope == pytest.approx(6 / np.median(edges.distance[:, 1:]))


def test_gains_are_what_was_earned_beyond_the_usual() -> None:
    """By hand for every edge; a stopped episode goes on at a near row, whose usual value is another one."""
    dataset = walks()
    steps = steps_of(dataset)
    edges, u = edges_of(dataset, steps, 3), usual(steps, 0.9, 16, 0)
    found = gains(edges, steps, u.value, joins(edges, u, carry=True), 0.9)
    for i, column in np.ndindex(*edges.rows.shape):
        j = edges.rows[i, column]
        beyond = u.value_next[j] - u.value[edges.follow[j]] if edges.joined[j] else 0.0
        assert found[i, column] == pytest.approx(steps.r[j] + 0.9 * beyond + u.value[i] - u.value[j])
    assert not joins(edges, u, carry=False).any()


def test_regressions_solve_their_equations() -> None:
    """With many rows and a value that is linear in the features, it is found; so is a linear action."""
    rng = np.random.default_rng(0)
    steps = steps_of(walks(episodes=40, length=50))
    features = random_features(2, 8, 0)
    truth = rng.normal(size=11)
    r = features(steps.s) @ truth - 0.9 * np.where(steps.over, 0.0, features(steps.s_next) @ truth)
    a = features(steps.s) @ rng.normal(size=(11, 2)) * 0.01
    value, action = regressions(steps._replace(r=r, a=a), features, 0.9)
    assert np.abs(features(steps.s) @ (value - truth)).mean() < 0.05 * np.abs(features(steps.s) @ truth).mean()
    assert np.abs(features(steps.s) @ action - a).max() < 0.05 * np.abs(a).max()


def test_usual_values_stay_within_what_rewards_allow() -> None:
    steps = steps_of(walks())
    found = usual(steps, 0.9, 64, 0)
    assert (found.value <= 0).all() and (found.value >= steps.r.min() / 0.1 - 1e-9).all()
    assert found.value_next[11] == 0 and (np.abs(found.action) <= 1).all()


def test_an_infinite_price_keeps_every_action() -> None:
    dataset = walks()
    for spread in (0.0, 1.0):
        graph, facts = solved_graph(dataset, replace(SMALL, price=np.inf, spread=spread))
        assert np.allclose(graph.action, dataset.actions, atol=1e-6)
        assert facts.moved == 0 and facts.longest == 0 and facts.lent == 0


def test_a_price_of_nothing_moves_rows_and_raises_values() -> None:
    kept, moved = (solved_graph(walks(), replace(SMALL, price=price, spread=0.0))[1] for price in (np.inf, 1e-9))
    assert moved.moved > 0.3 and moved.value > kept.value


def test_the_fitted_price_is_the_lowest_that_can_be_believed() -> None:
    """At it a row is worth no more on average than the best row by logged actions; at the next lower one it is."""
    for spread in (0.0, 1.0):
        config = replace(SMALL, spread=spread)
        graph, facts = solved_graph(walks(), config)
        logged, kept = solved_graph(walks(), replace(config, price=np.inf))
        assert facts.best_logged == pytest.approx(logged.value.max()) == kept.best_logged
        assert facts.value <= facts.best_logged
        lower = solved_graph(walks(), replace(config, price=facts.usual_price / 2))[1]
        assert facts.usual_price in PRICES[-1:] or lower.value > facts.best_logged
        again = solved_graph(walks(), replace(config, price=facts.usual_price))[0]
        assert np.allclose(again.value, graph.value, atol=2 * facts.bound + 2e-9)


def test_the_same_data_gives_the_same_graph_and_another_seed_another() -> None:
    one, again = (solved_graph(walks(), SMALL)[0] for _ in range(2))
    other = solved_graph(walks(), replace(SMALL, seed=1))[0]
    assert np.array_equal(one.action, again.action) and np.array_equal(one.value, again.value)
    assert not np.array_equal(one.action, other.action)


def test_the_longest_chain_ends_or_does_not() -> None:
    towards = np.array([1, 2, 3, 4, NONE])
    assert longest_chain(np.array([True, True, False, True, True]), towards) == 2
    assert longest_chain(np.ones(5, dtype=np.bool_), towards) == 5
    assert longest_chain(np.zeros(5, dtype=np.bool_), towards) == 0
    assert longest_chain(np.ones(3, dtype=np.bool_), np.array([1, 2, 0])) == ENDLESS
    assert longest_chain(np.array([True, True, False, True]), np.array([1, 2, 3, 0])) == 3


def test_a_graph_is_kept_and_its_facts_are_said_again() -> None:
    said: list[str] = []
    one = made_graph(walks(), SMALL, said.append)
    first = list(said)
    again = made_graph(walks(), SMALL, said.append)
    assert said == first * 2 and "neighbours" in said[0]
    assert np.array_equal(one.action, again.action) and one.facts == again.facts


def test_a_damaged_graph_is_refused(tmp_path: object) -> None:
    from stacq.core.files import home

    made_graph(walks(), SMALL)
    (place,) = [each for each in (home() / KIND).iterdir() if not each.name.startswith(".")]
    arrays = place / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-3] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(Damaged, match="damaged"):
        read_graph(place)


def test_warnings_name_what_looks_like_a_failure() -> None:
    _, facts = solved_graph(walks(), SMALL)
    quiet = replace(facts, near=0.5, step=1.0, value=facts.best_logged, moved=0.5, recall=1.0)
    assert not list(quiet.warnings())
    assert "steps away" in next(replace(quiet, near=3.0).warnings())
    assert "luck" in next(replace(quiet, value=facts.best_logged + facts.bound + 5).warnings())
    assert "nearest rows" in next(replace(quiet, recall=0.4).warnings())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"neighbours": 0}, "neighbours is 0"),
        ({"features": 0}, "features is 0"),
        ({"discount": 1.0}, "discount is 1.0"),
        ({"spread": np.inf}, "spread is inf"),
        ({"price": -1.0}, "price is -1.0"),
        ({"price": np.nan}, "price is nan"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_graph_config(replace(SMALL, **change))  # type: ignore[arg-type]


def test_data_without_a_future_is_refused() -> None:
    dataset = walks(episodes=1, length=2)
    lost = replace(dataset, terminals=np.zeros(2, np.bool_), successor_known=np.zeros(2, np.bool_))
    with pytest.raises(InputError, match="no row has a known successor"):
        edges_of(lost, steps_of(lost), 3)
    assert Prices(0.0, 0.0).slope == 0

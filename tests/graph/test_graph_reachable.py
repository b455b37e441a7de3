"""Edges by models: which they are, what they cost, and that exact values over them are SCQL's."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import point_dynamics, recording

from stacq.algos import exact_scql, find
from stacq.core.types import Float64s
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.edges import median_step, steps_of
from stacq.graph.made import made_graph, solved_graph
from stacq.graph.neighbours import NONE
from stacq.graph.reachable import place_within, reachable_edges, some_of_each
from stacq.reach.actions import leading_actions
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.reachable import Reachable

STEP, GAP = 0.5, 0.9
CONFIG = GraphConfig(edges="reachable", neighbours=50, discount=0.9, spread=0.0, price=1e-9, carry=False, features=8)


def two_paths() -> Dataset:
    """Side by side, nearly a step apart; only the upper one ends in a reward."""
    k = np.arange(11)
    worse, better = np.stack([0.8 * k, 0 * k], axis=1), np.stack([0.8 * k - 0.4, GAP + 0 * k], axis=1)
    paths = [STEP * worse, STEP * better]
    actions = [np.diff(path, axis=0) / STEP for path in paths]
    return recording(paths, actions, [np.full(10, -0.2), np.eye(10)[9]], terminal=[True, True])


def reachable_of(data: Dataset) -> Reachable:
    dynamics = point_dynamics(STEP, parents={"dataset": data.fingerprint})
    sets = reachable_sets(data, dynamics, ReachConfig())
    return Reachable(dynamics, sets, leading_actions(data, dynamics, sets))


def values_by_loops(data: Dataset, found: Reachable, discount: float) -> Float64s:
    """SCQL: V(i) = max over the states that i can reach of r_j + gamma V(the row at s'_j)."""
    value = np.zeros(len(data))
    for _ in range(300):
        future = [0.0 if data.terminals[j] else discount * value[j + 1] for j in range(len(data))]
        value = np.array([max(data.rewards[j] + future[j] for j in found.sets.of(i)) for i in range(len(data))])
    return value


def test_edges_are_the_reachable_sets_the_surest_first() -> None:
    data = two_paths()
    found, steps = reachable_of(data), steps_of(data)
    edges, led = reachable_edges(data, steps, found, 50, 0)
    for i in range(len(data)):
        there = edges.rows[i] != NONE
        assert edges.rows[i, 0] == i and set(edges.rows[i, there].tolist()) == set(found.sets.of(i).tolist())
        assert (np.diff(edges.distance[i, 1:][there[1:]]) >= 0).all()
        arrived = data.observations[i] + STEP * led[i, there]
        assert np.allclose(arrived, data.next_observations[edges.rows[i, there]], atol=1e-3)
    assert np.isinf(edges.distance[edges.rows == NONE]).all() and edges.unit == median_step(steps)
    assert edges.distance[np.isfinite(edges.distance)].max() < 1e-3  # the models are exact


def test_what_the_models_miss_is_the_distance() -> None:
    """Actions that arrive elsewhere: the distance is to where the models say, in normalised dimensions."""
    data = two_paths()
    found = reachable_of(data)
    off = found._replace(actions=found.actions + np.float32(0.1))
    edges, _ = reachable_edges(data, steps_of(data), off, 50, 0)
    scale = data.observations.std(axis=0) + 1e-3
    assert np.allclose(
        edges.distance[:, 1][edges.rows[:, 1] != NONE], np.sqrt(np.mean((0.1 * STEP / scale) ** 2)), 1e-2
    )


def test_values_are_those_of_scql_on_the_sets() -> None:
    data = two_paths()
    found = reachable_of(data)
    graph, facts = solved_graph(data, CONFIG, found)
    assert np.allclose(graph.value, values_by_loops(data, found, 0.9), atol=1e-3)
    assert graph.value[0] > 0 and facts.value > facts.usual_value


def test_the_chosen_action_changes_paths() -> None:
    """From the beginning of the worse path up to the better one, by an action that neither path holds."""
    data = two_paths()
    graph, _ = solved_graph(data, CONFIG, reachable_of(data))
    assert (data.actions[:, 1] == 0).all() and graph.best[0] >= 10 and graph.action[0, 1] > 0.5
    kept, facts = solved_graph(data, replace(CONFIG, price=np.inf), reachable_of(data))
    assert np.allclose(kept.action, data.actions, atol=1e-6) and facts.moved == 0


def test_more_than_are_wanted_are_left_out_by_lot() -> None:
    anchors = np.repeat([0, 2, 3], [5, 1, 9])
    assert place_within(anchors).tolist() == [*range(5), 0, *range(9)]
    for most in (1, 4, 20):
        kept = some_of_each(anchors, most, 0)
        assert np.bincount(anchors[kept], minlength=4).tolist() == [min(most, n) for n in (5, 0, 1, 9)]
    assert not np.array_equal(some_of_each(anchors, 3, 0), some_of_each(anchors, 3, 1))


def test_another_set_makes_another_graph(tmp_path: object) -> None:
    data = two_paths()
    found = reachable_of(data)
    said: list[str] = []
    one = made_graph(data, CONFIG, said.append, found)
    few = reachable_sets(data, found.dynamics, ReachConfig(cap=2))
    other = made_graph(
        data, CONFIG, reachable=Reachable(found.dynamics, few, leading_actions(data, found.dynamics, few))
    )
    assert "reachable states" in said[0] and "a step" in said[0]
    assert not np.array_equal(one.value, other.value)


def test_the_algorithm_solves_its_sets() -> None:
    data, cfg = two_paths(), exact_scql.Config(discount=0.9)
    arrays, facts = exact_scql.solved(data, reachable_of(data), cfg, lambda text: None)
    graph, _ = solved_graph(data, exact_scql.graph_config(cfg), reachable_of(data))
    assert jnp.array_equal(arrays.action, graph.action) and facts["edges"] == "reachable"
    needs = find("exact-scql").needs
    assert needs.reachable and not needs.pairs and needs.leading_actions(cfg)


def test_a_price_is_paid_for_a_miss() -> None:
    data = two_paths()
    found = reachable_of(data)
    off = found._replace(actions=np.clip(found.actions * np.float32(0.5), -1, 1))
    cheap, dear = (solved_graph(data, replace(CONFIG, price=price), off)[0].value for price in (1e-9, 1.0))
    assert (dear <= cheap + 1e-9).all() and dear.mean() < cheap.mean() - 0.01
    assert pytest.approx(solved_graph(data, CONFIG, found)[0].value, abs=1e-2) == cheap

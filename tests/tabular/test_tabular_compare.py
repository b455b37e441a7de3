"""The published example: who reaches the goal from how many states of the data."""

from itertools import pairwise

import numpy as np
import pytest

from stacq.tabular.compare import compare, optimality_gap
from stacq.tabular.maze import data_of, load, mdp_of, parse
from stacq.tabular.policy import arrives, clone, next_states
from stacq.tabular.solve import bcql


def test_first_maze_has_the_published_numbers() -> None:
    results = {result.name: result for result in compare(load("stitching"))}
    assert {name: (r.reached, r.data_states) for name, r in results.items()} == {
        "bc": (11, 57),
        "bcql": (11, 57),
        "scql": (57, 57),
        "qss": (57, 57),
    }


def test_cloning_reaches_the_same_states_however_ties_are_broken() -> None:
    maze = load("stitching")
    mdp = mdp_of(maze)
    data = data_of(maze, mdp)
    table = bcql(mdp, data)
    choice = clone(table.pairs, data)
    crossing = [s for s in range(mdp.n_states) if table.allowed[table.pairs.source == s].sum() > 1]
    for s in crossing:
        for entry in np.flatnonzero(table.allowed & (table.pairs.source == s)):
            other = choice.copy()
            other[s] = entry
            assert arrives(table, other)[data.states(mdp.n_states)].sum() == 11


def test_second_maze_needs_two_steps() -> None:
    results = {result.name: result for result in compare(load("sparse"), steps_reach=2)}
    reached = {name: (r.reached, r.data_states) for name, r in results.items()}
    assert reached["bcql"] == (8, 38)
    assert reached["scql"] == (16, 38)
    assert reached["scql_2_steps"] == (38, 38)


def test_scql_walks_only_through_data_states() -> None:
    result = next(r for r in compare(load("stitching")) if r.name == "scql")
    targets = next_states(result.table.pairs, result.choice)
    assert result.seen[targets[result.choice >= 0]].all()


def test_two_step_policy_leaves_the_data_somewhere() -> None:
    result = next(r for r in compare(load("sparse"), 2) if r.name == "scql_2_steps")
    assert result.paths is not None
    ways = result.paths.states[result.choice[result.seen & (result.choice >= 0)]]
    assert not result.seen[ways].all()


@pytest.mark.parametrize("name", ["stitching", "sparse"])
def test_better_informed_methods_are_never_worse(name: str) -> None:
    bc, batch, one, two, best = compare(load(name), 2)
    three = compare(load(name), 3)[3]
    order = [bc, batch, one, two, three, best]
    assert all(b.mean_return >= a.mean_return - 1e-9 for a, b in pairwise(order))
    assert optimality_gap(best, best.returns) == 0
    assert optimality_gap(batch, best.returns) == pytest.approx(best.mean_return - batch.mean_return)


def test_a_long_corridor_converges_without_a_limit_on_sweeps() -> None:
    cells = " ".join(f"{x},0" for x in range(300))
    corridor = parse("." * 299 + f"*\npath {cells}\n", "corridor")
    scql = compare(corridor, sweeps=None)[2]
    assert scql.reached == 300
    assert scql.steps_to_converge > 1000

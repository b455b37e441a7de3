"""The algorithm: what its network is fitted to, its stage in a run, its page, and the policy that looks states up."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algo_cases import plain, small_world
from algo_cases import policy as by_hand
from scipy.spatial.distance import cdist
from teaching import taught_by
from training_cases import dataset, options, plan

from graph_cases import walks
from stacq.algos import find, graph_scql
from stacq.algos.algorithm import Sizes
from stacq.algos.world import gather
from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.data.nearness import nearness
from stacq.graph.made import solved_graph
from stacq.pipeline.stages import Work, make_task, with_prepared
from stacq.policies import NearestPolicy, Policy, Space
from stacq.policies.nearest import nearest_policy
from stacq.report.page_graph import graph_section
from stacq.runs.summary import RunSummary

CFG = graph_scql.Config(batch=6, hidden=(8,), features=16, neighbours=3)
SIZES = Sizes(3, 2)


def test_the_loss_is_the_distance_to_the_chosen_actions() -> None:
    world, state = small_world(), graph_scql.init(jax.random.key(0), SIZES, CFG)
    batch = gather(world.rows, jnp.asarray([0, 3, 5]))
    chosen = jnp.full((3, 2), 0.25)
    loss, metrics = graph_scql.chosen_loss(state.actor.network, batch, chosen)
    network, rows = plain(state.actor.network, batch)
    said = np.array([by_hand(network, s) for s in rows.s])
    assert float(loss) == pytest.approx(np.mean((said - 0.25) ** 2), rel=1e-5)
    assert float(metrics["logged_error"]) == pytest.approx(np.mean((said - rows.a) ** 2), rel=1e-5)


def test_an_update_reads_the_actions_of_its_rows() -> None:
    """The same batch with other chosen actions gives another network, and those of other rows change nothing."""
    state, key = graph_scql.init(jax.random.key(0), SIZES, CFG), jax.random.key(1)
    world = small_world()
    batch = gather(world.rows, jnp.asarray([0, 3, 5]))
    found = []
    for changed in (None, 4, 5):
        action = np.zeros((12, 2), np.float32)
        if changed is not None:
            action[changed] = 0.9
        told = replace(world, prepared=graph_scql.Chosen(jnp.asarray(action)))
        found.append(graph_scql.update(state, batch, told, key, CFG)[0].actor.network.weights[0])
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


def test_only_the_policy_learns() -> None:
    state = graph_scql.init(jax.random.key(0), SIZES, CFG)
    assert taught_by(_with_graph, CFG, state) == {"actor": {"actor.network"}}


def _with_graph(state: object, batch: object, world: object, key: object, cfg: object) -> object:
    told = replace(world, prepared=graph_scql.Chosen(jnp.full((12, 2), 0.3)))  # type: ignore[type-var]
    return graph_scql.update(state, batch, told, key, cfg)  # type: ignore[arg-type]


def test_the_stage_makes_the_graph_and_its_facts(tmp_path: Path) -> None:
    chosen = plan(options("graph-scql", settings=("features=16", "batch=16", "hidden=8,8")))
    work = with_prepared(Work(chosen, out=tmp_path / "run"))
    graph, _ = solved_graph(dataset(), graph_scql.graph_config(chosen.config))
    assert np.array_equal(make_task(chosen, prepared=work.prepared).world.prepared.action, graph.action)
    assert work.facts["prepared.json"]["moved"] == graph.facts["moved"]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text("{}")
    assert with_prepared(Work(chosen, out=tmp_path / "run")).prepared is None


def test_the_page_shows_the_graph_and_its_warnings() -> None:
    _, facts = solved_graph(walks(), graph_scql.graph_config(CFG))
    told = {**facts.to_json(), "warnings": ["near rows are 3.0 steps away"]}
    told["episode"] = {"value": [1.0, 2.0], "usual": [0.5, 0.7], "moved": [True, False]}
    section = graph_section([RunSummary("Graph SCQL", "graph-scql", "walks", prepared=json.loads(json.dumps(told)))])
    assert section is not None
    html = str(section.html())
    assert "near rows are 3.0 steps away" in html and "1 of 2 steps change trains" in html
    assert graph_section([RunSummary("A", "a", "d", prepared={"rows": "x"})]) is None


def test_a_policy_that_looks_states_up_gives_the_actions_kept_there(tmp_path: Path) -> None:
    states = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.float32)
    actions = np.array([[-1.0], [0.0], [0.5]], np.float32)
    policy = nearest_policy(
        states * 2, actions, Normaliser(np.zeros(2, np.float32), np.full(2, 0.5, np.float32)), (0, 4), count=1
    )
    assert policy(states).ravel().tolist() == [0.0, 2.0, 3.0] and policy(states[2]).tolist() == [3.0]
    policy = replace(policy, count=3)
    policy.save(tmp_path / "p.safetensors")
    again = Policy.load(tmp_path / "p.safetensors")
    seen = np.random.default_rng(0).normal(size=(5, 2))
    assert isinstance(again, NearestPolicy) and np.array_equal(again(seen), policy(seen))
    middle = policy(np.array([0.5, 0.0]))  # as far from the first as from the second, the third farther
    distance = np.array([0.5, 0.5, np.hypot(0.5, 1)])
    weight = np.exp(-0.5 * (distance / (0.5 * distance[2])) ** 2)
    assert middle[0] == pytest.approx(2 + 2 * (weight @ actions.ravel()) / weight.sum(), abs=1e-6)


@pytest.mark.parametrize(
    ("states", "actions", "count"),
    [
        ([[0.0]], [[0.0], [0.0]], 1),
        ([], [], 1),
        ([[np.nan]], [[0.0]], 1),
        ([[0.0]], [[2.0]], 1),
        ([[0.0]], [[0.0]], 0),
    ],
)
def test_bad_arrays_of_such_a_policy_are_refused(states: object, actions: object, count: int) -> None:
    with pytest.raises(InputError, match=r"states of shape|count is 0"):
        nearest_policy(states, actions, count=count)  # type: ignore[arg-type]


def test_the_graph_can_be_looked_up_without_a_network() -> None:
    data = walks()
    space = Space(Normaliser.fit(data.observations), data.action_low, data.action_high)
    graph, _ = solved_graph(data, graph_scql.graph_config(CFG))
    policy = graph_scql.lookup(data, space, CFG, count=1)
    assert np.allclose(policy(data.observations), graph.action, atol=1e-6)


def test_the_description_says_what_it_is() -> None:
    found = find("graph-scql")
    assert found.needs.prepared is graph_scql.prepared and not found.needs.reachable
    assert found.variants["soft"].settings["carry"] and found.Config().spread == 0


def test_nearness_is_the_distance_of_other_episodes_in_steps() -> None:
    data = walks(episodes=10, length=12)
    normaliser, episode = Normaliser.fit(data.observations), np.repeat(np.arange(10), 12)
    s, s_next = normaliser.apply(data.observations), normaliser.apply(data.next_observations)
    away = cdist(s, s)
    away[episode[:, None] == episode] = np.inf
    steps = np.linalg.norm(s_next - s, axis=1)
    assert nearness(data) == pytest.approx(np.median(away.min(axis=1)) / np.median(steps), rel=1e-5)
    assert np.isnan(nearness(walks(episodes=1, length=5)))

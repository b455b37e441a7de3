"""Critics beside the graph's values: what is compared, and when nothing is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import dataset, options, plan

from stacq.algos import graph_scql, td3bc
from stacq.core.files import home
from stacq.graph.kept import GRAPH, kept_graph
from stacq.graph.made import made_graph
from stacq.pipeline.critic import QUANTILES, against_graph
from stacq.pipeline.stages import Work, make_task, with_policies
from stacq.runs.summary import CRITIC
from stacq.training.loop import init_states


def test_the_graph_that_is_looked_for_is_the_one_that_graph_scql_makes() -> None:
    assert graph_scql.graph_config(graph_scql.Config()) == GRAPH


def test_quantiles_over_states_of_what_the_critics_say_beyond_the_graph() -> None:
    chosen = plan(options("td3bc"))
    task = make_task(chosen)
    state = init_states(task.algorithm, jnp.arange(2, dtype=jnp.int32), task.sizes, task.config)
    assert kept_graph(dataset()) is None and against_graph(chosen, task, state) == {}
    graph = made_graph(dataset(), GRAPH)
    told = against_graph(chosen, task, state)
    assert told["rows"] == len(dataset()) < 5_000 and told["graph"] == pytest.approx(graph.value.mean())
    s = jnp.asarray(chosen.normaliser.apply(dataset().observations))
    one = jax.tree.map(lambda x: x[1], state)
    gap = np.asarray(td3bc.value(one, s, task.world, task.config)) / chosen.reward_scale - graph.value
    np.testing.assert_allclose(told["seeds"][1], np.quantile(gap, QUANTILES), atol=2e-3)
    other = task._replace(config=replace(task.config, discount=0.9))
    assert against_graph(chosen, other, state) == {}
    lost = state._replace(critic=_without_first(state.critic))
    assert told["seeds"][1:] == against_graph(chosen, task, lost)["seeds"]
    assert told["seeds"][1:] == against_graph(chosen, task, state, lost=(chosen.schedule.seeds[0],))["seeds"]


def test_a_damaged_graph_stops_no_training(tmp_path: Path) -> None:
    made_graph(dataset(), GRAPH)
    (facts,) = home().rglob("facts.json")
    facts.write_text("[", encoding="utf-8")
    done = with_policies(Work(plan(options("td3bc")), out=tmp_path / "run"))
    assert done.trained is not None and not (tmp_path / "run" / CRITIC).exists()


def _without_first(learner: Any) -> Any:
    """Networks of the first seed are NaN."""
    return jax.tree.map(lambda x: x.at[0].set(jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x, learner)

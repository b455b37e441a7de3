"""Critics beside exact values: where the critics of a run and the graph of the same rows disagree."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.core.types import Float64s
from stacq.graph.kept import GRAPH, kept_graph
from stacq.pipeline.plan import Plan
from stacq.training.task import Task

ROWS = 5_000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def against_graph(plan: Plan, task: Task, state: Any, lost: Collection[int] = ()) -> Mapping[str, Any]:
    """Quantiles over states of the critics' value less the graph's, [seeds, quantiles], in the data's rewards.

    The graph is not made for this: nothing is said where the cache has none of this data. Nor where the two cannot be
    compared, because of another discount or of rewards that were shifted. `lost` seeds, by their number, have none.
    """
    value, dataset = task.algorithm.value, plan.dataset
    comparable = not plan.preset.shown.reward_shift and plan.reward_scale
    if value is None or not comparable or task.algorithm.discount(task.config) != GRAPH.discount:
        return {}
    graph = kept_graph(dataset)
    if graph is None:
        return {}
    rows = np.sort(np.random.default_rng(0).choice(len(dataset), min(ROWS, len(dataset)), replace=False))
    s = jnp.asarray(plan.normaliser.apply(dataset.observations[rows]))
    q = jax.jit(jax.vmap(value, in_axes=(0, None, None, None)))(state, s, task.world, task.config)
    gaps: Float64s = np.asarray(q, np.float64) / plan.reward_scale - graph.value[rows]
    left = [gap for seed, gap in zip(plan.schedule.seeds, gaps, strict=True) if seed not in lost]
    found = [np.round(np.quantile(gap, QUANTILES), 3).tolist() for gap in left if np.isfinite(gap).all()]
    return {
        "rows": len(rows),
        "graph": float(graph.value[rows].mean()),
        "quantiles": list(QUANTILES),
        "seeds": found,
    }

"""The control of Graph SCQL: as many rows take another row's action, but a random near row's, not the best one's.

    stacq train stacq/hopper-medium-v0@100000 --algo research/random_neighbour.py --small

What is left of Graph SCQL without values is the smoothing that cloning does with actions of near rows.
"""

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from stacq.algos import graph_scql
from stacq.algos.algorithm import Needs
from stacq.algos.graph_scql import Chosen, Config, graph_config
from stacq.data.dataset import Dataset
from stacq.graph.edges import edges_of, steps_of
from stacq.graph.made import made_graph
from stacq.graph.neighbours import NONE
from stacq.policies import Space


def prepared(dataset: Dataset, space: Space, cfg: Config, say: Callable[[str], None]) -> Chosen:
    """The action of a near row drawn by lot, for the share of rows that Graph SCQL moves; else the own action."""
    del space
    moved = float(made_graph(dataset, graph_config(cfg), say).facts["moved"])
    steps, rng = steps_of(dataset), np.random.default_rng(cfg.graph_seed)
    near = edges_of(dataset, steps, cfg.neighbours).rows[:, 1:]
    drawn = near[np.arange(len(near)), rng.integers(0, near.shape[1], len(near))]
    takes = (rng.random(len(near)) < moved) & (drawn != NONE)
    return Chosen(jnp.asarray(np.where(takes[:, None], steps.a[drawn], steps.a).astype(np.float32)))


ALGORITHM = replace(
    graph_scql.ALGORITHM,
    name="random-neighbour",
    title="Random neighbour",
    about="cloning of a random near row's action",
    needs=Needs(successors=False, prepared=prepared),
)

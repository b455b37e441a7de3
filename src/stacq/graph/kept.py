"""A graph that was made before, for those who would look at it but would not wait for it."""

from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig
from stacq.graph.made import Graph, graph_at, read_graph

GRAPH = GraphConfig(spread=0.0, price=0.5, carry=False, seed=1)  # the one that Graph SCQL makes by default


def kept_graph(dataset: Dataset, config: GraphConfig = GRAPH) -> Graph | None:
    """From the cache; none if it was not made with these settings."""
    place = graph_at(config, {"dataset": dataset.fingerprint})
    return read_graph(place) if place.exists() else None

"""What an edge is worth and what it costs, from the data alone."""

import math
from typing import NamedTuple

import numpy as np

from stacq.core.types import Float64s
from stacq.graph.config import GraphConfig
from stacq.graph.edges import Edges
from stacq.graph.neighbours import NONE
from stacq.graph.usual import Steps, Usual, advantages


class Prices(NamedTuple):
    """Two numbers of a dataset that everything else is measured in."""

    temperature: float  # in units of value; 0 takes the best candidate alone
    slope: float  # price of a unit of distance
    best_logged: float = math.nan  # the largest value of always taking the own action


def prices_of(edges: Edges, noise: float, config: GraphConfig) -> Prices:
    """`noise` is the deviation of the usual advantage: what actions are worth beyond the mean, with all errors.

    To arrive one unit of the edges off costs `price` of it.
    """
    return Prices(config.spread * noise, slope_of(config.price, noise, edges.unit))


def slope_of(price: float, noise: float, usual_distance: float) -> float:
    """The price of a unit of distance; without a distance there is none, unless it is infinite."""
    if math.isinf(price):
        return math.inf
    return price * noise / usual_distance if usual_distance > 0 else 0.0


def noise_of(steps: Steps, found: Usual, discount: float) -> float:
    """The deviation of r + gamma (1 - d) U(s') - U(s) over rows whose future is known."""
    return float(advantages(steps, found, discount)[steps.known].std())


def costs(edges: Edges, slope: float) -> Float64s:
    """c_ij = slope d_ij, [N, K + 1]; the own row is free, whatever the slope."""
    found = np.full(edges.rows.shape, np.inf)
    if math.isfinite(slope):
        there = edges.rows != NONE
        found[there] = slope * edges.distance[there]
    found[:, 0] = 0.0
    return found


def gains(edges: Edges, steps: Steps, usual_value: Float64s, beyond: Float64s, discount: float) -> Float64s:
    """g_ij = r_j + gamma b_j + U(s_i) - U(s_j), [N, K + 1]: an edge's reward before its price.

    The action of row j earns at s_i what it earned at s_j, and as much more or less as the state is usually worth
    more or less. `beyond` is b_j, see `joins`. U is fixed, so this is a reward and takes no part in the contraction.
    """
    lender = np.maximum(edges.rows, 0)
    found: Float64s = (steps.r + discount * beyond - usual_value)[lender] + usual_value[:, None]
    return found


def joins(edges: Edges, found: Usual, carry: bool) -> Float64s:
    """b_j = U(s'_j) - U(s_follow) where an episode was stopped and goes on at a near row, else 0, [N]."""
    if not carry:
        return np.zeros(len(edges.follow))
    return np.where(edges.joined, found.value_next - found.value[np.maximum(edges.follow, 0)], 0.0)

"""How a graph is made."""

import math
from dataclasses import dataclass
from typing import Literal

from stacq.core.errors import InputError

Kind = Literal["near", "reachable"]


@dataclass(frozen=True)
class GraphConfig:
    """Settings of the graph. Distances are root mean squares over normalised dimensions."""

    edges: Kind = "near"  # rows whose state is near lend their action, or the reachable sets of the models
    neighbours: int = 10  # other rows that lend their action to a row, or reachable states; more are left out by lot
    discount: float = 0.99
    spread: float = 1.0  # temperature, in deviations of the usual advantage; 0 takes the best candidate alone
    price: float = 0.0  # of the usual distance, in the same unit; 0: the least that can be believed
    features: int = 512  # of the regressions that say what is usual; more follow the data more closely
    carry: bool = True  # lend what a row does beyond what is usual at its state, and not its action as it is
    tolerance: float = 1e-4  # of values, in deviations of the usual advantage
    seed: int = 0  # of the features, and of the reachable states that are left out


def check_graph_config(config: GraphConfig) -> None:
    """Refuse what gives no graph. A price may be infinite: then every row keeps its own action."""
    where = "the graph"
    numbers = (("spread", config.spread, 0.0), ("price", config.price, 0.0))
    for name, value, low in numbers:
        if math.isnan(value) or value < low or (name == "spread" and math.isinf(value)):
            raise InputError(f"{name} is {value}", where=where, expected=f"a number from {low:g}")
    if not 0 <= config.discount < 1:
        raise InputError(
            f"discount is {config.discount}",
            where=where,
            expected="a number from 0 and below 1",
            fix="without a discount values have no bound; use 0.99",
        )
    if not 0 < config.tolerance < math.inf:
        raise InputError(f"tolerance is {config.tolerance}", where=where, expected="a number above 0")
    for name, count in (("neighbours", config.neighbours), ("features", config.features)):
        if count < 1:
            raise InputError(f"{name} is {count}", where=where, expected="a whole number from 1")

"""From a dataset to the actions that its rows should have taken: a stage of its own, kept in the cache."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stacq.core.artefacts import cache_directory, damaged, read_artefact, write_artefact
from stacq.core.files import alone, check_writable, json_text
from stacq.core.outside import json_object
from stacq.core.reading import read_text
from stacq.core.staging import sweep
from stacq.core.types import Array, Float32s, Float64s, Ints
from stacq.data.dataset import Dataset
from stacq.graph.config import GraphConfig, check_graph_config
from stacq.graph.edges import Edges, edges_of, median_distance, median_step, steps_of
from stacq.graph.facts import GraphFacts, longest_chain
from stacq.graph.neighbours import NONE
from stacq.graph.price import Prices, costs, gains, joins, noise_of, prices_of
from stacq.graph.reachable import reachable_edges
from stacq.graph.solve import Problem, Solved, solve, weights
from stacq.graph.usual import Steps, Usual, usual
from stacq.reach.reachable import Reachable

KIND, FACTS = "graph", "facts.json"
PRICES = (32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125)  # of a usual neighbour, from the highest
SHOWN = 300  # steps of an episode
FORMAT = 2  # of the computation: what it changes in the arrays makes another one
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Graph:
    """What the values of a dataset's graph say about its rows."""

    action: Float32s  # [N, A] in [-1, 1]: what to do at the row's state
    value: Float64s  # [N], the discounted return from there
    best: Ints  # [N] the candidate of the largest weight; the row itself where it keeps its own action
    lent: Float32s  # [N], weight of other rows' actions
    facts: Mapping[str, Any]


def made_graph(
    dataset: Dataset, config: GraphConfig, say: Say = lambda text: None, reachable: Reachable | None = None
) -> Graph:
    """From the cache if the same was made before; its facts are said either way. `reachable` is for its edges."""
    check_graph_config(config)
    parents = {"dataset": dataset.fingerprint, **({} if reachable is None else reachable.parents)}
    place = graph_at(config, parents)
    sweep(place.parent)
    check_writable(place)
    with alone(place, lambda: say("another process is making this graph: waiting for it")):
        if not place.exists():
            graph, facts = solved_graph(dataset, config, reachable)
            arrays: dict[str, Array] = {
                "action": graph.action,
                "value": graph.value,
                "best": graph.best,
                "lent": graph.lent,
            }
            beside = {FACTS: json_text({**graph.facts, "text": facts.text()}).encode()}
            write_artefact(place, KIND, arrays, asdict(config), parents, beside)
    found = read_graph(place)
    say(str(found.facts.get("text", "")))
    for warning in found.facts.get("warnings", ()):
        say(f"! {warning}")
    return found


def graph_at(config: GraphConfig, parents: Mapping[str, str]) -> Path:
    """Where such a graph lies in the cache, present or not."""
    return cache_directory(KIND, {"format": FORMAT, **asdict(config)}, parents)


def read_graph(place: Path) -> Graph:
    """What `made_graph` left there."""
    kept = read_artefact(place, KIND)
    try:
        facts = json_object(read_text(place / FACTS))
    except (OSError, ValueError) as error:
        raise damaged(place, str(error)) from error
    value = kept.array("value", np.float64, (None,))
    rows = len(value)
    return Graph(
        kept.array("action", np.float32, (rows, None)),
        value,
        kept.array("best", np.int64, (rows,)),
        kept.array("lent", np.float32, (rows,)),
        facts,
    )


def solved_graph(dataset: Dataset, config: GraphConfig, reachable: Reachable | None = None) -> tuple[Graph, GraphFacts]:
    """Edges, prices, values, actions."""
    steps = steps_of(dataset)
    if config.edges == "near":
        edges, led = edges_of(dataset, steps, config.neighbours), None
    else:
        assert reachable is not None, "reachable edges come from models"
        edges, led = reachable_edges(dataset, steps, reachable, config.neighbours, config.seed)
    found = usual(steps, config.discount, config.features, config.seed)
    noise = noise_of(steps, found, config.discount)
    believed = solved_at(edges, steps, found, noise, config)
    problem, solved = believed.problem, believed.solved
    share = weights(problem, solved.value)
    column = share.argmax(axis=1)
    best = edges.rows[np.arange(len(column)), column]
    action = lent_actions(edges, steps, found, share, carry=config.carry) if led is None else weighed(share, led)
    graph = Graph(
        action.astype(np.float32),
        solved.value,
        best,
        (1 - share[:, 0]).astype(np.float32),
        {},
    )
    facts = facts_of(graph, (steps, edges, found), (noise, believed), config)
    told = {**facts.to_json(), "episode": along(dataset, graph, found)}
    return replace(graph, facts=told), facts


class Believed(NamedTuple):
    """A graph with its prices, and its values."""

    prices: Prices
    problem: Problem
    solved: Solved


def solved_at(edges: Edges, steps: Steps, found: Usual, noise: float, config: GraphConfig) -> Believed:
    """At the price of the settings, or at the lowest of `PRICES` that can be believed.

    That is one at which a row is worth no more on average than the best row is worth by logged actions alone. Prices
    are tried from the highest, where few sweeps suffice, and each begins with the values of the one before.
    """
    tolerance = config.tolerance * max(noise, np.finfo(np.float64).tiny)

    def at(price: float, start: Float64s, best_logged: float) -> Believed:
        prices = prices_of(edges, noise, replace(config, price=price))._replace(best_logged=best_logged)
        problem = problem_of(edges, steps, found, prices, config)
        return Believed(prices, problem, solve(problem, start, tolerance))

    kept = at(np.inf, found.value, np.nan)
    best = float(kept.solved.value.max())
    if config.price > 0:
        return at(config.price, kept.solved.value, best)
    believed = kept._replace(prices=kept.prices._replace(best_logged=best))
    for price in PRICES:
        tried = at(price, believed.solved.value, best)
        if tried.solved.value.mean() > best:
            break
        believed = tried
    return believed


def problem_of(edges: Edges, steps: Steps, found: Usual, prices: Prices, config: GraphConfig) -> Problem:
    """What is solved; without `carry` an edge earns what its row earned."""
    usual_value = found.value if config.carry else np.zeros(len(steps.r))
    beyond = joins(edges, found, config.carry)
    return Problem(
        edges.rows,
        edges.follow,
        gains(edges, steps, usual_value, beyond, config.discount),
        costs(edges, prices.slope),
        config.discount,
        prices.temperature,
    )


def lent_actions(edges: Edges, steps: Steps, found: Usual, share: Float64s, *, carry: bool) -> Float64s:
    """sum_j w_ij (a_j + m(s_i) - m(s_j)), within the bounds, [N, A]; m is the usual action.

    What a near row did more or less than usual is done here, on top of what is usual here.
    """
    lent = steps.a - found.action if carry else steps.a
    total = np.zeros(lent.shape)
    for column in range(share.shape[1]):
        total += share[:, column, None] * lent[np.maximum(edges.rows[:, column], 0)]
    return np.clip(total + found.action if carry else total, -1, 1)


def weighed(share: Float64s, led: Float32s) -> Float64s:
    """sum_j w_ij a_ij, [N, A]; a_ij leads from the state of row i to where row j led, by the models."""
    found: Float64s = np.einsum("nk,nka->na", share, led, dtype=np.float64)
    return found


def facts_of(
    graph: Graph, made: tuple[Steps, Edges, Usual], numbers: tuple[float, Believed], config: GraphConfig
) -> GraphFacts:
    (steps, edges, found), (noise, (prices, _, solved)) = made, numbers
    rows = np.arange(len(graph.best))
    lends = graph.best != rows
    return GraphFacts(
        rows=len(rows),
        edges=config.edges,
        neighbours=float((edges.rows[:, 1:] != NONE).sum(axis=1).mean()),
        recall=edges.recall,
        near=median_distance(edges.rows, edges.distance),
        step=median_step(steps),
        unit=edges.unit,
        noise=noise,
        temperature=prices.temperature,
        slope=prices.slope,
        moved=float(lends.mean()),
        lent=float(graph.lent.mean()),
        longest=longest_chain(lends, edges.follow[graph.best]),
        changed=float(np.sqrt(np.mean((graph.action - steps.a) ** 2))),
        usual_value=float(found.value.mean()),
        value=float(solved.value.mean()),
        best_logged=float(prices.best_logged),
        sweeps=solved.sweeps,
        residual=solved.residual,
        bound=solved.bound,
    )


def along(dataset: Dataset, graph: Graph, found: Usual) -> Mapping[str, Any]:
    """Values along the episode of median return, and where another row's action is preferred."""
    middle = int(np.argsort(dataset.returns, kind="stable")[dataset.episodes // 2])
    every = np.arange(len(dataset))[dataset.episode(middle)]
    rows = every[np.unique(np.linspace(0, len(every) - 1, min(SHOWN, len(every))).astype(np.int64))]
    return {
        "value": np.round(graph.value[rows], 3).tolist(),
        "usual": np.round(found.value[rows], 3).tolist(),
        "moved": (graph.best[rows] != rows).tolist(),
    }

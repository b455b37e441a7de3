"""The methods on one maze, side by side."""

from dataclasses import dataclass

import numpy as np

from stacq.tabular.maze import Maze, data_of, mdp_of, neighbours
from stacq.tabular.mdp import MDP, BoolArray, Dataset, FloatArray, IntArray, lowest_return, reachable_by_rule
from stacq.tabular.policy import arrives, clone, greedy, returns
from stacq.tabular.reach import Paths, best_paths
from stacq.tabular.solve import Table, bcql, qss, scql, synchronous

LEARNING_RATE = 0.25
PAPER_SWEEPS = 100
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Result:
    """One method's policy, and its result from each state of the data."""

    name: str
    label: str
    table: Table
    choice: IntArray  # [S] entry of the table, or NOWHERE
    arrives: BoolArray  # [S]
    returns: FloatArray  # [S]
    seen: BoolArray  # [S]
    steps_to_converge: int
    paths: Paths | None = None

    @property
    def reached(self) -> int:
        return int(self.arrives[self.seen].sum())

    @property
    def data_states(self) -> int:
        return int(self.seen.sum())

    @property
    def mean_return(self) -> float:
        return float(self.returns[self.seen].mean())


def compare(maze: Maze, steps_reach: int = 1, sweeps: int | None = PAPER_SWEEPS) -> list[Result]:
    """BC, BCQL, SCQL, SCQL over `steps_reach` steps if that is more than one, and the optimum.

    Policies are those after `sweeps` sweeps; None sweeps on until no value changes by 1e-6, as a maze larger
    than the shipped ones needs.
    """
    mdp = mdp_of(maze)
    data = data_of(maze, mdp)
    rule = reachable_by_rule(lambda s: neighbours(maze, s), mdp.n_states)
    results = [
        cloned(mdp, data),
        learned("bcql", "BCQL", bcql(mdp, data), mdp, data, sweeps),
        learned("scql", "SCQL", scql(mdp, data, rule), mdp, data, sweeps),
    ]
    if steps_reach > 1:
        paths = best_paths(mdp, data, steps_reach)
        name, label = f"scql_{steps_reach}_steps", f"SCQL, {steps_reach} steps"
        results.append(learned(name, label, paths.table, mdp, data, sweeps, paths))
    return [*results, learned("qss", "optimal (QSS, whole maze)", qss(mdp), mdp, data, None)]


def cloned(mdp: MDP, data: Dataset) -> Result:
    """Behavioural cloning, with the mask of BCQL and nothing to converge."""
    table = bcql(mdp, data)
    return _result("bc", "BC", table, clone(table.pairs, data), mdp, data, 0)


def learned(
    name: str,
    label: str,
    table: Table,
    mdp: MDP,
    data: Dataset,
    sweeps: int | None,
    paths: Paths | None = None,
) -> Result:
    """A method's greedy policy, and the sweeps it needs until its values stand still."""
    q0 = lowest_return(mdp)
    converged = synchronous(table, q0=q0, learning_rate=LEARNING_RATE, tolerance=TOLERANCE)
    solution = converged
    if sweeps is not None:
        solution = synchronous(table, q0=q0, learning_rate=LEARNING_RATE, tolerance=0.0, sweeps=sweeps)
    return _result(name, label, table, greedy(table, solution.q), mdp, data, converged.sweeps, paths)


def _result(
    name: str,
    label: str,
    table: Table,
    choice: IntArray,
    mdp: MDP,
    data: Dataset,
    steps_to_converge: int,
    paths: Paths | None = None,
) -> Result:
    seen = data.states(mdp.n_states)
    value = returns(table, choice, lowest_return(mdp))
    return Result(name, label, table, choice, arrives(table, choice), value, seen, steps_to_converge, paths)


def optimality_gap(result: Result, optimum: FloatArray) -> float:
    """How much a return falls short of the best one in the whole maze, on average over the data states."""
    return float(np.mean((optimum - result.returns)[result.seen]))

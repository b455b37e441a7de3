"""Reachability over several steps (appendix H): which states, along which paths, worth how much."""

from dataclasses import dataclass

import numpy as np

from stacq.core.errors import InputError
from stacq.tabular.mdp import (
    MDP,
    NOWHERE,
    BoolArray,
    Dataset,
    Entries,
    FloatArray,
    IntArray,
    Reachability,
    check_data,
    offsets,
    reachability_of,
    state_pairs,
)
from stacq.tabular.solve import Table

MOST_STEPS = 100  # every path is kept whole


def k_step(reach: Reachability, k: int, *, exactly: bool = False) -> Reachability:
    """SR^(k) of appendix H before its restriction to D: the states some path of at most k steps leads to."""
    _check_steps(k)
    source, target = reach.source, reach.indices
    sources, targets = [source], [target]
    for _ in range(k - 1):
        row, edge = _extend(target, reach.indptr)
        layer = reachability_of(source[row], reach.indices[edge], reach.n_states)
        source, target = layer.source, layer.indices
        sources.append(source)
        targets.append(target)
    if not exactly:
        source, target = np.concatenate(sources), np.concatenate(targets)
    return reachability_of(source, target, reach.n_states)


@dataclass(frozen=True, eq=False)
class Paths:
    """The best path of each length between two states, from a state of D to a state of D."""

    pairs: Entries  # an entry's action is the path's first, its reward the discounted sum along the path
    steps: IntArray  # [E]
    states: IntArray  # [E, k] the states after the start; a shorter path repeats its last one
    final: BoolArray  # [S]

    @property
    def table(self) -> Table:
        return Table(self.pairs, np.ones(len(self.steps), dtype=np.bool_), self.final)


def best_paths(mdp: MDP, data: Dataset, k: int, *, exactly: bool = False) -> Paths:
    """Every best path of at most k steps that starts and ends in D, whatever it passes through.

    With `exactly`, only paths of k steps, as appendix H sketches; but one that reaches a final state is over,
    so it may be shorter. Two paths of different length between the same states are two entries: which one is
    better depends on the value of the end, since a longer path discounts it more.
    """
    _check_steps(k)
    check_data(mdp, data)
    seen = data.states(mdp.n_states)
    layers = _layers(state_pairs(mdp), np.flatnonzero(seen), k)
    kept = [
        layer.where(seen[layer.end] & (mdp.final[layer.end] if exactly and layer.length < k else True))
        for layer in layers
    ]
    return _collected(kept, mdp.final & seen, mdp.discount, k)


def scql_k(mdp: MDP, data: Dataset, k: int, *, exactly: bool = False) -> Table:
    """Appendix H: SCQL with whole paths as entries; for k = 1 it is eq. (5)."""
    return best_paths(mdp, data, k, exactly=exactly).table


def path_values(paths: Paths, v: FloatArray) -> FloatArray:
    """V^(k)(s, s_k) of appendix H: each path's discounted rewards and the value of the state it ends in."""
    return paths.pairs.reward + paths.pairs.discount * v[paths.pairs.target]


def follow(paths: Paths, choice: IntArray, start: int, limit: int) -> list[int]:
    """The states visited from `start` by walking each chosen path to its end, at most `limit` paths."""
    visited = [start]
    for _ in range(limit):
        entry = choice[visited[-1]]
        if entry == NOWHERE:
            break
        visited.extend(int(s) for s in paths.states[entry, : paths.steps[entry]])
    return visited


@dataclass(frozen=True, eq=False)
class _Layer:
    """The best paths of one length."""

    length: int
    start: IntArray  # [n]
    end: IntArray  # [n]
    action: IntArray  # [n] the first one
    reward: FloatArray  # [n]
    states: IntArray  # [n, length]

    def where(self, chosen: BoolArray | IntArray) -> "_Layer":
        return _Layer(
            self.length,
            self.start[chosen],
            self.end[chosen],
            self.action[chosen],
            self.reward[chosen],
            self.states[chosen],
        )


def _layers(pairs: Entries, starts: IntArray, k: int) -> list[_Layer]:
    row, edge = _extend(starts, pairs.indptr)
    end = pairs.target[edge]
    layers = [_Layer(1, starts[row], end, pairs.action[edge], pairs.reward[edge], end[:, None])]
    for _ in range(k - 1):
        layers.append(_longer(layers[-1], pairs))
    return layers


def _longer(layer: _Layer, pairs: Entries) -> _Layer:
    """One step more. Only the best path to each end is extended: the rest of the way is worth the same."""
    row, edge = _extend(layer.end, pairs.indptr)
    end = pairs.target[edge]
    grown = _Layer(
        layer.length + 1,
        layer.start[row],
        end,
        layer.action[row],
        layer.reward[row] + pairs.discount[edge] ** layer.length * pairs.reward[edge],
        np.column_stack([layer.states[row], end]),
    )
    grown = grown.where(np.lexsort((-grown.reward, grown.end, grown.start)))
    new = np.ones(len(grown.end), dtype=np.bool_)
    new[1:] = (np.diff(grown.start) != 0) | (np.diff(grown.end) != 0)
    return grown.where(new)


def _extend(states: IntArray, indptr: IntArray) -> tuple[IntArray, IntArray]:
    """Each state with each of its entries: (position in `states`, entry)."""
    length = np.diff(indptr)[states]
    row = np.repeat(np.arange(len(states)), length)
    edge = np.repeat(indptr[states] - offsets(length)[:-1], length) + np.arange(len(row))
    return row, edge


def _collected(layers: list[_Layer], final: BoolArray, discount: float, k: int) -> Paths:
    start = np.concatenate([layer.start for layer in layers])
    steps = np.concatenate([np.full(len(layer.start), layer.length) for layer in layers])
    order = np.lexsort((steps, start))
    states = [np.pad(layer.states, ((0, 0), (0, k - layer.length)), mode="edge") for layer in layers]
    pairs = Entries(
        offsets(np.bincount(start, minlength=len(final))),
        np.concatenate([layer.action for layer in layers])[order],
        np.concatenate([layer.end for layer in layers])[order],
        np.concatenate([layer.reward for layer in layers])[order],
        discount ** steps[order],
    )
    return Paths(pairs, steps[order], np.concatenate(states)[order], final)


def _check_steps(k: int) -> None:
    if not 1 <= k <= MOST_STEPS:
        raise InputError(f"reachability over {k} steps", expected=f"at least one step, and at most {MOST_STEPS}")

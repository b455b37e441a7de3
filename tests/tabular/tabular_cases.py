"""Random deterministic MDPs with random datasets."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from stacq.tabular.mdp import MDP, NOWHERE, BoolArray, Dataset, IntArray, logged, lowest_return


@dataclass(frozen=True, eq=False)
class Case:
    mdp: MDP
    data: Dataset
    q0: float  # at most r_min / (1 - gamma)
    random: np.random.Generator

    @property
    def seen(self) -> BoolArray:
        return self.data.states(self.mdp.n_states)

    def __repr__(self) -> str:
        logs = list(zip(self.data.state.tolist(), self.data.action.tolist(), strict=True))
        return (
            f"next_state={self.mdp.next_state.tolist()} reward={self.mdp.reward.tolist()} "
            f"final={np.flatnonzero(self.mdp.final).tolist()} discount={self.mdp.discount} "
            f"q0={self.q0} data={logs}"
        )


@st.composite
def cases(draw: st.DrawFn, kind: str = "any", largest: int = 7) -> Case:
    """`kind` is the data: "any" pairs, "covering" all states, or "closed" (all pairs between its states)."""
    n = draw(st.integers(2, largest))
    n_actions = draw(st.integers(1, 3))
    discount = draw(st.sampled_from([0.0, 0.5, 0.9, 0.97]))
    slack = draw(st.sampled_from([0.0, 0.0, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mdp = _mdp(random, n, n_actions, discount)
    choose = {"any": _any, "covering": _covering, "closed": _closed}[kind]
    state, action = choose(random, mdp)
    return Case(mdp, logged(mdp, state, action), lowest_return(mdp) - slack, random)


def _mdp(random: np.random.Generator, n: int, n_actions: int, discount: float) -> MDP:
    next_state = random.integers(n, size=(n, n_actions))
    next_state[random.random(next_state.shape) < 0.2] = NOWHERE
    final = random.random(n) < 0.15
    final[0] = False
    next_state[0, 0] = random.integers(n)
    pair_reward = random.integers(-10, random.choice([1, 11]), size=(n, n)) / 10
    reward = pair_reward[np.arange(n)[:, None], next_state]
    return MDP(next_state, reward, final, discount)


def _any(random: np.random.Generator, mdp: MDP) -> tuple[IntArray, IntArray]:
    state, action = np.nonzero(mdp.available)
    chosen = random.integers(len(state), size=random.integers(1, 1 + len(state)))
    return state[chosen], action[chosen]


def _covering(random: np.random.Generator, mdp: MDP) -> tuple[IntArray, IntArray]:
    """One action in every state that has one, and one way into every state that would be missing."""
    state, action = np.nonzero(mdp.available)
    order = random.permutation(len(state))
    state, action = state[order], action[order]
    target = mdp.next_state[state, action]
    first = np.unique(state, return_index=True)[1]
    missing = ~np.isin(target, state)
    into = np.flatnonzero(missing)[np.unique(target[missing], return_index=True)[1]]
    chosen = np.union1d(first, into)
    return state[chosen], action[chosen]


def _closed(random: np.random.Generator, mdp: MDP) -> tuple[IntArray, IntArray]:
    """All pairs inside a subset of the states, so that no other pair is reachable between data states."""
    inside = random.random(mdp.n_states) < 0.7
    inside[[0, mdp.next_state[0, 0]]] = True
    kept = mdp.available & inside[:, None] & inside[mdp.next_state]
    state, action = np.nonzero(kept)
    return state, action

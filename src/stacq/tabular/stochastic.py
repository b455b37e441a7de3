"""The discussion section's extension: in a stochastic MDP, reachable means "the most likely successor".

The method then assumes that the most likely successor always occurs. `plan` returns the values that follow from this
assumption together with the true expected returns.
"""

from dataclasses import dataclass

import numpy as np

from stacq.core.errors import InputError
from stacq.tabular.mdp import NOWHERE, BoolArray, Entries, FloatArray, IntArray, check_discount, offsets
from stacq.tabular.policy import greedy
from stacq.tabular.solve import Table, state_mask, synchronous


@dataclass(frozen=True, eq=False)
class StochasticMDP:
    """p(s'|s,a) and r(s,a,s') as arrays; a row of zeros is an action that cannot be taken."""

    transition: FloatArray  # [S, A, S]
    reward: FloatArray  # [S, A, S]
    final: BoolArray  # [S]
    discount: float

    def __post_init__(self) -> None:
        check_discount(self.discount)
        _check_shapes(self)
        _check_probabilities(self.transition)


def _check_shapes(mdp: StochasticMDP) -> None:
    shape = mdp.transition.shape
    fits = len(shape) == 3 and shape[0] == shape[2]
    if not fits or mdp.reward.shape != shape or mdp.final.shape != shape[:1]:
        raise InputError(
            f"transition {shape}, reward {mdp.reward.shape} and final {mdp.final.shape} do not fit together",
            expected="[states, actions, states] twice and [states]",
        )


def _check_probabilities(p: FloatArray) -> None:
    total = p.sum(axis=2)
    wrong = np.argwhere((p < 0).any(axis=2) | ~(np.isclose(total, 1) | (total == 0)))
    if len(wrong):
        s, a = wrong[0]
        raise InputError(
            f"the probabilities of action {a} in state {s} are not a distribution: {p[s, a]}",
            expected="non-negative numbers that add up to 1, or zeros for an action that cannot be taken",
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy with what it expects and what it gets."""

    action: IntArray  # [S]; NOWHERE where the policy has nothing to say
    estimate: FloatArray  # [S] its own value, as if the most likely successor were certain
    expected_return: FloatArray  # [S] the truth


def most_likely(mdp: StochasticMDP) -> BoolArray:
    """[S, A, S]: p(s'|s,a) = max p(.|s,a). With several equally likely successors all of them count."""
    p = mdp.transition
    likely: BoolArray = (p > 0) & (p == p.max(axis=2, keepdims=True))
    return likely & ~mdp.final[:, None, None]


def likely_pairs(mdp: StochasticMDP) -> Entries:
    """(s, s') with s' in the extended SR(s), each with the action that makes s' most probable."""
    p = np.where(most_likely(mdp), mdp.transition, 0.0)
    source, target = np.nonzero(p.any(axis=1))
    action = p[source, :, target].argmax(axis=1)
    return Entries(
        offsets(np.bincount(source, minlength=len(mdp.final))),
        action,
        target,
        mdp.reward[source, action, target],
        np.full(len(source), mdp.discount),
    )


def expected_returns(mdp: StochasticMDP, action: IntArray, stuck: float) -> FloatArray:
    """V_pi of section 2 by a linear solve. Where there is no action the episode ends with `stuck`."""
    known = (action != NOWHERE) & ~mdp.final
    s, a = np.flatnonzero(known), action[known]
    p = np.zeros((len(action), len(action)))
    p[s] = mdp.transition[s, a]
    r = np.where(mdp.final, 0.0, stuck)
    r[s] = (mdp.transition[s, a] * mdp.reward[s, a]).sum(axis=1)
    return np.asarray(np.linalg.solve(np.eye(len(p)) - mdp.discount * p, r), dtype=np.float64)


def plan(mdp: StochasticMDP, seen: BoolArray, *, q0: float) -> Plan:
    """SCQL over the states `seen` in the data with the extended reachability.

    A slip can lead outside the data; the policy has nothing to say there and the truth counts q0.
    """
    pairs = likely_pairs(mdp)
    table = Table(pairs, state_mask(pairs, seen), mdp.final & seen)
    solution = synchronous(table, q0=q0, tolerance=1e-12)
    choice = greedy(table, solution.q)
    action = np.full(len(choice), NOWHERE)
    action[choice != NOWHERE] = pairs.action[choice[choice != NOWHERE]]
    return Plan(action, solution.v, expected_returns(mdp, action, q0))

"""Rollouts in the models, and where they are cut."""

import jax.numpy as jnp
import numpy as np

from judge_cases import DISCOUNT, QUICK, always, chain, models
from stacq.judgement.evidence import evidence_of
from stacq.judgement.outcome import fit_outcome
from stacq.judgement.rollouts import Imagined, disagreement, imagine, trusted, world_of


def test_rollouts_are_cut_where_members_disagree_and_end_with_the_task() -> None:
    reward = np.ones((4, 3), np.float32)
    over, strange = np.zeros((4, 3), bool), np.zeros((4, 3), bool)
    over[1, 0], strange[2, 1], strange[0, 2] = True, True, True
    found = trusted(Imagined(reward, over, strange), 0.5, horizon=4)
    np.testing.assert_allclose(found.value, [1.5, 1.5, 0.0])
    np.testing.assert_allclose(found.rest, [0.0, 0.25, 1.0])  # the first is over: nothing is left to be known
    np.testing.assert_allclose(found.length, [4, 2, 0])


def test_disagreement_by_hand() -> None:
    told = jnp.array([[[0.0, 0.0]], [[2.0, 4.0]]])  # two members, one row
    np.testing.assert_allclose(disagreement(told, jnp.array([1.0, 2.0])), [1.0])


def test_models_know_that_going_right_ends_the_chain() -> None:
    evidence = evidence_of(chain(), models().normaliser)
    outcome = fit_outcome(evidence, evidence.s_next, QUICK.outcome, 0)
    world = world_of(evidence, models(), outcome, 0)
    starts = evidence.starts[:4]
    right = imagine(always(0.9), evidence, world._replace(border=np.inf), starts, 12, 0)
    left = imagine(always(-0.9), evidence, world._replace(border=np.inf), starts, 12, 0)
    kept = trusted(right, DISCOUNT, 12)
    places = np.repeat(evidence.raw(starts).argmax(axis=1), 2)
    np.testing.assert_allclose(kept.value, DISCOUNT ** (3 - places), atol=0.05)
    assert trusted(left, DISCOUNT, 12).value.max() < 0.05

"""The calibrated criterion as an option: equal to brute force, honest about its recall, refused without its rows."""

import re
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import reach_oracle as oracle
from stacq import Dataset, InputError
from stacq.core.artefacts import read_artefact
from stacq.core.types import Ints
from stacq.dynamics.fit import fit
from stacq.dynamics.models import Dynamics
from stacq.dynamics.recipes import FitConfig
from stacq.reach import chunks
from stacq.reach.build import reachable_sets
from stacq.reach.calibration import Calibration
from stacq.reach.config import ReachConfig
from stacq.reach.criterion import Blocks, Candidates, Criterion, Device, calibrated, device_of, judged
from stacq.reach.options import resolved
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import stitching
from stacq.report.reach_text import print_stitching
from test_calibration import line_models
from test_reach_build import walks

CALIBRATED = ReachConfig(criterion="calibrated", actions=50, estimator="random")
STRICT = replace(CALIBRATED, epsilon=0.02, recall=0.7)


@cache
def fitted() -> tuple[Dataset, Dynamics]:
    """Models so poor that the calibration has work to do, and 40 held-out rows."""
    dataset = walks(episodes=32, seed=5)
    config = FitConfig(3, 2, hidden=(16,), batch=32, max_epochs=3, learning_rate=1e-2)
    return dataset, fit(dataset, config).dynamics


@cache
def searched() -> tuple[oracle.Frame, oracle.Box]:
    frame = oracle.frame_of(*fitted())
    assert CALIBRATED.actions is not None
    return frame, oracle.boxes(frame, oracle.tried(frame, CALIBRATED.actions, CALIBRATED.estimator, CALIBRATED.seed))


def test_the_calibration_is_that_of_the_oracle() -> None:
    """Made on the half of the held-out rows that no recall is told of: 15 of 20 must pass, with the poorest of them."""
    (dataset, dynamics), (frame, box) = fitted(), searched()
    said = reachable_sets(dataset, dynamics, STRICT).facts["calibration"]
    rows = np.random.default_rng(42).permutation(dynamics.held_out)[20:]
    sizes = box.sizes[rows]
    refined = oracle.refined(frame, frame.s[rows], frame.s_next[rows], sizes)
    wanted = oracle.calibration(refined, sizes, 0.02, 0.7 / 0.995)
    np.testing.assert_allclose(said["trust"], wanted.trust, rtol=1e-3)
    np.testing.assert_allclose(said["threshold"], wanted.threshold, rtol=1e-3)
    passing = oracle.scores(refined, sizes, wanted.trust, 0.02) <= wanted.threshold
    plain = oracle.plain_errors(frame, frame.s[rows], frame.s_next[rows], sizes, True).max(axis=1)
    assert passing.sum() == 15 and wanted.threshold > 1 and plain[passing].max() > 0.3
    np.testing.assert_allclose(said["bound"], plain[passing].max(), rtol=1e-3)


def test_equal_to_brute_force() -> None:
    """Some pairs fail by either test alone."""
    (dataset, dynamics), (frame, box) = fitted(), searched()
    sets = reachable_sets(dataset, dynamics, STRICT)
    said = sets.facts["calibration"]
    i, j, on_a_face = oracle.inside(frame, box)
    pairs = frame.s[i], frame.s_next[j], box.sizes[i]
    score = oracle.scores(oracle.refined(frame, *pairs), box.sizes[i], np.array(said["trust"]), 0.02)
    plain, own = oracle.plain_errors(frame, *pairs, True).max(axis=1), i == j
    shares = score / said["threshold"], plain / said["bound"]  # of what is tolerated
    worst = np.maximum(*shares)
    undecided = ~own & (on_a_face | (np.abs(worst - 1) < oracle.NEAR))
    assert oracle.differing(sets, i, j, (worst <= 1) | own, undecided) == [] and undecided.mean() < 0.01
    alone = [(one > 1) & (other <= 1) for one, other in (shares, shares[::-1])]
    assert min(each.sum() for each in alone) > 20


def known_pairs(dynamics: Dynamics, rows: Ints) -> tuple[Device, Candidates]:
    frame, box = searched()
    s, s_next, sizes = (each.astype(np.float32) for each in (frame.s, frame.s_next, box.sizes[rows]))
    pairs = Candidates(s, s_next, rows, sizes, np.arange(len(rows)), rows)
    return device_of(dynamics, True, Blocks(64, 16)), pairs


@pytest.mark.parametrize("asked", [0.95, pytest.param(0.98, marks=pytest.mark.slow)])
def test_at_least_the_asked_share_of_known_pairs_passes(asked: float) -> None:
    _, dynamics = fitted()
    device, pairs = known_pairs(dynamics, dynamics.held_out)
    criterion = calibrated(device, pairs, recall=asked, epsilon=0.02)
    found = judged(criterion, device, pairs, True)
    assert asked <= found.recall + 1e-9 and found.rows == 40 and found.held_out
    assert criterion.calibration is not None and criterion.calibration.threshold > 1


def test_the_plain_test_keeps_what_a_poor_inverse_model_spoils() -> None:
    """The inverse model always answers 0: plain errors up to half a range, none after refining."""
    actions = np.linspace(-1, 1, 41, dtype=np.float32)[:, None]
    rows, step = np.arange(41), np.array([1, 2], dtype=np.float32)
    sizes = np.repeat(2 * step[None], 41, axis=0)
    pairs = Candidates(np.zeros((41, 2), np.float32), actions * step, rows, sizes, rows, rows)
    device = Device(line_models(guess=0.0), -jnp.ones(1), jnp.ones(1), Blocks(64, 16))
    criterion = calibrated(device, pairs, recall=0.95, epsilon=0.1)
    assert criterion.bound == pytest.approx(0.5)
    assert criterion.accepts(device, pairs).all()
    assert Criterion("linf", 0.1).accepts(device, pairs).sum() == 9  # errors of 0, 0.025, ... on both sides


def test_the_worst_dimension_is_the_one_that_fails() -> None:
    rows = np.arange(8)
    goals = np.zeros((8, 2), dtype=np.float32)
    goals[:6, 1] = 0.5  # five sixths of them out of reach in dimension 1, the others in none
    pairs = Candidates(np.zeros((8, 2), np.float32), goals, rows, np.ones((8, 2), np.float32), rows, rows)
    device = Device(line_models(guess=0.0), -jnp.ones(1), jnp.ones(1), Blocks(4, 4))
    found = judged(Criterion("linf", 0.1), device, pairs, False)
    assert (found.recall, found.worst_dimension) == (0.25, 1)


def test_no_pairs_are_no_trouble() -> None:
    none = np.zeros(0, dtype=np.int64)
    pairs = Candidates(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), np.zeros(1, np.int64),
                  np.ones((1, 2), np.float32), none, none)  # fmt: skip
    device = Device(line_models(guess=0.0), -jnp.ones(1), jnp.ones(1), Blocks(4, 4))
    calibration = Calibration((1.0, 1.0), 0.1, 1.0, 1.0, 0)
    assert Criterion("linf", 0.3, calibration).accepts(device, pairs).tolist() == []


def test_dynamics_without_held_out_rows_or_of_another_dataset_are_refused() -> None:
    dataset, dynamics = fitted()
    with pytest.raises(InputError, match="do not say which rows") as caught:
        reachable_sets(dataset, replace(dynamics, held_out=np.zeros(0, dtype=np.int64)), CALIBRATED)
    assert "stacq dynamics fit" in str(caught.value)
    with pytest.raises(InputError, match="another dataset"):
        reachable_sets(walks(episodes=32, seed=6), dynamics, CALIBRATED)


def test_options_that_the_calibrated_criterion_has_not() -> None:
    with pytest.raises(InputError, match="norm is l1"):
        resolved(replace(CALIBRATED, norm="l1"))
    for recall in (0.0, 1.0):
        with pytest.raises(InputError, match="recall is"):
            resolved(replace(CALIBRATED, recall=recall))
    assert resolved(CALIBRATED).clip


def test_the_manifest_tells_the_calibration_and_the_recall(tmp_path: Path) -> None:
    dataset, dynamics = fitted()
    sets = reachable_sets(dataset, dynamics, CALIBRATED)
    sets.save(tmp_path / "sets")
    facts = read_artefact(tmp_path / "sets", "reach").config["facts"]
    assert facts == dict(sets.facts) and sets.config["criterion"] == "calibrated"
    assert set(facts["calibration"]) == {"trust", "epsilon", "threshold", "recall", "worst_dimension", "bound"}
    assert facts["calibration"]["recall"] >= 0.95 and facts["known_pairs"]["rows"] == 20
    paper = reachable_sets(dataset, dynamics, replace(CALIBRATED, criterion="paper"))
    assert "calibration" not in paper.facts and paper.facts["known_pairs"]["rows"] == 40


def test_held_out_rows_are_part_of_the_cache_key() -> None:
    dataset, dynamics = fitted()
    fewer = replace(dynamics, held_out=dynamics.held_out[:30])
    found = [reachable_sets(dataset, each, CALIBRATED) for each in (dynamics, fewer)]
    assert found[0].facts["calibration"] != found[1].facts["calibration"]


def text_of(sets: ReachableSets, dataset: Dataset) -> str:
    console = Console(width=80, record=True, file=StringIO())
    print_stitching(stitching(sets, dataset), sets.config, console)
    return console.export_text()


def test_the_text_names_criterion_recall_and_worst_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = fitted()
    strict = replace(CALIBRATED, criterion="paper", epsilon=0.005)
    paper = reachable_sets(dataset, dynamics, strict)
    known = paper.facts["known_pairs"]
    text = text_of(paper, dataset)
    assert "by the paper's criterion: epsilon 0.005, norm linf" in text
    assert f"{known['recall']:.1%} of 40 held-out rows" in text and "states per state" in text
    assert re.search(rf"fails most often +dimension {known['worst_dimension']}\b", text)
    assert "warning: only" in text and "`--criterion calibrated`" in text
    assert "closest to failing" in text_of(reachable_sets(dataset, dynamics, replace(strict, epsilon=9.0)), dataset)
    text = text_of(reachable_sets(dataset, dynamics, CALIBRATED), dataset)
    assert "by the calibrated criterion: epsilon 0.1" in text and "norm" not in text and "recall 0.95" in text
    assert "of 20 held-out rows" in text and "--criterion" not in text
    unknown = replace(dynamics, held_out=np.zeros(0, dtype=np.int64))
    monkeypatch.setattr(chunks, "KNOWN_ROWS", 10)
    assert "10 rows, which the models may have seen" in text_of(reachable_sets(dataset, unknown, strict), dataset)

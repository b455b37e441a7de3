"""Actions that lead to reachable states: right where the models are, in the order of the sets, found once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stacq.reach.actions as module
from stacq import Dataset, InputError
from stacq.core.artefacts import ARRAYS, remove_artefact
from stacq.core.files import home
from stacq.dynamics.models import Dynamics
from stacq.reach.actions import leading_actions
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from stacq.reach.sets import ReachableSets, others
from test_reach_build import STEP, exact_models, learned, walks


def reached(dataset: Dataset, dynamics: Dynamics, epsilon: float = 0.3) -> ReachableSets:
    return reachable_sets(dataset, dynamics, ReachConfig(estimator="corners", actions=0, clip=True, epsilon=epsilon))


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the models are asked from now on."""
    asked: list[tuple[Any, ...]] = []
    plain = module._refined

    def ask(*given: Any) -> Any:
        asked.append(given)
        return plain(*given)

    monkeypatch.setattr(module, "_refined", ask)
    return asked


def refuse(*_: Any) -> Any:
    raise AssertionError("found again")


@pytest.mark.parametrize("chunk", [700, 16_384])
def test_with_exact_models_they_lead_there(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.CHUNK, "cpu", chunk)
    dataset = walks()
    dynamics = exact_models(dataset)
    sets = reached(dataset, dynamics)
    anchors, rows = others(sets)
    assert len(rows) > len(dataset) and not (anchors == rows).any()
    told: list[tuple[int, int]] = []
    actions = leading_actions(dataset, dynamics, sets, progress=lambda *each: told.append(each))
    arrived = dataset.observations[anchors] + STEP * actions
    np.testing.assert_allclose(arrived, dataset.next_observations[rows], atol=1e-5)
    assert told[-1] == (len(rows), len(rows)) and len(told) == -(-len(rows) // chunk)


def test_they_stay_within_the_bounds() -> None:
    dataset = walks()
    dynamics = exact_models(dataset)
    narrow = replace(dynamics, action_low=np.full(2, -0.25, np.float32), action_high=np.full(2, 0.5, np.float32))
    actions = leading_actions(dataset, narrow, reached(dataset, dynamics))
    assert actions.min() == -0.25 and actions.max() == 0.5


def test_they_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = learned()
    sets = reached(dataset, dynamics)
    said: list[str] = []
    actions = leading_actions(dataset, dynamics, sets, log=said.append)
    assert said == [f"finding the actions that lead to {len(actions):,} reachable states"]
    monkeypatch.setattr(module, "refined", refuse)
    np.testing.assert_array_equal(leading_actions(dataset, dynamics, sets, log=said.append), actions)
    assert len(said) == 1
    fewer = reached(dataset, dynamics, 0.01)
    assert len(dataset) < fewer.pairs < sets.pairs
    for other in ((dataset, replace(dynamics, action_low=dynamics.action_low * 2), sets), (dataset, dynamics, fewer)):
        with pytest.raises(AssertionError, match="found again"):
            leading_actions(*other)


def test_an_interrupted_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.CHUNK, "cpu", 700)
    dataset, dynamics = learned()
    sets = reached(dataset, dynamics)
    whole = leading_actions(dataset, dynamics, sets)
    assert len(whole) > 2 * 700
    remove_artefact(next((home() / module.KIND).iterdir()))

    def stop(count: int, _: int) -> None:
        if count > 700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leading_actions(dataset, dynamics, sets, progress=stop)
    asked = watched(monkeypatch)
    np.testing.assert_array_equal(leading_actions(dataset, dynamics, sets), whole)
    assert sum(len(given[1]) for given in asked) == len(whole) - 2 * 700
    assert len(list((home() / module.KIND).iterdir())) == 1


def test_the_unit_is_a_step_of_the_data_whatever_the_models_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published recipe has no scales: a dimension that hardly moves would not count."""
    dataset, asked = walks(), watched(monkeypatch)
    dynamics = exact_models(dataset)
    assert (dynamics.models.step_scale == 1).all()
    leading_actions(dataset, dynamics, reached(dataset, dynamics))
    steps = dataset.next_observations - dataset.observations
    np.testing.assert_allclose(asked[0][3], steps.std(axis=0), rtol=1e-5)


def test_damaged_ones_are_not_used() -> None:
    dataset, dynamics = learned()
    sets = reached(dataset, dynamics)
    leading_actions(dataset, dynamics, sets)
    (path,) = (home() / module.KIND).glob(f"*/{ARRAYS}")
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(InputError, match="damaged"):
        leading_actions(dataset, dynamics, sets)


def test_own_successors_need_none() -> None:
    dataset = walks()
    rows = np.arange(len(dataset))
    sets = ReachableSets(np.arange(len(dataset) + 1), rows, {}, {"dataset": dataset.fingerprint}, {})
    assert leading_actions(dataset, exact_models(dataset), sets).shape == (0, 2)
    assert not (home() / module.KIND).exists()

"""Actions that lead to reachable states: right where the models are, in the order of the sets, found once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import stacq.reach.ways as module
from stacq import Dataset, InputError
from stacq.artefacts import ARRAYS
from stacq.dynamics.models import Dynamics
from stacq.files import home
from stacq.reach.build import ReachConfig, reachable_sets
from stacq.reach.sets import ReachableSets
from stacq.reach.ways import leading_actions, others
from test_reach_build import STEP, exact_models, learned, walks


def reached(dataset: Dataset, dynamics: Dynamics, epsilon: float = 0.3) -> ReachableSets:
    return reachable_sets(dataset, dynamics, ReachConfig(estimator="corners", actions=0, clip=True, epsilon=epsilon))


def refuse(*_: Any) -> Any:
    raise AssertionError("found again")


@pytest.mark.parametrize("chunk", [7, 16_384])
def test_with_exact_models_they_lead_there(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    dataset = walks()
    dynamics = exact_models(dataset)
    sets = reached(dataset, dynamics)
    anchors, rows = others(sets)
    assert len(rows) > len(dataset) and not (anchors == rows).any()
    told: list[int] = []
    actions = leading_actions(dataset, dynamics, sets, progress=told.append)
    arrived = dataset.observations[anchors] + STEP * actions
    np.testing.assert_allclose(arrived, dataset.next_observations[rows], atol=1e-5)
    assert told[-1] == len(rows) and len(told) == -(-len(rows) // chunk)


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

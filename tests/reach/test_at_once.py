"""Stages that are asked for twice at the same time are made once."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stacq.data.generate
import stacq.pipeline.models
import stacq.reach.actions
import stacq.reach.build
from stacq import Dataset, generate
from stacq.dynamics.models import Dynamics
from stacq.pipeline.console import ConsoleReporter
from stacq.pipeline.models import Fitted, fit_dynamics
from stacq.reach.actions import leading_actions
from stacq.reach.build import reachable_sets
from stacq.reach.config import ReachConfig
from test_reach_build import learned

WIDE = ReachConfig(estimator="corners", actions=0, epsilon=0.3)


def at_once(work: Callable[[], Any], module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What two callers get when the second asks while the first is inside of `name`, which may run only once."""
    inside, calls, plain, found = threading.Event(), [], getattr(module, name), []

    def slow(*given: Any, **named: Any) -> Any:
        calls.append(name)
        inside.set()
        time.sleep(0.5)  # without a lock the second would be in here too by now
        return plain(*given, **named)

    monkeypatch.setattr(module, name, slow)
    threads = [threading.Thread(target=lambda: found.append(work()), daemon=True) for _ in range(2)]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert calls == [name] and len(found) == 2
    return found


def test_data_are_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = at_once(lambda: generate("hopper-random", size=200, workers=1), stacq.data.generate, "roll_out", monkeypatch)
    assert made[0] == made[1] and made[0].exists()


def fitted(dataset: Dataset) -> Fitted:
    return fit_dynamics(dataset, "small", epochs=1, reporter=ConsoleReporter())


def test_dynamics_are_fitted_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, _ = learned()
    made = at_once(lambda: fitted(dataset), stacq.pipeline.models, "fit", monkeypatch)
    assert made[0].dynamics.fingerprint == made[1].dynamics.fingerprint
    text = capsys.readouterr().out
    assert text.count("another process is fitting these dynamics") == 1 and text.count("fitted before") == 1


def test_nobody_reports_on_dynamics_while_their_report_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there from the moment they are saved; the curves of the fit would be missing in a second report."""
    dataset, _ = learned()
    made = at_once(lambda: fitted(dataset), stacq.pipeline.models, "measure", monkeypatch)
    quality = json.loads((made[0].directory / "quality.json").read_text(encoding="utf-8"))
    assert len(quality["curves"]) == 1


def reached(dataset: Dataset, dynamics: Dynamics, said: list[str]) -> Any:
    return reachable_sets(dataset, dynamics, WIDE, log=said.append)


def test_sets_and_the_actions_that_lead_there_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, dynamics = learned()
    said: list[str] = []
    first, second = at_once(lambda: reached(dataset, dynamics, said), stacq.reach.build, "ChunkMaker", monkeypatch)
    np.testing.assert_array_equal(first.indices, second.indices)
    assert sum("another process is finding these sets" in each for each in said) == 1
    ways = at_once(
        lambda: leading_actions(dataset, dynamics, first, log=said.append), stacq.reach.actions, "_found", monkeypatch
    )
    np.testing.assert_array_equal(*ways)
    assert sum("another process is finding these actions" in each for each in said) == 1

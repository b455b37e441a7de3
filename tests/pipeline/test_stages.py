"""The stages of a training: made once, reused, read again."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from training_cases import (
    Stopped,
    Told,
    dataset,
    made_task,
    models,
    options,
    outcome,
    plan,
    pull_plug_at,
    run_job,
)

from stacq.algos.algorithm import Shown
from stacq.core.errors import InputError
from stacq.evaluation.rollouts import Counting
from stacq.pipeline.options import Options
from stacq.pipeline.plan import make_plan
from stacq.pipeline.stages import Work, make_task, with_policies
from stacq.reach.actions import CHUNK


def robust(alpha: float) -> Options:
    """An action pull is weighed by alpha."""
    return options("stacq", variant="robust", settings=("batch=16", "hidden=8,8", f"alpha={alpha}"))


def test_actions_that_lead_to_states_are_found_only_where_they_are_pulled_to() -> None:
    chosen = options("stacq", variant="paper"), robust(0.0), robust(1.0)
    worlds = [made_task(each).world for each in chosen]
    assert [each.extras is not None and each.extras.actions is not None for each in worlds] == [False, False, True]


@pytest.mark.slow
def test_a_run_that_pulls_to_actions_finds_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, whole, directory = plan(robust(1.0)), tmp_path / "whole", tmp_path / "run"
    said: list[str] = []
    sets = models()[1]
    extra = int((sets.anchors != sets.indices).sum())
    half = extra // 2
    monkeypatch.setattr("stacq.pipeline.stages.REPORT_EVERY", 0.0)
    monkeypatch.setitem(CHUNK, "cpu", half)
    run_job(chosen, out=whole, workers=1, say=said.append)
    told = [f"found {half:,} of {extra:,} actions"] + [f"found {2 * half:,} of {extra:,} actions"] * (extra % 2)
    assert said == [f"finding the actions that lead to {extra:,} reachable states", *told]
    del said[:]
    with pytest.raises(Stopped):
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(30), say=said.append)
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert not [line for line in said if "actions" in line]
    assert outcome(directory) == outcome(whole)


def test_a_finished_run_is_read_not_trained_again(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    before = (directory / "metrics.jsonl").read_bytes()
    left = directory / ".stacq-tmp-killed"  # at the end of the last file's writing
    left.mkdir()
    (left / "lock").touch()
    said: list[str] = []
    trained = run_job(plan(options(algorithm)), out=directory, say=said.append)
    assert said == [f"trained before: {directory}"]
    assert sorted(trained.policies) == [0, 1]
    assert (directory / "metrics.jsonl").read_bytes() == before and not left.exists()


def test_other_options_do_not_go_on_with_a_run(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    with pytest.raises(InputError, match="episodes was 2, now 3"):
        run_job(plan(options(algorithm, episodes=3)), out=directory)


def test_how_an_algorithm_sees_the_data_reaches_its_world_and_its_scores() -> None:
    cut = dataclasses.replace(dataset(), successor_known=np.arange(len(dataset())) % 5 > 0)
    worlds = [make_task(make_plan(cut, options(name))).world for name in ("bc", "td3bc")]
    assert len(worlds[0].anchors) == len(cut) > len(worlds[1].anchors)  # cloning needs no successors
    chosen = plan(options("td3bc"))
    shown = Shown(reward_scale="return-range", reward_shift=-1.0)
    changed = dataclasses.replace(chosen, preset=dataclasses.replace(chosen.preset, shown=shown))
    scale = 1000 / (dataset().returns.max() - dataset().returns.min())
    assert changed.scoring is not None and changed.scoring.counting == Counting(0.99, -1.0, scale)
    seen = make_task(changed).world.rows.all.r
    np.testing.assert_allclose(seen, dataset().rewards * scale - 1, rtol=1e-5)


def test_what_a_page_shows_of_the_stages_is_there_before_the_result(tmp_path: Path) -> None:
    """A result says that a run is whole, and the page of a killed run shows its sets."""
    directory, facts = tmp_path / "run", {"reach.json": {"recall": 0.9}}
    with pytest.raises(Stopped):
        with_policies(Work(plan(options("bc")), reporter=Told(print, pull_plug_at(1)), out=directory, facts=facts))
    assert json.loads((directory / "reach.json").read_text()) == facts["reach.json"]
    assert not (directory / "result.json").exists()

"""Training runs: what they write, and that stopping one anywhere changes nothing."""

import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from training_cases import dataset, models, options, outcome, plan

from stacq import Conventions, Dataset, from_arrays, pipeline
from stacq.algos.common import Phase
from stacq.algos.world import pair_slots
from stacq.envs.maze import MazeEnv, data_cells
from stacq.errors import InputError
from stacq.evaluation import Counting, EvaluationFailed
from stacq.files import content_hash, home, replacing, write_json
from stacq.interrupts import Terminated, terminate_as_interrupt
from stacq.policy import Policy
from stacq.reach.ways import CHUNK
from stacq.report.page_data import read_run
from stacq.report.page_sections import results_section
from stacq.report.training_text import describe_result
from stacq.runs import Run, read_metrics, read_records
from stacq.tabular.maze import load as load_maze
from stacq.training.checkpoints import save_checkpoint, save_tree
from stacq.training.evaluations import Evaluator, Protocol, Snapshot
from stacq.training.failed import TrainingFailed
from stacq.training.finished import read_finished
from stacq.training.job import (
    Options,
    make_plan,
    make_task,
    protocol_of,
    read_trained,
    result_of,
    run_directory,
    run_job,
)
from stacq.training.train import Report, Schedule, _Pace, _Trainer, even_part, stops, train

ALGORITHMS = ("bc", "td3bc", "stacq", "onestep-stacq")


class Broken(MazeEnv):
    def step(self, action: Any) -> Any:
        raise RuntimeError("the walls have moved")


class Stopped(Exception):
    """The plug is pulled."""


def pull_plug_at(*steps: int) -> Any:
    """A listener that stops the run at these steps, once each."""
    left = list(steps)

    def listen(report: Report) -> None:
        if left and report.step >= left[0]:
            left.pop(0)
            raise Stopped

    return listen


@pytest.fixture(scope="module", params=ALGORITHMS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    directory = tmp_path_factory.mktemp("whole") / "run"
    run_job(plan(options(request.param)), out=directory, workers=1)
    return request.param, directory


def test_a_run_that_is_stopped_again_and_again_ends_as_if_it_never_was(
    finished: tuple[str, Path], tmp_path: Path
) -> None:
    algorithm, whole = finished
    chosen, directory = plan(options(algorithm)), tmp_path / "run"
    plug = pull_plug_at(7, 20, 41)
    said: list[str] = []
    while not (directory / "result.json").exists():
        with contextlib.suppress(Stopped):
            run_job(chosen, out=directory, workers=1, listener=plug, say=said.append)
    steps = [int(re.sub(r"\D", "", text.split(" of ")[0])) for text in said]
    assert len(steps) == 3 and 0 < steps[0] < steps[1] < steps[2], said
    assert outcome(directory) == outcome(whole)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_run_that_is_asked_to_stop_keeps_what_it_did(
    finished: tuple[str, Path], tmp_path: Path, number: signal.Signals, raised: type[BaseException]
) -> None:
    """No checkpoint is due for an hour; it is in the midst of a stretch at the first stop, at the end of one after."""
    algorithm, whole = finished
    chosen, directory = plan(options(algorithm, checkpoint_seconds=3600.0)), tmp_path / "run"
    left, asked, said = [7, 40], [], list[str]()

    def listen(report: Report) -> None:
        if left and report.step >= left[0]:
            left.pop(0)
            asked.append(report.step)
            signal.raise_signal(number)

    for _ in range(2):
        with terminate_as_interrupt(), pytest.raises(raised):
            run_job(chosen, out=directory, workers=1, listener=listen, say=said.append)
    run_job(chosen, out=directory, workers=1, say=said.append)
    went_on = [int(re.sub(r"\D", "", text.split(" of ")[0])) for text in said]
    assert len(went_on) == 2 and all(now >= then for now, then in zip(went_on, asked, strict=True)), (said, asked)
    assert outcome(directory) == outcome(whole)


def test_a_stop_while_evaluations_are_waited_for_keeps_what_was_done(
    finished: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, whole = finished
    chosen, directory = plan(options(algorithm, checkpoint_seconds=3600.0)), tmp_path / "run"

    def full(_: Evaluator, snapshot: Snapshot) -> None:
        raise KeyboardInterrupt(f"at step {snapshot.step}")

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match=r"at step (20|80)"):
        patch.setattr(Evaluator, "submit", full)
        run_job(chosen, out=directory, workers=1)
    said: list[str] = []
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert re.match("going on from step (20|80) of ", said[0])
    assert outcome(directory) == outcome(whole)


def test_what_a_kill_in_the_middle_of_a_file_left_is_removed(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with pytest.raises(Stopped):
        run_job(plan(options("bc")), out=directory, workers=1, listener=pull_plug_at(41))
    (directory / "policies").mkdir(exist_ok=True)
    for half in (directory / "policies" / "seed-1.safetensors", directory / "result.json"):
        with contextlib.suppress(Stopped), replacing(half) as temporary:
            temporary.write_text("half")
            shutil.copytree(temporary.parent, temporary.parent.with_name(".stacq-tmp-killed"))
            raise Stopped
    assert len(list(directory.rglob(".stacq-tmp-*"))) == 2
    run_job(plan(options("bc")), out=directory, workers=1)
    assert not list(directory.rglob(".*"))


def test_what_is_told_of_the_stages_before_is_there_before_the_result(tmp_path: Path) -> None:
    """A result says that a run is whole: a kill after it must leave nothing to be written."""
    directory, facts = tmp_path / "run", {"reach.json": {"recall": 0.9}}
    with pytest.raises(Stopped):
        run_job(plan(options("bc")), out=directory, workers=1, listener=pull_plug_at(1), facts=facts)
    assert json.loads((directory / "reach.json").read_text()) == facts["reach.json"]
    assert not (directory / "result.json").exists()


def test_a_seed_does_not_know_how_many_others_there_are(finished: tuple[str, Path], tmp_path: Path) -> None:
    algorithm, whole = finished
    run_job(plan(options(algorithm, seeds=1, first_seed=1, evaluate=False)), out=tmp_path / "run", workers=1)
    alone, among = (load_file(each / "policies" / "seed-1.safetensors") for each in (tmp_path / "run", whole))
    assert content_hash(alone) == content_hash(among)


def test_a_run_leaves_policies_records_and_a_result(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    records = read_records(directory)
    first = 60 if algorithm == "onestep-stacq" else 0  # its critic comes first, and is not evaluated
    assert {record.step - first for record in records} == {20, 40, 60}
    assert {(record.seed, record.episode) for record in records} == {(s, e) for s in (0, 1) for e in (0, 1)}
    result = json.loads((directory / "result.json").read_text())
    mine = [record.score for record in records if record.seed == 1 and record.step == first + 60]
    assert result["final"][1] == pytest.approx(np.mean([score for score in mine if score is not None]))
    policy = Policy.load(directory / "policies" / "seed-1.safetensors")
    assert policy(np.array([1.5, 1.5])).shape == (2,)
    assert not list((directory / "snapshots").iterdir())


def test_metrics_hold_losses_and_the_values_of_evaluated_starts(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    lines = read_metrics(directory)
    evaluated = [line for line in lines if "eval/return" in line]
    trained = [line for line in lines if "eval/return" not in line]
    assert {line["seed"] for line in trained} == {0, 1}
    assert any("actor_loss" in line for line in trained)
    assert len(evaluated) == 6
    assert all(("eval/value" in line) == (algorithm != "bc") for line in evaluated)
    assert all(line["eval/discounted_return"] >= line["eval/return"] for line in evaluated if line["eval/return"] < 0)


def test_the_delayed_actors_mean_is_over_its_own_steps(tmp_path: Path) -> None:
    """TD3+BC's actor moves in every second step: a mean over all steps would be half as large."""
    for every, name in ((1, "each"), (2, "second")):
        chosen = options("td3bc", settings=("batch=16", "hidden=8,8", f"actor_every={every}", "learning_rate=0"))
        run_job(plan(chosen), out=tmp_path / name, workers=1)
    pulls = [
        np.mean([line["pull"] for line in read_metrics(tmp_path / name) if "pull" in line])
        for name in ("each", "second")
    ]
    assert pulls[1] == pytest.approx(pulls[0], rel=0.3)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with pytest.raises(Stopped):
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(45))
    newest = max((directory / "checkpoints").iterdir())
    damage(newest)
    said: list[str] = []
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert "passed over" in said[0] and newest.name in said[0]
    assert said[1].startswith("going on from step") and len(said) == 2
    assert outcome(directory) == outcome(whole)


def damage(artefact: Path) -> None:
    arrays = artefact / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-3] ^= 1
    arrays.write_bytes(content)


def test_without_a_whole_checkpoint_a_run_starts_anew_and_says_so(tmp_path: Path) -> None:
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with pytest.raises(Stopped):
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(45))
    for checkpoint in (directory / "checkpoints").iterdir():
        damage(checkpoint)
    said: list[str] = []
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert [text.split(":")[0] for text in said] == ["checkpoint passed over"] * 2 + ["no whole checkpoint is left"]
    assert outcome(directory) == outcome(whole)


def test_a_damaged_snapshot_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passed over, its evaluation would be missing in the end, and nobody would know."""
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Stopped):  # nothing is evaluated before the plug is pulled
        patch.setattr("stacq.training.train._Trainer._write", lambda *_: None)
        patch.setattr("stacq.training.train._Trainer._turns", lambda *_: 5)  # of two steps
        patch.setattr("stacq.training.checkpoints.KEPT", 9)
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(45))
    shutil.rmtree(directory / "checkpoints" / f"{40:09d}")
    damage(directory / "snapshots" / f"{40:09d}")
    said: list[str] = []
    for plug in (pull_plug_at(38), None):  # killed on its way back there, too
        with contextlib.suppress(Stopped):
            run_job(chosen, out=directory, workers=1, listener=plug, say=said.append)
    assert said[0].startswith("going back to before step 40") and sum("going back" in text for text in said) == 1
    assert outcome(directory) == outcome(whole)


def test_a_damaged_snapshot_is_made_from_the_checkpoint_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the run stops: the last two checkpoints may both lie beyond it, and are not given up for one evaluation."""
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("stacq.training.train._Trainer._write", lambda *_: None)
        patch.setattr("stacq.training.train._Trainer._turns", lambda self, left, *_: left)  # stops at 20, 40, 60
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(60))
    damage(directory / "snapshots" / f"{20:09d}")
    damage(directory / "snapshots" / f"{40:09d}")
    kept = {path.name for path in (directory / "checkpoints").iterdir()}
    assert kept == {f"{20:09d}", f"{40:09d}"}
    shutil.copytree(directory, tmp_path / "poorer")
    said: list[str] = []
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert said == ["going on from step 40 of 60"] and outcome(directory) == outcome(whole)
    poorer = tmp_path / "poorer"
    shutil.rmtree(poorer / "checkpoints" / f"{20:09d}")
    with pytest.raises(InputError, match="no checkpoint before it is left"):
        run_job(chosen, out=poorer, workers=1)
    assert (poorer / "checkpoints" / f"{40:09d}").exists()


def test_a_checkpoint_with_other_arrays_is_refused_and_stays(tmp_path: Path) -> None:
    """A newer version may keep more of a run. Taken for damage, days of training would begin anew."""
    chosen, directory = plan(options("td3bc")), tmp_path / "run"
    with pytest.raises(Stopped):
        run_job(chosen, out=directory, workers=1, listener=pull_plug_at(45))
    newest = max((directory / "checkpoints").iterdir())
    save_tree(newest, "checkpoint", {"w": jnp.ones(3)}, {"step": int(newest.name)})
    metrics = (directory / "metrics.jsonl").read_bytes()
    with pytest.raises(InputError, match="another version of stacq"):
        run_job(chosen, out=directory, workers=1)
    assert newest.exists() and (directory / "metrics.jsonl").read_bytes() == metrics


def test_a_kill_while_a_snapshot_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)

    def torn(path: Path, *, ignore_errors: bool) -> None:
        if path.parent.name == "snapshots" and path.exists():
            next(path.iterdir()).unlink()
            raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("stacq.artefacts.shutil.rmtree", torn)
        run_job(chosen, out=directory, workers=1)
    assert any((directory / "snapshots").iterdir())
    run_job(chosen, out=directory, workers=1, say=lambda _: None)
    assert outcome(directory) == outcome(whole)
    assert not any((directory / "snapshots").iterdir())


def test_checkpoints_of_an_attempt_that_was_given_up_do_not_crowd_out_new_ones(tmp_path: Path) -> None:
    folder, left = tmp_path / "checkpoints", []
    for step in (100, 200, 300, 50, 90):
        save_checkpoint(folder, step, {"w": jnp.ones(3)})
        left.append(sorted(int(path.name) for path in folder.iterdir()))
    assert left == [[100], [100, 200], [200, 300], [50], [50, 90]]


def test_slots_follow_the_batch_that_was_asked_for() -> None:
    wide, set_by_hand = plan(options("stacq")), plan(options("stacq", settings=("batch=16", "hidden=8,8", "slots=5")))
    assert wide.preset.config.slots == pair_slots(models()[1], 16) and set_by_hand.preset.config.slots == 5


def test_a_run_says_which_variant_was_recommended_for_its_data() -> None:
    mine = dataclasses.replace(dataset(), name="mine")
    dynamics, sets = models()
    maze, own = plan(options("stacq")), make_plan(mine, options("stacq"), dynamics, sets)
    asked_for = make_plan(mine, options("stacq", variant="paper"), dynamics, sets)
    assert [each.manifest()["variant"] for each in (maze, own, asked_for)] == ["maze", "robust", "paper"]
    labels = [each.manifest()["label"] for each in (maze, own, asked_for)]
    assert labels == ["StaCQ (maze)", "StaCQ (robust)", "StaCQ"]
    assert own.preset.config.action_pull > 0 and asked_for.preset.config.action_pull == 0
    assert run_directory(own) != run_directory(asked_for)


def test_sets_of_other_models_are_refused() -> None:
    dynamics, sets = models()
    for name in ("dynamics", "dataset"):
        foreign = dataclasses.replace(sets, parents={**sets.parents, name: "another"})
        with pytest.raises(InputError, match=f"made from another {name}"):
            make_plan(plan(options("bc")).dataset, options("stacq"), dynamics, foreign)


def robust(alpha: float) -> Options:
    """An action pull is weighed by alpha."""
    return options("stacq", variant="robust", settings=("batch=16", "hidden=8,8", f"alpha={alpha}"))


def test_actions_that_lead_to_states_are_found_only_where_they_are_pulled_to() -> None:
    chosen = options("stacq", variant="paper"), robust(0.0), robust(1.0)
    worlds = [make_task(plan(each)).world for each in chosen]
    assert [each.extras is not None and each.extras.actions is not None for each in worlds] == [False, False, True]


def test_an_action_pull_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    """Left out without a word, a sweep would compare runs that are all the same."""
    task = make_task(plan(options("stacq", variant="paper")))
    late = dataclasses.replace(task.config, alpha=1.0, action_pull=jnp.array([0.0, 0.1]))
    with Run(tmp_path / "run", {}) as run, pytest.raises(InputError, match="no actions to pull it to"):
        train(task._replace(config=late), Schedule(seeds=(0, 1), eval_every=20), run)


def test_a_run_that_pulls_to_actions_finds_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, whole, directory = plan(robust(1.0)), tmp_path / "whole", tmp_path / "run"
    said: list[str] = []
    sets = models()[1]
    extra = int((sets.anchors != sets.indices).sum())
    half = extra // 2
    monkeypatch.setattr("stacq.training.job.TOLD_EVERY", 0.0)
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
    said: list[str] = []
    trained = run_job(plan(options(algorithm)), out=directory, say=said.append)
    assert said == [f"trained before: {directory}"]
    assert sorted(trained.policies) == [0, 1]
    assert (directory / "metrics.jsonl").read_bytes() == before


def test_other_options_do_not_go_on_with_a_run(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    with pytest.raises(InputError, match="episodes was 2, now 3"):
        run_job(plan(options(algorithm, episodes=3)), out=directory)


def test_the_same_options_have_the_same_directory() -> None:
    assert run_directory(plan(options("bc"))) == run_directory(plan(options("bc")))
    assert run_directory(plan(options("bc"))) != run_directory(plan(options("bc", steps=80)))


def run_train(directory: Path, algorithm: str, *, protocol: Protocol | None = None, **config: Any) -> Any:
    chosen = plan(options(algorithm))
    task = make_task(chosen)
    task = task._replace(config=dataclasses.replace(task.config, **config))
    said: list[str] = []
    with Run(directory, {}, resume=True) as run:
        train(task, Schedule((0, 1, 2), 20, 0.0), run, protocol=protocol, workers=1, say=said.append)
    return said


def test_a_seed_that_is_lost_does_not_take_the_others_along(tmp_path: Path) -> None:
    rates = jnp.asarray([1e-3, jnp.inf, 1e-3])
    said = run_train(tmp_path / "run", "td3bc", learning_rate=rates)
    assert said and said[0].startswith("seed 1 is stopped at step 20") and "nan" in said[0]
    assert {path.name for path in (tmp_path / "run" / "policies").iterdir()} == {
        "seed-0.safetensors",
        "seed-2.safetensors",
    }
    last = [line for line in read_metrics(tmp_path / "run") if line["step"] == 60]
    assert {line["seed"] for line in last} == {0, 2}
    clean = run_train(tmp_path / "clean", "td3bc", learning_rate=1e-3)
    assert clean == []
    for seed in (0, 2):
        one, other = (load_file(tmp_path / run / "policies" / f"seed-{seed}.safetensors") for run in ("run", "clean"))
        assert content_hash(one) == content_hash(other)


def test_a_seed_lost_at_the_very_end_leaves_the_others_their_final_scores(tmp_path: Path) -> None:
    """Its last evaluation is one step before theirs: they must not be judged by an older policy for that."""
    directory, chosen = tmp_path / "run", plan(options("bc", seeds=3))
    run_job(chosen, out=directory, workers=1)
    lines = read_metrics(directory)
    kept = [line for line in lines if not (line["seed"] == 1 and line["step"] == 60)]
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    records = (directory / "records.csv").read_text().splitlines(keepends=True)
    gone = f"BC,{chosen.dataset.name},1,60,"
    (directory / "records.csv").write_text("".join(line for line in records if not line.startswith(gone)))
    (directory / "policies" / "seed-1.safetensors").unlink()
    found = result_of(directory)
    assert (found["step"], found["seeds"], found["lost"]) == (60, [0, 2], [1])
    said = describe_result(chosen, dataclasses.replace(read_trained(directory), result=found))
    assert said.startswith("! 1 of 3 seeds lost (1)")
    write_json(directory / "result.json", found)
    assert read_finished(directory).lost == read_run(directory).lost == (1,)
    page = results_section([read_run(directory)], {"BC": 0})
    assert page is not None and "lost 1 of 3 seeds (1)" in str(page.body)


@pytest.mark.parametrize("scored", [False, True])
def test_a_seed_lost_by_the_very_last_update_does_not_take_the_others_along(tmp_path: Path, scored: bool) -> None:
    """Metrics are of before an update: after a single one only the networks show what it did."""
    chosen = plan(options("bc", seeds=3, steps=1, eval_every=1))
    task = make_task(chosen)
    task = task._replace(config=dataclasses.replace(task.config, learning_rate=jnp.asarray([1e-3, jnp.inf, 1e-3])))
    said: list[str] = []
    protocol = protocol_of(chosen) if scored else None
    with Run(tmp_path / "run", {}, resume=True) as run:
        train(task, chosen.schedule, run, protocol=protocol, workers=1, say=said.append)
    assert said == ["seed 1 is stopped at step 1: its networks hold NaN or infinity; the other seeds go on"]
    assert len(list((tmp_path / "run" / "policies").iterdir())) == 2
    assert {record.seed for record in read_records(tmp_path / "run")} == ({0, 2} if scored else set())


def test_values_beyond_any_return_are_doubted_once(tmp_path: Path) -> None:
    said: list[str] = []
    with Run(tmp_path / "run", {}) as run:
        trainer = _Trainer(make_task(plan(options("td3bc"))), Schedule((0, 1)), run, None, None, said.append)
        assert trainer.limit == pytest.approx(10 / (1 - 0.99))  # the goal's reward, for ever
        for step, value in ((20, 900.0), (40, 1100.0), (60, -2000.0)):
            trainer._doubt(0, step, {"q": 1.0, "q_policy": value})
        trainer._doubt(1, 60, {"q": -1500.0})
    assert [line.split(":")[1] for line in said] == [" seed 0 at step 40", " seed 1 at step 60"]
    assert "q_policy, the critics' mean value, is 1.1e+03; no return of these rewards exceeds 1e+03" in said[0]


def test_the_speed_of_late_counts_waits_and_leaves_out_what_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 110.0, 130.0, 190.0, 200.0])
    monkeypatch.setattr("stacq.training.train.time.monotonic", lambda: next(now))
    pace, found = _Pace(), []
    for step in (10, 110, 210, 810, 820):
        pace.mark(step)
        found.append(pace.rate)
    assert found == pytest.approx([0, 10, 200 / 30, 700 / 80, 610 / 70])  # what lies a minute back counts no more


def test_going_on_with_other_arithmetic_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with pytest.raises(Stopped):
        run_job(plan(options("bc")), out=tmp_path / "run", workers=1, listener=pull_plug_at(20), say=said.append)
    monkeypatch.setattr("stacq.training.train.arithmetic_of", lambda world: "an abacus")
    run_job(plan(options("bc")), out=tmp_path / "run", workers=1, say=said.append)
    told = r"note: it was trained on cpu, cores: \d+, frozen ensemble: none and goes on with an abacus"
    assert re.match(told, said[-1])


def test_values_beyond_any_return_stop_a_seed(tmp_path: Path) -> None:
    said = run_train(tmp_path / "run", "td3bc", learning_rate=jnp.asarray([1e-3, 300.0, 1e-3]))
    assert said and "seed 1" in said[0]


def test_what_the_policy_is_promised_may_explode_as_well() -> None:
    trainer = object.__new__(_Trainer)
    trainer.limit = 1.0
    assert "q_policy" in trainer._lost({"q": 1.0, "q_policy": -101.0}) and "q," in trainer._lost({"q": 101.0})
    assert trainer._lost({"q": 99.0, "q_policy": 99.0, "critic_loss": 1e9}) == ""


def test_how_an_algorithm_sees_the_data_reaches_its_world_and_its_scores() -> None:
    cut = dataclasses.replace(dataset(), successor_known=np.arange(len(dataset())) % 5 > 0)
    worlds = [make_task(make_plan(cut, options(name))).world for name in ("bc", "td3bc")]
    assert len(worlds[0].anchors) == len(cut) > len(worlds[1].anchors)  # cloning needs no successors
    chosen = plan(options("td3bc"))
    shifted = dataclasses.replace(chosen, preset=dataclasses.replace(chosen.preset, reward_shift=-1.0))
    protocol = protocol_of(shifted)
    assert protocol is not None and protocol.counting == Counting(0.99, -1.0)


def test_data_of_one_body_is_not_scored_in_another() -> None:
    for name in ("walker2d-medium-v2", "walker2d-medium", "walker2d_medium-v2"):
        with pytest.raises(InputError, match="belongs to walker2d"):
            make_plan(recorded(name), Options("bc", env="HalfCheetah-v4"))


def recorded(name: str) -> Dataset:
    """Two short episodes of a body with 17 observations and 6 actions."""
    rng = np.random.default_rng(0)
    ends = np.arange(20) % 10 == 9
    return from_arrays(
        rng.normal(size=(20, 17)),
        rng.uniform(-1, 1, (20, 6)),
        np.zeros(20),
        np.zeros(20, dtype=bool),
        timeouts=ends,
        next_observations=rng.normal(size=(20, 17)),
        conventions=Conventions(name=name),
    )


def test_no_seed_left_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match="every seed was lost by step 20"):
        run_train(tmp_path / "run", "td3bc", learning_rate=jnp.inf)


def test_an_environment_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(EvaluationFailed, match=r"step 20.*the walls have moved"):
        run_train(tmp_path / "run", "bc", protocol=Protocol(Broken, 2, Counting(0.99), "bc", ""))


class Still(MazeEnv):
    """Every episode begins at one place."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        del options
        return super().reset(seed=seed, options={"cell": data_cells(load_maze("stitching"))[0]})


@pytest.mark.parametrize("algorithm", ["stacq", "td3bc"])
def test_the_value_beside_a_return_is_the_critics_at_the_start_of_it(algorithm: str, tmp_path: Path) -> None:
    chosen = plan(options(algorithm))
    task = make_task(chosen)
    with Run(tmp_path / "run", {}) as run:
        protocol = Protocol(Still, 2, Counting(0.9, -1.0), algorithm, "")
        state = train(task, Schedule((0, 1), 60), run, protocol=protocol, workers=1)
    start, _ = Still().reset()
    s = jnp.asarray(task.normaliser.apply(start[None]))
    lines = [line for line in read_metrics(tmp_path / "run") if "eval/value" in line]
    assert [line["seed"] for line in lines] == [0, 1]
    for place, line in enumerate(lines):
        mine = jax.tree.map(lambda each, place=place: each[place], state)
        value = task.algorithm.value(mine, s, task.world, task.config)
        assert value is not None and line["eval/value"] == pytest.approx(float(value[0]), rel=1e-4)
        length, reward = line["eval/length"], line["eval/return"] / line["eval/length"]  # all steps cost the same
        discounted = (reward - 1) * (1 - 0.9**length) / (1 - 0.9)
        assert line["eval/discounted_return"] == pytest.approx(discounted, rel=1e-6)


@pytest.mark.parametrize(
    ("whole", "part"), [(5_000, 1_000), (25_000, 1_000), (100, 100), (2_500, 625), (4_999, 1_000), (1_009, 505), (1, 1)]
)
def test_chunks_on_a_gpu_divide_the_interval_or_are_as_even_as_they_can(whole: int, part: int) -> None:
    assert even_part(whole, 1_000) == part


def test_stops_fall_on_evaluations_and_on_ends_of_phases() -> None:
    one, two = Phase(50, ()), Phase(30, ())
    assert [(a, b) for _, a, b in stops((one, two), 20)] == [(0, 20), (20, 40), (40, 50), (50, 60), (60, 80)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "0 seeds"),
        ({"first_seed": -1}, "whole numbers from 0"),
        ({"first_seed": 2**31 - 1}, "below 2,147,483,648"),
        ({"seeds": [0, 1]}, "`first_seed` says where from"),
        ({"seeds": 1.5}, "seeds is 1.5"),
        ({"steps": 2e2}, "steps is 200.0"),
        ({"eval_every": np.int64(20)}, "a plain whole number"),
        ({"episodes": "3"}, "episodes is '3'"),
        ({"top": "0.5"}, "top is '0.5'"),
        ({"own_only": True}, "no reachable sets to reduce"),
        ({"settings": "batch=16"}, "a sequence of texts"),
        ({"settings": {"batch": 16}}, "a sequence of texts"),
        ({"steps": 0}, "0 steps"),
        ({"eval_every": 0}, "every 0"),
        ({"eval_every": 7}, "multiples of 2"),
        ({"episodes": 0}, "0 episodes"),
        ({"settings": ("alpah=1",)}, "alpah"),
        ({"settings": ("alpha=much",)}, "alpha"),
        ({"variant": "nobody"}, "no variant"),
        ({"env": "Hopper-v4"}, "observations of 2"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run_job(plan(options("td3bc", **changes)), out=tmp_path / "run", workers=1)
    assert not (tmp_path / "run" / "policies").exists()


def test_data_that_was_not_loaded_is_refused() -> None:
    with pytest.raises(InputError, match=r"what `stacq\.load"):
        make_plan("hopper.hdf5", options("bc"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"stacq\.Options"):
        make_plan(dataset(), "bc")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"stacq\.Stages"):
        pipeline.train(dataset(), options("bc"), "small")  # type: ignore[arg-type]


def test_actions_that_the_environment_cannot_do_are_refused() -> None:
    wide = dataclasses.replace(recorded("mine"), action_high=np.full(6, 2.0, np.float32))
    with pytest.raises(InputError, match=r"to \[2.0(.|\n)*as Walker2d-v4 allows"):
        make_plan(wide, Options("bc", env="Walker2d-v4"))


def test_a_run_that_was_not_scored_names_its_seeds(tmp_path: Path) -> None:
    chosen = plan(options("bc", evaluate=False))
    trained = run_job(chosen, out=tmp_path / "run", workers=1)
    assert trained.result["seeds"] == [0, 1] and trained.result["final"] is None
    assert describe_result(chosen, trained) == f"policies: {tmp_path / 'run' / 'policies'}"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_damaged_result_is_named(tmp_path: Path, text: str) -> None:
    run_job(plan(options("bc")), out=tmp_path / "run", workers=1)
    (tmp_path / "run" / "result.json").write_text(text)
    with pytest.raises(InputError, match=r"result.json: cannot be read"):
        read_trained(tmp_path / "run")


def test_an_algorithm_that_needs_reachable_sets_says_so() -> None:
    with pytest.raises(InputError, match="needs dynamics and reachable sets"):
        make_plan(dataset(), options("stacq"))


def killed_for_real(directory: Path, algorithm: str, kills: int, seed: int) -> None:
    """Start, kill -9 at a random moment after a new checkpoint, and so on; then let it end."""
    rng = random.Random(seed)
    script = Path(__file__).with_name("training_cases.py")
    command = [sys.executable, str(script), str(directory), algorithm, "60000" if algorithm == "bc" else "3000"]
    environment = {**os.environ, "STACQ_HOME": str(home()), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = killed = 0
    while not (directory / "result.json").exists():
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        if done < kills:
            _await_progress(directory, process)
            time.sleep(rng.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
            done += 1
        code = process.wait(timeout=300)
        assert code in (0, -signal.SIGKILL)
        killed += code == -signal.SIGKILL and not (directory / "result.json").exists()
    resumed = re.findall(r"resumed at step (\d+)", (directory / "log.txt").read_text())
    assert len(resumed) == killed >= min(kills, 2) and resumed == sorted(resumed, key=int)


def _await_progress(directory: Path, process: "subprocess.Popen[bytes]") -> None:
    folder = directory / "checkpoints"
    before = set(folder.iterdir()) if folder.exists() else set()
    while process.poll() is None and not (folder.exists() and set(folder.iterdir()) - before):
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("algorithm", ["bc", "td3bc", "stacq", "onestep-stacq"])
def test_kill_minus_nine_changes_nothing_in_any_algorithm(algorithm: str, tmp_path: Path) -> None:
    killed_for_real(tmp_path / "killed", algorithm, 4, seed=1)
    killed_for_real(tmp_path / "whole", algorithm, 0, seed=1)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")

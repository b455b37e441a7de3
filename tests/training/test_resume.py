"""Runs that are stopped anywhere end as if they never were."""

import contextlib
import itertools
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

import jax.numpy as jnp
import pytest
from training_cases import (
    ALGORITHMS,
    Stopped,
    damage,
    options,
    outcome,
    plan,
    pull_plug_at,
    run_job,
)

from stacq.core.errors import InputError
from stacq.core.files import home, replacing
from stacq.core.interrupts import Terminated, terminate_as_interrupt
from stacq.training.checkpoints import save_checkpoint, save_tree
from stacq.training.evaluations import Evaluator, Snapshot
from stacq.training.pace import Report


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
    steps = [int(found[1]) for text in said if (found := re.match(r"going on from step (\d+) of", text))]
    assert len(steps) == 3 and 0 < steps[0] < steps[1] < steps[2], said
    assert outcome(directory) == outcome(whole)


# The loop does this for every algorithm alike; real kills, below, are of them all.
some = pytest.mark.parametrize("finished", ["bc", "td3bc", "stacq"], indirect=True)


@some
@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGTERM, Terminated), pytest.param(signal.SIGINT, KeyboardInterrupt, marks=pytest.mark.slow)],
)
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


@some
def test_a_stop_while_evaluations_are_waited_for_keeps_what_was_done(
    finished: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm, whole = finished
    chosen, directory = plan(options(algorithm, checkpoint_seconds=3600.0)), tmp_path / "run"
    unscored = itertools.takewhile(lambda phase: not phase.acts, chosen.algorithm.phases(chosen.config))
    first = sum(phase.steps for phase in unscored) + chosen.schedule.eval_every

    def full(_: Evaluator, snapshot: Snapshot) -> None:
        raise KeyboardInterrupt(f"at step {snapshot.step}")

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match=f"at step {first}$"):
        patch.setattr(Evaluator, "submit", full)
        run_job(chosen, out=directory, workers=1)
    said: list[str] = []
    run_job(chosen, out=directory, workers=1, say=said.append)
    assert said[0].startswith(f"going on from step {first} of ")
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


@pytest.mark.slow
def test_a_damaged_snapshot_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passed over, its evaluation would be missing in the end, and nobody would know."""
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Stopped):  # nothing is evaluated before the plug is pulled
        patch.setattr("stacq.training.scorer.Scorer._write", lambda *_: None)
        patch.setattr("stacq.training.pace.Pace.turns", lambda *_: 5)  # of two steps
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


@pytest.mark.slow
def test_a_damaged_snapshot_is_made_from_the_checkpoint_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the run stops: the last two checkpoints may both lie beyond it, and are not given up for one evaluation."""
    chosen, directory, whole = plan(options("td3bc")), tmp_path / "run", tmp_path / "whole"
    run_job(chosen, out=whole, workers=1)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("stacq.training.scorer.Scorer._write", lambda *_: None)
        patch.setattr("stacq.training.pace.Pace.turns", lambda self, left, *_: left)  # stops at 20, 40, 60
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

    def moved(path: Path, target: Path, rename: Any = Path.rename) -> Path:
        found: Path = rename(path, target)
        if path.parent.name == "snapshots" and path.name.isdigit():
            raise Stopped
        return found

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Path, "rename", moved)
        run_job(chosen, out=directory, workers=1)
    run_job(chosen, out=directory, workers=1, say=lambda _: None)
    assert outcome(directory) == outcome(whole)
    assert not any((directory / "snapshots").iterdir())


def test_checkpoints_of_an_attempt_that_was_given_up_do_not_crowd_out_new_ones(tmp_path: Path) -> None:
    folder, left = tmp_path / "checkpoints", []
    for step in (100, 200, 300, 50, 90):
        save_checkpoint(folder, step, {"w": jnp.ones(3)})
        left.append(sorted(int(path.name) for path in folder.iterdir()))
    assert left == [[100], [100, 200], [200, 300], [50], [50, 90]]


def test_going_on_with_other_arithmetic_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with pytest.raises(Stopped):
        run_job(plan(options("bc")), out=tmp_path / "run", workers=1, listener=pull_plug_at(20), say=said.append)
    monkeypatch.setattr("stacq.training.train.arithmetic_of", lambda world: "an abacus")
    run_job(plan(options("bc")), out=tmp_path / "run", workers=1, say=said.append)
    told = r"note: it was trained on cpu, cores: \d+, frozen ensemble: none and goes on with an abacus"
    assert re.match(told, said[-1])


def killed_for_real(directory: Path, algorithm: str, kills: int, seed: int) -> None:
    """Start, kill -9 at a random moment after a new checkpoint, and so on; then let it end."""
    rng = random.Random(seed)
    script = Path(__file__).with_name("training_cases.py")
    command = [
        sys.executable,
        str(script),
        str(directory),
        algorithm,
        "60000" if algorithm in ("bc", "mbts") else "3000",
    ]
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
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_kill_minus_nine_changes_nothing_in_any_algorithm(algorithm: str, tmp_path: Path) -> None:
    killed_for_real(tmp_path / "killed", algorithm, 4, seed=1)
    killed_for_real(tmp_path / "whole", algorithm, 0, seed=1)
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")

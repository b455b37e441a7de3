"""What a whole run leaves on disk."""

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from training_cases import options, plan, run_job, run_train

from stacq import algos
from stacq.core.files import content_hash
from stacq.envs.maze import MazeEnv
from stacq.evaluation.rollouts import Counting, EvaluationFailed
from stacq.policies import Policy
from stacq.runs.directory import read_metrics, read_records
from stacq.training.evaluations import Scoring


class Broken(MazeEnv):
    def step(self, action: Any) -> Any:
        raise RuntimeError("the walls have moved")


def test_a_seed_does_not_know_how_many_others_there_are(finished: tuple[str, Path], tmp_path: Path) -> None:
    algorithm, whole = finished
    run_job(plan(options(algorithm, seeds=1, first_seed=1, evaluate=False)), out=tmp_path / "run", workers=1)
    alone, among = (load_file(each / "policies" / "seed-1.safetensors") for each in (tmp_path / "run", whole))
    assert content_hash(alone) == content_hash(among)


def test_a_run_leaves_policies_records_and_a_result(finished: tuple[str, Path]) -> None:
    algorithm, directory = finished
    records = read_records(directory)
    chosen = plan(options(algorithm))
    unseen = takewhile(lambda phase: not phase.acts, chosen.algorithm.phases(chosen.config))
    first = sum(phase.steps for phase in unseen)  # what comes before the policy learns is not evaluated
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
    assert any(("plan_loss" if algorithm == "diffuser" else "actor_loss") in line for line in trained)
    assert len(evaluated) == 6
    assert all(("eval/value" in line) == (algos.find(algorithm).value is not None) for line in evaluated)
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


def test_an_environment_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(EvaluationFailed, match=r"step 20.*the walls have moved"):
        run_train(tmp_path / "run", "bc", scoring=Scoring(Broken, 2, Counting(0.99), "bc", ""))

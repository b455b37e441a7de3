"""Seeds that are lost or doubted."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import pytest
from safetensors.numpy import load_file
from training_cases import made_task, options, plan, run_train

from stacq.core.files import content_hash
from stacq.runs.directory import Run, read_metrics, read_records
from stacq.runs.failed import TrainingFailed
from stacq.training.train import train
from stacq.training.watchdog import Watchdog


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


@pytest.mark.parametrize("scored", [False, True])
def test_a_seed_lost_by_the_very_last_update_does_not_take_the_others_along(tmp_path: Path, scored: bool) -> None:
    """Metrics are of before an update: after a single one only the networks show what it did."""
    chosen = plan(options("bc", seeds=3, steps=1, eval_every=1))
    task = made_task(chosen.options)
    task = task._replace(config=dataclasses.replace(task.config, learning_rate=jnp.asarray([1e-3, jnp.inf, 1e-3])))
    said: list[str] = []
    scoring = chosen.scoring if scored else None
    with Run(tmp_path / "run", {}, resume=True) as run:
        train(task, chosen.schedule, run, scoring=scoring, workers=1, say=said.append)
    assert said == ["seed 1 is stopped at step 1: its networks hold NaN or infinity; the other seeds go on"]
    assert len(list((tmp_path / "run" / "policies").iterdir())) == 2
    assert {record.seed for record in read_records(tmp_path / "run")} == ({0, 2} if scored else set())


def test_values_beyond_any_return_are_doubted_once(tmp_path: Path) -> None:
    said: list[str] = []
    with Run(tmp_path / "run", {}) as run:
        watchdog = Watchdog(made_task(options("td3bc")), (0, 1), run, said.append)
        assert watchdog.limit == pytest.approx(10 / (1 - 0.99))  # the goal's reward, for ever
        for step, value in ((20, 900.0), (40, 1100.0), (60, -2000.0)):
            watchdog._doubt(0, step, {"q": 1.0, "q_policy": value})
        watchdog._doubt(1, 60, {"q": -1500.0})
    assert [line.split(":")[1] for line in said] == [" seed 0 at step 40", " seed 1 at step 60"]
    assert "q_policy, the critics' mean value, is 1.1e+03; no return of these rewards exceeds 1e+03" in said[0]


def test_values_beyond_any_return_stop_a_seed(tmp_path: Path) -> None:
    said = run_train(tmp_path / "run", "td3bc", learning_rate=jnp.asarray([1e-3, 300.0, 1e-3]))
    assert said and "seed 1" in said[0]


def test_what_the_policy_is_promised_may_explode_as_well() -> None:
    watchdog = object.__new__(Watchdog)
    watchdog.limit = 1.0
    assert "q_policy" in watchdog._lost({"q": 1.0, "q_policy": -101.0}) and "q," in watchdog._lost({"q": 101.0})
    assert watchdog._lost({"q": 99.0, "q_policy": 99.0, "critic_loss": 1e9}) == ""


def test_no_seed_left_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed, match="every seed was lost by step 20"):
        run_train(tmp_path / "run", "td3bc", learning_rate=jnp.inf)

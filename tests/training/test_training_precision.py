"""The choice of precision reaches the arithmetic of a run, and is part of what the run is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_cases import dataset, made_task, models, options, plan, run_job

from stacq.algos.world import folded
from stacq.cli import main
from stacq.core.errors import InputError
from stacq.core.types import Float32s, Precision
from stacq.pipeline import train as pipeline
from stacq.pipeline.console import describe_plan
from stacq.pipeline.plan import Plan, make_plan, run_directory
from stacq.training.pace import Report


def chosen(precision: Precision, algorithm: str = "stacq") -> Plan:
    return plan(options(algorithm, precision=precision, steps=20, evaluate=False))


def learned(directory: Path, precision: Precision, algorithm: str) -> tuple[Float32s, set[Any]]:
    """What the first seed does, and JAX's precision of products as the listener found it.

    On a GPU the loop is traced by the thread that calls the listener.
    """
    found = set()

    def listen(report: Report) -> None:
        found.add(jax.config.jax_default_matmul_precision)  # type: ignore[attr-defined]

    trained = run_job(chosen(precision, algorithm), out=directory, workers=1, listener=listen)
    return trained.policies[0](dataset().observations), found


def test_a_run_obeys_the_choice_and_records_it(tmp_path: Path) -> None:
    wanted: dict[Precision, str | None] = {"float32": "highest", "auto": None}
    for precision, products in wanted.items():
        assert learned(tmp_path / precision, precision, "bc")[1] == {products}
        assert json.loads((tmp_path / precision / "config.json").read_text())["precision"] == precision
    assert jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="precision was 'float32', now 'auto'"):
        run_job(chosen("auto", "bc"), out=tmp_path / "float32", workers=1)


@pytest.mark.slow
def test_the_choice_changes_what_is_learned(tmp_path: Path) -> None:
    exact, rounded = (learned(tmp_path / each, each, "stacq")[0] for each in ("float32", "bfloat16"))
    assert 0 < np.abs(exact - rounded).max() < 0.1


def test_another_choice_is_another_run_and_is_told() -> None:
    plans = [chosen(each) for each in ("auto", "float32", "bfloat16")]
    assert len({run_directory(each) for each in plans}) == 3
    assert "\nprecision: float32 throughout\n" in describe_plan(plans[1], Path("runs/one"))
    assert "\nprecision: frozen models in bfloat16 (bfloat16)" in describe_plan(plans[2], Path("runs/one"))


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("precision", ["auto", "float32", "bfloat16"])
def test_the_models_of_a_task_are_rounded_as_the_plan_says(
    monkeypatch: pytest.MonkeyPatch, precision: Precision, able: bool
) -> None:
    """`bfloat16` means the same on every processor: without instructions for it, it is only slower."""
    monkeypatch.setattr("stacq.nn.precision._cpu_multiplies_bfloat16", lambda: able)
    task = made_task(chosen(precision).options)
    assert task.precision == precision and task.world.ensemble is not None
    rounded = precision == "bfloat16" or (precision == "auto" and able)
    assert task.world.ensemble.weights[-1].dtype.name == ("bfloat16" if rounded else "float32")
    s, a = task.world.rows.all.s, task.world.rows.all.a
    exact = replace(task.world, ensemble=folded(models()[0])).forward(s, a)
    assert (float(jnp.abs(task.world.forward(s, a) - exact).max()) > 0) == rounded


@pytest.mark.parametrize(
    ("algorithm", "precision", "message"),
    [
        ("td3bc", "bfloat16", "td3bc has no frozen models"),
        ("bc", "bfloat16", "bc has no frozen models"),
        ("stacq", "double", "precision is 'double'"),
        ("bc", None, "precision is None"),
    ],
)
def test_what_cannot_be_is_refused(algorithm: str, precision: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_plan(dataset(), options(algorithm, precision=precision))
    assert make_plan(dataset(), options("bcq", precision="bfloat16")).options.precision == "bfloat16"
    assert make_plan(dataset(), options("bc", precision="float32")).options.precision == "float32"


def test_the_command_line_passes_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(pipeline, "train", lambda dataset, options, *rest, **named: asked.append(options.precision))
    main(["train", "stacq/maze-stitching-v0", "--precision", "float32"])
    main(["train", "stacq/maze-stitching-v0"])
    assert asked == ["float32", "auto"]

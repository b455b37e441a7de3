"""What is trained and when."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import pytest
from training_cases import (
    made_task,
    options,
)

from stacq.algos.algorithm import Phase
from stacq.core.errors import InputError
from stacq.runs.directory import Run
from stacq.training.task import Schedule, stretches
from stacq.training.train import train


def test_stops_fall_on_evaluations_and_on_ends_of_phases() -> None:
    one, two = Phase(50, ()), Phase(30, ())
    assert [(a, b) for _, a, b in stretches((one, two), 20)] == [(0, 20), (20, 40), (40, 50), (50, 60), (60, 80)]


def test_an_action_pull_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    """Left out without a word, a sweep would compare runs that are all the same."""
    task = made_task(options("stacq", variant="paper"))
    late = dataclasses.replace(task.config, alpha=1.0, action_pull=jnp.array([0.0, 0.1]))
    with Run(tmp_path / "run", {}) as run, pytest.raises(InputError, match="no actions to pull it to"):
        train(task._replace(config=late), Schedule(seeds=(0, 1), eval_every=20), run)

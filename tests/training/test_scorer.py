"""Evaluations of snapshots: records, metrics, and values to compare with returns."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from training_cases import made_task, options

from stacq.envs.maze import MazeEnv, data_cells
from stacq.evaluation.rollouts import Counting
from stacq.runs.directory import Run, read_metrics
from stacq.tabular.maze import load as load_maze
from stacq.training.evaluations import Scoring
from stacq.training.task import Schedule
from stacq.training.train import train


class Still(MazeEnv):
    """Every episode begins at one place."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        del options
        return super().reset(seed=seed, options={"cell": data_cells(load_maze("stitching"))[0]})


@pytest.mark.parametrize("algorithm", ["stacq", "td3bc"])
def test_the_value_beside_a_return_is_the_critics_at_the_start_of_it(algorithm: str, tmp_path: Path) -> None:
    task = made_task(options(algorithm))
    with Run(tmp_path / "run", {}) as run:
        scoring = Scoring(Still, 2, Counting(0.9, -1.0), algorithm, "")
        state = train(task, Schedule((0, 1), 60), run, scoring=scoring, workers=1)
    start, _ = Still().reset()
    s = jnp.asarray(task.space.normaliser.apply(start[None]))
    lines = [line for line in read_metrics(tmp_path / "run") if "eval/value" in line]
    assert [line["seed"] for line in lines] == [0, 1]
    for place, line in enumerate(lines):
        mine = jax.tree.map(lambda each, place=place: each[place], state)
        assert task.algorithm.value is not None
        value = task.algorithm.value(mine, s, task.world, task.config)
        assert line["eval/value"] == pytest.approx(float(value[0]), rel=1e-4)
        length, reward = line["eval/length"], line["eval/return"] / line["eval/length"]  # all steps cost the same
        discounted = (reward - 1) * (1 - 0.9**length) / (1 - 0.9)
        assert line["eval/discounted_return"] == pytest.approx(discounted, rel=1e-6)

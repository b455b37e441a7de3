"""Stitches tried out: on a line whose steps are known, and against a real body."""

import dataclasses

import numpy as np
import pytest

from stacq import InputError
from stacq.core.types import Float64s
from stacq.data.dataset import Dataset
from stacq.stitch.paths import ROW, STITCHED, Made, Paths, rewritten
from stacq.stitch.truth import truth
from stitch_cases import line


class Line:
    """The action is the move, and a bit of it is lost."""

    def next_observation(self, qpos: Float64s, qvel: Float64s, action: Float64s) -> Float64s:
        return qpos + 0.9 * action + qvel


def recording() -> Dataset:
    """Actions of at most 4; four walks of two steps from different places."""
    walks = [[0.0, 0.9, 1.8], [1.0, 1.9, 2.8], [2.0, 2.9, 3.8], [90.0, 90.9, 91.8]]
    dataset = line(walks, [[0.0, 1.0]] * 4, "oooo")
    infos = {"qpos": dataset.observations.astype(np.float64), "qvel": np.zeros((8, 1))}
    actions = np.ones_like(dataset.actions)
    return dataclasses.replace(dataset, actions=actions, infos=infos)


def with_stitches(to: list[int], actions: list[float]) -> Dataset:
    """Steps from the first state of the first walk to the successors of these rows, by these actions."""
    dataset, count = recording(), len(to)
    paths = Paths(np.zeros(count, int), np.array(to), np.array([0, count]), np.zeros(1, bool))
    one = dataclasses.replace(
        dataset, episode_offsets=np.array([0, 8]), infos={name: each for name, each in dataset.infos.items()}
    )
    made = Made(np.array(actions, np.float32)[:, None], np.zeros(count, np.float32))
    return rewritten(one, paths, made, np.array([True]))


def test_true_and_untrue_stitches_are_counted() -> None:
    """From 0 to 1.9 by the right action, a wrong one, one that is nearly right; and to 90.9, which none reaches."""
    stitched = with_stitches([2, 2, 2, 6], [1.9 / 0.9, -1.0, 2.3, 4.0])
    found = truth(recording(), stitched, Line())
    assert (found.stitches, found.tried, found.recorded) == (4, 4, 1.0)
    assert (found.hit, found.possible) == (0.5, 0.75)  # 2.07 instead of 1.9 is a fortieth of the range
    assert "50% hit by the made-up action, 75% possible" in found.text()
    gaps = sorted(abs(0.9 * each - goal) / 7.2 for each, goal in ((1.9 / 0.9, 1.9), (-1, 1.9), (2.3, 1.9), (4, 90.9)))
    assert found.usual_miss == pytest.approx((gaps[1] + gaps[2]) / 2, abs=1e-6) and found.least_miss < 0.05
    assert truth(recording(), stitched, Line(), most=2).tried == 2


def test_another_physics_is_noticed() -> None:
    class Other(Line):
        def next_observation(self, qpos: Float64s, qvel: Float64s, action: Float64s) -> Float64s:
            return qpos - action

    assert truth(recording(), with_stitches([2], [1.0]), Other()).recorded == 0.0


def test_what_cannot_be_tried_is_told() -> None:
    stitched = with_stitches([2], [1.0])
    bare = dataclasses.replace(recording(), infos={})
    none = dataclasses.replace(stitched, infos={**stitched.infos, STITCHED: np.zeros(1, bool)})
    other = dataclasses.replace(stitched, infos={**stitched.infos, ROW: np.array([3])})
    for first, second, message in (
        (bare, stitched, "no 'qpos'"),
        (recording(), bare, "no 'stitch_row'"),
        (recording(), none, "no row is stitched"),
        (recording(), other, "not those of the recording"),
    ):
        with pytest.raises(InputError, match=message):
            truth(first, second, Line())


def test_a_real_body_repeats_what_was_recorded() -> None:
    """A stitch to the own successor by the own action is true."""
    pytest.importorskip("mujoco")
    from stacq.data.generate import generate
    from stacq.data.load import load
    from stacq.envs.simulator import Simulator

    path = generate("stacq/hopper-random-v0", size=100, workers=1)
    dataset = load(path, infos=("qpos", "qvel"))
    marks = {ROW: np.arange(100), STITCHED: np.arange(100) % 10 == 3}
    stitched = dataclasses.replace(dataset, infos={**dataset.infos, **marks})
    found = truth(dataset, stitched, Simulator("Hopper-v4"), most=5)
    assert (found.hit, found.possible, found.recorded) == (1.0, 1.0, 1.0)

"""The page of PointMaze: walks, arrows and rollouts from every cell, where they truly are."""

from pathlib import Path

import numpy as np

from stacq import Policy
from stacq.core.types import Array
from stacq.data.generate import roll_out
from stacq.data.registry import recipe
from stacq.envs.bodies import ANT, POINT, Arena
from stacq.envs.layouts import UMAZE
from stacq.evaluation.records import COLUMNS, EpisodeRecord, csv_line
from stacq.pipeline.arena_picture import arrows, draw_arena, middle_policy, stitches
from stacq.pipeline.trained import Trained
from stacq.reach.sets import ReachableSets
from stacq.report.page import page_text

ENV = "stacq/PointMaze-umaze-v0"


def pusher(*push: float) -> Policy:
    """The same push everywhere."""
    return Policy.from_mlp([np.zeros((4, 2))], [np.arctanh(push)])


def trained(directory: Path, policies: dict[int, Policy]) -> Trained:
    return Trained(policies, directory, {})


def test_the_picture_of_a_ball_that_is_pushed_left(tmp_path: Path) -> None:
    """Against the columns: from the upper corridor that leads to the goal at its left end, from the lower one not."""
    dataset = roll_out(recipe("pointmaze-umaze-stitch", size=1500), workers=1)
    picture = draw_arena(dataset, ENV, {"Left": trained(tmp_path, {0: pusher(0.0, -0.9)})}, workers=1)
    assert picture.rows == UMAZE.rows and picture.goal == (1, 1) and picture.recordings == 10
    assert len(picture.trajectories) == 10
    inside = np.vstack(list(picture.trajectories))
    solid = UMAZE.solid[inside[:, 1].astype(int), inside[:, 0].astype(int)]
    assert not solid.any()
    arrived = {cell: success for cell, _, success in picture.rollouts["Left"]}
    assert arrived == {(2, 1): True, (3, 1): True, (3, 2): False, (1, 3): False, (2, 3): False, (3, 3): False}
    for cell, path, _ in picture.rollouts["Left"]:
        assert tuple(np.floor(path[0]).astype(int)) == cell and path[-1][0] <= path[0][0] + 0.1
    assert picture.ring is not None
    ends = {cell: np.hypot(*(path[-1] - picture.ring.place)) for cell, path, _ in picture.rollouts["Left"]}
    assert {cell: distance <= picture.ring.radius for cell, distance in ends.items()} == arrived
    text = page_text([], title="A ball", maze=picture)
    assert "within the ring counts as there" in text and "always arrives" not in text
    assert "10 logged trajectories" in text and "Left" in text and "arrives from 2 of 6 start cells" in text


def test_arrows_point_as_the_ball_is_pushed() -> None:
    found = arrows(pusher(0.5, 0.0), Arena(POINT, UMAZE))
    assert found.shape == (7, 4)
    np.testing.assert_allclose(found[:, 2:], [[0.0, 0.2]] * 7, atol=1e-6)  # x of the ball is a row of the maze
    assert {tuple(place) for place in np.floor(found[:, :2]).astype(int).tolist()} == {(j, i) for i, j in UMAZE.free}
    assert arrows(pusher(0.5, 0.0), Arena(ANT, UMAZE)).shape == (0, 4)


def test_the_policy_that_is_shown_is_of_the_seed_in_the_middle(tmp_path: Path) -> None:
    policies = {seed: pusher(0.1 * seed, 0.0) for seed in (1, 2, 3)}
    assert middle_policy(trained(tmp_path, policies)) is policies[1]
    returns = {1: (0.0, 1.0), 2: (1.0, 0.0), 3: (0.5, 0.5)}  # at steps 10 and 20
    records = [
        EpisodeRecord("x", "", seed, step, 0, value, 5, None, None)
        for seed, values in returns.items()
        for step, value in zip((10, 20), values, strict=True)
    ]
    (tmp_path / "records.csv").write_text("".join(map(csv_line, [COLUMNS, *(record.row() for record in records)])))
    assert middle_policy(trained(tmp_path, policies)) is policies[3]


def test_stitches_join_different_recordings() -> None:
    dataset = roll_out(recipe("pointmaze-umaze", size=3000), workers=1)
    count = len(dataset)
    indices: Array = np.stack([np.arange(count), (np.arange(count) + 1) % count, (np.arange(count) + 1000) % count], 1)
    sets = ReachableSets(np.arange(0, 3 * count + 1, 3), np.sort(indices, axis=1).ravel(), {}, {}, {})
    found = stitches(dataset, sets, Arena(POINT, UMAZE))
    assert found.shape == (400, 4)
    far = np.hypot(*(found[:, 2:] - found[:, :2]).T) > 0.5
    assert far.mean() > 0.5  # own steps are short, and left out

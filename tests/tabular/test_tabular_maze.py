from pathlib import Path

import numpy as np
import pytest

from stacq.core.errors import InputError
from stacq.tabular.maze import Maze, data_of, load, mdp_of, neighbours, parse, read, shipped

SMALL = """\
; two cells apart
..#.
...*

path 0,0 0,1 1,1
  2,1 3,1
path 1,0 0,0
"""


def test_a_maze_is_read_as_drawn() -> None:
    maze = parse(SMALL, "small")
    assert maze.rows == ("..#.", "...*")
    assert maze.goal == (3, 1)
    assert maze.trajectories == (((0, 0), (0, 1), (1, 1), (2, 1), (3, 1)), ((1, 0), (0, 0)))


def test_moves_and_rewards() -> None:
    """Cells are numbered along the rows; left, right, up, down."""
    mdp = mdp_of(parse(SMALL, "small"))
    assert mdp.next_state[1].tolist() == [0, -1, -1, 5]
    assert mdp.next_state[2].tolist() == [-1, -1, -1, -1]
    assert mdp.reward[3, 3] == 10.0
    assert mdp.reward[6, 1] == 10.0
    assert mdp.reward[1, 0] == -0.1
    assert np.flatnonzero(mdp.final).tolist() == [7]


def test_data_are_the_steps_of_the_trajectories() -> None:
    maze = parse(SMALL, "small")
    data = data_of(maze, mdp_of(maze))
    assert data.state.tolist() == [0, 4, 5, 6, 1]
    assert data.next_state.tolist() == [4, 5, 6, 7, 0]
    assert data.reward.tolist() == [-0.1, -0.1, -0.1, 10.0, -0.1]


def test_the_papers_rule_names_walls_but_stays_on_the_grid() -> None:
    maze = parse(SMALL, "small")
    assert sorted(neighbours(maze, 1)) == [0, 2, 5]
    assert sorted(neighbours(maze, 0)) == [1, 4]


GRID = "..#.\n...*\n"
WALK = "path 0,0 0,1\n"
MALFORMED = {
    "empty file": ("", 1, 1, "no drawing"),
    "only comments": ("; nothing\n", 1, 1, "no drawing"),
    "only paths": (WALK, 1, 1, "no drawing"),
    "no goal": ("; none\n....\n....\n" + WALK, 2, 1, "no goal"),
    "two goals": (".*..\n...*\n" + WALK, 2, 4, "second goal"),
    "unknown character": ("..#.\n.?.*\n" + WALK, 2, 2, "unknown character '\\?'"),
    "leading space": (" ...\n...*\n" + WALK, 1, 1, "unknown character ' '"),
    "short line": ("....\n...\n...*\n" + WALK, 2, 4, "this line has 3 cells"),
    "long line": ("....\n.....\n...*\n" + WALK, 2, 5, "this line has 5 cells"),
    "no trajectory": (GRID, 2, 4, "no trajectory"),
    "through a wall": (GRID + "path 0,0 1,0 2,0\n", 3, 14, "wall at 2,0"),
    "jump": (GRID + "path 0,0\n     1,1\n", 4, 6, "jumps from 0,0 to 1,1"),
    "standing still": (GRID + "path 0,0 0,0\n", 3, 10, "jumps from 0,0 to 0,0"),
    "outside": (GRID + "path 3,0 4,0\n", 3, 10, "4,0 lies outside"),
    "below": (GRID + "path 0,1 0,2\n", 3, 10, "0,2 lies outside"),
    "not a cell": (GRID + "path 0,0 0;1\n", 3, 10, "'0;1' is not a cell"),
    "negative": (GRID + "path 0,0 -1,0\n", 3, 10, "'-1,0' is not a cell"),
    "no move": (GRID + "path 0,0\n", 3, 1, "makes no move"),
    "empty path": (GRID + "path\n", 3, 1, "makes no move"),
    "after the goal": (GRID + "path 2,1 3,1 3,0\n", 3, 14, "goes on after the goal"),
    "unknown word": (GRID + WALK + "walk 0,0 0,1\n", 4, 1, "unknown word 'walk'"),
    "misspelt word": (GRID + "paths 0,0 0,1\n", 3, 1, "unknown word 'paths'"),
    "drawing after paths": (GRID + WALK + "....\n", 4, 1, r"unknown word '\.\.\.\.'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_maze_is_refused_with_line_and_column(case: str) -> None:
    text, line, column, problem = MALFORMED[case]
    with pytest.raises(InputError, match=problem) as caught:
        parse(text, "mine.txt")
    assert caught.value.where == f"mine.txt, line {line}, column {column}"


def test_windows_text_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "maze.txt"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read(path).rows == ("..#.", "...*")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.txt: cannot read"):
        read(tmp_path / "missing.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.txt: not a text file"):
        read(tmp_path / "binary.txt")


def unique_cells(maze: Maze) -> int:
    return len({cell for cells in maze.trajectories for cell in cells})


def test_shipped_mazes() -> None:
    assert shipped() == ["sparse", "stitching"]
    sizes = {name: (load(name).width, load(name).height, len(load(name).trajectories)) for name in shipped()}
    assert sizes == {"sparse": (10, 10, 4), "stitching": (10, 10, 4)}
    assert unique_cells(load("stitching")) == 57
    assert unique_cells(load("sparse")) == 38
    with pytest.raises(InputError, match="no maze is called 'other'"):
        load("other")


def test_some_data_states_have_two_actions_but_few() -> None:
    maze = load("stitching")
    data = data_of(maze, mdp_of(maze))
    tried = np.unique(np.column_stack([data.state, data.action]), axis=0)
    assert np.sum(np.unique(tried[:, 0], return_counts=True)[1] > 1) == 2

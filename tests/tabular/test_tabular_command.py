import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from stacq.core.errors import InputError
from stacq.tabular.command import maze


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("maze")
    maze(Path("sparse"), 2, out)
    return out


def test_summary_has_the_numbers_of_every_method(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary["methods"]) == {"bc", "bcql", "scql", "scql_2_steps", "qss"}
    for method in summary["methods"].values():
        assert {"reached", "data_states", "mean_return", "steps_to_converge"} <= set(method)
        assert isinstance(method["steps_to_converge"], int)
        assert 0 < method["reached"] <= method["data_states"] == 38
    assert summary["methods"]["scql"]["reached"] == 16
    assert summary["methods"]["scql_2_steps"]["reached"] == 38


def test_png_shows_four_panels(folder: Path) -> None:
    image = imread(folder / "maze.png")[..., :3]
    height, width = image.shape[:2]
    assert width > 3 * height
    for panel in np.array_split(image, 4, axis=1):
        assert len(np.unique((panel * 255).astype(int).reshape(-1, 3), axis=0)) > 50


def test_svg_is_a_drawing(folder: Path) -> None:
    root = ElementTree.parse(folder / "maze.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 200


def test_pictures_are_repeatable(folder: Path, tmp_path: Path) -> None:
    maze(Path("sparse"), 2, tmp_path)
    for name in ("maze.png", "maze.svg", "summary.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_nothing_but_the_three_files_is_left(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["maze.png", "maze.svg", "summary.json"]


def test_default_maze_prints_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = maze()
    printed = capsys.readouterr().out
    assert "11 of 57" in printed
    assert "57 of 57" in printed
    assert "optimality gap" in printed
    assert summary["sweeps"] == 100
    assert (tmp_path / "maze" / "summary.json").is_file()


def test_own_file_is_swept_until_it_converges(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("...\n.#.\n..*\n\npath 0,0 1,0 2,0 2,1\npath 0,1 0,2 1,2 2,2\n")
    summary = maze(own, 1, tmp_path / "out")
    assert summary["sweeps"] is None
    assert summary["methods"]["bcql"]["reached"] == 4
    assert summary["methods"]["scql"]["reached"] == 8


def test_wrong_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("..*\n..?\npath 0,0 1,0\n")
    for file, steps, message in (
        (own, 1, "line 2, column 3"),
        (tmp_path / "none.txt", 1, "there is no such file"),
        (None, 0, "--steps-reach 0"),
    ):
        with pytest.raises(InputError, match=message):
            maze(file, steps, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_importing_the_command_is_cheap() -> None:
    heavy = "{'numba', 'matplotlib', 'scipy', 'jax'}"
    script = f"import sys, stacq.tabular.command; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

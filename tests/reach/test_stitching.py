"""What the sets join, and the two verbs that make and show them."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from stacq import Dataset, InputError, load
from stacq.cli import main
from stacq.core.artefacts import cache_directory
from stacq.data.hdf5 import write_hdf5
from stacq.dynamics.models import KIND, Dynamics
from stacq.dynamics.recipes import PRESETS
from stacq.pipeline.models import fit_dynamics
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import stitching
from stacq.report.reach_figure import draw_stitching
from test_reach_build import exact_models, walks


def hand_made(dataset: Dataset, extra: dict[int, list[int]]) -> ReachableSets:
    """Own successors, plus the given rows."""
    sets = [sorted({row, *extra.get(row, [])}) for row in range(len(dataset))]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in sets])]).astype(np.int64)
    facts = {"own_accepted": 40, "anchors_with_own": 50}
    return ReachableSets(indptr, np.concatenate(sets).astype(np.int64), {}, {}, facts)


def test_by_hand() -> None:
    """Five episodes of ten rows: one stitch within an episode, two between episodes that link three of them."""
    dataset = walks(episodes=5, length=10)
    found = stitching(hand_made(dataset, {0: [3], 5: [15, 16], 12: [25]}), dataset)
    assert found.pairs == 54 and found.extra == pytest.approx(4 / 50) and found.largest == 3
    assert found.size_histogram == ((1, 47), (2, 2), (3, 1))
    assert (found.more_than_own, found.across_episodes) == (3, 2)
    assert set(found.examples) == {(0, 5, 1, 5), (0, 5, 1, 6), (1, 2, 2, 5)}
    assert (found.components_before, found.components_after) == (5, 3)
    assert found.recall == 0.8 and any("80%" in warning for warning in found.warnings())


def test_components_of_a_long_chain() -> None:
    dataset = walks(episodes=40, length=3)
    chain = {3 * episode: [3 * (episode + 1)] for episode in range(39)}
    assert stitching(hand_made(dataset, chain), dataset).components_after == 1


def test_states_beyond_the_own_successor_are_counted_where_that_is_unknown_too() -> None:
    dataset = walks(episodes=2, length=5, terminals=True)  # rows 4 and 9 have no known successor
    lists = [[row] if dataset.successor_known[row] else [] for row in range(10)]
    lists[0], lists[4] = [0, 6], [7, 8]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
    flat = np.array([row for each in lists for row in each], dtype=np.int64)
    found = stitching(ReachableSets(indptr, flat, {}, {}, {}), dataset)
    assert found.extra == pytest.approx(3 / 10) and (found.more_than_own, found.across_episodes) == (2, 2)
    assert set(found.examples) == {(0, 0, 1, 1), (0, 4, 1, 2), (0, 4, 1, 3)}


def test_the_picture_shows_the_stitches_and_says_which_test_made_them() -> None:
    dataset = walks(episodes=5, length=10)
    sets = replace(hand_made(dataset, {0: [3], 5: [15, 16], 12: [25]}), config={"criterion": "paper", "epsilon": 0.1})
    figure = draw_stitching(dataset, sets, stitching(sets, dataset))
    lines = [each for each in figure.axes[1].collections if isinstance(each, LineCollection)]
    drawn = {each.get_label(): len(each.get_segments()) for each in lines}
    assert drawn == {"episodes": 5, "stitches": 3}
    assert any("paper's criterion: epsilon 0.1" in text.get_text() for text in figure.texts)


def test_nothing_to_stitch_is_told() -> None:
    dataset = walks(episodes=2, length=5)
    found = stitching(hand_made(dataset, {}), dataset)
    assert found.extra == 0 and any("nothing can be stitched" in warning for warning in found.warnings())


@pytest.mark.slow
def test_fit_and_reach_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "walks.hdf5"
    write_hdf5(walks(episodes=20, length=25), path)
    models = tmp_path / "models"
    main(["dynamics", "fit", str(path), "--preset", "small", "--epochs", "3", "--out", str(models)])
    assert {"fit.png", "quality.json", "arrays.safetensors", "manifest.json"} <= {
        each.name for each in models.iterdir()
    }
    picture = tmp_path / "reach.png"
    main(["reach", str(path), "--dynamics", str(models), "--epsilon", "0.5", "--picture", str(picture)])
    out = capsys.readouterr().out
    assert (
        "the corners of the action box and 64 uniform actions; there is no GPU" in out
        and "groups of linked episodes" in out
    )
    assert picture.stat().st_size > 10_000
    asked = ["--criterion", "calibrated", "--recall", "0.9", "--picture", str(picture)]
    main(["reach", str(path), "--dynamics", str(models), *asked])
    out = capsys.readouterr().out
    assert "by the calibrated criterion" in out and "recall 0.9" in out and "held-out rows" in out


@pytest.mark.slow
def test_dynamics_of_the_cache_without_held_out_rows_are_fitted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "walks.hdf5"
    write_hdf5(walks(episodes=20, length=25), path)
    dataset = load(path)
    config = replace(PRESETS["small"], max_epochs=1, least_steps=0)
    directory = cache_directory(KIND, asdict(config), {"dataset": dataset.fingerprint})
    exact_models(dataset).save(directory)
    with pytest.raises(InputError, match="max_epochs is 0"):
        fit_dynamics(dataset, "small", epochs=0)
    capsys.readouterr()
    command = ["dynamics", "fit", str(path), "--preset", "small", "--epochs", "1"]
    main(command)
    assert "fitting again" in capsys.readouterr().out and len(Dynamics.load(directory).held_out) == 25
    main(command)
    again = capsys.readouterr().out
    assert f"fitted before: {directory}" in again and "true successors pass" in again
    numbers = json.loads((directory / "quality.json").read_text())
    assert len(numbers["curves"]) == 1 and len(numbers["curves"][0]["forward_validation"]) == 3
    report = (directory / "quality.json").read_bytes()
    for missing in (None, "{}", json.dumps({**numbers, "curves": []})):  # the last of an attempt that was killed
        (directory / "quality.json").unlink() if missing is None else (directory / "quality.json").write_text(missing)
        main(command)
        once = capsys.readouterr().out
        assert "judged on 25 rows" in once and "is the hardest" not in once
        assert (directory / "quality.json").read_bytes() == report
    main(["reach", str(path), "--dynamics-preset", "small", "--epsilon", "0.5"])  # fitted on its way, at full length
    assert "small recipe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--recall", "0.9"], "a recall was asked for"),
        (["--picture", "sets.bmp"], "sets.bmp"),
        (["--dynamics", "models", "--dynamics-preset", "small"], "both dynamics and a recipe"),
    ],
)
def test_senseless_options_are_refused_before_anything_is_fitted(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_hdf5(walks(), tmp_path / "walks.hdf5")
    monkeypatch.setattr("stacq.pipeline.models.fit", None)
    with pytest.raises(SystemExit) as caught:
        main(["reach", str(tmp_path / "walks.hdf5"), *words])
    assert caught.value.code == 2 and said in capsys.readouterr().err


def test_other_peoples_files_are_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_hdf5(walks(), tmp_path / "walks.hdf5")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for out in (tmp_path / "mine", tmp_path / "walks.hdf5"):
        with pytest.raises(SystemExit) as caught:
            main(["dynamics", "fit", str(tmp_path / "walks.hdf5"), "--preset", "small", "--out", str(out)])
        assert caught.value.code == 2 and "something else here" in capsys.readouterr().err
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_dynamics_of_another_task_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from test_reach_build import learned

    learned()[1].save(tmp_path / "models")
    from arrays import logged

    np.savez(tmp_path / "other.npz", **logged([20, 30], ["terminal", "timeout"], sizes=(3, 2)))
    with pytest.raises(SystemExit) as caught:
        main(["reach", str(tmp_path / "other.npz"), "--dynamics", str(tmp_path / "models"), "--picture", "x.png"])
    assert caught.value.code == 2 and "observations of 2" in capsys.readouterr().err

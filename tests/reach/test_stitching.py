"""What the sets join, and the two verbs that make and show them."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from stacq import Dataset, load
from stacq.artefacts import cache_directory
from stacq.cli import main
from stacq.data.hdf5 import write_hdf5
from stacq.dynamics.fit import PRESETS
from stacq.dynamics.models import KIND, Dynamics
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import stitching
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
    assert found.more_than_own == 3 / 50 and found.across_episodes == 2 / 50
    assert (found.components_before, found.components_after) == (5, 3)
    assert found.recall == 0.8 and any("80%" in warning for warning in found.warnings())


def test_components_of_a_long_chain() -> None:
    dataset = walks(episodes=40, length=3)
    chain = {3 * episode: [3 * (episode + 1)] for episode in range(39)}
    assert stitching(hand_made(dataset, chain), dataset).components_after == 1


def test_nothing_to_stitch_is_told() -> None:
    dataset = walks(episodes=2, length=5)
    found = stitching(hand_made(dataset, {}), dataset)
    assert found.extra == 0 and any("nothing can be stitched" in warning for warning in found.warnings())


def test_fit_and_reach_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "walks.hdf5"
    write_hdf5(walks(episodes=20, length=25), path)
    models = tmp_path / "models"
    main(["dynamics", "fit", str(path), "--preset", "small", "--epochs", "3", "--out", str(models)])
    assert {"fit.png", "quality.json", "arrays.safetensors", "manifest.json"} <= {
        each.name for each in models.iterdir()
    }
    picture = tmp_path / "reach.png"
    main(["reach", str(path), "--dynamics", str(models), "--epsilon", "0.5", "--out", str(picture)])
    out = capsys.readouterr().out
    assert "64 uniform actions and the corners" in out and "groups of linked episodes" in out
    assert picture.stat().st_size > 10_000
    asked = ["--criterion", "calibrated", "--recall", "0.9", "--out", str(picture)]
    main(["reach", str(path), "--dynamics", str(models), *asked])
    out = capsys.readouterr().out
    assert "by the calibrated criterion" in out and "recall 0.9" in out and "held-out rows" in out


def test_dynamics_of_the_cache_without_held_out_rows_are_fitted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "walks.hdf5"
    write_hdf5(walks(episodes=20, length=25), path)
    dataset = load(path)
    config = replace(PRESETS["small"], max_epochs=1)
    directory = cache_directory(KIND, asdict(config), {"dataset": dataset.fingerprint})
    exact_models(dataset).save(directory)
    command = ["dynamics", "fit", str(path), "--preset", "small", "--epochs", "1"]
    main(command)
    assert "fitting again" in capsys.readouterr().out and len(Dynamics.load(directory).held_out) == 25
    main(command)
    assert f"fitted before: {directory}" in capsys.readouterr().out


def test_dynamics_of_another_task_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from test_reach_build import learned

    learned()[1].save(tmp_path / "models")
    from arrays import logged

    np.savez(tmp_path / "other.npz", **logged([20, 30], ["terminal", "timeout"], sizes=(3, 2)))
    with pytest.raises(SystemExit) as caught:
        main(["reach", str(tmp_path / "other.npz"), "--dynamics", str(tmp_path / "models"), "--out", "x.png"])
    assert caught.value.code == 2 and "observations of 2" in capsys.readouterr().err

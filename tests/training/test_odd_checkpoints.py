"""Checkpoints and snapshots whose manifests say something else, or nothing: passed over like any that is damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

from odd import variants
from stacq import InputError
from stacq.core.artefacts import MANIFEST, Damaged
from stacq.pipeline.models import QUALITY, dynamics_report
from stacq.training.checkpoints import KIND, latest_checkpoint, load_tree, save_checkpoint, save_tree

LIKE = {"weights": np.ones((2, 3), np.float32), "count": np.zeros((), np.int32)}


@pytest.mark.parametrize("name", ["config", "parents", "content"])
def test_a_checkpoint_that_does_not_say_its_step_is_passed_over(tmp_path: Path, name: str) -> None:
    for step in (10, 20):
        save_checkpoint(tmp_path, step, LIKE)
    path = tmp_path / "000000020" / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: {} if name == "config" else None}))
    told: list[str] = []
    found = latest_checkpoint(tmp_path, LIKE, told.append)
    assert found is not None and found.step == 10 and "passed over" in told[0]


def test_odd_manifests_of_snapshots_are_told_in_a_sentence(tmp_path: Path) -> None:
    save_tree(tmp_path / "snapshot", "snapshot", LIKE, {"step": 20, "alive": [True, False]})
    path = tmp_path / "snapshot" / MANIFEST
    refused = 0
    for _, text in variants(json.loads(path.read_text())):
        path.write_text(text)
        try:
            _, facts = load_tree(tmp_path / "snapshot", "snapshot", LIKE)
            assert isinstance(facts["step"], int) and np.array(facts["alive"]).dtype in (np.bool_, np.float64)
        except InputError:
            refused += 1
    assert refused > 250


def test_a_snapshot_without_its_seeds_is_damaged(tmp_path: Path) -> None:
    save_tree(tmp_path / "snapshot", "snapshot", LIKE, {"step": 20})
    with pytest.raises(Damaged, match="does not say of which step"):
        load_tree(tmp_path / "snapshot", "snapshot", LIKE)


def test_arrays_of_another_type_are_of_another_run(tmp_path: Path) -> None:
    save_tree(tmp_path / "checkpoint", KIND, {**LIKE, "weights": np.ones((2, 3))}, {"step": 20})
    with pytest.raises(InputError, match="of another run"):
        load_tree(tmp_path / "checkpoint", KIND, LIKE)


def test_an_odd_report_of_dynamics_is_left_out_of_the_page(tmp_path: Path) -> None:
    errors = {"ensemble": [0.1], "member": [0.2], "identity": [0.3]}
    quality = {"normalised": errors, "round_trip": {"recall": [0.5]}}
    for what, text in variants(quality):
        (tmp_path / QUALITY).write_text(text)
        found = dynamics_report(tmp_path)
        assert found == {} or len(found) == 4, what
    (tmp_path / QUALITY).write_text(json.dumps(quality))
    assert dynamics_report(tmp_path)["normalised_error"] == [0.1]
    assert dynamics_report(tmp_path)["dimensions"] == [0] and dynamics_report(tmp_path, ("x",))["dimensions"] == ["x"]

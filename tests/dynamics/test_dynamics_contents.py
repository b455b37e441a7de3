"""Artefacts of dynamics that are whole, fit their hash, and hold something else than dynamics do."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dynamics_cases import known_fit, linear_data
from odd import variants
from stacq import Dynamics, InputError, ReachConfig, reachable_sets
from stacq.core.artefacts import ARRAYS, MANIFEST, Damaged, read_artefact
from stacq.core.files import content_hash

DATA = linear_data([30, 30])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    known_fit(DATA, [3, 40, 50]).dynamics.save(tmp_path / "dynamics")
    return tmp_path / "dynamics"


def rewrite(directory: Path, arrays: dict[str, Any]) -> None:
    """With a hash that fits."""
    save_file(arrays, directory / ARRAYS)
    manifest = json.loads((directory / MANIFEST).read_text())
    (directory / MANIFEST).write_text(json.dumps(manifest | {"content": content_hash(arrays)}))


def use(directory: Path) -> None:
    dynamics = Dynamics.load(directory)
    dynamics.predict(DATA.observations[:2], DATA.actions[:2])
    dynamics.infer(DATA.observations[:2], DATA.observations[1:3])


def test_odd_manifests_are_told_in_a_sentence(saved: Path) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    refused = 0
    for what, text in variants(manifest):
        (saved / MANIFEST).write_text(text)
        try:
            read_artefact(saved, "dynamics")
        except InputError as error:
            refused += 1
            assert str(saved) in str(error), what
    assert refused > 200


@pytest.mark.parametrize("name", ["config", "parents"])
def test_a_manifest_without_its_parts_is_damaged(saved: Path, name: str) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    for changed in ({key: value for key, value in manifest.items() if key != name}, manifest | {name: [1]}):
        (saved / MANIFEST).write_text(json.dumps(changed))
        with pytest.raises(Damaged, match=f"no object.* under '{name}'"):
            Dynamics.load(saved)


SHAPES = [(), (0,), (1,), (3,), (2, 2, 1), (0, 0), (2, 4, 0), (1, 4, 2), (3, 8, 2), (2, 8, 8)]


def test_arrays_of_other_shapes_and_types_are_told_in_a_sentence(saved: Path) -> None:
    """Each in turn; those that do are as good as what was fitted."""
    arrays = load_file(saved / ARRAYS)
    for name, values in arrays.items():
        others = [np.ones(shape, values.dtype) for shape in SHAPES if shape != values.shape and len(shape) != 1]
        others += [np.ones(shape, values.dtype) for shape in ((0,), (1,), (3,)) if name != "held_out"]
        others += [values.astype(kind) for kind in (np.float16, np.float64, np.int32, np.bool_, np.complex64)]
        for other in others:
            rewrite(saved, {**arrays, name: other})
            with pytest.raises(Damaged, match="dynamics"):
                use(saved)
        rewrite(saved, {key: value for key, value in arrays.items() if key != name})
        if name != "held_out":
            with pytest.raises(Damaged):
                use(saved)
    rewrite(saved, arrays)
    use(saved)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
@pytest.mark.parametrize(
    "name", ["normaliser.scale", "action_high", "step_mean", "forward.weights.1", "inverse.biases.0"]
)
def test_values_that_no_dynamics_have(saved: Path, name: str, value: float) -> None:
    arrays = load_file(saved / ARRAYS)
    rewrite(saved, {**arrays, name: np.full_like(arrays[name], value)})
    fine = np.isfinite(value) and name not in ("normaliser.scale", "action_high")
    fine = fine or (name == "action_high" and value == 0)  # above the lower bound of -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if fine:
            use(saved)
        else:
            with pytest.raises(Damaged):
                use(saved)


@pytest.mark.parametrize("row", [-1, 29, 60, 2**62])
def test_rows_held_out_that_the_data_does_not_have(saved: Path, row: int) -> None:
    """Row 29 has no known successor."""
    rewrite(saved, {**load_file(saved / ARRAYS), "held_out": np.array([3, row])})
    with pytest.raises(InputError, match="held out"):
        reachable_sets(DATA, Dynamics.load(saved), ReachConfig(criterion="calibrated"))


@pytest.mark.parametrize("kind", ["BF16", "F8_E4M3", "F4"])
def test_types_that_numpy_does_not_have(saved: Path, kind: str) -> None:
    header = json.dumps({"a": {"dtype": kind, "shape": [4], "data_offsets": [0, {"BF16": 8, "F4": 2}.get(kind, 4)]}})
    (saved / ARRAYS).write_bytes(
        len(header).to_bytes(8, "little") + header.encode() + bytes(8 if kind == "BF16" else 4 if kind != "F4" else 2)
    )
    with pytest.raises(Damaged, match="damaged"):
        Dynamics.load(saved)

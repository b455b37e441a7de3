"""Artefacts of reachable sets that are whole, fit their hash, and hold something else than sets do."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from dynamics_cases import linear_data
from odd import variants
from stacq import InputError
from stacq.core.artefacts import ARRAYS, MANIFEST, Damaged
from stacq.core.files import content_hash
from stacq.core.terminal import Console
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import stitching
from stacq.report.reach_text import print_stitching

DATA = linear_data([30, 30])
KNOWN = {"rows": 5, "held_out": True, "recall": 0.5, "worst_dimension": 1}
FACTS = {"candidates": 5, "accepted": 5, "own_accepted": 4, "anchors_with_own": 5, "capped": 0, "known_pairs": KNOWN}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Every row with its own successor alone."""
    indptr = np.concatenate([[0], np.cumsum(DATA.successor_known)])
    indices = np.flatnonzero(DATA.successor_known).astype(np.int32)
    parents = {"dataset": DATA.fingerprint, "dynamics": "x"}
    ReachableSets(indptr, indices, {"criterion": "paper", "epsilon": 0.1}, parents, FACTS).save(tmp_path / "sets")
    return tmp_path / "sets"


def use(directory: Path) -> None:
    sets = ReachableSets.load(directory)
    sets.check(DATA)
    print_stitching(stitching(sets, DATA), sets.config, Console(file=io.StringIO()))


def test_odd_manifests_are_told_in_a_sentence(saved: Path) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    refused = 0
    for what, text in variants(manifest):
        (saved / MANIFEST).write_text(text)
        try:
            use(saved)
        except InputError as error:
            refused += 1
            assert str(saved) in str(error), what
    assert refused > 300


@pytest.mark.parametrize("facts", [{}, {"known_pairs": {}}, {"anchors_with_own": 0, "own_accepted": 0}])
def test_sets_of_ones_own_need_no_facts(saved: Path, facts: dict[str, Any]) -> None:
    manifest = json.loads((saved / MANIFEST).read_text())
    (saved / MANIFEST).write_text(json.dumps(manifest | {"config": {"options": {}, "facts": facts}}))
    use(saved)


@pytest.mark.parametrize("name", ["indptr", "indices"])
def test_arrays_of_other_shapes_types_and_values(saved: Path, name: str) -> None:
    arrays = load_file(saved / ARRAYS)
    values = arrays[name]
    others = [np.ones(shape, values.dtype) for shape in ((), (0,), (1,), (3,), (58, 1), (0, 0))]
    others += [values.astype(kind) for kind in (np.float32, np.float64, np.uint8, np.bool_)]
    others += [values[::-1].copy(), values + 1, values - 1, np.full_like(values, -1), np.full_like(values, 2**31 - 1)]
    manifest = json.loads((saved / MANIFEST).read_text())
    for other in others:
        changed = {**arrays, name: other}
        save_file(changed, saved / ARRAYS)
        (saved / MANIFEST).write_text(json.dumps(manifest | {"content": content_hash(changed)}))
        with pytest.raises(InputError):
            use(saved)
    del arrays[name]
    save_file(arrays, saved / ARRAYS)
    (saved / MANIFEST).write_text(json.dumps(manifest | {"content": content_hash(arrays)}))
    with pytest.raises(Damaged, match=f"array '{name}' is missing"):
        use(saved)

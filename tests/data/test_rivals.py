"""What docs/data.md says of other libraries: their readers of Minari's format, and the ways around them.

Skipped where they are not installed: the page says how to install them.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("rivals.py")


def read_by(library: str) -> dict[str, Any]:
    for needed in (library, "minari", "mujoco"):
        if find_spec(needed) is None:
            pytest.skip(f'{needed} is not installed; docs/data.md, "What other libraries read", says how to run this')
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), library],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    found: dict[str, Any] = json.loads(Path("found.json").read_text())
    return found


@pytest.mark.slow
def test_d3rlpy_reads_hdf5_right_and_minari_wrong() -> None:
    found = read_by("d3rlpy")
    for name in ("shown", "odd"):
        for key in ("observations", "actions", "rewards"):
            assert all(found[name][key]), (name, key)
    assert found["odd"]["terminals"] == [True, False, False, True, False]
    assert found["odd"]["transitions"] == 200 - 3  # of an episode that did not end, the last row has no successor there
    assert found["shown"]["transitions"] == 2000 - found["shown"]["terminals"].count(False)
    for name in ("ours", "collected"):
        first, *others = found[name]["observations"]
        assert first and len(others) >= 4 and all(found[name]["actions"])
        assert not any(others), "d3rlpy reads Minari's format right by now: say so in docs/data.md and the README"


@pytest.mark.slow
def test_torchrl_reads_arrays_right_and_minari_as_zeros() -> None:
    found = read_by("torchrl")
    for name in ("shown", "odd"):
        assert all(found[name].values()), found[name]
    for name in ("ours", "collected"):
        assert found[name]["rows"] == found[name]["wanted"]
        zeros = not any(found[name]["largest"].values())
        assert zeros, (
            "TorchRL reads Minari's format by now: look whether right, and say so in docs/data.md and the README"
        )

"""Fitted dynamics appear with everything that is told about them, or not at all."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stacq.pipeline.models
from dynamics_cases import linear_data
from stacq.data.hdf5 import write_hdf5
from stacq.data.load import load
from stacq.pipeline.console import ConsoleReporter
from stacq.pipeline.models import QUALITY, fit_dynamics

KILLED = """
import dataclasses, os, signal, sys
from pathlib import Path
import numpy as np
import stacq.pipeline.models
from dynamics_cases import known_fit
from stacq.cli import main
from stacq.dynamics.fit import Curve
rename, losses = os.rename, np.ones(2, np.float32)
curves = (Curve(0, losses, losses, losses, losses, 2),)
stacq.pipeline.models.fit = lambda data, *_, **__: dataclasses.replace(known_fit(data, range(50)), curves=curves)
def killed(source, target, **options):
    rename(source, target, **options)
    if Path(target).parent.name == "dynamics" and not Path(target).name.startswith("."):
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = killed
main(["dynamics", "fit", sys.argv[1], "--preset", "small", "--epochs", "1"])
"""


def test_a_kill_as_they_appear_leaves_their_report_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.hdf5"
    write_hdf5(linear_data([100] * 5, known_ends=True), path)
    paths = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, path],
        capture_output=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    folder = tmp_path / "home" / "dynamics"
    (directory,) = [each for each in folder.iterdir() if not each.name.startswith(".")]
    numbers = json.loads((directory / QUALITY).read_text())
    assert numbers["epochs"] == 1 and len(numbers["curves"]) == 1 and (directory / "fit.png").stat().st_size > 10_000

    monkeypatch.delattr(stacq.pipeline.models, "fit")
    found = fit_dynamics(load(path), "small", epochs=1, reporter=ConsoleReporter())
    assert found.directory == directory and f"fitted before: {directory}" in capsys.readouterr().out
    assert os.listdir(folder) == [directory.name]

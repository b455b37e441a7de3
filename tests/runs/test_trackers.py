"""Metrics that go to other programs: what they get, and what is said where they are missing."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stacq.core.errors import InputError
from stacq.runs.directory import Run
from stacq.runs.trackers import check_logs


class Account:
    """W&B as far as it is used: it keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []
        self.lines: list[dict[str, float]] = []
        self.ended = 0
        self.Error = RuntimeError

    def init(self, **options: Any) -> SimpleNamespace:
        self.begun.append(options)
        return SimpleNamespace(log=self.lines.append, finish=self.end, define_metric=lambda *_, **__: None)

    def end(self) -> None:
        self.ended += 1


def test_wandb_gets_config_and_metrics_and_one_id_for_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account()
    monkeypatch.setitem(sys.modules, "wandb", account)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    for step in (5, 3):  # scores come later than losses
        with Run(tmp_path / "mine", {"batch": 8}, logs=("wandb",), resume=True) as run:
            run.metrics(step, {"loss": 0.5}, seed=1)
    first, second = account.begun
    assert first == second and first["config"] == {"batch": 8}
    assert (first["name"], first["project"], first["resume"]) == ("mine", "stacq", "allow")
    assert account.lines == [{"training_step": step, "seed1/loss": 0.5} for step in (5, 3)] and account.ended == 2


def test_an_account_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account()
    monkeypatch.setitem(sys.modules, "wandb", account)

    def refuse(**_: Any) -> None:
        raise RuntimeError("no API key")

    monkeypatch.setattr(account, "init", refuse)
    with pytest.raises(InputError, match=r"no API key[\s\S]*WANDB_MODE=offline"):
        Run(tmp_path / "mine", {}, logs=("wandb",))


@pytest.mark.parametrize(("kind", "module"), [("wandb", "wandb"), ("tensorboard", "tensorboardX")])
def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch, kind: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"stacq\[{kind}\]"):
        check_logs((kind,))
    with pytest.raises(InputError, match="one of tensorboard, wandb"):
        check_logs(("mlflow",))


@pytest.mark.slow
def test_wandbs_offline_mode_keeps_everything_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with Run(tmp_path / "mine", {"batch": 8}, logs=("wandb",)) as run:
        for step in (5, 3):
            run.metrics(step, {"loss": 0.5 * step}, seed=0)
    wandb.teardown()  # its own process writes
    (written,) = (tmp_path / "mine" / "wandb").glob("offline-run-*/*.wandb")
    stored = written.read_bytes()
    for text in (b"seed0/loss", b"training_step", b"batch"):
        assert text in stored

"""What is told while one waits."""

import pytest

from stacq.core import progress as module
from stacq.core.progress import Speed, progress


@pytest.mark.parametrize(
    ("done", "total", "rate", "text"),
    [
        (100, 1_000, 50.0, "50/s, 18 s left"),
        (1, 40, 0.05, "20.0 s each, 780 s left"),  # epochs: "0/s" would say nothing
        (100, None, 50.0, "50/s"),
        (0, 10, 0.0, ""),
    ],
)
def test_speed_and_time_left(done: int, total: int | None, rate: float, text: str) -> None:
    assert module._speed_text(done, total, rate) == text


def test_what_was_kept_says_nothing_about_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("stacq.core.progress.time.monotonic", lambda: now)
    speed = Speed()
    now = 1.0
    assert speed.rate(900_000, kept=True) == 0
    now = 11.0
    assert speed.rate(900_100, kept=False) == 10


def test_lines_name_the_phase(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0.0)
    with progress("sets", 40, "states") as update:
        update(10, kept=True)
        update(20, phase="ranges")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "sets: 10 of 40 states" and lines[1].startswith("sets (ranges): 20 of 40 states, ")

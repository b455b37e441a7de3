"""How fast a training goes."""

import pytest

from stacq.training.pace import Pace, even_part


def test_the_speed_of_late_counts_waits_and_leaves_out_what_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 110.0, 130.0, 190.0, 200.0])
    monkeypatch.setattr("stacq.training.pace.time.monotonic", lambda: next(now))
    pace, found = Pace(), []
    pace.mark(2, 2, 4.0, compiled=True)
    assert pace.rate == pace.chunk == 0.5  # nothing better is known yet
    for step in (10, 110, 210, 810, 820):
        pace.mark(step, 8, 1.0, compiled=False)
        found.append(pace.rate)
    assert found == pytest.approx([8, 10, 200 / 30, 700 / 80, 610 / 70])  # what lies a minute back counts no more


@pytest.mark.parametrize(
    ("whole", "part"), [(5_000, 1_000), (25_000, 1_000), (100, 100), (2_500, 625), (4_999, 1_000), (1_009, 505), (1, 1)]
)
def test_chunks_on_a_gpu_divide_the_interval_or_are_as_even_as_they_can(whole: int, part: int) -> None:
    assert even_part(whole, 1_000) == part

"""What is told about a training run."""

import io
from pathlib import Path

import pytest
from training_cases import options, plan

from stacq import algos
from stacq.algos.settings import changed, preset
from stacq.core.terminal import Console
from stacq.pipeline.console import ConsoleReporter, TrainingDisplay, announcement, duration, settings_text
from stacq.training.pace import Report


@pytest.mark.parametrize("algorithm", algos.BUILT_IN)
@pytest.mark.parametrize("dataset", ["", "hopper-medium-v2", "antmaze-large-play-v2", "stacq/maze-stitching-v0"])
def test_settings_as_told_can_be_set(algorithm: str, dataset: str) -> None:
    config = preset(algos.find(algorithm), dataset).config
    assert changed(algos.find(algorithm).Config(), tuple(settings_text(config).split())) == config


def test_one_line_says_what_will_happen() -> None:
    text = announcement(plan(options("bc", seeds=2)))
    assert "2 seeds of" in text and "dynamics" not in text and "\n" not in text
    assert ", after dynamics and reachable sets" in announcement(plan(options("stacq")))


def test_a_brief_reporter_leaves_reports_to_the_log(tmp_path: Path) -> None:
    told = io.StringIO()
    reporter = ConsoleReporter(Console(file=told, width=200), brief=True)
    reporter.detail("3 members")
    chosen = plan(options("bc"))
    log = reporter.diagnostics(chosen, tmp_path)
    assert told.getvalue() == "" and log.startswith("3 members\n") and "settings: " in log
    assert "3 members" not in reporter.diagnostics(chosen, tmp_path)
    assert ConsoleReporter(Console(file=told)).diagnostics(chosen, tmp_path) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.1, "less than a second"),
        (12, "12 seconds"),
        (150, "2.5 minutes"),
        (9_000, "2.5 hours"),
        (216_000, "2.5 days"),
    ],
)
def test_durations_are_told_roughly(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def told(reports: list[Report], *, small: bool = False, seeds: int = 2) -> list[str]:
    text = io.StringIO()
    display = TrainingDisplay(plan(options("bc", small=small, seeds=seeds)), Console(file=text, width=200))
    for report in reports:
        display.update(report)
    return text.getvalue().splitlines()


def at(
    step: int,
    rate: float,
    *,
    until: int = 1_000_000,
    behind: float = 0.0,
    losses: dict[str, list[float]] | None = None,
) -> Report:
    return Report(step, 1_000_000, until, rate, behind, losses or {}, {})


def test_how_long_it_will_take_is_told_once_chunks_are_of_full_length() -> None:
    first = [at(1, 0.2), at(4, 2_000.0)]  # compiling, and a chunk too short to say anything
    assert told(first) == []
    line = "500 steps/s of 2 seeds on this cpu: about 33.0 minutes to go; shorter with a GPU, --small, fewer --seeds"
    assert told([*first, at(10_000, 500.0), at(20_000, 100.0)]) == [f"{line}, fewer --steps"]
    assert told([*first, at(10_000, 500.0)], small=True, seeds=1) == [
        "500 steps/s of 1 seed on this cpu: about 33.0 minutes to go; shorter with a GPU, fewer --steps"
    ]
    assert told([*first, at(990_000, 500.0)]) == ["500 steps/s of 2 seeds on this cpu: about 20 seconds to go"]
    evaluated = at(4, 2_000.0, losses={"q": [1.0, 2.0]})
    assert told([*first, evaluated]) == []  # no chunk of its own


def test_a_phase_of_another_speed_is_estimated_anew() -> None:
    early = [at(1, 0.2, until=500_000), at(4, 2_000.0, until=500_000), at(100_000, 1_000.0, until=500_000)]
    late = [at(500_100, 90.0), at(500_200, 90.0), at(500_300, 100.0)]
    lines = told([*early, *late])
    assert [line.split(":")[0].split(" of")[0] for line in lines] == ["1,000 steps/s", "100 steps/s"]
    assert "6.7 minutes to go to step 500,000 of 1,000,000, where another phase begins" in lines[0]
    assert "about 83.3 minutes to go; shorter" in lines[1]


def test_evaluations_that_take_longer_than_the_training_are_told() -> None:
    """The first of them ends after the first estimate, which knew of none."""
    begun = [at(1, 0.2), at(4, 2_000.0), at(900_000, 2_000.0)]
    late = [at(910_000, 2_000.0, behind=30.0), at(920_000, 2_000.0, behind=420.0), at(930_000, 2_000.0, behind=400.0)]
    lines = told([*begun, *late])
    assert len(lines) == 2 and "about 50 seconds to go" in lines[0]
    assert "about 7.0 minutes to go, since evaluating takes longer than training" in lines[1]
    assert lines[1].endswith("shorter with a larger --eval-every or fewer --episodes")

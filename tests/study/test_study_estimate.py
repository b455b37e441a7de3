"""What is said before a study runs: what exists, and how long the rest takes."""

import json
from pathlib import Path

import pytest
from study_cases import SMALL, cells, chain

from stacq.pipeline.plan import make_plan
from stacq.study.estimate import Rates, forecast, forecast_text
from stacq.study.found import expected, finished_runs
from stacq.study.jobs import Job, jobs_of
from stacq.study.states import State

LONG = SMALL.replace("steps = 40", "steps = 1_000")


def test_a_rate_is_taken_from_this_study_before_that_of_the_package() -> None:
    first, second = cells(LONG)
    jobs = [job for job in jobs_of([first, second]) if job.kind == "cell"]
    shipped = Rates({}).guess(jobs[0])
    assert shipped.seconds is not None and "records" in shipped.source
    done = {jobs[0].key: (jobs[0], State("done", record={"seconds": 40.0}))}
    assert Rates(done).guess(jobs[1]).seconds == pytest.approx(40.0)
    (longer, _) = cells(LONG.replace("1_000", "3_000"))
    assert Rates(done).guess(Job("k", "cell", longer)).seconds == pytest.approx(120.0)
    assert Rates(done).guess(Job("k", "sets", first)).seconds is None


def test_a_forecast_is_the_shared_work_or_the_longest_chain() -> None:
    jobs = chain(None, "0", None)
    rates = Rates({})
    each = rates.guess(jobs[0]).seconds
    assert each is not None
    alone, many = forecast(rates, jobs, 1), forecast(rates, jobs, 100)
    assert alone.seconds == pytest.approx(3 * each) and alone.hours == pytest.approx(3 * each / 3600)
    assert many.hours == pytest.approx(2 * each / 3600)
    said = forecast_text(many, 3, 100, price=36.0)
    assert f"about {36 * 3 * each / 3600:,.2f} at 36" in said
    assert forecast_text(many, 0, 100, None) == "nothing is left to do"
    unknown = forecast(rates, [Job("k", "sets", cells()[0])], 1)
    assert unknown.unknown == 1 and "1 of 1 jobs have no measured rate" in forecast_text(unknown, 1, 1, None)


def test_a_run_made_by_hand_is_recognised(tmp_path: Path) -> None:
    first, second = cells()
    plan = make_plan(first.load(), first.options)
    run = tmp_path / "some-run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps(plan.manifest()))
    assert finished_runs(tmp_path) == {}  # it has not finished
    (run / "result.json").write_text("{}")
    found = finished_runs(tmp_path)
    assert found[expected(first)] == "some-run" and expected(second) not in found
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "result.json").touch()
    (tmp_path / "torn" / "config.json").write_text("{")
    assert finished_runs(tmp_path) == found

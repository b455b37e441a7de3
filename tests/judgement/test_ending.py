"""How `stacq run` ends where no environment is known, and what it says of sets that join nothing."""

import dataclasses
import json
from pathlib import Path

import pytest

from judge_cases import QUICK, always, chain, models
from stacq.judgement.verdict import Report
from stacq.pipeline.judge import judge_trained
from stacq.pipeline.reporter import Reporter
from stacq.report.page import page_text
from stacq.report.page_judge import judge_section
from stacq.runs.summary import RunSummary, nothing_to_stitch, read_run

FEW = dataclasses.replace(QUICK, fqe=dataclasses.replace(QUICK.fqe, steps=20, first_steps=20))


class Heard(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.reports: list[Report] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def judged(self, report: Report) -> None:
        self.reports.append(report)


def finished_run(directory: Path) -> Path:
    """What a training of two seeds leaves, as far as it is read here."""
    (directory / "policies").mkdir(parents=True)
    for seed, action in enumerate((0.9, -0.9)):
        always(action).save(directory / "policies" / f"seed-{seed}.safetensors")
    config = {"algorithm": "bc", "label": "BC", "dataset": "chain", "env": None, "seeds": [0, 1], "total_steps": 20}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "result.json").write_text(json.dumps({"measure": None, "seeds": [0, 1], "lost": [], "final": None}))
    return directory


@pytest.mark.slow
def test_trained_policies_are_judged_at_the_end(tmp_path: Path) -> None:
    directory = finished_run(tmp_path / "run")
    heard = Heard()
    report = judge_trained(chain(), [directory], models(), heard, FEW)
    assert report is not None and heard.reports == [report]
    assert {each.name for each in report.judged} == {"BC, seed 0", "BC, seed 1"}
    page = page_text([read_run(directory)], title="t", first=[judge_section(report)])
    assert "What the policies are worth" in page and "BC, seed 1" in page
    few = chain(episodes=5)
    assert judge_trained(few, [directory], models(), heard, FEW) is None
    assert "the policies are not judged: 5 episodes" in heard.said[-1]


def test_sets_with_nothing_to_stitch_are_told_at_the_top_of_the_page() -> None:
    run = RunSummary("StaCQ", "stacq", "mine", seeds=(0,), reach={"extra_per_state": 0.0}, metrics=[{"step": 1}])
    assert nothing_to_stitch([run]).startswith("StaCQ had nothing to stitch")
    assert "had nothing to stitch" in page_text([run], title="t").split("<nav")[0]
    joined = dataclasses.replace(run, reach={"extra_per_state": 0.5})
    asked = dataclasses.replace(run, config={"own_only": True})
    assert nothing_to_stitch([joined, asked]) == ""

"""What a finished run says."""

import dataclasses
import json
from pathlib import Path

import pytest
from training_cases import (
    options,
    plan,
    run_job,
)

from stacq.core.errors import InputError
from stacq.core.files import write_json
from stacq.pipeline.console import describe_result
from stacq.pipeline.trained import read_trained
from stacq.report.page_results import results_section
from stacq.runs.directory import read_metrics
from stacq.runs.finished import read_finished
from stacq.runs.summary import read_run, result_of


def test_a_seed_lost_at_the_very_end_leaves_the_others_their_final_scores(tmp_path: Path) -> None:
    """Its last evaluation is one step before theirs: they must not be judged by an older policy for that."""
    directory, chosen = tmp_path / "run", plan(options("bc", seeds=3))
    run_job(chosen, out=directory, workers=1)
    lines = read_metrics(directory)
    kept = [line for line in lines if not (line["seed"] == 1 and line["step"] == 60)]
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    records = (directory / "records.csv").read_text().splitlines(keepends=True)
    gone = f"BC,{chosen.dataset.name},1,60,"
    (directory / "records.csv").write_text("".join(line for line in records if not line.startswith(gone)))
    (directory / "policies" / "seed-1.safetensors").unlink()
    found = result_of(directory)
    assert (found["step"], found["seeds"], found["lost"]) == (60, [0, 2], [1])
    said = describe_result(chosen, dataclasses.replace(read_trained(directory), result=found))
    assert said.startswith("! 1 of 3 seeds lost (1)")
    write_json(directory / "result.json", found)
    assert read_finished(directory).lost == read_run(directory).lost == (1,)
    page = results_section([read_run(directory)], {"BC": 0})
    assert page is not None and "lost 1 of 3 seeds (1)" in str(page.body)


def test_a_run_that_was_not_scored_names_its_seeds(tmp_path: Path) -> None:
    chosen = plan(options("bc", evaluate=False))
    trained = run_job(chosen, out=tmp_path / "run", workers=1)
    assert trained.result["seeds"] == [0, 1] and trained.result["final"] is None
    assert describe_result(chosen, trained) == f"policies: {tmp_path / 'run' / 'policies'}"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_damaged_result_is_named(tmp_path: Path, text: str) -> None:
    run_job(plan(options("bc")), out=tmp_path / "run", workers=1)
    (tmp_path / "run" / "result.json").write_text(text)
    with pytest.raises(InputError, match=r"result.json: cannot be read"):
        read_trained(tmp_path / "run")

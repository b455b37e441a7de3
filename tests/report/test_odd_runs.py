"""Run directories as someone else may have left them: a page about them, or a sentence, and never a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest

from odd import ODD, variants
from stacq import InputError, Policy
from stacq.evaluation.records import COLUMNS
from stacq.report.page import page_text
from stacq.runs.directory import read_metrics, read_records
from stacq.runs.finished import read_finished, read_result
from stacq.runs.summary import read_run

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # squares of 1e308 are infinite, and shown as a dash

SEEDS, STEPS = (0, 1), (10, 20, 30)
FILES: dict[str, dict[str, Any]] = {
    "config.json": {
        "algorithm": "stacq",
        "variant": "paper",
        "label": "StaCQ",
        "dataset": "d",
        "dynamics_hash": None,
        "reach": {"criterion": "paper"},
        "env": "Hopper-v4",
        "seeds": [0, 1],
        "total_steps": 30,
        "config": {"steps": 30, "hidden": [8, 8]},
    },
    "environment.json": {
        "command": ["/x/stacq", "train"],
        "cores": 2,
        "device": "cpu",
        "versions": {"jax": "1"},
        "git_revision": "abc-dirty",
    },
    "result.json": {"measure": "return", "lost": [], "final": [1.0, 2.0], "best": [1.0, 2.0], "last_ten": [1.0, 2.0]},
    "reach.json": {
        "set_sizes": {"1": 5, "2": 3},
        "extra_per_state": 0.3,
        "criterion": "paper",
        "recall": 0.9,
        "worst_dimension": 1,
        "epsilon": 0.1,
    },
    "dynamics.json": {
        "dimensions": [0, 1],
        "normalised_error": [0.1, 0.2],
        "single_member_error": [0.1, 0.3],
        "persistence_error": [0.4, 0.5],
    },
    "prepared.json": {
        "rows": 9,
        "neighbours": 3,
        "reach": 0.4,
        "recall": 1.0,
        "slope": 2.0,
        "temperature": 0.5,
        "moved": 0.3,
        "longest": 4,
        "value": 3.0,
        "usual_value": 2.0,
        "usual_price": 1.0,
        "best_logged": 9.0,
        "bound": 0.001,
        "warnings": ["near rows are far"],
        "episode": {"value": [3.0, 4.0], "usual": [2.0, 2.5], "moved": [True, False]},
    },
}
TRAINING = [{"step": s, "seed": k, "critic_loss": 0.1 * s, "q": 2.0, "time": 1.0} for s in STEPS for k in SEEDS]
SCORED = [
    {"step": s, "seed": k, "eval/return": 1.0 + s, "eval/discounted_return": 1.0, "eval/value": 3.0, "eval/score": s}
    for s in STEPS
    for k in SEEDS
]
RECORDS = [f"StaCQ,d,{k},{s},{e},{s + e}.5,7,{s},1" for s in STEPS for k in SEEDS for e in (0, 1)]
TEXTS = ("", "-1", "nan", "inf", "-1e308", "9" * 23, "9" * 5000, "\x00", "1.5", "x", '"', "\r", "1_0", "²")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir()
    for name, value in FILES.items():
        (directory / name).write_text(json.dumps(value))
    write(directory, [*TRAINING, *SCORED], RECORDS)
    policy = Policy.from_mlp([[[1.0]]], [[0.0]])
    policy.save(directory / "policies" / "seed-0.safetensors")
    return directory


def write(directory: Path, metrics: list[dict[str, Any]], records: list[str]) -> None:
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in metrics))
    (directory / "records.csv").write_text("".join(f"{line}\n" for line in [",".join(COLUMNS), *records]))


def look(directory: Path) -> bool:
    """Whether it was shown; otherwise it was told in a sentence."""
    try:
        page_text([read_run(directory)], title="a page").encode()
    except InputError as error:
        return not str(error)
    return True


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_odd_files(run: Path, name: str, every: int) -> None:
    told = 0
    for what, text in variants(FILES[name], ODD[::every]):
        (run / name).write_text(text)
        told += not look(run)
        for read in (read_finished, read_result) if name in ("config.json", "result.json") else ():
            try:
                read(run)
            except InputError as error:
                assert str(run) in str(error), what
    assert told > 10


@pytest.mark.parametrize("rest", ["with records", "without records", "never scored"])
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_odd_lines_of_metrics(run: Path, rest: str, every: int) -> None:
    lines = TRAINING if rest == "never scored" else [*TRAINING, *SCORED]
    for place in (0, len(lines) - 1):
        for key in lines[place]:
            for value in ODD[::every]:
                odd = [*lines[:place], {**lines[place], key: value}, *lines[place + 1 :]]
                write(run, odd, RECORDS if rest == "with records" else [])
                look(run)


@pytest.mark.parametrize("value", [2**70, -1, 1.5, True, "3", None, float("nan"), float("inf"), [1]])
@pytest.mark.parametrize("key", ["step", "seed"])
def test_a_step_or_seed_that_is_none_is_named(run: Path, key: str, value: object) -> None:
    if (key, value) == ("seed", -1):
        value = -(2**70)
    write(run, [*TRAINING, {"step": 3, "seed": 0, key: value}], RECORDS)
    with pytest.raises(InputError, match=r"metrics.jsonl: a line cannot be understood"):
        read_metrics(run)


@pytest.mark.parametrize("column", range(len(COLUMNS)), ids=COLUMNS)
def test_odd_records(run: Path, column: int) -> None:
    for text in TEXTS:
        values = RECORDS[-1].split(",")
        values[column] = text
        write(run, SCORED, [*RECORDS[:-1], ",".join(values)])
        look(run)


@pytest.mark.parametrize(
    "line", ["a,b", ",,,,,,,,", "," * 20, "x" * 200_000, '"never closed', "a,b,1,2,3,4,5,6,1,more"]
)
def test_lines_that_are_no_records_are_named(run: Path, line: str) -> None:
    write(run, SCORED, [*RECORDS, line])
    with pytest.raises(InputError, match=r"records.csv: a line cannot be understood"):
        read_records(run)


@pytest.mark.parametrize("head", ["", "a,b,c", "algorithm,dataset,seed", ",".join([*COLUMNS, "more"])])
def test_another_head_of_the_records_is_told(run: Path, head: str) -> None:
    (run / "records.csv").write_text("\n".join([head, *RECORDS, ""]))
    with pytest.raises(InputError, match=r"records.csv: a line cannot be understood"):
        read_records(run)


def test_as_many_seeds_as_a_file_says_are_not_counted_out(run: Path) -> None:
    (run / "config.json").write_text(json.dumps({**FILES["config.json"], "seeds": 2**62}))
    assert look(run)


def test_odd_names_among_the_policies_are_passed_over(run: Path) -> None:
    for name in ("seed-x", "seed-", "seed-²", "seed-" + "9" * 30, "seed-1.5"):
        (run / "policies" / f"{name}.safetensors").touch()
    assert list(read_finished(run).policies) == [0]

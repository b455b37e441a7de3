"""Folders of runs: which are found, and what they are called."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import page_samples as samples
import pytest

from stacq.cli import main
from stacq.core.errors import InputError
from stacq.report.differences import told_apart
from stacq.report.folders import read_runs, run_directories, write_report
from stacq.report.many import best_of, read_briefs
from stacq.runs.summary import RunSummary


def run(dataset: str = "d", seeds: tuple[int, ...] = (0, 1), **config: Any) -> RunSummary:
    whole = {
        "config": {"alpha": 1.0, "batch": 8, "slots": 4},
        "reach": {"epsilon": 0.1},
        "dataset_hash": "aa",
        **config,
    }
    return RunSummary("StaCQ", "stacq", dataset, config={**whole, "seeds": list(seeds)}, seeds=seeds, name="x-1f2e3d4c")


def labels(*runs: RunSummary) -> list[str]:
    return [each.label for each in told_apart(runs)]


def sizes(**changes: Any) -> dict[str, Any]:
    return {"alpha": 1.0, "batch": 8, "slots": 4, **changes}


def test_runs_are_called_by_what_differs() -> None:
    assert labels(run()) == ["StaCQ"]
    assert labels(run(), run(config=sizes(alpha=5.0))) == ["StaCQ, alpha=1", "StaCQ, alpha=5"]
    both = labels(run(), run(config=sizes(batch=16), reach={"epsilon": 0.5}))
    assert both == ["StaCQ, batch=8, epsilon=0.1", "StaCQ, batch=16, epsilon=0.5"]
    assert labels(run(), run(reach={"epsilon": 0.5}, config=sizes(slots=9))) == [
        "StaCQ, epsilon=0.1",
        "StaCQ, epsilon=0.5",
    ]
    assert labels(run(), run(config=sizes(slots=9))) == ["StaCQ, slots=4", "StaCQ, slots=9"]


def test_a_hash_is_never_shown() -> None:
    found = labels(run(), run(dataset_hash="bb"), run(dataset_hash="aa", seeds=(2, 3)))
    assert found == ["StaCQ, data 1", "StaCQ, data 2", "StaCQ, data 1"]
    assert labels(run(), run()) == ["StaCQ", "StaCQ (2)"]  # the same run, copied


def test_other_seeds_are_the_same_run_and_other_datasets_no_difference() -> None:
    assert labels(run(), run(seeds=(2, 3))) == ["StaCQ", "StaCQ"]
    assert labels(run(), run("e", config=sizes(alpha=5.0))) == ["StaCQ", "StaCQ"]  # published for each dataset
    swept = labels(run(), run(config=sizes(alpha=5.0)), run("e"))
    assert swept == ["StaCQ, alpha=1", "StaCQ, alpha=5", "StaCQ, alpha=1"]


def written(directory: Path, **config: Any) -> Path:
    directory.mkdir(parents=True)
    found = replace(run(**config), dataset="d")
    (directory / "config.json").write_text(json.dumps({"label": found.label, "dataset": "d", **found.config}))
    lines = [{"step": 10 * k, "seed": seed, "eval/score": 1.0 * k, "time": 0.0} for k in (1, 2) for seed in (0, 1)]
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return directory


def test_a_folder_stands_for_the_runs_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = written(tmp_path / "runs" / "a"), written(tmp_path / "runs" / "more" / "b", config=sizes(alpha=5.0))
    (tmp_path / "runs" / "studies" / "s" / "jobs").mkdir(parents=True)
    (tmp_path / "runs" / ".stacq-tmp").mkdir()
    assert run_directories([tmp_path / "runs"]) == [first, second]
    assert run_directories([tmp_path / "runs", first]) == [first, second]
    assert run_directories([first, tmp_path / "runs" / "studies"]) == [first]
    assert [each.label for each in read_runs([first, second])] == ["StaCQ, alpha=1", "StaCQ, alpha=5"]
    main(["report", str(tmp_path / "runs"), "--out", "page.html"])
    page = Path("page.html").read_text("utf-8")
    assert "StaCQ, alpha=5" in page and "1f2e3d4c" not in page


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no config\.json"):
        read_runs(run_directories([tmp_path]))
    with pytest.raises(InputError, match="no such directory"):
        read_runs(run_directories([tmp_path / "none"]))


def test_samples_keep_their_names() -> None:
    runs = [samples.locomotion_run(label, "d", seeds=2, evaluations=2) for label in samples.LEVELS]
    assert [each.label for each in told_apart(runs)] == [each.label for each in runs]


def finished(directory: Path, dataset: str, alpha: float, final: list[float], seeds: tuple[int, ...] = (0, 1)) -> Path:
    written(directory, config=sizes(alpha=alpha), seeds=seeds)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "dataset": dataset}))
    result = {"measure": "score", "lost": [], "final": final, "best": final, "last_ten": final}
    (directory / "result.json").write_text(json.dumps(result))
    return directory


def test_very_many_runs_are_a_row_each_and_the_best_are_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stacq.report.folders.MANY", 5)
    monkeypatch.setattr("stacq.report.many.MOST_WHOLE", 4)
    for number in range(6):
        finished(tmp_path / "runs" / f"a{number}", "one", float(number), [10.0 * number, 10.0 * number + 2])
    finished(tmp_path / "runs" / "a5more", "one", 5.0, [90.0], seeds=(2,))
    finished(tmp_path / "runs" / "b", "two", 3.0, [7.0, 8.0])
    written(tmp_path / "runs" / "unfinished")
    briefs = read_briefs(run_directories([tmp_path / "runs"]))
    pooled = next(brief for brief in briefs if len(brief.directories) == 2)
    assert pooled.label == "StaCQ, alpha=5" and pooled.final.tolist() == [50.0, 52.0, 90.0]
    assert [brief.dataset for brief in best_of(briefs)] == ["d", "one", "two"]
    page = write_report(tmp_path / "page.html", [tmp_path / "runs"], title="t").read_text("utf-8")
    for number in range(6):
        assert f"StaCQ, alpha={number}" in page
    assert "9 runs, best first" in page and page.count("<section") >= 4
    assert page.index("StaCQ, alpha=5") < page.index("StaCQ, alpha=4")


@pytest.mark.parametrize("name", ["r.csv", "r", "r.pdf"])
def test_a_report_is_no_table(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"ends in \.html[\s\S]*records\.csv"):
        write_report(tmp_path / name, [tmp_path], title="t")
    assert not (tmp_path / name).exists()

"""Tables of a study: every number from the records, and nothing that was not run."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_cases import cells, study

from stacq.core.errors import InputError
from stacq.report.statistics import describe, interquartile_mean
from stacq.study.contents import Contents, summary_rows
from stacq.study.latex import escaped, table_tex
from stacq.study.markdown import table_md
from stacq.study.page import write_study_page
from stacq.study.published import SOURCES, printed, scores
from stacq.study.records import lines_of, read_records
from stacq.study.results import Missing, entries_of, lost_places, ranks
from stacq.study.states import Places, State, read_state, write_state
from stacq.study.tables import curves_csv, gathered, recorded, table_csv, write_all


def record(dataset: str, method: str, scores: list[list[float]], first: int = 0, **changes: Any) -> dict[str, Any]:
    steps = [100 * (n + 1) for n in range(len(scores[0]) if scores else 0)]
    common: dict[str, Any] = {"algorithm": "bc", "label": method, "measure": "score", "lost": [], "seconds": 1.0}
    common |= {"source": f"stacq/{dataset}-v0@1000", "steps": 100, "evaluated": steps}
    seeds = list(range(first, first + len(scores)))
    return {**common, "dataset": dataset, "method": method, "seeds": seeds, "scores": scores, **changes}


RECORDS = [
    record("hopper-medium", "A", [[10.0, 20.0], [30.0, 40.0]]),
    record("hopper-medium", "B", [[50.0, 60.0], [50.0, 61.0]]),
    record("walker2d-medium", "A", [[70.0, 5.0]]),
    record("walker2d-medium", "A", [[71.0, 7.0]], first=1),
    record("walker2d-medium", "B", [[1.0, 2.0], [3.0, 4.0]]),
]


def contents(records: list[dict[str, Any]] = RECORDS, **changes: Any) -> Contents:
    entries = entries_of(records)
    datasets = list(dict.fromkeys(each["dataset"] for each in records))
    found = Contents("A & B", "final", datasets, ["A", "B"], entries, published=["paper"])
    return dataclasses.replace(found, **changes)


def test_seeds_of_several_runs_are_one_entry() -> None:
    entry = entries_of(RECORDS)["walker2d-medium", "A"]
    assert entry.seeds == (0, 1) and entry.final.tolist() == [5.0, 7.0]
    assert entry.best.tolist() == [70.0, 71.0] and entry.last_ten.tolist() == [37.5, 39.0]


def test_rows_of_two_recordings_are_not_put_together() -> None:
    one = record("hopper-medium", "A", [[1.0]], dataset_hash="aa")
    entries_of([one, record("hopper-medium", "B", [[2.0]], dataset_hash="aa"), record("hopper-medium", "C", [[2.0]])])
    with pytest.raises(InputError, match="one recording for each dataset"):
        entries_of([one, record("hopper-medium", "B", [[2.0]], dataset_hash="bb")])


def test_the_main_table_shows_mean_and_deviation() -> None:
    said = table_md(contents())
    assert "| hopper-medium | 30.0 ± 14.1 | **60.5 ± 0.7** |" in said
    assert "| walker2d-medium | **6.0 ± 1.4** | 3.0 ± 1.4 |" in said
    assert "| 30.0 ± 14.1 | two seeds | 30.0 | 25.0 |  |  |" in said
    low, high = describe([20.0, 40.0, 60.0])[3:]
    three = table_md(contents([record("hopper-medium", "A", [[20.0], [40.0], [60.0]])]))
    assert f"| 40.0 ± 20.0 | {low:.1f} to {high:.1f} |" in three
    assert f"| **40.0 ± 20.0** ({low:.1f} to {high:.1f}) |  |" in three


def test_means_that_are_printed_alike_are_bold_together() -> None:
    same = [record("hopper-medium", "A", [[99.96], [100.0]]), record("hopper-medium", "B", [[100.0], [100.0]])]
    assert "| hopper-medium | **100.0 ± 0.0** | **100.0 ± 0.0** |" in table_md(contents(same))


def test_intervals_of_success_rates_end_where_these_do() -> None:
    rates = [[0.0], [0.0], [100.0], [100.0]]
    low, high = describe(np.ravel(rates))[3:]
    assert low < 0 and high > 100
    assert "(0.0 to 100.0)" in table_md(contents([record("pointmaze-umaze", "A", rates)]))
    assert f"({low:.1f} to {high:.1f})" in table_md(contents([record("hopper-medium", "A", rates)]))


def test_a_method_that_lost_every_seed_is_not_as_if_it_had_not_been_run() -> None:
    gone = record("hopper-medium", "B", [], lost=[0, 1])
    entries = entries_of([*RECORDS[:1], gone])
    part = contents(RECORDS[:1], entries=entries, lost=lost_places([*RECORDS[:1], gone]))
    said = table_md(part)
    assert "| hopper-medium | **30.0 ± 14.1** | all seeds lost |" in said
    assert "| hopper-medium | B | all seeds lost |" in said and "& all seeds lost" in table_tex(part)
    some = table_md(contents([record("hopper-medium", "B", [[1.0], [3.0]], lost=[5])]))
    assert "**2.0 ± 1.4, 1 lost** |" in some
    assert lost_places([gone, record("hopper-medium", "B", [[1.0]], first=2)]) == set()


def test_values_stand_beside_what_they_promised() -> None:
    known = {"value": [[9.0, 240.0], [9.0, 250.0]], "discounted_return": [[9.0, 260.0], [9.0, 261.0]]}
    first = record(
        "hopper-medium",
        "A",
        [[10.0, 20.0], [30.0, 40.0]],
        value=known["value"],
        discounted_return=known["discounted_return"],
    )
    assert "| 245 / 260 |" in table_md(contents([first]))
    (row,) = csv.DictReader(table_csv(entries_of([first])).splitlines())
    assert (row["value"], row["discounted_return"]) == ("245", "260.5")
    once = entries_of([first])["hopper-medium", "A"]
    assert entries_of([first, first])["hopper-medium", "A"].estimates == once.estimates
    without = record("hopper-medium", "A", [[1.0, 2.0]], first=2, value=None)
    assert entries_of([first, without])["hopper-medium", "A"].estimates is None


def test_the_summary_is_over_datasets_that_all_methods_have() -> None:
    more = [*RECORDS, record("halfcheetah-medium", "A", [[100.0, 100.0]])]
    mean, iqm, _, rank = summary_rows(contents(more))
    assert mean == ["mean of 2", "18.0", "31.8"] and rank == ["mean rank", "1.50", "1.50"]
    values = {"hopper": [20.0, 40.0], "walker2d": [5.0, 7.0]}
    assert iqm[1] == f"{interquartile_mean(values):.1f}"
    assert summary_rows(contents([*RECORDS, record("other", "A", [[1.0]], measure="return")]))[0] == mean


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=6))
def test_ranks_are_those_of_counting(table: list[list[int]]) -> None:
    names = "ABC"
    records = [
        record(f"d{n}", name, [[float(value)]])
        for n, row in enumerate(table)
        for name, value in zip(names, row, strict=True)
    ]
    found = ranks(entries_of(records), "final")
    for column, name in enumerate(names):
        placed = [1 + sum(v > row[column] for v in row) + (row.count(row[column]) - 1) / 2 for row in table]
        assert found[name] == pytest.approx(np.mean(placed))


def test_what_was_not_run_is_empty_and_named(tmp_path: Path) -> None:
    first, second = cells()
    places = Places(tmp_path, tmp_path)
    write_state(places, first.key, State("failed", reason="it broke\nin a line"))
    records, missing = gathered([first, second], places)
    assert records == [] and [each.why for each in missing] == ["failed: it broke", "not run yet"]
    part = contents(RECORDS[:1], missing=[Missing("hopper-medium", "B", "failed: it broke")])
    said, tex = table_md(part), table_tex(part)
    assert "| hopper-medium | **30.0 ± 14.1** |  |" in said and "- hopper-medium, B: failed: it broke" in said
    assert "& -- \\\\" in tex
    page = write_study_page(tmp_path / "page.html", part).read_text("utf-8")
    assert "Missing: hopper-medium, B (failed: it broke)." in page


def test_printed_numbers_stand_apart_with_their_source() -> None:
    said = table_md(contents())
    ours, theirs = said.split("## Printed elsewhere")
    assert "56.8" in theirs and "56.8" not in ours and SOURCES["paper"].statistic in theirs
    assert "% printed by others" in table_tex(contents())


def test_tables_for_a_paper_are_escaped() -> None:
    assert escaped("50 % & a_b ±") == r"50 \% \& a\_b $\pm$"
    said = table_tex(contents())
    assert r"% A \& B" in said and r"$\mathbf{60.5 \pm 0.7}$" in said
    assert said.count(r"\begin{tabular}") == said.count(r"\end{tabular}") == 2


def test_files_for_other_programs_hold_every_number() -> None:
    rows = list(csv.DictReader(table_csv(entries_of(RECORDS)).splitlines()))
    assert len(rows) == 4 and float(rows[0]["final_mean"]) == 30.0 and float(rows[0]["best_mean"]) == 30.0
    single = list(csv.DictReader(table_csv(entries_of(RECORDS[2:3])).splitlines()))
    assert single[0]["final_std"] == ""
    points = list(csv.DictReader(curves_csv(entries_of(RECORDS)).splitlines()))
    assert len(points) == 16 and sum(float(point["value"]) for point in points) == sum(
        value for each in RECORDS for values in each["scores"] for value in values
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(lines_of(RECORDS))
    assert read_records(path) == RECORDS
    path.write_text('{"dataset": 5}\n')
    with pytest.raises(InputError, match="line 1 is no record"):
        read_records(path)


def test_states_add_up_and_damage_is_as_if_nothing_was_known(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path)
    write_state(places, "k", State("failed", seconds=2.0, reason="r"))
    write_state(places, "k", State("done", seconds=3.0))
    found = read_state(places, "k")
    assert found is not None and (found.state, found.seconds, found.attempts) == ("done", 5.0, 2)
    places.state("k").write_text('{"state": "done"}')
    assert read_state(places, "k") is None


@pytest.mark.parametrize(
    ("source", "method", "total"),
    [
        *(("paper", name, total) for name, total in [("bc", 432.4), ("bcq", 602.2), ("td3bc", 677.4), ("iql", 692.6)]),
        *(("paper", name, total) for name, total in [("mbts", 628.3), ("diffuser", 697.7), ("rambo", 753.1)]),
        *(("paper", name, total) for name, total in [("stacq", 813.0), ("onestep-stacq", 757.5)]),
        ("corl-last", "td3bc", 688.0),
        ("corl-last", "rebrac", 807.7),
    ],
)
def test_printed_numbers_add_up_to_the_printed_totals(source: str, method: str, total: float) -> None:
    nine = [each for each in scores() if (each.source, each.method) == (source, method)]
    nine = [each for each in nine if "antmaze" not in each.dataset and "random" not in each.dataset]
    assert len(nine) == 9 and sum(each.mean for each in nine) == pytest.approx(total, abs=0.11)  # of rounded ones


@pytest.mark.parametrize(
    ("source", "method", "total"),
    [("paper-fixed", "td3bc", 698.7), ("paper-fixed", "stacq", 798.6), ("paper-tuned", "td3bc", 716.7)],
)
def test_printed_numbers_of_the_appendix_add_up(source: str, method: str, total: float) -> None:
    twelve = [each.mean for each in scores() if (each.source, each.method) == (source, method)]
    assert len(twelve) == 12 and sum(twelve) == pytest.approx(total)


def test_antmaze_adds_up_too() -> None:
    printed_total = {"bc": 118.8, "iql": 378.0, "stacq": 319.8, "rambo": 67.0}
    for method, total in printed_total.items():
        found = [each.mean for each in scores() if each[:2] == ("paper", method) and "antmaze" in each.dataset]
        assert sum(found) == pytest.approx(total)


def test_a_dataset_is_found_whoever_recorded_it() -> None:
    assert printed("paper", "stacq/hopper-medium-v0@100000")["stacq"].mean == 100.2
    assert printed("paper", "hopper-medium-v2")["stacq"].std == 3.0
    assert printed("paper", "stacq/maze-stitching-v0") == {}


def test_a_study_of_nothing_says_what_is_missing(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path)
    found = write_all(study(), cells(), places, *gathered(cells(), places), [])
    assert {path.name for path in found} == {"records.jsonl", "curves.csv", "table.csv", "table.md", "table.tex"}
    assert (tmp_path / "table.md").read_text("utf-8").count("not run yet") == 2


def test_tables_come_from_a_file_of_records_too() -> None:
    first, second = cells()
    mine = record(first.source.label, first.label, [[1.0], [2.0]])
    found, missing = recorded([first, second], [mine, *RECORDS])
    assert found == [mine] and [each.method for each in missing] == [second.label]

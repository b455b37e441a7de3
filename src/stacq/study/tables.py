"""The files that a study leaves: records, curves, tables and a page."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stacq.core.files import write_text
from stacq.study.cells import Cell
from stacq.study.contents import Contents
from stacq.study.latex import table_tex
from stacq.study.markdown import table_md
from stacq.study.page import write_study_page
from stacq.study.plan import Study
from stacq.study.records import Record, lines_of, record_of
from stacq.study.results import Entry, Missing, Place, entries_of, lost_places
from stacq.study.states import Places, State, read_state, undone

STATISTICS = ("final", "best", "last_ten")


def gathered(cells: Sequence[Cell], places: Places) -> tuple[list[Record], list[Missing]]:
    """What the finished cells say, and the others with the reason."""
    records: list[Record] = []
    missing: list[Missing] = []
    for cell in cells:
        state = read_state(places, cell.key)
        name = cell.source.label, cell.label
        if state is None:
            missing.append(Missing(*name, "not run yet"))
        elif state.state == "failed":
            missing.append(Missing(*name, f"failed: {state.reason.splitlines()[0] if state.reason else 'no reason'}"))
        elif why := undone(state, cell):
            missing.append(Missing(*name, why))
        else:
            records.append(_with_values(cell, state))
            unscored = not state.record.get("scores") and not state.all_lost
            missing += [Missing(*name, "nothing was scored")] * unscored
    return records, missing


def _with_values(cell: Cell, state: State) -> Record:
    """A record of a version that did not write down values is made again from its run."""
    if state.all_lost or "value" in state.record:
        return state.record
    return record_of(cell, Path(state.run), state.record.get("cores", 1))


def recorded(cells: Sequence[Cell], records: Sequence[Record]) -> tuple[list[Record], list[Missing]]:
    """What a file of records says of the cells."""
    wanted = {_place(cell) for cell in cells}
    found = [record for record in records if (record["dataset"], record["method"]) in wanted]
    known = {
        (record["dataset"], record["method"], seed) for record in found for seed in (*record["seeds"], *record["lost"])
    }
    missing = [Missing(*_place(cell), "not among the records") for cell in cells if not known & _each_seed(cell)]
    return found, missing


def _place(cell: Cell) -> Place:
    return cell.source.label, cell.label


def _each_seed(cell: Cell) -> set[tuple[str, str, int]]:
    return {(*_place(cell), seed) for seed in cell.seeds}


def write_all(
    study: Study,
    cells: Sequence[Cell],
    places: Places,
    records: Sequence[Record],
    missing: Sequence[Missing],
    kept: Sequence[Record] | None = None,
) -> list[Path]:
    """Everything, each file whole or not at all; the paths. Records to keep may be of more cells than the tables."""
    contents = contents_of(study, cells, records, missing)
    texts = {
        **({} if kept is None else {"records.jsonl": lines_of(kept)}),
        "curves.csv": curves_csv(contents.entries),
        "table.csv": table_csv(contents.entries),
        "table.md": table_md(contents),
        "table.tex": table_tex(contents),
    }
    for name, text in texts.items():
        write_text(places.folder / name, text)
    page = [write_study_page(places.folder / "page.html", contents)] if contents.entries else []
    return [*(places.folder / name for name in texts), *page]


def contents_of(study: Study, cells: Sequence[Cell], records: Sequence[Record], missing: Sequence[Missing]) -> Contents:
    """In the order of the study."""
    return Contents(
        title=study.title,
        shows=study.shows,
        datasets=list(dict.fromkeys(cell.source.label for cell in cells)),
        methods=list(dict.fromkeys(cell.label for cell in cells)),
        entries=entries_of(records),
        missing=missing,
        published=study.published,
        names={cell.source.label: cell.source.full_name for cell in cells},
        lost=lost_places(records),
    )


def curves_csv(entries: Mapping[Place, Entry]) -> str:
    """A row for every evaluation of every seed."""
    return _csv(("dataset", "method", "seed", "step", "measure", "value"), _points(entries))


def _points(entries: Mapping[Place, Entry]) -> Iterator[tuple[object, ...]]:
    for entry in entries.values():
        for seed, values in zip(entry.seeds, entry.values.tolist(), strict=True):
            for step, value in zip(entry.steps, values, strict=True):
                yield entry.dataset, entry.method, seed, step, entry.measure, f"{value:.6g}"


def table_csv(entries: Mapping[Place, Entry]) -> str:
    """A row for every dataset and method, with all three statistics."""
    head = ["dataset", "method", "measure", "steps", "seeds", "lost"]
    head += [f"{name}_{part}" for name in STATISTICS for part in ("mean", "std", "low", "high")]
    head += ["value", "discounted_return"]
    return _csv(head, (_numbers(entry) for entry in entries.values()))


def _numbers(entry: Entry) -> list[object]:
    row: list[object] = [entry.dataset, entry.method, entry.measure, entry.steps[-1], len(entry.seeds), len(entry.lost)]
    for name in STATISTICS:
        found = entry.described(name)
        row += [_plain(value) for value in (found.mean, found.std, found.low, found.high)]
    return [*row, *map(_plain, entry.estimates or (math.nan, math.nan))]


def _plain(value: float) -> str:
    """Empty where a single seed says nothing."""
    return "" if value != value else f"{value:.6g}"


def _csv(head: Sequence[str], rows: Iterator[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()

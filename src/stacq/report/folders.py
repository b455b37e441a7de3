"""Runs that lie in folders, found and told apart by what differs between them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stacq.core.errors import InputError
from stacq.core.files import exists
from stacq.report.differences import told_apart
from stacq.report.many import MANY, all_section, best_of, read_briefs
from stacq.report.page import write_page
from stacq.runs.finished import CONFIG
from stacq.runs.summary import RunSummary, read_run

DEEPEST = 3  # folders in folders
PAGES = (".html", ".htm")
STUDY = "jobs"  # of a study's own folder, which holds no runs


def run_directories(named: Sequence[Path]) -> list[Path]:
    """What was named, and the runs in folders that are none themselves; each once, in the order of names."""
    kept = [each for each in named if not exists(each) or each.is_dir()]  # `runs/*` names pages as well
    found = [run for each in kept or named if not _of_studies(each) for run in _inside(each)]
    return list({each.resolve(): each for each in found}.values())


def _of_studies(directory: Path) -> bool:
    return (directory / STUDY).is_dir() or any(directory.glob(f"*/{STUDY}"))


def _inside(directory: Path) -> list[Path]:
    """The directory itself, unless runs lie in it and it is none."""
    if not directory.is_dir() or (directory / CONFIG).exists():
        return [directory]
    return list(_searched(directory, DEEPEST)) or [directory]


def _searched(directory: Path, depth: int) -> Iterator[Path]:
    for each in sorted(directory.iterdir()):
        if each.name.startswith(".") or not each.is_dir():
            continue
        if (each / CONFIG).exists():
            yield each
        elif depth > 1:
            yield from _searched(each, depth - 1)


def read_runs(directories: Sequence[Path]) -> list[RunSummary]:
    """With labels that say what differs."""
    return told_apart([read_run(directory) for directory in directories])


def write_report(path: Path, named: Sequence[Path], *, title: str) -> Path:
    """One page about the runs; of very many, a row for each and all that there is about the best."""
    if path.suffix.lower() not in PAGES:
        raise InputError(
            f"the report is a page, and '{path.suffix or path.name}' is no ending of one",
            where=path,
            expected=f"a file that ends in {' or '.join(PAGES)}",
            fix="name one; the numbers of a run are in its records.csv, metrics.jsonl and result.json",
        )
    directories = run_directories(named)
    if len(directories) <= MANY:
        return write_page(path, read_runs(directories), title=title)
    briefs = read_briefs(directories)
    best = best_of(briefs)
    runs = [replace(read_run(directory), label=brief.label) for brief in best for directory in brief.directories]
    return write_page(path, runs, title=title, first=[all_section(briefs, len(directories))])

"""A study's page: that of its runs, with the study's own table first."""

from pathlib import Path

from stacq.report.many import MANY, MOST_WHOLE
from stacq.report.page import write_page
from stacq.report.page_html import Section, blocks, head_row, lede, note, row, table
from stacq.report.page_svg import Markup
from stacq.runs.summary import RunSummary
from stacq.study.contents import Contents, printed_columns
from stacq.study.markdown import NAMES
from stacq.study.results import Entry, by_dataset


def write_study_page(path: Path, contents: Contents) -> Path:
    """With everything about the runs, or of very many about the best of each dataset."""
    runs = [summary_of(entry) for entry in _shown(contents)]
    return write_page(path, runs, title=contents.title, first=[table_section(contents)])


def _shown(contents: Contents) -> list[Entry]:
    if len(contents.entries) <= MANY:
        return list(contents.entries.values())
    groups = by_dataset(contents.entries)
    each = max(1, MOST_WHOLE // len(groups))
    ranked = (sorted(group.values(), key=lambda entry: -entry.final.mean()) for group in groups.values())
    return [entry for group in list(ranked)[:MOST_WHOLE] for entry in group[:each]]


def summary_of(entry: Entry) -> RunSummary:
    """An entry as the page knows runs: without their directories, which may lie elsewhere."""
    lines = [
        {"step": step, "seed": seed, f"eval/{entry.measure}": value}
        for seed, values in zip(entry.seeds, entry.values.tolist(), strict=True)
        for step, value in zip(entry.steps, values, strict=True)
    ]
    seeds = tuple(sorted({*entry.seeds, *entry.lost}))
    return RunSummary(entry.method, entry.algorithm, entry.dataset, seeds=seeds, metrics=lines, lost=entry.lost)


def table_section(contents: Contents) -> Section:
    """Datasets and methods, what others printed, and what is missing."""
    main = [
        row(dataset, *(contents.text(dataset, method) for method in contents.methods)) for dataset in contents.datasets
    ]
    summary = [row(*cells) for cells in contents.summary]
    body = blocks(
        lede(f"Mean ± standard deviation over seeds: {NAMES[contents.shows]}. Empty cells have not been run."),
        table("The study's table", head_row("Dataset", *contents.methods), main, summary),
        *(_printed(contents, source) for source in contents.published),
        _missing(contents),
    )
    return Section("table", "Table", "The table", body)


def _printed(contents: Contents, source: str) -> Markup | None:
    methods, rows = printed_columns(contents, source)
    if not rows:
        return None
    about = contents.sources[source]
    caption = f"Printed by others, on D4RL’s own data: {about.title} ({about.statistic})"
    return table(caption, head_row("Dataset", *methods), [row(*cells) for cells in rows])


def _missing(contents: Contents) -> Markup | None:
    names = [f"{each.dataset}, {each.method} ({each.why})" for each in contents.missing[:MANY]]
    more = f", and {len(contents.missing) - MANY:,} more" if len(contents.missing) > MANY else ""
    return note(f"Missing: {'; '.join(names)}{more}.") if names else None

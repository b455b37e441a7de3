"""A study's tables as Markdown."""

from collections.abc import Iterator, Sequence

from stacq.core.printable import printable
from stacq.report.statistics import describe
from stacq.study.contents import Contents, printed_columns
from stacq.study.results import Entry

NAMES = {
    "final": "final policies",
    "best": "best evaluation of each seed",
    "last_ten": "mean of the last ten evaluations",
}


def table_md(contents: Contents) -> str:
    """Main table, summary, every number, what others printed, and what is missing."""
    parts = [
        [f"# {printable(contents.title)}", "", *_explained(contents)],
        [*_rows(["dataset", *contents.methods], _main(contents))],
        [*_rows(["", *contents.methods], contents.summary)] if contents.summary else [],
        ["## Every number", "", *_rows(DETAILS, _details(contents))],
        *_printed(contents),
        _missing(contents),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _explained(contents: Contents) -> Iterator[str]:
    yield (
        f"Mean ± standard deviation over seeds: {NAMES[contents.shows]}. Intervals of 95 percent: Student's for one "
        "dataset, stratified bootstrap for several. Numbers that others printed have tables of their own. Extra states "
        "are those that the sets hold for each state of the data beyond its own successor."
    )


def _main(contents: Contents) -> Iterator[list[str]]:
    for dataset in contents.datasets:
        yield [dataset, *(spread(contents.entry(dataset, method), contents.shows) for method in contents.methods)]


def spread(entry: Entry | None, statistic: str) -> str:
    """Empty where nothing was run."""
    if entry is None:
        return ""
    found = describe(entry.shown(statistic))
    return f"{found.mean:.1f}" if found.runs == 1 else f"{found.mean:.1f} ± {found.std:.1f}"


DETAILS = ["dataset", "method", "seeds", "steps", "final", "95 % interval", "best", "last ten", "extra states"]


def _details(contents: Contents) -> Iterator[list[str]]:
    for entry in contents.entries.values():
        found = describe(entry.final)
        few = ("", "two seeds")  # whose interval says less than their mean and spread
        sure = few[found.runs - 1] if found.runs <= len(few) else f"{found.low:.1f} to {found.high:.1f}"
        lost = f" ({len(entry.lost)} lost)" if entry.lost else ""
        first = [entry.dataset, entry.method, f"{len(entry.seeds)}{lost}", f"{entry.steps[-1]:,}"]
        flattering = (f"{entry.shown(each).mean():.1f}" for each in ("best", "last_ten"))
        extra = "" if entry.extra is None else f"{entry.extra:.3g}"
        yield [*first, spread(entry, "final"), sure, *flattering, extra]


def _printed(contents: Contents) -> Iterator[list[str]]:
    """A table for each source: datasets and statistics of others."""
    for source in contents.published:
        methods, rows = printed_columns(contents, source)
        if rows:
            about = contents.sources[source]
            title = [f"## Printed elsewhere: {about.title}", "", f"On D4RL's own data; {about.statistic}.", ""]
            yield [*title, *_rows(["dataset", *methods], rows)]


def _missing(contents: Contents) -> list[str]:
    if not contents.missing:
        return []
    lines = (f"- {each.dataset}, {each.method}: {printable(each.why)}" for each in contents.missing)
    return ["## Missing", "", *lines]


def _rows(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell, head))} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")

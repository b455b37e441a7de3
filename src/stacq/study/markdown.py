"""A study's tables as Markdown."""

from collections.abc import Iterator, Sequence

from stacq.core.printable import printable
from stacq.study.contents import ALL_LOST, Contents, interval, printed_columns, spread

NAMES = {
    "final": "final policies",
    "best": "best evaluation of each seed",
    "last_ten": "mean of the last ten evaluations",
}


def table_md(contents: Contents) -> str:
    """Main table, summary, every number, what others printed, and what is missing."""
    parts = [
        [f"# {printable(contents.title)}", "", *_explained(contents)],
        main_table(contents),
        [*_rows(["", *contents.methods], contents.summary)] if contents.summary else [],
        ["## Every number", "", *_rows(DETAILS, _details(contents))],
        *_printed(contents),
        _missing(contents),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def main_table(contents: Contents) -> list[str]:
    """Datasets by methods, as docs/ has it too."""
    return [*_rows(["dataset", *contents.methods], _main(contents))]


def _explained(contents: Contents) -> Iterator[str]:
    yield (
        f"Mean ± standard deviation over seeds: {NAMES[contents.shows]}, the best mean of each dataset in bold. "
        "Intervals of 95 percent: Student's for one dataset, stratified bootstrap for several; those of success rates "
        "end at 0 and 100. Empty cells have not been run. Numbers that others printed have tables of their own. Extra "
        "states are those that the sets hold for each state of the data beyond its own successor; the last column has "
        "what the critics expect of the starts of the episodes, and what these brought."
    )


def _main(contents: Contents) -> Iterator[list[str]]:
    for dataset in contents.datasets:
        best = contents.best(dataset)
        yield [dataset, *(_cell_of(contents, dataset, method, bold=method in best) for method in contents.methods)]


def _cell_of(contents: Contents, dataset: str, method: str, *, bold: bool) -> str:
    text, entry = contents.text(dataset, method), contents.entry(dataset, method)
    sure = interval(entry, contents.shows) if entry else ""
    return (f"**{text}**" if bold else text) + (f" ({sure})" if sure else "")


DETAILS = ["dataset", "method", "seeds", "steps", "final", "95 % interval", "best", "last ten", "extra states"]
DETAILS += ["value / discounted return"]


def _details(contents: Contents) -> Iterator[list[str]]:
    for entry in contents.entries.values():
        sure = interval(entry, "final") or ("two seeds" if len(entry.seeds) == 2 else "")
        lost = f" ({len(entry.lost)} lost)" if entry.lost else ""
        first = [entry.dataset, entry.method, f"{len(entry.seeds)}{lost}", f"{entry.steps[-1]:,}"]
        flattering = (f"{entry.shown(each).mean():.1f}" for each in ("best", "last_ten"))
        extra = "" if entry.extra is None else f"{entry.extra:.3g}"
        estimates = " / ".join(f"{round(value):,}" for value in entry.estimates or ())
        yield [*first, spread(entry, "final"), sure, *flattering, extra, estimates]
    for dataset, method in sorted(contents.lost):
        yield [dataset, method, ALL_LOST, *[""] * (len(DETAILS) - 3)]


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

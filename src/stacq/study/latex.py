"""A study's main table for a paper, in LaTeX with booktabs."""

from collections.abc import Iterator

from stacq.study.contents import Contents, printed_columns

SPECIAL = {"\\": r"\textbackslash{}", "±": r"$\pm$", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}


def table_tex(contents: Contents) -> str:
    """Ours, and below it a table for each source of printed numbers; the best mean of a row is bold."""
    return "\n\n".join(["\n".join(_ours(contents)), *("\n".join(each) for each in _printed(contents))]) + "\n"


def _ours(contents: Contents) -> Iterator[str]:
    yield rf"% {escaped(contents.title)}: mean and standard deviation over seeds ({escaped(contents.shows)})"
    yield from _head(["", *contents.methods])
    for dataset in contents.datasets:
        best = contents.best(dataset)
        yield _line(
            [escaped(dataset), *(_spread(contents, dataset, method, method in best) for method in contents.methods)]
        )
    if contents.summary:
        yield r"\midrule"
        yield from (_line(map(escaped, row)) for row in contents.summary)
    yield from FOOT


def _spread(contents: Contents, dataset: str, method: str, bold: bool) -> str:
    """A number, or why there is none."""
    if contents.entry(dataset, method) is None:
        return contents.text(dataset, method) or "--"
    text, comma, lost = contents.text(dataset, method).replace("±", r"\pm").partition(",")
    return (rf"$\mathbf{{{text}}}$" if bold else f"${text}$") + comma + lost


def _printed(contents: Contents) -> Iterator[list[str]]:
    for source in contents.published:
        methods, rows = printed_columns(contents, source)
        if rows:
            about = contents.sources[source]
            lines = [
                rf"% printed by others: {escaped(about.title)}; {escaped(about.statistic)}",
                *_head(["", *methods]),
            ]
            yield [*lines, *(_line(escaped(cell) or "--" for cell in row) for row in rows), *FOOT]


def _head(names: list[str]) -> list[str]:
    return [rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}", r"\toprule", _line(map(escaped, names)), r"\midrule"]


FOOT = (r"\bottomrule", r"\end{tabular}")


def _line(cells: object) -> str:
    return rf"{' & '.join(cells)} \\"  # type: ignore[arg-type]


def escaped(text: str) -> str:
    """Text without a meaning to LaTeX."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)

"""The pieces every section is built from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stacq.report.page_svg import Markup, el, join


@dataclass(frozen=True)
class Section:
    """One part of the page, with its name in the navigation."""

    key: str
    short: str
    title: str
    body: Markup

    def html(self) -> Markup:
        heading = f"{self.key}-title"
        return el("section", el("h2", self.title, id=heading), self.body, id=self.key, aria_labelledby=heading)


def lede(*text: object) -> Markup:
    return el("p", *text, class_="lede")


def note(*text: object) -> Markup:
    return el("p", *text, class_="note")


def figure(title: str, drawing: Markup, remark: str = "", class_: str = "card") -> Markup:
    caption = el("figcaption", el("h3", title), el("span", remark, class_="note") if remark else None)
    return el("figure", caption, drawing, class_=class_)


def grid(cards: Sequence[Markup], more: str = "") -> Markup:
    """Cards next to each other, two or three in a row; a single one keeps a readable width."""
    kind = "solo" if len(cards) == 1 else "grid" if len(cards) in (2, 4) else "grid three"
    return el("div", *cards, class_=f"{kind} {more}".rstrip())


def table(caption: str, head: Markup, *groups: Iterable[Markup]) -> Markup:
    """Groups of rows in a table that scrolls by itself where the screen is narrow, with the keyboard too."""
    inner = el("table", el("caption", el("span", caption)), el("thead", head), *(el("tbody", *rows) for rows in groups))
    return el("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def head_row(*names: object) -> Markup:
    return el("tr", *(el("th", name, scope="col") for name in names))


def scale_head(low: str, high: str) -> Markup:
    """The head of a column of intervals: the ends of their scale."""
    return el("span", el("span", low), el("span", high), class_="ends")


def group_row(title: str, remark: str, columns: int) -> Markup:
    """The line above the rows of one group."""
    return el("tr", el("th", el("strong", title), remark, scope="rowgroup", colspan=columns))


def row(first: object, *cells: object, class_: str | None = None) -> Markup:
    """A row named by its first cell; cells that are elements already stay as they are."""
    filled = (cell if _is_cell(cell) else el("td", cell) for cell in cells)
    return el("tr", el("th", first, scope="row"), *filled, class_=class_)


def _is_cell(cell: object) -> bool:
    return isinstance(cell, Markup) and cell.startswith(("<td", "<th"))


def named(label: str, slot: int | None) -> Markup:
    """A method's name next to its colour."""
    colour = "plain" if slot is None else f"s{slot}"
    return el("span", el("i", class_=f"swatch {colour}", aria_hidden="true"), label, class_="name-cell")


def pairs(values: Mapping[str, object], class_: str = "pairs") -> Markup:
    """Names and values, as a list of definitions."""
    items = (el("div", el("dt", key), el("dd", value)) for key, value in values.items())
    return el("dl", *items, class_=class_)


def sentence_list(parts: Sequence[str]) -> str:
    """a, b and c"""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def blocks(*parts: Markup | None) -> Markup:
    return join(*parts)

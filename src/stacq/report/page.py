"""One HTML file about any number of runs, and a maze if there is one. It opens offline and needs nothing else.

A section whose data is missing is left out. Every text from outside is escaped on its way into an element, and a
content security policy with the hashes of our own style and script lets the browser run and fetch nothing else.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from stacq.core.errors import InputError
from stacq.core.files import write_text
from stacq.report.page_again import again_section, next_section
from stacq.report.page_data import MazePicture, Ring, Rollout, arranged
from stacq.report.page_graph import graph_section
from stacq.report.page_html import Section
from stacq.report.page_maze import player_data
from stacq.report.page_maze_sections import data_section, player_section, policies_section, success_section
from stacq.report.page_models import critic_section, models_section, training_section
from stacq.report.page_results import results_section
from stacq.report.page_sections import comparison_section, curves_section, facts, headline
from stacq.report.page_svg import Markup, el, join, palette
from stacq.runs.summary import Aggregate, Curve, RunSummary, aggregate, curve, nothing_to_stitch, read_run

__all__ = [
    "Aggregate",
    "Curve",
    "MazePicture",
    "Ring",
    "Rollout",
    "RunSummary",
    "aggregate",
    "curve",
    "page_text",
    "read_run",
    "write_page",
]


def write_page(
    path: Path,
    runs: Sequence[RunSummary],
    *,
    title: str,
    maze: MazePicture | None = None,
    first: Sequence[Section] = (),
) -> Path:
    """Write the page about `runs`, whole or not at all; sections of the caller's own come first."""
    path = Path(path)
    write_text(path, page_text(runs, title=title, maze=maze, first=first))
    return path


def page_text(
    runs: Sequence[RunSummary], *, title: str, maze: MazePicture | None = None, first: Sequence[Section] = ()
) -> str:
    """The page as text."""
    if not runs and maze is None and not first:
        raise InputError("no runs", where="report", expected="at least one run", fix="give one or more run directories")
    shown = arranged(runs)
    slots = palette(dict.fromkeys(_maze_labels(maze) if maze else (), "") | {run.label: run.algorithm for run in shown})
    sections = [*first, *(section for section in _sections(shown, maze, slots) if section is not None)]
    style, script = _asset("page.css"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        title=join(title),
        style=style,
        script=script,
        header=_header(title, shown, maze, sections),
        sections=Markup("\n").join(section.html() for section in sections),
        data=_data(maze, slots),
    )


def _sections(runs: list[RunSummary], maze: MazePicture | None, slots: dict[str, int]) -> list[Section | None]:
    first = []
    if maze is not None:
        first = [
            data_section(maze),
            policies_section(maze, slots),
            player_section(maze, slots),
            success_section(maze, slots),
        ]
    return [
        *first,
        curves_section(runs, slots),
        results_section(runs, slots),
        comparison_section(runs, slots),
        critic_section(runs, slots),
        training_section(runs, slots),
        models_section(runs),
        graph_section(runs),
        again_section(runs),
        next_section(),
    ]


def _maze_labels(maze: MazePicture) -> list[str]:
    return [*maze.success, *maze.policies, *maze.rollouts]


def _header(title: str, runs: list[RunSummary], maze: MazePicture | None, sections: list[Section]) -> Markup:
    sentence = headline(runs, maze)
    links = (el("li", el("a", section.short, href=f"#{section.key}")) for section in sections)
    return join(
        el(
            "header",
            el("p", "State-constrained offline reinforcement learning", class_="kicker"),
            el("h1", title),
            el("p", sentence, class_="result") if sentence else None,
            el("p", unstitched, class_="note") if (unstitched := nothing_to_stitch(runs)) else None,
            facts(runs, maze),
        ),
        el("nav", el("ul", *links), aria_label="Sections"),
    )


def _data(maze: MazePicture | None, slots: dict[str, int]) -> Markup:
    if maze is None or not any(maze.rollouts.values()):
        return Markup("")
    return el("script", player_data(maze, slots), type="application/json", id="rollouts")


def _asset(name: str) -> str:
    return (resources.files("stacq.report") / name).read_text("utf-8")


def _digest(text: str) -> str:
    """The name by which a content security policy knows an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

"""How to do it again, and where to go next."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from stacq.report.page_html import Section, blocks, lede, note, pairs
from stacq.report.page_svg import DASH, Markup, el
from stacq.runs.summary import RunSummary

SAME = ("command", "python", "platform", "cores", "device", "versions", "git_revision")  # of runs done together


def again_section(runs: Sequence[RunSummary]) -> Section | None:
    """Command, versions and configuration of every run; runs of one command share a card."""
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        if run.config or run.environment:
            facts = {key: run.environment.get(key) for key in SAME}
            groups.setdefault(json.dumps(facts, sort_keys=True, default=str), []).append(run)
    if not groups:
        return None
    text = "The same command with the same versions draws the same random numbers."
    cards = (_card(group) for group in groups.values())
    return Section("again", "Do it again", "Do it again", blocks(lede(text), *cards))


def _short(revision: object) -> str | None:
    """Twelve digits name a commit; what follows says that the tree was changed."""
    digits, *changed = str(revision or "").split("-")
    return "-".join([digits[:12], *changed]) or None


def _card(runs: Sequence[RunSummary]) -> Markup:
    environment = runs[0].environment
    command = command_text(environment.get("command"))
    known = {
        "device": environment.get("device"),
        "Python": environment.get("python"),
        "platform": environment.get("platform"),
        "cores": environment.get("cores"),
        "revision": _short(environment.get("git_revision")),
        "started": environment.get("started") if len(runs) == 1 else None,
    }
    versions = environment.get("versions")
    stopped = [f"{_title(run)} was stopped by {run.stopped}" for run in runs if run.stopped]
    return el(
        "div",
        el("pre", el("code", command)) if command else None,
        pairs({key: str(value) for key, value in known.items() if value is not None}),
        _details("Versions", _flat(versions)) if isinstance(versions, Mapping) and versions else None,
        *(_details(f"Configuration: {_title(run)}", _flat(run.config)) for run in runs if run.config),
        note(f"* {'; '.join(stopped)}. What was written until then is shown.") if stopped else None,
        class_="card stack",
    )


def _title(run: RunSummary) -> str:
    return f"{run.label} on {run.dataset}" if run.dataset else run.label


def _details(summary: str, values: Iterator[tuple[str, str]]) -> Markup:
    return el("details", el("summary", summary), pairs(dict(values), "config"))


def command_text(command: object) -> str:
    """A command as one would type it: of the program's path only the name counts."""
    if isinstance(command, str):
        return command
    if not isinstance(command, list) or not command:
        return ""
    program, *rest = map(str, command)
    name = PurePath(program).name
    return shlex.join(["python", "-m", "stacq", *rest] if name == "__main__.py" else [name, *rest])


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings under dotted names."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _plain(value)


def _plain(value: object) -> str:
    if value is None or value != value:
        return DASH
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def next_section() -> Section:
    """What a newcomer may try now."""
    cards = (
        _step(
            "Your own data",
            "stacq data inspect logs.npz",
            "A table of logs is enough: docs/own-data.md walks from a CSV file to a trained policy.",
        ),
        _step(
            "D4RL",
            "stacq data download hopper-medium-v2",
            "The benchmark’s own files, fetched, checked and read without d4rl, gym or mujoco-py: docs/data.md.",
        ),
        _step(
            "How it works",
            "stacq maze",
            "The theory on a small maze in docs/tabular.md; models in docs/dynamics.md, sets in docs/reachability.md.",
        ),
    )
    return Section("next", "Next", "Where to go next", el("div", *cards, class_="next"))


def _step(title: str, command: str, text: str) -> Markup:
    return el("div", el("h3", title), el("pre", el("code", command)), el("p", text), class_="card")

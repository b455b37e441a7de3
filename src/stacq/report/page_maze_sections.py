"""What a page says about a maze."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stacq.core.types import Float64s
from stacq.report.page_charts import interval_bar, scale_around
from stacq.report.page_data import MazePicture
from stacq.report.page_html import Section, blocks, head_row, lede, named, note, row, scale_head, table
from stacq.report.page_maze import (
    data_figure,
    data_legend,
    drawn_stitches,
    player_figure,
    policy_figure,
    success_by_cell,
)
from stacq.report.page_results import Slots, described, spread_cell
from stacq.report.page_svg import Markup, el, percent, shown, span
from stacq.report.statistics import Estimate, difference, is_pair
from stacq.report.tables import plural

SPEEDS = {"0.25": "¼×", "0.5": "½×", "1": "1×", "2": "2×"}


def data_section(maze: MazePicture) -> Section:
    """The maze, what was logged in it, and where trajectories can be stitched."""
    side = el("div", *_data_words(maze), class_="stack")
    body = el("div", el("figure", data_figure(maze), class_="card"), side, class_="split")
    return Section("data", "The data", "The maze and its data", body)


def _data_words(maze: MazePicture) -> list[Markup]:
    words = []
    layers = []
    if maze.trajectories:
        count = len(maze.trajectories)
        logged = "One logged trajectory" if count == 1 else f"{count} logged trajectories"
        if maze.recordings > count:
            logged = f"{count} of {maze.recordings:,} logged trajectories"
        text = (
            f"{logged} in a maze with solid walls. Nothing else is known to the learners: they never try a step "
            "themselves."
        )
        words.append(el("p", text))
        layers.append(_layer("show-trajectories", "Trajectories"))
    if len(maze.stitches):
        words.append(el("p", _stitch_words(maze)))
        layers.append(_layer("show-stitches", "Stitches"))
    if layers:
        words.append(data_legend(maze))
        words.append(el("div", *layers, class_="layers", role="group", aria_label="Show in the maze"))
    return words


def _stitch_words(maze: MazePicture) -> str:
    total, drawn = len(maze.stitches), len(drawn_stitches(maze))
    text = (
        "Stitches are steps that nobody took, from a state of one trajectory to a state of another, which the "
        "learned dynamics hold to be possible. They are what lets a policy change trajectories."
    )
    return f"{text} {drawn:,} of {total:,} are drawn." if drawn < total else text


def _layer(key: str, text: str) -> Markup:
    return el("label", el("input", type="checkbox", id=key, checked=True), text, class_="toggle")


def policies_section(maze: MazePicture, slots: Slots) -> Section | None:
    """One field of arrows next to the other."""
    if not maze.policies:
        return None
    cards = [_policy_card(maze, label, slots[label]) for label in maze.policies]
    tinted = any(maze.rollouts.get(label) for label in maze.policies)
    key = el(
        "ul",
        el("li", el("i", class_="patch arrives", aria_hidden="true"), "rollouts from here arrive"),
        el("li", el("i", class_="patch fails", aria_hidden="true"), "they do not"),
        class_="legend",
    )
    text = "Each arrow is the step that a policy takes there; a longer arrow is a longer step."
    if not any(len(arrows) for arrows in maze.policies.values()):
        text = "Where the policies get from: the colour of a cell is what became of the rollouts that began there."
    kind = "grid narrow" if len(cards) > 1 else "solo"
    body = blocks(lede(text), key if tinted else None, el("div", *cards, class_=kind))
    return Section("policies", "Policies", "What each policy does", body)


def _policy_card(maze: MazePicture, label: str, slot: int) -> Markup:
    shares = success_by_cell(maze.rollouts.get(label, ()))
    always = sum(share == 1 for share in shares.values())
    often = "always arrives" if len(maze.rollouts.get(label, ())) > len(shares) else "arrives"
    remark = f"{often} from {always} of {len(shares)} start cells" if shares else ""
    caption = el("figcaption", el("h3", named(label, slot)), el("span", remark, class_="note") if remark else None)
    return el("figure", caption, policy_figure(maze, label, slot), class_="card")


def player_section(maze: MazePicture, slots: Slots) -> Section | None:
    """Rollouts from all start cells at once; without JavaScript a sentence stands in for the player."""
    labels = [label for label, rollouts in maze.rollouts.items() if rollouts]
    if not labels:
        return None
    cells = len({(int(x), int(y)) for label in labels for (x, y), _, _ in maze.rollouts[label]})
    text = (
        f"Every policy sets out from all {plural(cells, 'start cell')} at once. A dot is on its way, a cross marks "
        "where an episode ended without the goal. Play, or drag the time."
    )
    panels = [_panel(maze, index, label, slots[label]) for index, label in enumerate(labels)]
    player = el(
        "div", el("div", *panels, class_="stage"), _controls(labels), id="player", class_="card player", hidden=True
    )
    without = el("noscript", note("Playing the rollouts needs JavaScript; everything else on this page does not."))
    return Section("rollouts-section", "Rollouts", "Watch them go", blocks(lede(text), player, without))


def _panel(maze: MazePicture, index: int, label: str, slot: int) -> Markup:
    caption = el("figcaption", named(label, slot), el("output", aria_live="off"))
    canvas = el("canvas", class_=f"s{slot}", aria_hidden="true")
    screen = el("div", player_figure(maze, label), canvas, class_="screen")
    return el("figure", caption, screen, data_method=index)


def _controls(labels: Sequence[str]) -> Markup:
    play = el(
        "button", el("i", aria_hidden="true"), el("span", "Play"), type="button", class_="play", aria_pressed="false"
    )
    slider = el("input", type="range", min=0, max=1, step=1, value=1, aria_label="Time")
    options = (el("option", text, value=value, selected=value == "1") for value, text in SPEEDS.items())
    speed = el("label", "Speed", el("select", *options), class_="speed")
    boxes = (
        el("label", el("input", type="checkbox", checked=True, data_method=index), label, class_="toggle")
        for index, label in enumerate(labels)
    )
    methods = el("fieldset", el("legend", "Methods shown"), *boxes)
    scrub = el("div", slider, el("span"), class_="scrub")
    return el("div", play, scrub, speed, methods, class_="controls", role="group", aria_label="Player")


def success_section(maze: MazePicture, slots: Slots) -> Section | None:
    """Success of every method next to the exact answers, and how certain the lead of the first one is."""
    shares = {label: np.asarray(values, dtype=np.float64) for label, values in maze.success.items() if len(values)}
    if not shares:
        return None
    still = [label for label, values in shares.items() if len(values) > 1 and float(np.ptp(values)) == 0]
    body = blocks(
        lede("The share of start cells from which a policy reaches the goal, over seeds."),
        _success_table(maze, shares, slots),
        _lead_table(shares, slots),
        note(f"No two seeds of {' or '.join(still)} differ, so the interval has no width.") if still else None,
    )
    return Section("success", "Success", "Who reaches the goal", body)


def _success_table(maze: MazePicture, shares: Mapping[str, Float64s], slots: Slots) -> Markup:
    rows = [_success_row(label, values, slots[label]) for label, values in shares.items()]
    for index, (label, share) in enumerate(maze.tabular.items()):
        bar = el("td", interval_bar(Estimate(share, math.nan, math.nan), 0, 1, None), class_="bar-cell")
        strong = el("strong", percent(share))
        name = named(f"{label}, tabular", None)
        rows.append(row(name, strong, "exact", shown(None), shown(None), bar, class_=None if index else "break"))
    head = head_row("Method", "Success", "95% interval", "Std", "Seeds", scale_head("0", "100%"))
    return table("Success by method", head, rows)


def _success_row(label: str, values: Float64s, slot: int) -> Markup:
    runs, mean, std, low, high = described(values)
    low, high = (max(low, 0.0), min(high, 1.0)) if math.isfinite(low) else (low, high)  # a share lies between
    sure, bar = span(100 * low, 100 * high, 1, "%"), interval_bar(Estimate(mean, low, high), 0, 1, slot)
    if is_pair(values):
        sure = spread_cell(100 * values, unit="%")
        bar = interval_bar(Estimate(mean, math.nan, math.nan), 0, 1, slot, points=values.tolist())
    return row(
        named(label, slot),
        el("strong", percent(mean)),
        sure,
        shown(100 * std),
        str(runs),
        el("td", bar, class_="bar-cell"),
    )


def _lead_table(shares: Mapping[str, Float64s], slots: Slots) -> Markup | None:
    first, *others = [label for label, values in shares.items() if np.isfinite(values).all()] or [""]
    if not others:
        return None
    leads = {other: _lead(shares[first], shares[other]) for other in others}
    low, high = scale_around(list(leads.values()), 0.0)
    ends = (shown(100 * low, 0), shown(100 * high, 0))
    rows = [
        row(
            el("span", named(first, slots[first]), f" over {other}", class_="duel"),
            el("strong", shown(100 * lead.value)),
            span(100 * lead.low, 100 * lead.high) if math.isfinite(lead.low) else _few(shares[first], shares[other]),
            _verdict(lead),
            el("td", interval_bar(lead, low, high, slots[first], 0.0), class_="bar-cell"),
        )
        for other, lead in leads.items()
    ]
    head = head_row("Lead", "Points", "95% interval (Welch)", "Excludes zero", scale_head(*ends))
    return table(f"Lead of {first}, in percentage points", head, rows)


def _lead(x: Float64s, y: Float64s) -> Estimate:
    """With Welch's interval, unless one side has two seeds: it would be as wide as the scale."""
    found = difference(x, y)
    return found if min(len(x), len(y)) > 2 else Estimate(found.value, math.nan, math.nan)


def _few(x: Float64s, y: Float64s) -> str:
    return "two seeds" if min(len(x), len(y)) == 2 else shown(None)


def _verdict(lead: Estimate) -> str:
    if not math.isfinite(lead.low):
        return shown(None)
    return "yes" if lead.low > 0 or lead.high < 0 else "no"

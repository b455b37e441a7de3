"""The page's section about policies that were judged from the data alone."""

from stacq.judgement.verdict import Interval, Judgement, Report
from stacq.report.judge_text import interval_text, number_text
from stacq.report.page_html import Section, blocks, head_row, lede, note, row, table
from stacq.report.page_svg import Markup, el

ABOUT = (
    "No environment was at hand, so these values are estimates from the data alone. Critics (fitted Q evaluation) "
    "learn them from the data’s own steps; rollouts let each policy act in the learned models for as long as these "
    "agree. Policies are ranked by the low end of the rollouts and by the share of their actions that are near the "
    "data’s. A policy whose actions are unlike the data’s cannot be "
    "judged, and is never recommended."
)


def judge_section(report: Report) -> Section:
    """Ranking, intervals, verdicts, advice."""
    head = head_row(
        "Policy",
        "Value",
        "95% interval",
        "Critics",
        "Rollouts",
        "Trusted steps",
        "Far actions",
        "Far states",
        "Verdict",
    )
    caption = f"Value at the starts of episodes, discount {report.discount:g}; best first"
    own = row("the data itself", el("strong", number_text(report.data.value)), _ends(report.data), *[""] * 5, "")
    body = blocks(
        lede(f"{_capital(report.advice)}."),
        table(caption, head, [own], [_row(each) for each in report.judged]),
        el("dl", *(_reason(each) for each in report.judged), class_="pairs"),
        note(ABOUT),
        *(note(f"{_capital(text)}.") for text in report.notes),
    )
    return Section("judgement", "Judgement", "What the policies are worth", body)


def _row(each: Judgement) -> Markup:
    return row(
        each.name,
        el("strong", number_text(each.value.value)),
        _ends(each.value),
        interval_text(each.critics),
        "" if each.rollouts is None else interval_text(each.rollouts),
        "" if each.horizon is None else f"{each.horizon:,.0f}",
        f"{each.far_actions:.0%}",
        "" if each.far_states is None else f"{each.far_states:.0%}",
        each.verdict,
    )


def _reason(each: Judgement) -> Markup:
    return el("div", el("dt", each.name), el("dd", f"{each.verdict}: {each.because}"))


def _ends(found: Interval) -> str:
    return f"{number_text(found.low)} to {number_text(found.high)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

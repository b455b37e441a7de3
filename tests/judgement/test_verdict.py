"""From numbers to words."""

from dataclasses import replace

import pytest

from stacq.judgement.verdict import (
    Interval,
    Judgement,
    Word,
    careful_value,
    chance_note,
    recommendation,
    together,
    verdict_of,
)

DATA = Interval(10.0, 9.0, 11.0)


def judgement(name: str, value: float, verdict: Word = "as good", careful: float | None = None) -> Judgement:
    near = Interval(value, value - 1, value + 1)
    return Judgement(
        name,
        near,
        value if careful is None else careful,
        near,
        None,
        near,
        100.0,
        0.0,
        0.0,
        verdict,
        "a reason",
    )


@pytest.mark.parametrize(
    ("value", "far", "horizon", "word"),
    [
        (Interval(13, 11.5, 15), 0.0, 100.0, "better"),
        (Interval(13, 10.5, 15), 0.0, 100.0, "as good"),  # the data's own value is no exact number either
        (Interval(5, 3, 8), 0.0, 100.0, "worse"),
        (Interval(10, 8, 12), 0.0, 100.0, "as good"),
        (Interval(13, 12, 15), 0.9, 100.0, "not judged"),  # critics may claim anything of unlike actions
        (Interval(13, 12, 15), 0.0, 3.0, "not judged"),  # the models gave up at once
        (Interval(13, 12, 15), 0.0, None, "better"),  # without models critics decide
    ],
)
def test_verdicts(value: Interval, far: float, horizon: float | None, word: str) -> None:
    found, because = verdict_of(value, DATA, far, horizon, 0.99)
    assert found == word and because


def test_a_policy_that_was_not_judged_is_never_recommended() -> None:
    ruined = judgement("ruined", 99.0, "not judged")
    assert recommendation([ruined], DATA) == (None, "none is better than the data, as far as the data can tell")
    name, advice = recommendation([ruined, judgement("good", 12.0)], DATA)
    assert name == "good" and "meets the data's" in advice


def test_none_is_recommended_below_the_data_and_the_careful_one_above() -> None:
    assert recommendation([judgement("a", 9.5), judgement("b", 3.0, "worse")], DATA)[0] is None
    risky, sure = judgement("risky", 20.0, careful=1.0), judgement("sure", 12.0, careful=11.0)
    assert recommendation([risky, sure], DATA)[0] == "sure"
    assert "whole interval" in recommendation([replace(sure, verdict="better")], DATA)[1]


def test_a_bold_claim_from_further_down_is_not_recommended() -> None:
    """Critics alone put a ruined policy above the data; the first in rank does not beat it, so none is taken."""
    first, bold = judgement("first", 9.5, careful=9.0), judgement("bold", 30.0, careful=-5.0)
    assert recommendation([first, bold], DATA)[0] is None


def test_both_ways_must_be_convinced() -> None:
    critics, rollouts = Interval(10, 8, 12), Interval(5, 2, 20)
    assert careful_value(critics, rollouts, 0.5, data=8.0, worst=0.0) == 2 / 2 + 4 / 2
    assert careful_value(critics, Interval(5, -90, 20), 1.0, data=8.0, worst=-4.0) == -4 / 2 + 8 / 2
    assert careful_value(critics, None, 0.0, data=8.0, worst=-4.0) == 8 / 2 - 4 / 2
    assert together([critics, rollouts], 10.0, 1.0) == Interval(10.0, 1, 21)


def test_small_sets_carry_a_warning() -> None:
    assert "0.74" in chance_note(8) and "0.62" in chance_note(11)
    assert chance_note(1) == "" and chance_note(50) == "" and "chance" in chance_note(3)

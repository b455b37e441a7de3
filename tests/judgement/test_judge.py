"""The whole judgement, through the library and the command line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stacq
from judge_cases import QUICK, always, chain, every_kind, models
from stacq.cli import parse
from stacq.judgement.candidates import Candidate, candidates_from
from stacq.judgement.checks import far_share, support_of
from stacq.judgement.config import JudgeConfig
from stacq.judgement.judging import judged
from stacq.judgement.verdict import Report

FEW = dataclasses.replace(QUICK, fqe=dataclasses.replace(QUICK.fqe, steps=20, first_steps=20))


@pytest.fixture(scope="module")
def report() -> Report:
    both = {"right": always(0.9), "left": always(-0.9)}
    return stacq.judge(both, chain(), QUICK, dynamics=models())


def test_the_better_policy_comes_first_and_is_recommended(report: Report) -> None:
    right, left = report.judged
    assert (right.name, left.name) == ("right", "left")
    assert right.value.low <= 0.84 <= right.value.high  # the mean over starts is about 0.86
    assert left.value.value < 0.2 and left.verdict != "better"
    assert report.recommended == "right"
    assert any("2 policies" in note for note in report.notes)


def test_a_judgement_repeats(report: Report) -> None:
    again = stacq.judge({"right": always(0.9)}, chain(), QUICK, dynamics=models())
    assert again.judged[0] == report.judged[0]


@pytest.mark.parametrize("kind", ["mlp", "gaussian", "chosen"])
def test_every_kind_of_policy_is_judged(kind: str) -> None:
    found = judged(chain(), [Candidate(kind, every_kind()[kind], states=True)], models(), FEW).judged[0]
    numbers = [found.careful, *found.value, found.far_actions, found.far_states, found.horizon]
    assert np.isfinite(np.array(numbers, dtype=float)).all()
    assert found.critics_of_states is not None and found.rollouts is not None
    assert found.value.low <= found.value.value <= found.value.high


def test_without_models_critics_judge_alone() -> None:
    found = judged(chain(), [Candidate("right", always(0.9))], None, FEW)
    assert found.judged[0].rollouts is None and found.judged[0].horizon is None
    assert any("no models" in note for note in found.notes)


def test_a_policy_that_is_too_slow_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stacq.judgement.judging.affordable", lambda policy, observations, seconds: 3)
    found = judged(chain(), [Candidate("planner", always(0.9))], models(), FEW)
    assert not found.judged and found.recommended is None
    assert "planner is not judged: it acts too slowly" in found.notes[0]


def test_far_points_are_told_from_near_ones() -> None:
    rng = np.random.default_rng(0)
    points, episode = rng.standard_normal((400, 3)).astype(np.float32), np.repeat(np.arange(20), 20)
    support = support_of(points, episode)
    assert far_share(support, points[support.asked], points, episode) == pytest.approx(0.01, abs=0.01)
    assert far_share(support, points[support.asked] + 30, points, episode) == 1


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        ([], {}, "no policy to judge"),
        ([3], {}, "a policy is int"),
        ([always(0.5)], {"discount": 1.0}, "discount is 1.0"),
        ([always(0.5)], {"discont": 0.9}, "discont"),
        ([always(0.5)], {"seed": -1}, "seed -1"),
        ([always(0.5)], {"starts": 0}, "starts is 0"),
        ([stacq.Policy.from_mlp([np.zeros((2, 1))], [np.zeros(1)])], {}, "observations of 2 and actions of 1"),
    ],
)
def test_wrong_input_is_told(policies: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(stacq.InputError, match=message):
        stacq.judge(policies, chain(), **options)


def test_policies_of_no_run_need_data(tmp_path: Path) -> None:
    with pytest.raises(stacq.InputError, match="not known which data"):
        stacq.judge(always(0.5))
    with pytest.raises(stacq.InputError, match="at least 10 episodes"):
        stacq.judge(always(0.5), chain(episodes=5), dynamics=models())


def test_names_that_come_twice_get_a_number(tmp_path: Path) -> None:
    always(0.5).save(tmp_path / "a.safetensors")
    assert [each.name for each in candidates_from([tmp_path / "a.safetensors"] * 2)] == ["a", "a (2)"]


def test_the_command_line_writes_a_page_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    data = chain()
    names = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    np.savez("logs.npz", **{name: getattr(data, name) for name in names})
    for name, action in {"right": 0.9, "left": -0.9}.items():
        always(action).save(f"{name}.safetensors")
    models().save("dynamics")
    files = ["right.safetensors", "left.safetensors"]
    verb = parse(["judge", *files, "--data", "logs.npz", "--dynamics", "dynamics", "--discount", "0.9"])
    assert verb.options == JudgeConfig(discount=0.9)
    dataclasses.replace(verb, options=QUICK).run()
    printed = capsys.readouterr().out
    assert "advice: " in printed and "right" in printed and "page: judgement/judge.html" in printed
    found = json.loads(Path("judgement/judge.json").read_text())
    assert next(each["name"] for each in found["judged"]) == "right"
    page = Path("judgement/judge.html").read_text()
    assert "What the policies are worth" in page and "Trusted steps" in page

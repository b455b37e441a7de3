"""The mapping that is proposed for a table."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stacq import InputError, load
from stacq.cli import main
from stacq.data.proposal import patterns, proposal, quoted
from tables import HEADER, text


def proposed(content: str, name: str = "logs.csv") -> dict[str, Any]:
    Path(name).write_text(content, encoding="utf-8")
    return tomllib.loads(proposal(Path(name)))


def test_what_is_proposed_can_be_read() -> None:
    found = proposed(text(header=["episode_id", "timestamp", "obs_0", "obs_1", "action", "reward", "done"]))
    assert found == {
        "episode": "episode_id",
        "time": "timestamp",
        "observations": ["obs_0", "obs_1"],
        "actions": ["action"],
        "reward": "reward",
        "terminal": "done",
    }
    assert load("logs.csv", columns=found).episodes == 2
    assert "only time was up" in proposal(Path("logs.csv"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (["run", "t", "angle", "speed", "u", "r", "truncated"], {"observations": ["angle", "speed"], "actions": ["u"]}),
        (
            ["ep", "step", "s[0]", "s[1]", "a[0]", "Reward", "DONE"],
            {"observations": ["s[0]", "s[1]"], "reward": "Reward"},
        ),
        (
            ["ep", "step", "obs0", "next_obs0", "cmd", "r", "x"],
            {"next_observations": ["next_obs0"], "actions": ["cmd"]},
        ),
        (
            ["episode_index", "time (s)", "o", "s_1", "a", "rew", "last"],
            {"episode": "episode_index", "timeout": "last"},
        ),
    ],
)
def test_usual_names_are_known(header: list[str], expected: dict[str, Any]) -> None:
    found = proposed(text(header=header))
    assert {key: found.get(key) for key in expected} == expected


def test_what_is_not_known_is_asked() -> None:
    found = proposed("voltage,label\n1,a\n2,b\n")
    assert found == {"observations": ["voltage"], "actions": []}
    said = proposal(Path("logs.csv"))
    assert "# reward" in said and "# Not used: label" in said and "states alone are not enough" in said
    with pytest.raises(InputError, match="states alone"):
        load("logs.csv", columns=found)


def test_bounds_choices_and_decimal_commas_are_noticed() -> None:
    found = proposed("obs;action;reward\n0,5;-2;1\n0,7;3;1\n")
    assert (found["decimal"], found["action_low"], found["action_high"]) == (",", [-2.0], [3.0])
    assert "discrete actions" in proposal(Path("logs.csv"))
    assert load("logs.csv", columns=found).observations.tolist() == [[0.5], [0.7]]


def test_many_names_become_a_pattern() -> None:
    names = [f"obs_{index}" for index in range(12)]
    assert patterns(names, [*names, "action"]) == ["obs_*"]
    assert patterns(names, [*names, "obs_time"]) == names
    assert patterns(names[:3], names[:3]) == names[:3]


@settings(max_examples=60)
@given(st.text(max_size=20))
def test_any_name_is_quoted_as_toml(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(f"x = {quoted(name)}") == {"x": name}


def test_inspect_proposes_and_then_reads(capsys: pytest.CaptureFixture[str]) -> None:
    Path("logs.csv").write_text(text(header=["run", "t", "x", "v", "u", "reward", "done"]))
    main(["data", "inspect", "logs.csv"])
    Path("columns.toml").write_text(capsys.readouterr().out)
    main(["data", "inspect", "logs.csv", "--columns", "columns.toml", "--reward", "-abs(next(x))", "--out", "x.png"])
    said = capsys.readouterr().out
    assert "3 rows in 2 episodes" in said and "0 x" in said and "1 v" in said and "0 u" in said
    options = [
        "--episode-column",
        "run",
        "--observation-columns",
        "x",
        "v",
        "--action-columns",
        "u",
        "--reward",
        "reward",
    ]
    main(["data", "convert", "logs.csv", "logs.hdf5", *options, "--time-column", "t", "--terminal", "done == 1"])
    back = load("logs.hdf5")
    assert (back.observation_names, back.action_names, len(back)) == (("x", "v"), ("u",), 5)
    assert back.fingerprint == load("logs.csv", columns="columns.toml").fingerprint
    assert HEADER == ["run", "t", "x", "v", "u", "reward", "done"]


def test_options_of_tables_fit_no_other_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "inspect", "stacq/maze-stitching-v0", "--terminal", "obs_0 > 1"])
    assert "no columns to map" in capsys.readouterr().err

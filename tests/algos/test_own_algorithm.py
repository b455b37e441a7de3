"""An algorithm from outside the package: the guide's example, trained, evaluated and reported in both ways."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stacq import Algorithm, algos
from stacq.algos import bc, td3bc
from stacq.algos.algorithm import Needs, Variant
from stacq.core.errors import InputError

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "own-algorithm.md"
SHORT = ("--steps", "60", "--eval-every", "20", "--episodes", "2", "--seeds", "2")


def blocks(language: str) -> list[str]:
    text = GUIDE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(*command: object) -> str:
    words = [sys.executable, *map(str, command)]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_guides_algorithm_trains_and_is_reported(tmp_path: Path) -> None:
    whole, in_python = blocks("python")
    assert len(whole.strip().splitlines()) < 80
    (tmp_path / "awr.py").write_text(whole)
    (command,) = blocks("sh")[0].splitlines()
    words = command.replace("awr.py", str(tmp_path / "awr.py")).split()
    told = run("-m", *words, *SHORT, "--out", tmp_path / "run")
    assert "Weighted cloning, 2 seeds of 60 steps" in told and "final policies" in told
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + in_python.replace(
        "seeds=2", "seeds=2, steps=60, eval_every=20, episodes=2"
    )
    assert re.fullmatch(r"\[-?[\d.]+, -?[\d.]+\]\n", run("-c", script))
    run("-m", "stacq", "report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert "Weighted cloning" in (tmp_path / "page.html").read_text()
    assert "Weighted cloning, seed 1: return" in run("-m", "stacq", "evaluate", tmp_path / "run", "--episodes", "1")


def described(**changes: Any) -> Algorithm:
    return dataclasses.replace(bc.ALGORITHM, name="mine", **changes)


def test_registered_ones_are_known_and_replaced() -> None:
    first, second = described(), described(title="Mine")
    try:
        algos.register(first)
        assert algos.find("mine") is algos.register(first) and "mine" in algos.names()
        algos.register(second)
        assert algos.find("mine") is second
    finally:
        algos._REGISTERED.clear()


def test_what_cannot_be_registered_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="algorithm of the package"):
        algos.register(bc.ALGORITHM)
    with pytest.raises(InputError, match=r"stacq\.Algorithm"):
        algos.register(bc)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no such file"):
        algos.find(str(tmp_path / "none.py"))
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(InputError, match="has no ALGORITHM"):
        algos.find(str(tmp_path / "empty.py"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "My Own"}, "no plain word"),
        ({"Config": object}, "no frozen dataclass"),
        ({"small": {"setps": 3}}, "no field setps"),
        ({"variants": {"paper": Variant("", {"alpha": 1.0})}}, "no field alpha"),
        ({"published": {"hopper": {"beta": 1.0}}}, "no field beta"),
        ({"needs": Needs(reachable=True)}, "no field slots"),
        ({"value": td3bc.value}, "no field discount"),
        ({"recommended": {"": "best"}}, "none of its variants"),
    ],
)
def test_a_wrong_description_is_refused_when_it_is_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(bc.ALGORITHM, **changes)

"""The attack must see what it is there for: each verdict on a case that has earned it, and none on one that has not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attack import ROOT, mutations
from attack.commands import command_line
from attack.kills import spread
from attack.options import verbs
from attack.processes import Answer, judged
from attack.trees import compared, snapshot, torn
from attack.verdict import Finding, Kind

FINE = Answer(0, "done\n", "", 1.0, 1 << 20)
TRACE = "Traceback (most recent call last):\n  File 'x.py', line 3\nKeyError: 'a'\n"

WRITER = """
import os, sys
from pathlib import Path
from attack.killing import watch
folder, kill_at = Path(sys.argv[1]), int(sys.argv[2])
watch(str(folder), kill_at, str(folder.with_name("tally")))
(folder.parent / "elsewhere").write_text("not counted")
(folder / "new").mkdir()
with open(folder / "new" / "half", "w") as handle:
    handle.write("text")
os.replace(folder / "new" / "half", folder / "whole")
(folder / "whole").unlink()
(folder / "new").rmdir()
"""
POINTS = ["os.mkdir", "before open", "opened", "os.rename", "os.remove", "os.rmdir"]


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (FINE, []),
        (Answer(2, "", "error: no such file\n", 1.0, 0), []),
        (Answer(1, "", TRACE, 1.0, 0), [Kind.TRACEBACK]),
        (Answer(-11, "", "", 1.0, 0), [Kind.CRASH]),
        (Answer(3, "", "", 1.0, 0), [Kind.CODE]),
        (Answer(130, "", "stopped", 1.0, 0), [Kind.CODE]),
        (Answer(130, "", "stopped", 1.0, 0, interrupted=True), []),
        (Answer(-9, "", "", 1.0, 0, interrupted=True, hung=True), [Kind.HANG]),
        (Answer(0, "", "", 1.0, 4 << 30), [Kind.MEMORY]),
        (Answer(0, "", "", 1.0, 0, orphans=2), [Kind.LEFTOVER]),
    ],
)
def test_every_ending_has_its_verdict(answer: Answer, kinds: list[Kind]) -> None:
    assert [finding.kind for finding in judged(answer, "a command")] == kinds


def test_findings_of_one_cause_look_alike() -> None:
    text = 'File "/a/stacq/x.py", line {}, in f\nValueError: {} is not {}'
    first, second = (Finding(Kind.TRACEBACK, "", text.format(7, *each)) for each in ((1, 2), (3, 4)))
    other = Finding(Kind.TRACEBACK, "", text.format(8, 1, 2))
    assert first.signature == second.signature != other.signature


def test_trees_are_compared_by_what_is_promised(tmp_path: Path) -> None:
    for name, moment in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"step": 1, "time": moment}) + "\n")
        (tmp_path / name / "data").write_text("same")
    first, second = snapshot(tmp_path / "a"), snapshot(tmp_path / "b")
    assert first == second and not compared(first, second, "")
    (tmp_path / "b" / ".data.part").touch()
    (tmp_path / "b" / "data").write_text("half")
    after = snapshot(tmp_path / "b")
    assert [each.kind for each in compared(after, first, "")] == [Kind.LEFTOVER, Kind.STATE]
    assert [each.kind for each in torn(after, {}, first, "")] == [Kind.STATE]
    assert not torn(after, {"data": after["data"]}, first, "")


def written(folder: Path, kill_at: int) -> tuple[int, list[str]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, str(folder), str(kill_at)]
    code = subprocess.run(command, env=environment, timeout=60, check=False).returncode
    lines = folder.with_name("tally").read_text(encoding="utf-8").splitlines()
    return code, [line.split(" ", 1)[1].rpartition(" ")[0] for line in lines]


def test_every_file_operation_below_the_folder_is_a_point(tmp_path: Path) -> None:
    """And a process dies exactly there: what comes before is done, what comes after is not."""
    folder = tmp_path / "watched"
    assert written(folder, 0) == (0, POINTS)
    assert written(folder, 4) == (-signal.SIGKILL, POINTS[:4])
    assert [path.name for path in folder.rglob("*")] == ["new", "half"]
    assert (folder / "new" / "half").read_text() == "text"


@pytest.mark.parametrize("count", [1, 2, 7, 64, 100])
def test_points_are_spread_and_none_is_left_out(count: int) -> None:
    order = spread(count)
    assert sorted(order) == list(range(count))
    if count > 7:
        assert max(order[:2]) - min(order[:2]) > count // 3


def test_every_option_of_every_verb_is_drawn() -> None:
    known = {(verb.words, option.flag) for verb in verbs() for option in verb.options if not option.positional}
    assert (("train",), "--top") in known and (("data", "convert"), "--force") in known
    rng, seen = np.random.default_rng(0), Counter[str]()
    for _ in range(3000):
        seen.update(word.replace("--no-", "--") for word in command_line(rng) if word.startswith("--"))
    assert {flag for _, flag in known} <= seen.keys()


def test_damage_keeps_the_form(tmp_path: Path) -> None:
    """JSON stays JSON, an archive stays an archive, and something is always different."""
    document = json.dumps({"a": [1, 2, {"b": "c"}], "d": None}).encode()
    path = tmp_path / "arrays.npz"
    np.savez(path, x=np.arange(6.0), y=np.ones((2, 3)))
    archive = path.read_bytes()
    for number in range(60):
        rng = np.random.default_rng(number)
        odd = mutations.odd_json(document, rng)
        if b"[" * 50 not in odd:  # nested too deeply to be parsed here either
            json.loads(odd)
        assert mutations.odd_archive(archive, rng)[:2] == b"PK"
    assert len({mutations.odd_json(document, np.random.default_rng(number)) for number in range(60)}) > 30


def test_a_case_repeats_by_its_number(tmp_path: Path) -> None:
    from attack.bench import Bench

    bench = Bench(tmp_path, 3)
    first, again, other = (command_line(bench.rng("commands", number)) for number in (5, 5, 6))
    assert first == again != other

"""What the documents show is run, and what they point to exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_readmes_example_runs() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    assert len(code.strip().splitlines()) <= 12
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("Dataset('stacq/hopper-medium-v0@2000', 2,000 rows")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_walk_through_with_own_data_runs(tmp_path: Path) -> None:
    """Its Python as printed; its commands too, with fewer seeds and steps."""
    make_logs, act, check = blocks(ROOT / "docs" / "own-data.md", "python")
    stacq = [sys.executable, "-m", "stacq"]
    commands = [
        [sys.executable, "-c", make_logs],
        [*stacq, "data", "inspect", "logs.npz"],
        [*stacq, "train", "logs.npz", "--small", "--seeds", "1", "--steps", "200"],
        [sys.executable, "-c", act],
        [sys.executable, "-c", check],
    ]
    said = []
    for command in commands:
        answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert answer.returncode == 0, answer.stderr
        said.append(answer.stdout)
    assert said[-2].startswith("[")
    name, earned = said[-1].split()
    assert name.startswith("logs-stacq-robust-") and -100 < float(earned) < 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_waits_to_be_filled_in(page: Path) -> None:
    assert not re.findall(r"^[A-Z]{3,}$|TODO|TBD|FIXME", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    """Paths in backticks are files of the repository, or stand beside one named just before."""
    for name in re.findall(r"`((?:src|tests|benchmarks|experiments|docs)/[\w./-]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_shown_are_understood(page: Path) -> None:
    """Every `stacq ...` line of a shell block parses."""
    from stacq.cli import parse

    for block in blocks(page, "sh"):
        for line in block.splitlines():
            command = line.partition("#")[0].split()
            if command[:1] == ["stacq"] and "$" not in line:
                parse(command[1:])

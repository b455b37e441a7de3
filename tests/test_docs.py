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


def printed(code: str) -> str:
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.slow
def test_the_readmes_example_trains_a_policy() -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    assert len(code.strip().splitlines()) <= 10
    said = printed(code)
    assert said.startswith("Dataset('stacq/maze-stitching-v0', ")
    assert Path("policy.safetensors").exists()
    assert printed(code).splitlines()[-3:] == said.splitlines()[-3:]


@pytest.mark.slow
def test_a_training_stage_by_stage_says_only_what_is_printed() -> None:
    said = printed(blocks(ROOT / "docs" / "training.md", "python")[0])
    assert re.fullmatch(r"runs/\S+ \[[\d., ]+\]\n", said)


def test_a_policy_from_elsewhere_is_scored() -> None:
    said = printed(blocks(ROOT / "docs" / "training.md", "python")[1])
    assert len(said.strip("[]\n").split(", ")) == 4


@pytest.mark.slow
def test_dynamics_are_used_on_their_own() -> None:
    said = printed(blocks(ROOT / "docs" / "dynamics.md", "python")[0])
    assert Path("models", "manifest.json").exists() and len(said.splitlines()) == 9


def test_names_of_the_package_in_examples_exist() -> None:
    import stacq

    for page in PAGES:
        for name in re.findall(r"\bstacq\.([A-Za-z_]+)\(", page.read_text(encoding="utf-8")):
            assert hasattr(stacq, name), f"{page.name}: stacq.{name}"


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


def rows(records: str) -> list[list[str]]:
    """What `experiments/locomotion.py --table` prints of a file of records: dataset, run, steps, then numbers."""
    command = [sys.executable, "experiments/locomotion.py", "--table", f"experiments/results/{records}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in answer.stdout.splitlines()[2:]]


def test_tables_say_what_the_records_say() -> None:
    """Every full run has its row, number for number; of the small ones, mean, deviation and interval are told."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").replace("**", "")
    told = {re.sub(r"\s+", " ", line) for line in text.splitlines()}
    full, small = rows("training.jsonl"), rows("training-laptop.jsonl")
    assert len(full) >= 18 and len(small) >= 26
    for dataset, *_, _steps, final, interval, last_ten, best, lead, values in full:
        ending = f"| {final} | {interval} | {last_ten} | {best} | {lead} | {values} |"
        assert any(line.startswith(f"| {dataset} |") and line.endswith(re.sub(r"\s+", " ", ending)) for line in told)
    for _, run, _steps, final, interval, *_ in small[:17]:
        assert any(f"{final} ({interval})" in line for line in told), (run, final)

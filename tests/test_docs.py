"""What the documents show is run, and what they point to exists."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


@pytest.mark.slow
def test_a_sweep_with_a_number_per_seed_runs() -> None:
    from stacq.runs.directory import read_records

    assert printed(blocks(ROOT / "docs" / "training.md", "python")[2]) == ""
    assert {(record.seed, record.step) for record in read_records(Path("sweep"))} >= {
        (0, 1_000),
        (1, 1_000),
        (2, 1_000),
    }


def test_a_policy_from_elsewhere_is_scored() -> None:
    said = printed(blocks(ROOT / "docs" / "training.md", "python")[1])
    assert len(said.strip("[]\n").split(", ")) == 4


def test_a_policy_is_exported_and_run_as_the_page_about_robots_does() -> None:
    """Python, onnxruntime and the compiled C program agree to the digits that are printed."""
    import numpy as np

    from stacq import Policy

    page = ROOT / "docs" / "robot.md"
    rng = np.random.default_rng(0)
    Policy.from_mlp([rng.normal(size=(2, 8)), rng.normal(size=(8, 1))], [np.zeros(8), np.zeros(1)]).save(
        "policy.safetensors"
    )
    shape, names, action = printed(blocks(page, "python")[1]).splitlines()
    assert (shape, names) == ("(100, 1) True", '["angle", "speed"]')
    Path("joint.c").write_text(blocks(page, "c")[0])
    (command,) = re.findall(r"`(gcc [^`]+)`", page.read_text(encoding="utf-8"))
    subprocess.run([*command.split(), "-Wall", "-Wextra", "-Werror", "-pedantic"], check=True, timeout=60)
    assert subprocess.run(["./joint"], capture_output=True, text=True, check=True, timeout=60).stdout == f"{action}\n"


@pytest.mark.slow
def test_the_policy_for_a_robot_is_trained_within_its_bounds() -> None:
    import numpy as np

    from stacq import Policy

    assert printed(blocks(ROOT / "docs" / "robot.md", "python")[0]) == ""
    policy = Policy.load("policy.safetensors")
    actions = policy(np.array([[0.8, 0.0], [-0.8, 0.0], [0.3, 0.0]]))[:, 0]
    assert -2 <= actions[0] < actions[2] < 0 < actions[1] <= 2  # it pushes to zero, and harder from further away


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
    make_logs, _, act, check = blocks(ROOT / "docs" / "own-data.md", "python")
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


def anchors(page: Path) -> set[str]:
    """What headings are called in links: lower case, without signs, words joined by hyphens."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^):#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_pages_named_in_the_source_exist() -> None:
    for folder in ("src", "tests", "studies", "research", "benchmarks"):
        for path in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.toml"), *(ROOT / folder).rglob("*.md")):
            for name in re.findall(r"docs/[\w/.-]+?\.md\b", path.read_text(encoding="utf-8")):
                assert (ROOT / name).exists(), f"{path.name}: {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_waits_to_be_filled_in(page: Path) -> None:
    assert not re.findall(r"^[A-Z]{3,}$|TODO|TBD|FIXME", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    """Paths in backticks are files of the repository, or stand beside one named just before."""
    for name in re.findall(
        r"`((?:src|tests|benchmarks|studies|research|docs)/[\w./-]+)`", page.read_text(encoding="utf-8")
    ):
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


def test_a_table_is_read_as_it_is() -> None:
    """The two blocks of the walk-through that need no training."""
    make_logs, table, *_ = blocks(ROOT / "docs" / "own-data.md", "python")
    assert printed(make_logs + table).startswith(
        "Dataset('logs', 1,960 rows, 40 episodes, observations of 2, actions of 1"
    )


def test_the_mapping_shown_is_one() -> None:
    from stacq.data.columns import checked

    (shown,) = blocks(ROOT / "docs" / "own-data.md", "toml")
    assert checked(tomllib.loads(shown), "docs").observations == ("joint_*",)


BODIES = ["walker2d-medium", "hopper-medium", "halfcheetah-medium"]
SMALL_ROWS = {
    "robust": "StaCQ, `robust`",
    "robust-own-only": "StaCQ, `robust`, own successors only",
    "robust-calibrated": "StaCQ, `robust`, calibrated sets",
    "stacq": "StaCQ, `paper`",
    "td3bc": "TD3+BC",
    "bc": "BC",
    "iql": "IQL",
    "onestep": "OneStep StaCQ",
    "onestep, action_pull=0.1": "OneStep StaCQ, `robust`",
}


def shown(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables of a section, without emphasis."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0].replace("**", "")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]


def printed_rows(records: str) -> list[list[str]]:
    """What `studies/locomotion.py --table` prints of a file of records: dataset, run, steps, then numbers."""
    command = [sys.executable, "studies/locomotion.py", "--table", str(ROOT / "studies" / "results" / records)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in answer.stdout.splitlines()[2:]]


def test_tables_say_what_the_records_say() -> None:
    """Every full run has its row, number for number; the small ones have their places in the two tables of theirs."""
    full = shown((ROOT / "docs" / "results.md").read_text(encoding="utf-8"), "Full size")
    studies = sorted(path.name for path in (ROOT / "studies" / "results").glob("full-*.jsonl"))
    rows = [row for records in ["training.jsonl", *studies] for row in printed_rows(records)]
    assert len(rows) >= 21
    for dataset, run, _steps, *numbers in rows:
        assert any(cells[0] == dataset and cells[2:] == numbers for cells in full), (dataset, run)
    told = [
        dict(zip(BODIES, cells[1:], strict=True)) | {"name": cells[0]}
        for cells in shown((ROOT / "docs" / "ablations.md").read_text(encoding="utf-8"), "The small preset")
        if len(cells) == 4
    ]
    checked = 0
    for dataset, run, _steps, final, interval, *_ in printed_rows("training-laptop.jsonl"):
        for cells in told:
            checked += cells["name"] == SMALL_ROWS.get(run) and cells[dataset] == f"{final} ({interval})"
    named = [cells for cells in told if cells["name"] in SMALL_ROWS.values()]
    filled = sum(cells[body] not in ("", "all seeds lost") for cells in named for body in BODIES)
    assert checked == filled >= 34


def test_records_of_a_study_make_the_same_rows(tmp_path: Path) -> None:
    """A line of the program and a record of a study that say the same are printed alike, lead and values too."""
    text = (ROOT / "studies" / "results" / "training-laptop.jsonl").read_text(encoding="utf-8")
    lines = [line for line in map(json.loads, text.splitlines()) if line["step"] == 100_000 and not line["settings"]]
    methods = {"td3bc": "TD3+BC", "robust": "StaCQ (robust)"}
    records = [
        {
            name: line[name]
            for name in ("dataset", "seeds", "evaluated", "scores", "value", "discounted_return", "config")
        }
        | {"method": methods[line["run"]], "lost": []}
        for line in lines
        if line["run"] in methods
    ]
    gone = {**records[0], "dataset": "gone", "seeds": [], "lost": [0], "evaluated": [], "scores": []}
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in [*records, gone]), encoding="utf-8")
    known = {(row[0], row[1]): row[2:] for row in printed_rows("training-laptop.jsonl") if row[2] == "100,000"}
    rows = printed_rows(str(path))
    names = {"td3bc": "td3bc", "StaCQ (robust)": "robust"}
    assert len(rows) == len(records) == 6
    assert all(known[dataset, names[run]] == numbers for dataset, run, *numbers in rows)
    assert sum(row[-2] != "" for row in rows) == 3


def test_the_table_of_whose_data_says_what_the_records_say() -> None:
    page = (ROOT / "docs" / "ablations.md").read_text(encoding="utf-8")
    names = {"theirs": "D4RL's policy", "ours": "ours"}
    rows = shown(page, "Whose data")
    told = [cells for cells in rows if cells[0] in names.values() and len(cells) == 8]
    printed = printed_rows("walker2d-gap.jsonl")
    assert len(printed) == len(told) == 11
    for (dataset, run, _steps, *numbers), cells in zip(printed, told, strict=True):
        assert cells[0] == names[dataset] and cells[2:] == numbers, run


def doc_tables(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "studies/doc_tables.py", "--check", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def test_tables_of_studies_are_those_of_their_records(tmp_path: Path) -> None:
    found = doc_tables()
    assert found.returncode == 0, found.stdout + found.stderr
    (held,) = re.findall(r"^tables: (\d+); differ from the records: none$", found.stdout)
    assert int(held) == 3
    page = (ROOT / "docs" / "mazes.md").read_text(encoding="utf-8")
    assert page.count("99.0 ± 2.2") > 1
    (tmp_path / "mazes.md").write_text(page.replace("99.0 ± 2.2", "99.1 ± 2.2", 1), encoding="utf-8")
    assert doc_tables(str(tmp_path / "mazes.md")).returncode == 1

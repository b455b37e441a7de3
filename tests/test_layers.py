"""The layers of the package: who may import whom, and what stays free of JAX."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "stacq"
LAYERS = (
    *("core", "tabular", "envs", "nn", "policies", "data", "evaluation", "runs", "shipping"),
    *("dynamics", "reach", "stitch", "graph", "algos", "training", "judgement", "report", "pipeline", "study", "cli"),
)
AT_THE_TOP = {"__init__.py", "__main__.py", "py.typed"}
WITHOUT_JAX = (
    *("stacq", "stacq.core.workers", "stacq.evaluation.rollouts", "stacq.policies", "stacq.data.load"),
    *("stacq.runs.summary", "stacq.algos", "stacq.pipeline.options", "stacq.study.run"),
    *("stacq.judgement.config", "stacq.cli"),
)


def imported(module: Path) -> Iterator[str]:
    """Packages of ours that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "stacq":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stacq."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("stacq."))


def test_the_top_level_holds_folders_alone() -> None:
    names = {path.name for path in SOURCE.iterdir() if path.name != "__pycache__"}
    assert names == {*LAYERS, *AT_THE_TOP}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_package_imports_against_the_grain(layer: str) -> None:
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in (SOURCE / layer).rglob("*.py")
        for name in imported(path)
        if name not in allowed
    ]
    assert not wrong


def test_what_workers_and_help_texts_need_is_free_of_jax() -> None:
    lines = ["import sys", *(f"import {name}" for name in WITHOUT_JAX), "print('jax' in sys.modules)"]
    found = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_an_import_against_the_grain_is_seen(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text(
        "def f():\n    from stacq.report import page\n    import stacq.core.files\nfrom stacq import algos\n"
    )
    assert sorted(imported(module)) == ["algos", "core", "report"]

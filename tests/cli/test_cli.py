"""The command line as a person meets it: exit codes, messages, files, interruptions."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import Policy, generate, load
from stacq.cli import main
from stacq.core.files import write_json
from stacq.runs.directory import read_records


def stacq(*arguments: object, timeout: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stacq", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)  # type: ignore[call-overload, no-any-return]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "Traceback" not in error
    return error


def save(path: Path, **changes: np.ndarray) -> Path:
    arrays: dict[str, Any] = {**logged([20, 30], ["terminal", "timeout"], sizes=(11, 3)), **changes}
    np.savez(path, **arrays)
    return path


def test_inspect_prints_and_draws(tmp_path: Path) -> None:
    answer = stacq("data", "inspect", save(tmp_path / "logs.npz"), "--out", tmp_path / "logs.png", "--env", "Hopper-v4")
    assert answer.returncode == 0, answer.stderr
    assert "50 rows" in answer.stdout and "logs.png" in answer.stdout
    assert (tmp_path / "logs.png").stat().st_size > 20_000


def test_bad_inputs_end_with_code_2_and_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = np.full((50, 11), np.nan, dtype=np.float32)
    assert "row 0, column 0" in refused(capsys, "data", "inspect", save(tmp_path / "nan.npz", observations=bad))
    assert "no such file" in refused(capsys, "data", "inspect", tmp_path / "none.hdf5")
    assert "directory" in refused(capsys, "data", "inspect", tmp_path)
    assert "did you mean" in refused(capsys, "data", "inspect", "hoper-medium-v2")
    assert "did you mean" in refused(capsys, "data", "generate", "stacq/hoper-medium-v0")
    assert "stacq data generate" in refused(capsys, "data", "download", "stacq/hopper-medium-v0")
    assert "Walker2d-v4" in refused(
        capsys, "data", "inspect", save(tmp_path / "fine.npz"), "--env", "Walker2d-v4", "--out", tmp_path / "x.png"
    )
    assert "cannot tell the format" in refused(capsys, "data", "convert", tmp_path / "fine.npz", "out.parquet")
    assert "no such file" in refused(capsys, "evaluate", tmp_path / "policy.safetensors")
    Policy.from_mlp([np.zeros((11, 3))], [np.zeros(3)]).save(tmp_path / "policy.safetensors")
    assert "--env" in refused(capsys, "evaluate", tmp_path / "policy.safetensors")
    assert "no behaviour policy" in refused(capsys, "evaluate", "behaviour/hopper-superb")


def test_action_bounds_can_be_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "wide.npz", actions=np.full((50, 3), 1.5, dtype=np.float32))
    assert "--action-high" in refused(capsys, "data", "inspect", path)
    main(["data", "convert", str(path), str(tmp_path / "wide.hdf5"), "--action-low", "-2", "--action-high", "2"])
    main(["data", "inspect", str(tmp_path / "wide.hdf5")])  # declared in the file from now on
    assert "[-2, 2]" in capsys.readouterr().out


def test_usage_errors_are_code_2() -> None:
    answer = stacq("data", "inspekt")
    assert answer.returncode == 2 and "Traceback" not in answer.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["data", "--help"], ["data", "generate", "--help"]])
def test_help(arguments: list[str]) -> None:
    answer = stacq(*arguments)
    assert answer.returncode == 0 and "usage: stacq" in answer.stdout


def test_list_shows_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    main(["data", "generate", "hopper-random", "--size", "200", "--workers", "1"])
    main(["data", "list"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("stacq/hopper-random-v0@200") and line.rstrip().endswith("kB") for line in lines)
    assert any(line.startswith("antmaze-large-diverse-v2") and "stacq/AntMaze-large-v0" in line for line in lines)


def test_convert_writes_over_a_file_only_when_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, target = ("data", "convert", save(tmp_path / "logs.npz")), tmp_path / "logs.hdf5"
    target.write_text("dear to someone")
    assert "exists already" in refused(capsys, *command, target)
    assert target.read_text() == "dear to someone"
    main([*map(str, command), str(target), "--force"])
    assert len(load(target)) == 50


def test_convert_to_minari_and_back(tmp_path: Path) -> None:
    path = generate("hopper-medium", size=400, workers=1)
    main(["data", "convert", str(path), "minari:test/logs-v0"])
    main(["data", "convert", "minari:test/logs-v0", str(tmp_path / "back.hdf5")])
    before, after = load(path, infos="all"), load(tmp_path / "back.hdf5", infos="all")
    assert before.fingerprint == after.fingerprint and before.provenance == after.provenance
    for key in ("qpos", "qvel"):
        np.testing.assert_array_equal(before.infos[key], after.infos[key])


def test_evaluate_leaves_a_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    policy = Policy.from_mlp([rng.standard_normal((11, 8)), rng.standard_normal((8, 3))], [np.zeros(8), np.zeros(3)])
    policy.save(tmp_path / "policy.safetensors")
    out = tmp_path / "run"
    answer = stacq(
        "evaluate",
        tmp_path / "policy.safetensors",
        "--env",
        "Hopper-v4",
        "--episodes",
        3,
        "--out",
        out,
        "--log",
        "tensorboard",
    )
    assert answer.returncode == 0, answer.stderr
    assert "normalised score" in answer.stdout
    assert [record.episode for record in read_records(out)] == [0, 1, 2]
    assert (out / "tensorboard").is_dir()


def test_evaluate_scores_every_seed_of_a_training_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained, out = tmp_path / "trained", tmp_path / "scored"
    trained.mkdir()
    assert "not the directory of a training run" in refused(capsys, "evaluate", trained)
    facts = {"label": "StaCQ", "dataset": "stacq/maze-stitching-v0", "env": "stacq/Maze-stitching-v0"}
    write_json(trained / "config.json", {**facts, "seeds": [3, 5, 11], "total_steps": 100})
    assert "has not finished" in refused(capsys, "evaluate", trained)
    for seed in (3, 11):
        still = Policy.from_mlp([np.zeros((2, 4)), np.zeros((4, 2))], [np.zeros(4), np.full(2, float(seed))])
        still.save(trained / "policies" / f"seed-{seed}.safetensors")
    write_json(trained / "result.json", {})
    answer = stacq("evaluate", trained, "--episodes", 2, "--out", out)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("! 1 of 3 seeds lost (5)") and "over 2 seeds" in answer.stdout
    found = [(each.algorithm, each.dataset, each.seed, each.step, each.episode) for each in read_records(out)]
    assert found == [("StaCQ", facts["dataset"], seed, 100, episode) for seed in (3, 11) for episode in (0, 1)]


def test_bounds_may_be_stated_wherever_data_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = save(tmp_path / "wide.npz", actions=np.linspace(-2, 2, 150, dtype=np.float32).reshape(50, 3))
    out, small = tmp_path / "run", ("--algo", "bc", "--small", "--steps", 4, "--seeds", 1, "--no-evaluate")
    assert "--action-low" in refused(capsys, "train", wide, *small, "--out", out)
    main([str(each) for each in ("train", wide, *small, "--out", out, "--action-low", -2, "--action-high", 2)])
    assert (out / "policies" / "seed-0.safetensors").exists()
    (tmp_path / "page.html").touch()
    named = ("report", out, tmp_path / "page.html")
    main([str(each) for each in (*named, "--out", tmp_path / "once.html")])
    main([str(each) for each in (*named, out / ".." / "run", "--out", tmp_path / "twice.html")])
    once, twice = ((tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("once", "twice"))
    assert once.replace("once.html", "twice.html") == twice


def test_a_dataset_is_generated_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "stacq/hopper-medium-v0@200"
    assert "data generate" in refused(capsys, "train", name, "--algo", "bc")
    assert "no variant" in refused(capsys, "train", name, "--generate", "--algo", "bc", "--variant", "x")
    assert len(load(name)) == 200


def test_the_default_job(tmp_path: Path) -> None:
    """With the two quick methods; StaCQ's own numbers are checked by the slow test below."""
    answer = stacq("run", "--algos", "td3bc", "bc", "--seeds", 1, "--out", tmp_path / "runs")
    assert answer.returncode == 0, answer.stderr
    assert "tabular answers on the same maze: SCQL 100 %, BCQL 19 %" in answer.stdout
    page = (tmp_path / "runs" / "maze-stitching-v0.html").read_text(encoding="utf-8")
    assert "TD3+BC" in page and len(page) < 3_000_000
    again = stacq("run", "--algos", "td3bc", "bc", "--seeds", 1, "--out", tmp_path / "runs")
    assert again.returncode == 0 and again.stdout.count("trained before") == 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_default_job_stitches(tmp_path: Path) -> None:
    answer = stacq("run", "--out", tmp_path / "runs", timeout=1100)
    assert answer.returncode == 0, answer.stderr
    shares = {
        name: float(share)
        for name, share in re.findall(r"^(.+): reaches the goal from ([0-9.]+) % of the cells", answer.stdout, re.M)
    }
    assert shares["StaCQ (maze)"] >= 95 and shares["BC"] <= 30
    assert shares["StaCQ (maze)"] >= shares["TD3+BC"]  # a lead of two points here; rounding differs between machines


@pytest.mark.slow
@pytest.mark.parametrize(("blow", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_interrupted_evaluations_keep_what_was_done(tmp_path: Path, blow: signal.Signals, code: int) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "stacq", "evaluate", "behaviour/hopper-expert", "--episodes", "500"]
    with subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not (out / "records.csv").exists() or len(read_records(out)) < 3):
            time.sleep(0.1)
        process.send_signal(blow)
        assert process.stderr is not None
        error = process.stderr.read()
        assert process.wait(timeout=20) == code
    assert 3 <= len(read_records(out)) < 500
    assert "Traceback" not in error and (code == -9 or "kept" in error)


# Says when Python is up: interrupted before that, it ends in ways of its own.
MODULE = "import runpy; print('up', flush=True); runpy.run_module('stacq', run_name='__main__', alter_sys=True)"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.4, 1.0])
def test_ctrl_c_at_any_moment_of_the_start(tmp_path: Path, seconds: float) -> None:
    command = [sys.executable, "-c", MODULE, "data", "generate", "hopper-medium", "--size", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        error = process.stderr.read()
        code = process.wait(timeout=20)
    if code != -signal.SIGINT:  # before our own code is up, the signal ends the process
        assert code == 130 and "Traceback" not in error
    assert list((tmp_path / "home").rglob("*.hdf5")) == []


def test_wrong_options_leave_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    behaviour = ("evaluate", "behaviour/hopper-medium", "--out", out)
    assert "Hopper-v4" in refused(capsys, *behaviour, "--env", "Hoper-v4")
    assert "Hopper-v4" in refused(capsys, *behaviour, "--env", "Hopper-v2")
    assert "at least one episode" in refused(capsys, *behaviour, "--episodes", 0)
    assert "a seed of 0 or more" in refused(capsys, *behaviour, "--seed", -1)
    assert "at least one worker" in refused(capsys, *behaviour, "--workers", 0)
    assert "belongs to walker2d" in refused(capsys, *behaviour, "--dataset", "walker2d-medium-v2")
    assert "observations of 11" in refused(capsys, *behaviour, "--env", "Walker2d-v4")
    assert "at least one" in refused(capsys, "run", "--seeds", 0, "--out", out)
    assert "no methods" in refused(capsys, "run", "--algos", "--out", out)
    assert not out.exists()


def test_notes_about_the_data_come_before_its_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path / "walker2d-medium.npz")
    main(["train", str(path), "--algo", "bc", "--seeds", "1", "--steps", "20", "--out", str(tmp_path / "run")])
    told = capsys.readouterr().out
    assert told.count("! the name is that of walker2d") == 1
    assert told.index("! the name is that of walker2d") < told.index("run directory: ")


def test_a_place_that_is_taken_is_noticed_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("stacq.pipeline.models.fit_dynamics")
    (tmp_path / "run").mkdir()
    path = save(tmp_path / "logs.npz")
    assert "exists already" in refused(capsys, "train", path, "--out", tmp_path / "run")


def test_outputs_are_checked_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").write_text("a file where the cache should be")
    assert "cannot write" in refused(capsys, "data", "generate", "hopper-medium")  # a million rows would take minutes
    path = save(tmp_path / "logs.npz")
    assert ".png or .svg" in refused(capsys, "data", "inspect", path, "--out", tmp_path / "x.pdf")
    assert "cannot write" in refused(capsys, "data", "inspect", path, "--out", tmp_path / "home" / "x.png")
    assert capsys.readouterr().out == ""


def test_stray_files_do_not_disturb_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "home" / "data" / "stacq"
    folder.mkdir(parents=True)
    for name in ("hopper-medium-v0@5", "hopper-medium-v0+seed3", "mine"):
        (folder / f"{name}.hdf5").touch()
    main(["data", "list"])
    out = capsys.readouterr().out
    assert "stacq/hopper-medium-v0+seed3" in out and "@5 " not in out and "mine" not in out


def test_output_into_a_closed_pipe() -> None:
    command = f"{sys.executable} -m stacq data list | head -1; exit ${{PIPESTATUS[0]}}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert answer.stderr == "" and answer.stdout.startswith("name")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and capsys.readouterr().out.startswith("stacq ")


@pytest.mark.parametrize("code", [130, 143, 2])
def test_a_stopped_process_leaves_without_taking_python_down(code: int) -> None:
    """Threads of JAX may still be at work then; every other end runs what was left for the end."""
    script = (
        "import atexit, sys, stacq.cli, stacq.__main__ as entry\n"
        "atexit.register(print, 'at the end')\n"
        "def stopped():\n"
        f"    print('said'); sys.exit({code})\n"
        "stacq.cli.main = stopped\n"
        "entry.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stderr == ""
    assert done.stdout == ("said\nat the end\n" if code == 2 else "said\n")

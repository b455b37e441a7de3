"""No file that was received runs code: modules are imported for those who name them, and for nobody else."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from arrays import logged
from stacq import Conventions, InputError, Options, Policy, evaluate, load
from stacq.core.files import write_json
from stacq.data.hdf5 import write_hdf5
from stacq.data.minari import read_minari
from stacq.data.minari_write import write_minari
from stacq.envs.gym import make_env
from stacq.envs.ids import StoredId
from stacq.pipeline.plan import make_plan
from stacq.runs.finished import read_finished

EVIL = "evilmod:Foo-v0"
REFUSED = r"module 'evilmod' would be run[\s\S]*--env evilmod:Foo-v0"
TRAP = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n"
MINE = """
import gymnasium
import numpy as np

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (11,))
    action_space = gymnasium.spaces.Box(-1, 1, (3,))
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        import helper_of_mine
        return np.zeros(11), {}
    def step(self, action):
        return np.zeros(11), 1.0, True, False, {}

gymnasium.register("Line-v0", entry_point=Line, max_episode_steps=5)
"""


@pytest.fixture(autouse=True)
def trap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is found, and says so if anything imports it."""
    Path("evilmod.py").write_text(TRAP)
    monkeypatch.syspath_prepend(os.getcwd())
    sys.modules.pop("evilmod", None)


def sprung() -> bool:
    return Path("evilmod.ran").exists()


def policy() -> Policy:
    return Policy.from_mlp([np.zeros((11, 3))], [np.zeros(3)])


def recorded(env_id: str = EVIL) -> Path:
    """A .hdf5 file that states the environment."""
    np.savez("logs.npz", **logged([20, 30], ["terminal", "timeout"], sizes=(11, 3)))
    write_hdf5(load("logs.npz", conventions=Conventions(env_id=env_id)), "logs.hdf5")
    return Path("logs.hdf5")


def received_run(**changes: object) -> Path:
    """A training run as someone might send it."""
    run = Path("received")
    policy().save(run / "policies" / "seed-0.safetensors")
    config = {"label": "StaCQ", "dataset": "d", "env": EVIL, "seeds": [0], "total_steps": 10}
    write_json(run / "config.json", config | changes)
    write_json(run / "result.json", {})
    return run


def stacq(*arguments: object, by_module: bool = False) -> subprocess.CompletedProcess[str]:
    """As the installed command starts, or as `python -m stacq` does."""
    start = ["-m", "stacq"] if by_module else ["-P", "-c", "from stacq.__main__ import main; main()"]
    command = [sys.executable, *start, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_id_in_a_received_run_is_shown_and_refused() -> None:
    assert read_finished(received_run()).env == EVIL
    answer = stacq("evaluate", "received", "--episodes", 1, by_module=True)
    assert answer.returncode == 2 and not sprung()
    assert EVIL in answer.stderr and "--env evilmod:Foo-v0" in answer.stderr


def test_an_id_in_a_data_file_is_shown_and_refused(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = load(recorded())
    assert dataset.env_id == EVIL and isinstance(dataset.env_id, StoredId)
    assert load(recorded("Hopper-v4")).env_id == "Hopper-v4"
    with pytest.raises(InputError, match=REFUSED):
        make_plan(dataset, Options("td3bc", steps=20))
    assert dataset.env_id is not None
    with pytest.raises(InputError, match=REFUSED):
        evaluate(policy(), dataset.env_id, 1, workers=1)
    assert not sprung()


def test_what_a_python_caller_states_is_his_own_word() -> None:
    stated = load(recorded(), conventions=Conventions(env_id="pickle:Foo-v0"))
    with pytest.raises(InputError, match="no such environment"):
        make_plan(stated, Options("td3bc", steps=20))


@pytest.mark.parametrize("where", ["our own key", "a spec", "a spec as text"])
def test_an_id_in_the_metadata_of_minari_is_refused(where: str) -> None:
    pytest.importorskip("minari")
    directory = write_minari(replace(load(recorded()), env_id=None), "mine-v0")
    path = directory / "data" / "metadata.json"
    about = json.loads(path.read_text())
    spec = {"id": EVIL, "entry_point": "evilmod:Foo", "kwargs": {}, "additional_wrappers": []}
    if where == "our own key":
        about["stacq"]["env_id"] = EVIL
    else:
        about["env_spec"] = json.dumps(spec) if where == "a spec as text" else spec
    path.write_text(json.dumps(about))
    dataset = read_minari(directory)
    assert dataset.env_id == EVIL
    with pytest.raises(InputError, match=REFUSED):
        make_plan(dataset, Options("td3bc", steps=20))
    assert not sprung()


def test_minari_makes_no_environment_for_what_its_metadata_leaves_out() -> None:
    """Minari itself would make the environment to learn its spaces, and import the spec's entry point for it."""
    pytest.importorskip("minari")
    directory = write_minari(load(recorded("Hopper-v4")), "mine-v0")
    path = directory / "data" / "metadata.json"
    about = json.loads(path.read_text()) | {"data_format": "arrow"}
    about["env_spec"] = json.dumps(
        {"id": "Foo-v0", "entry_point": "evilmod:Foo", "kwargs": {}, "additional_wrappers": []}
    )
    del about["observation_space"]
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match="does not state observation_space"):
        read_minari(directory)
    assert not sprung()


def test_a_stored_id_stays_one_on_its_way() -> None:
    """To workers, through a Dataset, and into a file and back."""
    sent = pickle.loads(pickle.dumps(StoredId(EVIL)))
    assert isinstance(sent, StoredId) and sent == EVIL
    write_hdf5(replace(load(recorded()), name="again"), "again.hdf5")
    assert isinstance(load("again.hdf5").env_id, StoredId)
    with h5py.File("again.hdf5") as file:
        assert type(file.attrs["env_id"]) is str


@pytest.mark.parametrize("source", ["a:b:Foo-v0", ":Foo-v0", "evilmod:", "evilmod.deeper:Foo-v0", "stacq/x:Foo-v0"])
def test_odd_ids_from_files_import_nothing(source: str) -> None:
    with pytest.raises(InputError):
        make_env(StoredId(source))
    assert not sprung()


def test_the_advice_can_be_pasted_into_a_shell() -> None:
    with pytest.raises(InputError) as caught:
        make_env(StoredId("mod; touch owned:Foo-v0"))
    assert "--env 'mod; touch owned:Foo-v0'" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (".relative:Foo-v0", "'.relative' cannot be imported"),
        (":Foo-v0", "'' cannot be imported"),
        ("no_such_module:Foo-v0", "No module named 'no_such_module'"),
        ("broken:Foo-v0", "SyntaxError"),
        ("pickle:Foo-v0", "no such environment"),
    ],
)
def test_a_module_of_ones_own_that_does_not_do(source: str, said: str) -> None:
    Path("broken.py").write_text("def\n")
    with pytest.raises(InputError, match=said):
        make_env(source)


@pytest.mark.parametrize("by_module", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_module_that_is_named_is_found_in_the_working_directory(by_module: bool) -> None:
    """By the process itself (inspect) and by its workers (evaluate), and nothing else that lies there."""
    Path("mine.py").write_text(MINE)
    Path("helper_of_mine.py").touch()
    for name in ("random", "csv", "queue", "difflib", "rich", "tyro", "numpy", "sitecustomize", "not_installed"):
        Path(f"{name}.py").write_text(TRAP)
    policy().save("policy.safetensors")
    recorded("Hopper-v4")
    answer = stacq("data", "inspect", "logs.hdf5", "--env", "mine:Line-v0", by_module=by_module)
    assert answer.returncode == 0, answer.stderr
    answer = stacq("evaluate", "policy.safetensors", "--env", "mine:Line-v0", "--episodes", 1, by_module=by_module)
    assert answer.returncode == 0, answer.stderr
    assert "return 1.0" in answer.stdout and list(Path.cwd().glob("*.ran")) == []


def test_a_source_tree_can_be_run_from_within(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m stacq` where the working directory is the one that holds stacq itself."""
    import stacq as package

    home = Path(package.__file__).parents[1]
    Path("tree").mkdir()
    Path("tree/stacq").symlink_to(home / "stacq")
    monkeypatch.chdir("tree")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    script = (
        "import sys; sys.path[:] = ['', *sys.path[1:]]; import runpy; runpy.run_module('stacq', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "evaluate", "behaviour/hopper-medium", "--episodes", "1"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("env", [5, ["x"], {"a": 1}, True])
def test_an_environment_that_is_no_text_is_refused(env: object) -> None:
    with pytest.raises(InputError, match="not the directory of a training run"):
        read_finished(received_run(env=env))


def test_the_revision_of_a_foreign_tree_is_not_asked_for(tmp_path: Path) -> None:
    """Asking git may run a hook that the tree's own configuration names."""
    import stacq as package

    site = tmp_path / "project" / ".venv" / "site-packages"
    site.mkdir(parents=True)
    shutil.copytree(Path(package.__file__).parent, site / "stacq", ignore=shutil.ignore_patterns("__pycache__"))
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run(["git", "-C", project, "config", "core.fsmonitor", str(hook)], check=True)
    script = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    script += "from stacq.runs.directory import environment_facts as f; print(f())"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert "'git_revision': None" in done.stdout and not (tmp_path / "ran").exists()

"""Every test has a cache directory and a working directory of its own."""

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from stacq.algos import BUILT_IN

if TYPE_CHECKING:
    from loopback import Server

settings.register_profile("stacq", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.load_profile("stacq")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a shell's background, and then in all children
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Their programs take half a minute to compile. The fast tests make one whole run of each, and slow ones do the rest.
SLOW_TO_COMPILE = {"onestep-stacq", "mbts", "diffuser", "rambo"}
COMPILING = {"test_algo_contract", "test_resume", "test_stages", "test_train", "test_watchdog", "test_task"}
COMPILING |= {"test_algo_probes", "test_algo_updates"}
COMPILED_PROGRAMS = 30_000  # pieces of memory of a process; the system allows 65,530
STOPPED = {"bc", "td3bc", "stacq"}  # by fast tests; every algorithm by slow ones, which also kill it for real
TORN_DOWN = itertools.count(1)
LOOKED_AT_EVERY = 20  # tests: to count the pieces takes longer than most of them


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is tested of one algorithm is tested by one worker, which compiles its update and makes its run once."""
    for item in items:
        chosen = getattr(getattr(item, "callspec", None), "params", {}).values()
        for name in chosen:
            if isinstance(name, str) and name in BUILT_IN:
                item.add_marker(pytest.mark.xdist_group(name))
                if (name in SLOW_TO_COMPILE and _compiles(item)) or (name not in STOPPED and _stops(item)):
                    item.add_marker(pytest.mark.slow)


def _stops(item: pytest.Item) -> bool:
    """Whether it stops a run and goes on with it: the loop does that, the same way for every algorithm."""
    assert isinstance(item, pytest.Function)
    return bool(item.module.__name__ == "test_resume")


def _compiles(item: pytest.Item) -> bool:
    """Whether a test of an algorithm compiles its program for itself, and does not just look at the whole run."""
    assert isinstance(item, pytest.Function)
    abstract = "shapes" in item.name or "page" in item.name
    looks = "finished" in item.fixturenames and item.module.__name__ != "test_resume"
    return item.module.__name__ in COMPILING and not looks and not abstract


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Forget compiled programs before the system refuses memory for more of them: that would be a crash."""
    jax, maps = sys.modules.get("jax"), Path("/proc/self/maps")
    if next(TORN_DOWN) % LOOKED_AT_EVERY == 0 and jax is not None and nextitem is not None and maps.exists():
        with maps.open("rb") as file:
            if sum(1 for _ in file) > COMPILED_PROGRAMS:
                jax.clear_caches()


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that take long to compile are shared by all workers and by the commands that tests start."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(shared / "compiled"))
        yield


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("STACQ_HOME", str(home))
    monkeypatch.delenv("STACQ_MIRRORS", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def cache(isolated: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory, for tests that talk to a server on this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    path = Path(os.environ["STACQ_HOME"])
    path.mkdir()
    return path


@pytest.fixture
def server(cache: Path) -> "Iterator[Server]":
    from loopback import Server

    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def tidy(isolated: None) -> Iterator[None]:
    """Nothing that a test starts may litter the working directory with MuJoCo's log."""
    yield
    assert "MUJOCO_LOG.TXT" not in os.listdir()


@pytest.fixture(scope="session", params=BUILT_IN)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """One whole run of every algorithm, for all tests that only look at it."""
    from training_cases import options, plan, run_job  # here, so that other tests start without JAX

    directory = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STACQ_HOME", str(tmp_path_factory.mktemp("home")))
        run_job(plan(options(request.param)), out=directory)
    return request.param, directory

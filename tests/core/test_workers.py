"""Worker processes: order, failure, death, and nobody left behind."""

import importlib.util
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stacq import InputError
from stacq.core.workers import WorkerFailed, WorkerPool


def square(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return number * number


def fail_at_three(number: int) -> int:
    if number == 3:
        raise KeyError("three")
    return number


def die_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    return number


def refuse(number: int) -> int:
    raise InputError("no", where="there", expected="yes", fix="ask again")


def modules(_: int) -> list[str]:
    return sorted(sys.modules)


def threads(_: int) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    with WorkerPool(workers) as pool:
        assert list(pool.map(square, range(20))) == [number * number for number in range(20)]
        assert list(pool.map(square, [5])) == [25]


def test_functions_of_a_script_or_notebook_travel_by_value() -> None:
    offset = 10
    with WorkerPool(1) as pool:
        assert list(pool.map(lambda number: number + offset, [1, 2])) == [11, 12]


def test_an_exception_names_its_task() -> None:
    with WorkerPool(2) as pool, pytest.raises(WorkerFailed, match="KeyError: 'three'") as caught:
        list(pool.map(fail_at_three, range(10)))
    assert caught.value.task == 3 and "fail_at_three" in caught.value.details


def test_a_death_names_its_task_and_cause() -> None:
    with WorkerPool(2) as pool, pytest.raises(WorkerFailed, match="SIGSEGV") as caught:
        list(pool.map(die_at_three, range(10)))
    assert caught.value.task == 3


def unsendable(_: int) -> object:
    import threading

    return threading.Lock()


def silent(_: int) -> None:
    sys.stdout.flush()
    os._exit(7)


def test_a_result_that_cannot_travel_is_a_failure_and_not_a_death() -> None:
    with WorkerPool(1) as pool, pytest.raises(WorkerFailed, match="cannot be sent back"):
        list(pool.map(unsendable, [1]))


def test_a_death_is_not_taken_for_our_own_kill() -> None:
    with WorkerPool(1) as pool, pytest.raises(WorkerFailed, match="exit code 7"):
        list(pool.map(silent, [1]))


def test_input_errors_arrive_as_themselves() -> None:
    with WorkerPool(1) as pool, pytest.raises(InputError, match=r"there: no[\s\S]*yes[\s\S]*ask again"):
        list(pool.map(refuse, [1]))


def test_workers_are_light_and_single_threaded() -> None:
    with WorkerPool(1) as pool:
        assert "jax" not in next(pool.map(modules, [0]))
        assert next(pool.map(threads, [0])) == "1"


def test_no_workers_is_an_input_error() -> None:
    with pytest.raises(InputError, match="at least one worker"):
        WorkerPool(0)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


SLEEPER = """
import subprocess
from stacq.core.workers import WorkerPool
with WorkerPool(2) as pool:
    print("ready", flush=True)
    list(pool.map(lambda seconds: subprocess.run(["sleep", seconds]), ["60", "60"]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_busy_workers_and_what_they_started_end_with_their_parent(blow: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        workers = children(parent.pid)
        started: list[int] = []
        deadline = time.monotonic() + 20
        while len(started) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
            started = [pid for worker in workers for pid in children(worker)]
        assert len(workers) == len(started) == 2
        parent.send_signal(blow)
        parent.wait(timeout=20)
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in workers + started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers + started)


def test_start_up_files_that_print_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; sys.greeted = True; print('hello\\nand no newline', end='')\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with WorkerPool(1) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
        assert list(pool.map(lambda _: sys.greeted, [0])) == [True]  # type: ignore[attr-defined]


def test_what_cannot_travel_is_an_input_error() -> None:
    import threading

    lock = threading.Lock()
    with WorkerPool(1) as pool, pytest.raises(InputError, match="cannot be sent to a worker"):
        list(pool.map(lambda number: (lock, number), [1]))


def test_unguarded_scripts_work(tmp_path: Path) -> None:
    """No `if __name__ == '__main__'`: the workers do not run the user's script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from stacq.core.workers import WorkerPool\n"
        "print('once')\n"
        "def double(number):\n    return 2 * number\n"
        "with WorkerPool(2) as pool:\n    print(list(pool.map(double, [1, 2])))\n"
    )
    answer = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "once\n[2, 4]\n"


class Special(InputError):
    """An error of a kind of its own."""


def test_an_error_stays_what_it_is_on_its_way() -> None:
    sent = pickle.loads(pickle.dumps(Special("no", where="there", fix="ask again", details=["twice"])))
    assert type(sent) is Special and (sent.where, sent.fix, sent.details) == ("there", "ask again", ("twice",))


TRAP = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n"
SEND = """
from stacq.core.workers import WorkerPool
from beside import double
with WorkerPool(1) as pool:
    import random
    there = next(pool.map(lambda _: __import__("random").__file__, [0]))
    print(list(pool.map(double, [1, 2])), there == random.__file__)
"""


def traps(folder: Path, *names: str) -> None:
    """Modules that leave a file beside them if anything imports them."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(TRAP)


def sprung(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.ran"))


def test_nothing_in_the_working_directory_is_taken_for_a_module() -> None:
    """Not for one of Python's, nor for one that a package would like to have and does not find."""
    traps(Path.cwd(), "random", "sitecustomize", "usercustomize", "not_installed")
    with WorkerPool(1) as pool:
        found = next(
            pool.map(lambda name: [__import__("random").__file__, importlib.util.find_spec(name)], ["not_installed"])
        )
    assert found == [random.__file__, None] and sprung(Path.cwd()) == []


@pytest.mark.parametrize("how", ["interactive", "script", "script elsewhere"])
def test_modules_beside_a_notebook_or_a_script_still_arrive(tmp_path: Path, how: str) -> None:
    """Python looks for them in the working directory or beside the script, and so do the workers, but there last."""
    folder = tmp_path / "beside" if how == "script elsewhere" else Path.cwd()
    folder.mkdir(exist_ok=True)
    (folder / "beside.py").write_text("def double(number):\n    return 2 * number\n")
    traps(Path.cwd(), *(["random"] if how == "script elsewhere" else []))
    (folder / "script.py").write_text(SEND)
    start = ["-c", f"import random\n{SEND}"] if how == "interactive" else [str(folder / "script.py")]
    done = subprocess.run([sys.executable, *start], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[2, 4] True\n", done.stderr
    assert sprung(Path.cwd()) == []


def test_an_interactive_session_protects_its_workers_too() -> None:
    """What it imported before is not replaced by a file; its workers import it anew."""
    (Path.cwd() / "beside.py").write_text("def double(number):\n    return 2 * number\n")
    script = f"import random, pathlib\npathlib.Path('random.py').write_text({TRAP!r})\n{SEND}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[2, 4] True\n", done.stderr
    assert sprung(Path.cwd()) == []


def test_workers_of_an_isolated_process_are_isolated(tmp_path: Path) -> None:
    traps(tmp_path, "sitecustomize")
    script = f"import sys; sys.path[:0] = {sys.path!r}\nfrom stacq.core.workers import WorkerPool\n"
    script += "with WorkerPool(1) as pool: print(next(pool.map(lambda _: sys.flags.isolated, [0])))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "1\n", done.stderr
    assert sprung(tmp_path) == []


def test_a_deleted_working_directory_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.syspath_prepend("")
    (tmp_path / "gone").rmdir()
    with WorkerPool(1) as pool:
        assert list(pool.map(abs, [-1])) == [1]
    os.chdir(tmp_path)


def test_more_workers_than_the_system_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were started already are ended."""
    started: list[Any] = []

    def popen(*arguments: Any, **options: Any) -> Any:
        if len(started) == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(REAL(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("stacq.core.workers.subprocess.Popen", popen)
    with pytest.raises(InputError, match=r"worker process 3 of 4 cannot be started: Resource temporarily"):
        WorkerPool(4)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


REAL = subprocess.Popen


@pytest.mark.parametrize("count", [-1, 1025, 2**70])
def test_a_senseless_number_of_workers(count: int) -> None:
    with pytest.raises(InputError, match="at least one worker process and at most 1,024"):
        WorkerPool(count)

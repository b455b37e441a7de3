"""Worker processes: order, failure, death, and nobody left behind."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stacq import InputError
from stacq.workers import WorkerFailed, WorkerPool


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
from stacq.workers import WorkerPool
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
    (tmp_path / "sitecustomize.py").write_text("print('hello from the installation')\nprint('no newline', end='')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with WorkerPool(1) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]


def test_what_cannot_travel_is_an_input_error() -> None:
    import threading

    lock = threading.Lock()
    with WorkerPool(1) as pool, pytest.raises(InputError, match="cannot be sent to a worker"):
        list(pool.map(lambda number: (lock, number), [1]))


def test_unguarded_scripts_work(tmp_path: Path) -> None:
    """No `if __name__ == '__main__'`: the workers do not run the user's script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from stacq.workers import WorkerPool\n"
        "print('once')\n"
        "def double(number):\n    return 2 * number\n"
        "with WorkerPool(2) as pool:\n    print(list(pool.map(double, [1, 2])))\n"
    )
    answer = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout == "once\n[2, 4]\n"


class Special(InputError):
    """An error of a kind of its own."""


def test_an_error_stays_what_it_is_on_its_way() -> None:
    sent = pickle.loads(pickle.dumps(Special("no", where="there", fix="ask again")))
    assert type(sent) is Special and (sent.where, sent.fix) == ("there", "ask again")

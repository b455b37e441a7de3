"""A study on two Ray machines on the loopback, with a worker and then a machine killed in the middle of it.

Skipped where Ray is missing. Every process is started here and ended by its number.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from study_cases import SMALL, write_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", "import ray"], capture_output=True, check=False).returncode != 0,
        reason="Ray is not installed",
    ),
]
LONGER = SMALL.replace("steps = 40", "steps = 30_000").replace("eval_every = 20", "eval_every = 2_000")
LONGER = LONGER.replace("[1e-3, 1e-2]", "[1e-3, 2e-3, 5e-3, 1e-2]").replace("8,8", "64,64")
QUIET = {
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machine:
    """`ray start --block`, in a process group of its own."""

    def __init__(self, *words: str) -> None:
        size = ["--num-cpus", "2", "--memory", str(8 << 30), "--object-store-memory", str(100 << 20), "--num-gpus", "0"]
        start = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
        command = [sys.executable, "-c", start, "start", "--block", "--disable-usage-stats", *size, *words]
        environment = {**os.environ, **QUIET}
        with Path(f"machine{words[0].partition('=')[0]}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def children(self, name: str) -> list[int]:
        return [pid for pid, words in below(self.process.pid) if name in words]

    def end(self) -> None:
        for pid, _ in [*below(self.process.pid), (self.process.pid, "")]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


def below(parent: int) -> list[tuple[int, str]]:
    """Processes that it started, and those that these started, with their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                father = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, ValueError):
                continue
            found.append((int(entry.name), father, words))
    tree, frontier = [], {parent}
    while frontier:
        level = [(pid, words) for pid, father, words in found if father in frontier]
        tree += level
        frontier = {pid for pid, _ in level}
    return tree


@pytest.fixture
def machines() -> Iterator[tuple[str, Machine, Machine]]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        address = f"127.0.0.1:{port}"
        head = Machine("--head", f"--port={port}", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}",
                       "--include-dashboard=false")  # fmt: skip
        wait_for(lambda: reached(port), head)
        second = Machine(f"--address={address}", "--node-ip-address=127.0.0.1")
        try:
            yield address, head, second
        finally:
            second.end()
            head.end()


def reached(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what: Any, *alive: Any, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline and all(each.process.poll() is None for each in alive)
        time.sleep(0.3)


def study(file: Path, root: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stacq", "study", str(file), "--cores", "1", "--runs", root, *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **QUIET}
    )


def records(root: str) -> list[dict[str, Any]]:
    text = Path(root, "studies", "mine-small", "records.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def evaluated(root: str) -> int:
    return sum(path.read_text().count("eval/score") for path in Path(root).glob("*/metrics.jsonl"))


def test_a_worker_and_a_machine_are_killed_and_the_records_are_those_of_one_machine(
    machines: tuple[str, Machine, Machine], tmp_path: Path
) -> None:
    address, head, second = machines
    file = write_study(tmp_path / "mine.toml", LONGER)
    running = study(file, "cluster", "--ray", address)
    wait_for(lambda: evaluated("cluster") >= 4, head)
    workers = [pid for each in (head, second) for pid in each.children("ray::")]
    busy = [pid for pid in workers if any("stacq.study.work" in words for _, words in below(pid))]
    assert busy
    os.kill(busy[0], signal.SIGKILL)
    before = evaluated("cluster")
    wait_for(lambda: evaluated("cluster") > before, head)
    (raylet,) = second.children("raylet/raylet")
    os.kill(raylet, signal.SIGKILL)
    said, _ = running.communicate(timeout=600)
    assert running.returncode == 0, said
    assert said.count("lost: ") >= 2, said
    alone = study(file, "alone", "--processes", "2")
    assert alone.communicate(timeout=600)[0] and alone.returncode == 0
    compared = [
        [
            {name: record[name] for name in ("method", "seeds", "evaluated", "scores", "lost", "dataset_hash")}
            for record in found
        ]
        for found in (records("cluster"), records("alone"))
    ]
    assert compared[0] == compared[1] and len(compared[0]) == 4
    files = [
        {path.relative_to(root): path.read_bytes() for path in Path(root).glob("*/records.csv")}
        for root in ("cluster", "alone")
    ]
    assert files[0] == files[1] and len(files[0]) == 4

"""Commands side by side on one GPU, within a given time: what `walker2d_gap.py` runs its jobs with.

Batches and layers of 256 do not fill a large GPU, so jobs share it through NVIDIA's multi-process service where that is
installed. When the time is up all are stopped. Lines of results are gathered whenever a job is finished.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from stacq.core.files import write_text

LOOK_EVERY = 2.0  # seconds
TELL_EVERY = 60.0


def start(name: str, words: list[str], out: Path) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that it ends with all it started; its words go to a file."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    with (out / f"{name}.log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)


def gather(out: Path) -> None:
    """The lines of all finished runs, together in one file."""
    lines = [line for path in sorted(out.glob("*/training.jsonl")) for line in path.read_text().splitlines()]
    write_text(out / "training.jsonl", "".join(f"{line}\n" for line in lines))


def last_step(directory: Path) -> int:
    """How far the run inside has come, as far as it was written down."""
    steps = [0]
    for path in directory.glob("*/metrics.jsonl"):
        last = path.read_text(encoding="utf-8").rstrip("\n").rpartition("\n")[2]
        steps += [json.loads(last)["step"]] if last.endswith("}") else []
    return max(steps)


@dataclass
class Queue:
    """Commands by name: those that wait, what each of them waits for, those that run, and those that failed."""

    out: Path
    at_once: int
    waiting: dict[str, list[str]]
    needs: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def reap(self) -> None:
        """Take note of those that ended, and give up those that need one that failed."""
        for name in [name for name, process in self.running.items() if process.poll() is not None]:
            code = self.running.pop(name).returncode
            print(f"{name}: {'done' if code == 0 else f'exit code {code}, see {self.out / name}.log'}", flush=True)
            self.failed |= {name} if code else set()
            gather(self.out)
        for name in [name for name in self.waiting if self.needs.get(name) in self.failed]:
            print(f"{name}: left out, {self.needs[name]} failed", flush=True)
            self.failed.add(name)
            del self.waiting[name]

    def launch(self) -> None:
        """Begin what waits for nothing any more, as far as there are places."""
        ahead = {*self.waiting, *self.running}
        ready = [name for name in self.waiting if self.needs.get(name) not in ahead]
        for name in ready[: self.at_once - len(self.running)]:
            self.running[name] = start(name, self.waiting.pop(name), self.out)

    def tell(self, left: float) -> None:
        now = ", ".join(f"{name} at {last_step(self.out / name):,}" for name in self.running)
        print(f"{left:.0f} s left; running: {now or 'nothing'}; {len(self.waiting)} wait", flush=True)


def work(line: Queue, minutes: float) -> bool:
    """Until all is done or the time is up; whether all is done."""
    told = time.monotonic()
    deadline = told + 60 * minutes
    try:
        while (line.waiting or line.running) and time.monotonic() < deadline:
            line.reap()
            line.launch()
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                line.tell(deadline - told)
            time.sleep(LOOK_EVERY)
        return not (line.waiting or line.running or line.failed)
    finally:
        stop(line.running)


def stop(running: dict[str, subprocess.Popen[bytes]]) -> None:
    """End them as Ctrl-C would, and by force what has not ended after ten seconds."""
    for process in running.values():
        os.killpg(process.pid, signal.SIGINT)
    for process in running.values():
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def share_gpu(out: Path) -> bool:
    """Start NVIDIA's multi-process service, if it is there: it lets kernels of several processes run side by side."""
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(out.resolve() / "mps")
    (out / "mps").mkdir(exist_ok=True)
    return shutil.which("nvidia-cuda-mps-control") is not None and (
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False).returncode == 0
    )


def stop_sharing() -> None:
    subprocess.run(["nvidia-cuda-mps-control"], input=b"quit", check=False)

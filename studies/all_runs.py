"""The full-size runs of docs/results.md on one GPU, several at once and within a given time.

    python studies/all_runs.py --minutes 25 --at-once 6

Batches and layers of 256 do not fill a large GPU, so the runs share it through NVIDIA's multi-process service where
that is installed. Each is `studies/locomotion.py` in a process and a directory of its own. They begin in the order
of `RUNS`, as soon as the data, models and sets of their dataset are made and a place is free; what the file of results
holds already is left out. When the time is up all are stopped. Given again, the command goes on with them, so nothing
but the last minute of each is lost. At the end, and whenever a run is finished, their lines are gathered in
`OUT/training.jsonl`.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stacq.core.files import write_text

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "training.jsonl"
LOOK_EVERY = 2.0  # seconds
TELL_EVERY = 60.0


class Job(NamedTuple):
    """One run of the tables: a dataset, a name of `locomotion.RUNS`, and its steps."""

    dataset: str
    run: str
    steps: int

    @property
    def name(self) -> str:
        return f"{self.dataset}-{self.run}-{self.steps}"


MILLION = ("stacq", "own-only", "robust", "td3bc", "bc")
SHORT = ("stacq", "calibrated", "authors")
RUNS = (
    *(Job(f"{body}-medium", run, 1_000_000) for body in ("walker2d", "hopper") for run in MILLION),
    *(Job(f"{body}-medium", run, 300_000) for body in ("walker2d", "hopper") for run in SHORT),
    Job("hopper-medium", "onestep", 300_000),
    *(Job(dataset, run, 300_000)
      for dataset in ("halfcheetah-medium-replay", "hopper-medium-expert")
      for run in ("stacq", "robust", "td3bc", "bc")),
)  # fmt: skip


def finished(results: Path) -> set[Job]:
    """What a file of results holds as it would be made today, with no settings on top."""
    if not results.exists():
        return set()
    lines = [json.loads(text) for text in results.read_text(encoding="utf-8").splitlines()]
    whole = [line for line in lines if not line["settings"] and not line["alphas"]]
    return {Job(line["dataset"], line["run"], line["config"]["steps"]) for line in whole}


def command(jobs: list[Job], chosen: argparse.Namespace, *extra: str) -> list[str]:
    """`locomotion.py` for jobs of one dataset and length."""
    script = [sys.executable, str(HERE / "locomotion.py")]
    what = ["--datasets", jobs[0].dataset, "--runs", *dict.fromkeys(job.run for job in jobs)]
    size = ["--rows", str(chosen.rows)] if chosen.rows else []
    how = ["--recipe", chosen.recipe, "--eval-every", str(chosen.eval_every), "--seeds", str(chosen.seeds)]
    return [*script, *what, *size, *how, *extra]


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


def queue(jobs: list[Job], chosen: argparse.Namespace) -> Queue:
    """First the stages of every dataset, then the runs, each when those of its dataset are made."""
    of: dict[str, list[Job]] = {}
    for job in jobs:
        of.setdefault(job.dataset, []).append(job)
    waiting = {f"prepare-{dataset}": command(its, chosen, "--prepare") for dataset, its in of.items()}
    for job in jobs:
        steps, directory = str(chosen.steps or job.steps), str(chosen.out / job.name)
        waiting[job.name] = command([job], chosen, "--steps", steps, "--out", directory)
    return Queue(chosen.out, chosen.at_once, waiting, {job.name: f"prepare-{job.dataset}" for job in jobs})


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop everything after so long")
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--only", nargs="+", metavar="RUN", choices=sorted({job.name for job in RUNS}))
    parser.add_argument("--results", type=Path, default=RESULTS, help="runs in this file are left out")
    parser.add_argument("--eval-every", type=int, default=25_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="instead of the table's, for a trial")
    parser.add_argument("--rows", type=int, help="of each dataset, for a trial")
    parser.add_argument("--recipe", default="default", help="of the dynamics")
    parser.add_argument("--out", type=Path, default=Path("runs/all"))
    chosen = parser.parse_args()
    made = finished(chosen.results)
    jobs = [job for job in RUNS if job not in made and (not chosen.only or job.name in chosen.only)]
    chosen.out.mkdir(parents=True, exist_ok=True)
    shared = share_gpu(chosen.out)
    print(f"{len(jobs)} runs, {chosen.at_once} at once{' through the multi-process service' if shared else ''}")
    try:
        done = work(queue(jobs, chosen), chosen.minutes)
    finally:
        if shared:
            stop_sharing()
    gather(chosen.out)
    subprocess.run(
        [sys.executable, str(HERE / "locomotion.py"), "--table", str(chosen.out / "training.jsonl")], check=True
    )
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()

"""Jobs as tasks of a Ray cluster whose machines share a file system: each task is the same child process as elsewhere.

Ray is loaded here alone, and only when a cluster is asked for. It decides where a task runs; what is tried again is
decided by the schedule, as for every executor, so a dead machine and a killed process are counted alike.
"""

import os
import queue
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stacq.core.errors import InputError
from stacq.core.files import home
from stacq.study.children import Child, Ended
from stacq.study.jobs import Job
from stacq.study.local import memory_of
from stacq.study.states import Places
from stacq.study.work import Task

WAITING = 2  # tasks handed over for each that can run at once: more would only lie in Ray's queue
FRESH = 10.0  # seconds for which the size of the cluster is believed
USUAL_GPU = 1 / 6  # of a GPU for a process: batches of 256 do not fill one


class Here(NamedTuple):
    """What a task needs to find the same files as its driver."""

    directory: str
    home: str


@dataclass
class Cluster:
    """An executor on a Ray cluster that is there already."""

    ray: Any
    places: Places
    cores: int
    gpu: float
    here: Here
    ended: "queue.SimpleQueue[Ended]" = field(default_factory=queue.SimpleQueue)
    tasks: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, address: str, places: Places, cores: int | None, gpu: float | None) -> "Cluster":
        ray = connected(address)
        there = ray.cluster_resources()
        share = gpu if gpu is not None else (USUAL_GPU if there.get("GPU") else 0.0)
        return cls(ray, places, cores or 1, share, Here(os.getcwd(), str(Path(home()).absolute())))

    def __post_init__(self) -> None:
        self._remote = self.ray.remote(in_task)
        self._size, self._asked = 0.0, -FRESH

    @property
    def room(self) -> int:
        """Some more than can run, so that a machine that joins finds work."""
        if time.monotonic() - self._asked > FRESH:
            self._size, self._asked = self.ray.cluster_resources().get("CPU", 0.0), time.monotonic()
        return max(1, WAITING * int(self._size // self.cores)) - len(self.tasks)

    def start(self, job: Job) -> None:
        needs: dict[str, float] = {"num_cpus": self.cores, "memory": memory_of(job.cell), "max_retries": 0}
        needs |= {"num_gpus": self.gpu} if self.gpu and job.kind != "data" else {}
        task = self._remote.options(name=job.title, **needs).remote(Task(job, self.places, self.cores), self.here)
        self.tasks[job.key] = task
        task.future().add_done_callback(lambda future: self._take(job.key, future))

    def _take(self, key: str, future: Any) -> None:
        """A task that has an error lost its worker or its machine: what a job itself raises is in its state."""
        self.tasks.pop(key, None)
        lost = future.cancelled() or future.exception() is not None
        self.ended.put(Ended(key, None) if lost else future.result())

    def stop(self) -> None:
        """Children end with the worker that started them, and go on from their checkpoints another time."""
        for task in list(self.tasks.values()):
            self.ray.cancel(task, force=True)
        self.ray.shutdown()

    @property
    def about(self) -> str:
        there = self.ray.cluster_resources()
        share = f" and {self.gpu:.2g} of a GPU" if self.gpu else ""
        nodes = sum(bool(node["Alive"]) for node in self.ray.nodes())
        return f"on a Ray cluster of {nodes} machines and {there.get('CPU', 0):g} cores; {self.cores} core{share} each"


def in_task(task: Task, here: Here) -> Ended:
    """On a machine of the cluster: a child as on one's own, in the driver's directory and with its cache."""
    os.environ["STACQ_HOME"] = here.home
    os.chdir(here.directory)
    return Child(task).wait()


def connected(address: str) -> Any:
    """Ray, connected to the cluster."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "Ray is not installed", where="--ray", expected="the ray extra", fix="pip install 'stacq[ray]'"
        ) from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no cluster answers at {address!r}: {error}",
            where="--ray",
            expected="the address of a running cluster, or auto on one of its machines",
            fix="start one with `ray start --head`, and check the address",
        ) from error
    return ray

"""Jobs as processes of this machine: as many at once as its cores and memory hold, each with cores of its own."""

import os
import queue
import threading
from collections import deque
from dataclasses import dataclass, field

from stacq.core.reading import available_memory
from stacq.core.workers import available_cores
from stacq.data.registry import recognised
from stacq.study.cells import Cell
from stacq.study.children import Child, Ended
from stacq.study.jobs import Job
from stacq.study.states import Places
from stacq.study.work import Task

BASE = 1 << 30  # bytes of a process with JAX and what it compiles
PER_ROW = 1_200  # bytes of a row of data with its copies, at the sizes of walker2d
USUAL_ROWS = 1_000_000


def memory_of(cell: Cell) -> int:
    """Bytes that a process of this cell may come to."""
    info = recognised(cell.source.known_as or cell.source.name)
    _, _, size = cell.source.name.partition("@")
    digits = size.partition("+")[0]
    rows = int(digits) if digits.isdecimal() else (info.rows if info and info.rows else USUAL_ROWS)
    return BASE + PER_ROW * rows


def places_for(cells: list[Cell], cores: int | None, processes: int | None) -> tuple[int, int]:
    """How many processes at once, and how many cores each of them has.

    Cells of a study share nothing, so more processes are better than more cores of one. The number of cores may decide
    about the last bits of a result, so it can be stated.
    """
    there = available_cores()
    each = cores or max(1, there // max(1, len(cells)))
    room = available_memory() // max(map(memory_of, cells), default=BASE)
    return processes or max(1, min(there // each, room)), each


@dataclass
class Local:
    """An executor: it starts jobs, and puts how they end into `ended`."""

    places: Places
    slots: int
    cores: int = 1
    ended: "queue.SimpleQueue[Ended]" = field(default_factory=queue.SimpleQueue)
    children: dict[str, Child] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = available_cores()
        places = [range(n * self.cores, (n + 1) * self.cores) for n in range(self.slots)]
        self._free = deque([sorted(_cores()[n % every] for n in each) for each in places])

    @property
    def room(self) -> int:
        return len(self._free)

    def start(self, job: Job) -> None:
        mine = self._free.popleft()
        child = Child(Task(job, self.places, self.cores), mine)
        self.children[job.key] = child
        threading.Thread(target=self._watch, args=(child, mine), daemon=True).start()

    def _watch(self, child: Child, cores: list[int]) -> None:
        ended = child.wait()
        self.children.pop(ended.key, None)
        self._free.append(cores)
        self.ended.put(ended)

    def stop(self) -> None:
        """End all that run: asked first, so that they write what they have."""
        running = list(self.children.values())
        for child in running:
            child.stop()
        for child in running:
            child.end()

    @property
    def about(self) -> str:
        return f"{self.slots} at once on this machine, {self.cores} core{'s' * (self.cores > 1)} each"


def _cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(available_cores()))

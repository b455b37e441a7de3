"""A study on its way: its cells and jobs, what is known of them, and what is done next."""

from collections.abc import Sequence
from dataclasses import dataclass

from stacq.core.terminal import Console
from stacq.report.tables import plural
from stacq.runs.failed import StudyFailed
from stacq.study.cells import Cell, cells_of, only
from stacq.study.commands import commands
from stacq.study.estimate import Rates, forecast, forecast_text, states_of
from stacq.study.execute import Executor, execute
from stacq.study.found import expected, finished_runs
from stacq.study.jobs import Job, jobs_of
from stacq.study.local import Local, places_for
from stacq.study.plan import Study
from stacq.study.records import read_records
from stacq.study.run import Request, folder, unknown_job
from stacq.study.schedule import Schedule
from stacq.study.states import Places, is_done, read_state, undone
from stacq.study.work import Task, do

MOST_SHOWN = 40  # cells of a dry run, one by one


@dataclass(frozen=True)
class Course:
    """A study with everything that was asked of it."""

    study: Study
    request: Request
    console: Console
    cells: Sequence[Cell]
    places: Places

    @classmethod
    def of(cls, study: Study, request: Request, console: Console) -> "Course":
        cells = only(cells_of(study), request.only) if request.only else cells_of(study)
        return cls(study, request, console, cells, Places(folder(study, request), request.runs))

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def left(self) -> list[Job]:
        """Jobs of the cells that are not done; stages that only finished cells need are not among them."""
        cells = [job for job in jobs_of(self.cells) if job.kind == "cell" and not is_done(self.places, job)]
        return [job for job in jobs_of(job.cell for job in cells) if not is_done(self.places, job)]

    def describe(self) -> None:
        """The cells, which of them exist, and how long the others would take."""
        jobs = self.left()
        waiting = {job.key for job in jobs}
        self.say(f"{self.study.title}: {plural(len(self.cells), 'cell')}, scale {self.study.scale}")
        found = finished_runs(self.places.runs)
        there = {cell.key for cell in self.cells if cell.key in waiting and expected(cell) in found}
        for cell in self.cells[:MOST_SHOWN]:
            word = "there" if cell.key in there else "to do" if cell.key in waiting else "done"
            self.say(f"  {word:5}  {cell.title}{self._last(cell)}")
        if len(self.cells) > MOST_SHOWN:
            self.say(f"  ... and {len(self.cells) - MOST_SHOWN:,} more")
        done = sum(cell.key not in waiting for cell in self.cells)
        stages = sum(job.kind != "cell" for job in jobs)
        self.say(f"{done} of {plural(len(self.cells), 'cell')} done; {plural(stages, 'shared stage')} to make first")
        if there:
            self.say(
                f"{plural(len(there), 'run')} in {self.places.runs} look like cells and will be taken if the data agree"
            )
        slots, cores = places_for(list(self.cells), self.request.cores, self.request.processes)
        rates = Rates(states_of(self.places, jobs_of(self.cells)))
        jobs = [job for job in jobs if job.key not in there]
        self.say(forecast_text(forecast(rates, jobs, slots), len(jobs), slots, self.request.price))
        self.say(
            f"{plural(cores, 'core')} for each process; runs in {self.request.runs}, tables in {self.places.folder}"
        )

    def _last(self, cell: Cell) -> str:
        """Why a cell that ended before is to do."""
        state = read_state(self.places, cell.key)
        if state is None:
            return ""
        if state.state == "failed":
            return f" (failed before: {state.reason.splitlines()[0] if state.reason else 'no reason was given'})"
        why = undone(state, cell)
        return f" ({why})" if why else ""

    def print_commands(self, words: Sequence[str]) -> None:
        for line in commands(self.left(), words):
            print(line)

    def do_one(self, key: str) -> None:
        """One job in this process, for whoever schedules by himself."""
        jobs = {job.key: job for job in jobs_of(self.cells)}
        if key not in jobs:
            raise unknown_job(key)
        state = do(Task(jobs[key], self.places, self.request.cores or 1))
        if state.state == "failed":
            raise StudyFailed(f"{jobs[key].title}: {state.reason}")

    def run(self) -> int:
        """All that is left; how many cells failed."""
        jobs = self.left()
        done = len(self.cells) - sum(job.kind == "cell" for job in jobs)
        self.say(f"{self.study.title}: {plural(len(self.cells), 'cell')}, {done} done before")
        if not jobs:
            return 0
        executor = self.executor(jobs)
        self.say(f"{executor.about}; logs in {self.places.folder / 'logs'}")
        schedule = Schedule(jobs)
        execute(schedule, executor, self.say)
        return sum(schedule.jobs[key].kind == "cell" for key in schedule.failed)

    def executor(self, jobs: Sequence[Job]) -> Executor:
        """This machine, or a cluster."""
        if self.request.ray is not None:
            from stacq.study.cluster import Cluster  # loads Ray

            return Cluster.at(self.request.ray, self.places, self.request.cores, self.request.gpu, self.request.store)
        cells = [job.cell for job in jobs if job.kind == "cell"]
        slots, cores = places_for(cells, self.request.cores, self.request.processes)
        return Local(self.places, slots, cores)

    def write_tables(self) -> None:
        """Tables, curves and the page, of what is there; what is missing is named.

        The study's own records are all that there are, whatever part of it the tables show. Those of another place
        are shown and not kept.
        """
        from stacq.study.tables import gathered, recorded, write_all

        if self.request.records is not None:
            shown, missing = recorded(self.cells, read_records(self.request.records))
            kept = None
        else:
            shown, missing = gathered(self.cells, self.places)
            kept = gathered(cells_of(self.study), self.places)[0] if self.request.only else shown
        for path in write_all(self.study, self.cells, self.places, shown, missing, kept):
            self.say(f"written: {path}")

"""Small studies for the tests."""

from pathlib import Path

from stacq.study.cells import Cell, cells_of
from stacq.study.jobs import Job
from stacq.study.plan import Study, parse_study
from stacq.study.schedule import Schedule

SMALL = """
title = "Two rates"
datasets = ["stacq/maze-stitching-v0"]

[protocol]
seeds = 2
steps = 40
eval_every = 20
episodes = 2

[[methods]]
algorithm = "bc"
set = { learning_rate = [1e-3, 1e-2], hidden = "8,8" }
"""


def study(content: str = SMALL) -> Study:
    return parse_study(content, "small", "small.toml")


def cells(content: str = SMALL) -> list[Cell]:
    return cells_of(study(content))


def chain(*needs: str | None) -> list[Job]:
    """Jobs called 0, 1, 2, ..., each of which needs another one or none."""
    (cell, *_) = cells()
    return [Job(str(number), "cell", cell, need) for number, need in enumerate(needs)]


def ran(schedule: Schedule) -> list[str]:
    """The order in which everything is done, one at a time."""
    order = []
    while (job := schedule.next()) is not None:
        order.append(job.key)
        schedule.finish(job.key)
    return order


def write_study(path: Path, content: str = SMALL) -> Path:
    path.write_text(content, encoding="utf-8")
    return path

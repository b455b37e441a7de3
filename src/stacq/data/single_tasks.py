"""The names of OGBench's maze files and of its single tasks, known without its package."""

import re
from dataclasses import dataclass

STEM = re.compile(
    r"(?:ogbench/)?((?:point|ant|humanoid)maze)-(medium|large|giant|teleport)-(navigate|stitch|explore)"
    r"(-singletask(?:-task[1-5])?)?-v0"
)
USUAL_TASK = "-singletask"  # the package chooses its default one of the five


@dataclass(frozen=True)
class SingleTask:
    """A file and the task that its states are labelled for."""

    name: str
    env_id: str  # with the module that registers it
    body: str  # such as pointmaze


def single_task(name: str) -> SingleTask | None:
    """What a file's name without its ending, or a name that is stated, means; None where it is none of OGBench's."""
    found = STEM.fullmatch(name)
    if found is None:
        return None
    body, maze, kind, task = (*found.groups()[:3], found.group(4) or USUAL_TASK)
    return SingleTask(f"ogbench/{body}-{maze}-{kind}{task}-v0", f"ogbench:{body}-{maze}{task}-v0", body)

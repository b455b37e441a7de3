"""A study as commands of a shell, one for each job: for array jobs of Slurm and the like, without an executor."""

import shlex
from collections.abc import Iterator, Sequence

from stacq.study.jobs import Job, Kind

ORDER: tuple[Kind, ...] = ("data", "dynamics", "sets", "actions", "cell")


def commands(jobs: Sequence[Job], study: Sequence[str]) -> Iterator[str]:
    """Kind after kind, since each needs the one before; commands of one kind may run at the same time.

    Nothing breaks where the order is not kept: whoever comes first makes a stage, and the others wait for it.
    """
    for kind in ORDER:
        chosen = [job for job in jobs if job.kind == kind]
        if chosen:
            yield f"# {kind}: {len(chosen)}"
        for job in chosen:
            yield shlex.join(["stacq", "study", *study, "--job", job.key])

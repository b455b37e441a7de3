"""The commands that write, and what they leave when nobody disturbs them."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from attack.bench import Bench, bring
from attack.hostile import DATASET, honest
from attack.processes import Request
from attack.samples import FITTING, REACHING, SCORING, SMALL, TRAINED, samples
from attack.trees import Tree, snapshot

LOGS = "work/logs.npz"


@dataclass(frozen=True)
class Job:
    """A command and the samples that it needs; a quick one takes well under a second."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    quick: bool = False
    keeps: bool = False  # whether what a stopped run has done is kept, and a second one needs another place


JOBS = (
    Job("convert", ("data", "convert", "logs.npz", "out.hdf5"), (LOGS,), quick=True),
    Job("convert-over", ("data", "convert", "logs.npz", "logs.hdf5", "--force"), (LOGS, "work/logs.hdf5"), quick=True),
    Job("convert-minari", ("data", "convert", "logs.hdf5", "minari:mine/new-v0"), ("work/logs.hdf5",), quick=True),
    Job("inspect", ("data", "inspect", "logs.npz"), (LOGS,)),
    Job("maze", ("maze", "maze.txt", "--out", "drawn"), ("work/maze.txt",)),
    Job("report", ("report", "run", "--out", "page.html"), ("work/run",), quick=True),
    Job("download", ("data", "download", DATASET, "--mirrors", "{server}"), quick=True),
    Job("evaluate", ("evaluate", "policy.safetensors", *SCORING), ("work/policy.safetensors",), quick=True, keeps=True),
    Job("export", ("export", "policy.safetensors", "--format", "c"), ("work/policy.safetensors",), quick=True),
    Job("export-onnx", ("export", "run", "--out", "policy.onnx"), ("work/run",)),
    Job("generate", ("data", "generate", "hopper-random", "--size", "100", "--workers", "1")),
    Job("train", TRAINED),
    Job("fit", FITTING, (LOGS,)),
    Job("fit-out", (*FITTING, "--out", "d"), (LOGS,)),
    Job("reach", REACHING, ("work/dynamics", LOGS)),
    Job(
        "train-stacq",
        ("train", "logs.npz", "--dynamics", "dynamics", "--no-evaluate", *SMALL, "--out", "new"),
        ("work/dynamics", LOGS),
    ),
    Job("run", ("run", "--algos", "bc", "td3bc", "--seeds", "1", "--steps", "20", "--workers", "1")),
)


@dataclass
class Reference:
    """A job and what it leaves undisturbed, as files and as a number of operations."""

    job: Job
    folder: Path
    before: Tree
    after: Tree
    points: list[str]
    largest: int  # bytes of the largest file that it wrote
    arguments: tuple[str, ...] = field(default=())

    def begun(self, bench: Bench) -> Path:
        """The folder as it is before the job."""
        return begin(bench, self.job)

    def request(self, **options: object) -> Request:
        return Request(self.arguments, str(self.folder), **options)  # type: ignore[arg-type]


def begin(bench: Bench, job: Job) -> Path:
    folder = bench.fresh(f"job-{job.name}")
    bring(samples(bench), folder, job.needs)
    return folder


def chosen(bench: Bench) -> list[Job]:
    """A short attack keeps to what is quick."""
    return [job for job in JOBS if job.quick or not bench.short]


@cache
def referred(bench: Bench, job: Job) -> Reference:
    """Run the job twice, and refuse to judge by what does not repeat itself."""
    arguments = tuple(honest().url if each == "{server}" else each for each in job.arguments)
    folder = begin(bench, job)
    before, tally = snapshot(folder), bench.folder / "cases" / f"tally-{job.name}"
    trees = []
    for again in range(1 if bench.short else 2):
        if again:
            begin(bench, job)
        request = Request(arguments, str(folder), 300.0, watched=str(folder), tally=str(tally))
        answer = bench.server.run(request)
        if answer.code:
            raise SystemExit(f"the attack cannot begin: {' '.join(arguments)} ended with {answer.code}\n{answer.err}")
        trees.append(snapshot(folder))
    if trees[0] != trees[-1]:
        odd = [name for name in trees[0].keys() | trees[1].keys() if trees[0].get(name) != trees[1].get(name)]
        raise SystemExit(f"{job.name} does not repeat itself undisturbed: {', '.join(sorted(odd))}")
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    points = tally.read_text(encoding="utf-8").splitlines()
    return Reference(job, folder, before, trees[0], points, max(sizes, default=0), arguments)

"""Jobs on machines that share no files: what each leaves goes through a store, as one archive for each job.

A job gets a cache and a folder of runs of its own, filled with what the jobs before it left. While it runs, what it
has written so far goes to the store every minute, so that it goes on from there if its machine is lost.
"""

import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from stacq.core.errors import InputError
from stacq.core.files import home, replacing
from stacq.data.load import cached_file
from stacq.data.registry import recognised
from stacq.study.children import Child, Ended
from stacq.study.jobs import Job, jobs_of
from stacq.study.states import Places, State, write_state
from stacq.study.work import Task

EVERY = 60.0  # seconds between two archives of a job that runs
FIRST = ("checkpoints", "snapshots")  # packed before the lines about them: a run forgets lines that are too new
LEFT_OUT = ("compiled", "lock")


class Stamp(NamedTuple):
    """What tells that a file was written again."""

    size: int
    changed: int


class Store:
    """Archives by name: in a directory, or wherever fsspec leads (`s3://...`, `gs://...`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: Any = None
        if "://" in url:
            self.files, self.root = _remote(url)
        else:
            self.root = str(Path(url).absolute())

    def put(self, file: Path, name: str) -> None:
        """Under a name of its own first, so that nobody reads half of it."""
        place = f"{self.root}/{name}.tar"
        if self.files is None:
            with replacing(Path(place)) as temporary:
                shutil.copyfile(file, temporary)
            return
        self.files.makedirs(self.root, exist_ok=True)
        hidden = f"{self.root}/.{name}.{os.getpid()}"
        self.files.put_file(str(file), hidden)
        self.files.mv(hidden, place)

    def get(self, name: str, file: Path) -> bool:
        """Whether it is there."""
        place = f"{self.root}/{name}.tar"
        try:
            if self.files is None:
                shutil.copyfile(place, file)
            else:
                self.files.get_file(place, str(file))
        except FileNotFoundError:
            return False
        return True


def _remote(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise InputError(
            "fsspec is not installed", where="--store", expected="a directory, or fsspec for other places",
            fix="pip install fsspec, and the package that it names for this kind of place",
        ) from error  # fmt: skip
    try:
        files, root = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"cannot be used: {error}", where=f"--store {url}", expected="a place that fsspec knows", fix="correct it"
        ) from error
    return files, str(root).rstrip("/")


def chain(job: Job) -> list[str]:
    """Names of the archives that a job builds on, its own the last."""
    every = jobs_of([job.cell])
    return [each.key for each in every[: [each.key for each in every].index(job.key) + 1]]


def bring_data(job: Job, store: Store) -> None:
    """From the machine of the user: files of known datasets, which no other machine may fetch by itself."""
    info = recognised(job.cell.source.name)
    if job.kind != "data" or info is None or info.source != "d4rl" or not (file := cached_file(info)).exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "data.tar"
        with tarfile.open(archive, "w") as packed:
            packed.add(file, Path("home") / file.relative_to(home()))
        store.put(archive, job.key)


def do_away(task: Task, url: str) -> Ended:
    """On any machine: fetch, do, and send back, whatever the end."""
    store, job = Store(url), task.job
    with tempfile.TemporaryDirectory(prefix="stacq-") as folder:
        root = Path(folder)
        *others, own = chain(job)
        for key in others:
            fetch(store, key, root)
        before = stamps(root)
        fetch(store, own, root)
        places = Places(root / "study", root / "runs")
        child = Child(task._replace(places=places), variables={"STACQ_HOME": str(root / "home")})
        over = threading.Event()
        keeper = threading.Thread(target=_keep, args=(store, job.key, root, before, over))
        keeper.start()
        ended = child.wait()
        over.set()
        keeper.join()
        send(store, job.key, root, before)
    return ended if ended.state is None else Ended(ended.key, replace(ended.state, run=Path(ended.state.run).name))


def received(store: Store, places: Places, key: str, state: State) -> Ended:
    """On the machine of the user: the run of a finished cell, and how its job ended."""
    if state.run:
        with tempfile.TemporaryDirectory() as folder:
            fetch(store, key, Path(folder), only="runs/")
            shutil.copytree(Path(folder) / "runs", places.runs, dirs_exist_ok=True)
        state = replace(state, run=str(places.runs / state.run))
    write_state(places, key, state)
    return Ended(key, state)


def _keep(store: Store, key: str, root: Path, before: Mapping[Path, Stamp], over: threading.Event) -> None:
    while not over.wait(EVERY):
        send(store, key, root, before)


def fetch(store: Store, key: str, root: Path, only: str = "") -> None:
    """Unpack an archive, if there is one, or a part of it."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive.tar"
        if store.get(key, archive):
            with tarfile.open(archive) as packed:
                members = [each for each in packed.getmembers() if each.name.startswith(only)]
                packed.extractall(root, members=members, filter="data")


def send(store: Store, key: str, root: Path, before: Mapping[Path, Stamp]) -> None:
    """Pack what was written since, or again."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive.tar"
        with tarfile.open(archive, "w") as packed:
            for path in sorted(_changed(root, before), key=lambda each: not {*FIRST} & {*each.parts}):
                _add(packed, root, path)
        store.put(archive, key)


def _add(packed: tarfile.TarFile, root: Path, path: Path) -> None:
    """A file as long as it is now: what is appended or removed meanwhile belongs to the next archive."""
    try:
        with (root / path).open("rb") as file:
            member = packed.gettarinfo(arcname=str(path), fileobj=file)
            packed.addfile(member, file)
    except FileNotFoundError:
        return


def _changed(root: Path, before: Mapping[Path, Stamp]) -> Sequence[Path]:
    return [path for path, stamp in stamps(root).items() if before.get(path) != stamp]


def stamps(root: Path) -> dict[Path, Stamp]:
    """Every file of the cache and of the runs, as it is now."""
    found = {}
    for path in _files(root):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        found[path.relative_to(root)] = Stamp(facts.st_size, facts.st_mtime_ns)
    return found


def _files(root: Path) -> Iterator[Path]:
    for part in ("home", "runs"):
        for path in (root / part).rglob("*"):
            inside = path.relative_to(root).parts
            if path.is_file() and not {*LEFT_OUT} & {*inside} and not any(each.startswith(".") for each in inside):
                yield path

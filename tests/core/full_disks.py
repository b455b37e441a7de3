"""Every writer on disks with more and more room: a program of its own, since one that fills may crash its process.

    python full_disks.py limit|disk FOLDER STEP OTHERS

`limit` bounds the size of a file, as `ulimit -f` does. `disk` fills the file system of FOLDER, which holds nothing
else. The room grows by STEP bytes for HDF5, whose library cannot bear it, and by OTHERS for the rest. Every attempt is
a forked child. Prints one line for each writer, and one for each attempt that went wrong.
"""

import atexit
import ctypes
import gc
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from arrays import logged
from stacq.core.artefacts import kept_arrays, write_artefact
from stacq.core.errors import InputError
from stacq.core.files import write_json
from stacq.data.border import from_arrays
from stacq.data.dataset import Dataset
from stacq.data.hdf5 import write_hdf5
from stacq.data.minari_write import write_minari
from stacq.policies import Policy
from stacq.report.figures import save_figure
from stacq.runs.directory import Run

WRITTEN, REFUSED, FAILED = 0, 3, 4


class Writer(NamedTuple):
    name: str
    write: Callable[[Path], object]
    target: str
    again: bool = True  # writes over what is there
    hdf5: bool = False


def recorded(rows: int) -> Dataset:
    return from_arrays(**logged([rows, rows // 2], ["terminal", ""]), infos={"qpos": np.arange(1.5 * rows)})


def artefact(place: Path) -> None:
    write_artefact(place, "thing", {"x": np.arange(3000.0)}, {}, {}, {"numbers.json": b"{}" * 2000})


def parts(place: Path) -> None:
    kept_arrays(place, lambda: {"x": np.arange(3000.0), "y": np.arange(40)})


def policy(place: Path) -> None:
    Policy.from_mlp([np.ones((11, 256)), np.ones((256, 3))], [np.zeros(256), np.zeros(3)]).save(place)


def run(place: Path) -> None:
    Run(place, {"text": "x" * 9000})


def minari(dataset: Dataset, place: Path) -> None:
    os.environ["MINARI_DATASETS_PATH"] = str(place.parent)
    write_minari(dataset, place.name)


def writers() -> list[Writer]:

    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    draw = partial(save_figure, figure)
    return [
        Writer("hdf5", partial(write_hdf5, recorded(200)), "made.hdf5", hdf5=True),
        Writer("minari", partial(minari, recorded(20)), "made-v0", again=False, hdf5=True),
        Writer("artefact", artefact, "made"),
        Writer("parts", parts, "made.npz", again=False),
        Writer("policy", policy, "made.safetensors"),
        Writer("png", draw, "made.png"),
        Writer("svg", draw, "made.svg"),
        Writer("json", lambda place: write_json(place, list(range(3000))), "made.json"),
        Writer("run", run, "made-run", again=False),
    ]


def in_child(writer: Writer, place: Path, complaints: int) -> int:
    """How a forked child ends, its way out included; what it prints goes to an open file."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.dup2(complaints, 2)
    code = FAILED
    try:
        writer.write(place)
        code = WRITTEN
    except InputError as error:
        if "cannot write: " in str(error) and Path(error.where).name == place.name:
            code = REFUSED
        else:
            print(f"told badly: {error}", file=sys.stderr)
    except BaseException as error:
        print(f"not told: {error!r}", file=sys.stderr)
    gc.collect()  # what was left open closes, or fails to
    atexit._run_exitfuncs()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)  # as at the end of any process, HDF5's own end included, but without Python's
    raise AssertionError


def content(place: Path) -> dict[str, bytes] | None:
    """Every file of what was written."""
    if not place.exists():
        return None
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


@contextmanager
def limited(_: Path, room: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def filled(folder: Path, room: int) -> Iterator[None]:
    ballast, free = folder / "ballast", os.statvfs(folder)
    size = free.f_bavail * free.f_frsize - room
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(size, 1))
    yield
    ballast.unlink()


def main(kind: str, folder: Path, steps: tuple[int, int], complaints: int) -> None:
    less_room = {"limit": limited, "disk": filled}[kind]
    for writer in writers():
        step = steps[not writer.hdf5]
        place = folder / writer.target
        assert in_child(writer, place, complaints) == WRITTEN, writer.name
        whole, refused, room = content(place), 0, 0
        while True:
            if not writer.again:
                shutil.rmtree(place, ignore_errors=True)
                place.unlink(missing_ok=True)
            before = content(place)
            os.ftruncate(complaints, 0)
            os.lseek(complaints, 0, os.SEEK_SET)
            with less_room(folder, room):
                code = in_child(writer, place, complaints)
            said = os.pread(complaints, 10_000, 0)
            beside = [path.name for path in folder.iterdir() if path != place]
            kept = (
                content(place) == before if code == REFUSED else (content(place) or {}).keys() == (whole or {}).keys()
            )
            if code not in (WRITTEN, REFUSED) or said or beside or not kept:
                print(f"{writer.name} with {room} bytes: exit code {code}, {beside=}, {kept=}, {said!r}")
                shutil.rmtree(folder / beside[0], ignore_errors=True) if beside else None
            if code == WRITTEN:
                break
            refused, room = refused + 1, room + step
        print(f"{writer.name}: {refused} refused, then written")
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)


if __name__ == "__main__":
    kind, folder, *steps = sys.argv[1:]
    handle = os.open(Path(folder).with_name("complaints"), os.O_RDWR | os.O_CREAT)
    main(kind, Path(folder), (int(steps[0]), int(steps[1])), handle)

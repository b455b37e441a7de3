"""Where an attack works: a folder, a seed, a process to fork from, and samples made once."""

import shutil
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from attack.processes import ForkServer

CASE = ("work", "home", "minari", "tmp")  # the folders that a command may write in


@dataclass(frozen=True)
class Bench:
    """All that a category of attacks needs. Cases are numbered, and a number with the seed repeats its case."""

    folder: Path  # of this bench alone
    seed: int
    short: bool = False
    shared: Path = Path()  # of all benches of an attack: samples and compiled code

    @cached_property
    def server(self) -> ForkServer:
        return ForkServer(self.shared)

    def rng(self, category: str, number: int) -> np.random.Generator:
        """By place and not by order: a case repeated alone draws the same."""
        return np.random.default_rng([self.seed, zlib.crc32(category.encode()), number])

    def fresh(self, name: str) -> Path:
        """An empty folder for one case."""
        return emptied(self.folder / "cases" / name)

    def close(self) -> None:
        if "server" in self.__dict__:
            self.server.close()


def emptied(folder: Path) -> Path:
    """A folder that holds nothing but the places that a command may write in."""
    shutil.rmtree(folder, ignore_errors=True)
    for each in CASE:
        (folder / each).mkdir(parents=True)
    return folder


def bring(sample: Path, folder: Path, names: tuple[str, ...]) -> None:
    """Copy what a case needs of the samples, under the same names."""
    for name in names:
        source, target = sample / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)

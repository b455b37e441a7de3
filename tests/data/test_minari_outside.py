"""Minari directories that others made, and meant no good with."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdf5_damage import crash, loop
from stacq.core.errors import InputError
from stacq.data.minari import read_minari
from test_minari import edit_metadata, record_flat
from test_minari import root as root


@pytest.fixture
def main_file(root: Path) -> Path:
    record_flat()
    return root / "flat-v0" / "data" / "main_data.hdf5"


@pytest.mark.parametrize("damage", [loop, crash])
def test_damage_that_would_stop_the_process_is_told(main_file: Path, damage: Callable[[Path], Path]) -> None:
    with h5py.File(main_file) as old, h5py.File(main_file.with_name("older"), "w", libver="earliest") as new:
        for name in old:
            old.copy(name, new)
    main_file.with_name("older").replace(main_file)
    assert len(read_minari("flat-v0")) == 6
    damage(main_file)
    with pytest.raises(InputError, match=r"main_data.hdf5: cannot be read"):
        read_minari("flat-v0")


def link(file: h5py.File, other: Path) -> None:
    file["episode_0/actions"] = h5py.ExternalLink(str(other), "/episode_0/actions")


def link_softly(file: h5py.File, other: Path) -> None:
    file["away"] = h5py.ExternalLink(str(other), "/")
    file["episode_0/actions"] = h5py.SoftLink("/away/episode_0/actions")


def view(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((3, 2), "f8")
    layout[:] = h5py.VirtualSource(str(other), "episode_0/actions", (3, 2))
    file.create_virtual_dataset("episode_0/actions", layout)


def store(file: h5py.File, other: Path) -> None:
    file.create_dataset("episode_0/actions", (3, 2), "f8", external=[(str(other), 0, 48)])


@pytest.mark.parametrize(
    ("lead", "problem"),
    [
        (link, "is an external link"),
        (link_softly, "is an external link"),
        (view, "is a virtual dataset"),
        (store, "has external storage"),
    ],
)
def test_what_lies_in_other_files_is_refused(main_file: Path, lead: Any, problem: str) -> None:
    shutil.copy(main_file, other := main_file.with_name("other.hdf5"))
    with h5py.File(main_file, "a") as file:
        del file["episode_0/actions"]
        lead(file, other)
    with pytest.raises(InputError, match=f"episode_0/actions' {problem}, and what lies in other files is not read"):
        read_minari("flat-v0")


def test_steps_that_claim_more_than_the_file_can_hold(main_file: Path) -> None:
    """Each array claims less than the smallest bomb; together the episodes do not."""
    with h5py.File(main_file, "a") as file:
        for number in range(3):
            for key in ("observations", "actions", "rewards", "terminations", "truncations"):
                file[f"episode_{number}"][key].resize(2_000_000 + (key == "observations"), axis=0)
    with pytest.raises(InputError, match=r"main_data.hdf5: its arrays claim \d+,\d+,\d+ bytes, but the file has"):
        read_minari("flat-v0")


def test_metadata_that_is_nested_without_end_is_told(root: Path) -> None:
    record_flat()
    (root / "flat-v0" / "data" / "metadata.json").write_text("[" * 1_000_000)
    with pytest.raises(InputError, match="cannot be read"):
        read_minari("flat-v0")


def test_text_that_is_no_text_is_replaced(root: Path) -> None:
    """Lone surrogates, which JSON can spell and no file or terminal takes."""
    record_flat()
    edit_metadata(root / "flat-v0", stacq={"name": "a\ud800b", "provenance": {"by\udcff": "me\ud800"}})
    dataset = read_minari("flat-v0")
    assert (dataset.name, dict(dataset.provenance)) == ("a\ufffdb", {"by\ufffd": "me\ufffd"})


def test_a_mark_of_a_wrong_shape_is_told(main_file: Path) -> None:
    with h5py.File(main_file, "a") as file:
        for number, rows in enumerate((4, 2, 3)):
            file[f"episode_{number}/infos/successor_known"] = np.ones((rows, 2), dtype=bool)
    with pytest.raises(InputError, match=r"'infos/successor_known' has shape \(6, 2\)"):
        read_minari("flat-v0")


def test_all_numeric_infos_of_an_episode(main_file: Path) -> None:
    with h5py.File(main_file, "a") as file:
        file["episode_0/infos/words"] = ["a"] * 4
    assert sorted(read_minari("flat-v0", infos="all").infos) == ["deep/t", "qpos"]
    with h5py.File(main_file, "a") as file:
        file["episode_0/infos/circle"] = file["episode_0/infos"]
    with pytest.raises(InputError, match=r"'episode_1/infos/circle/.* is missing"):
        read_minari("flat-v0", infos="all")

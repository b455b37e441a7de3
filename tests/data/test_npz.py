"""NumPy archives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import InputError, load


def test_an_archive_reads_like_hdf5(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    extras: dict[str, Any] = {"infos/qpos": np.arange(5.0)}
    np.savez(tmp_path / "logs.npz", **raw, **extras, comment=np.zeros(9))
    dataset = load(tmp_path / "logs.npz", infos=["qpos"])
    assert dataset.name == "logs" and dataset.episodes == 2
    assert dataset.infos["qpos"].tolist() == [0, 1, 2, 3, 4]


def test_a_misspelt_key_is_noted(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["next_observation"] = raw.pop("next_observations")
    np.savez(tmp_path / "logs.npz", **raw, comment=np.zeros(9))
    notes = load(tmp_path / "logs.npz").notes
    assert [note for note in notes if "did you mean" in note] == [
        "key 'next_observation' is not read; did you mean next_observations?"
    ]


@pytest.mark.parametrize(("theirs", "ours"), [("dones", "terminals"), ("truncated", "timeouts")])
def test_names_that_others_use_are_known(tmp_path: Path, theirs: str, ours: str) -> None:
    """Without a note, episodes would run into each other; without terminals nothing can be read at all."""
    raw = logged([2, 3], ["terminal", "timeout"])
    raw[theirs] = raw.pop(ours)
    np.savez(tmp_path / "logs.npz", **raw)
    if ours == "terminals":
        with pytest.raises(InputError, match=r"'terminals' is missing; is it 'dones'\?(.|\n)*found: actions, dones,"):
            load(tmp_path / "logs.npz")
    else:
        assert f"key '{theirs}' is not read; did you mean {ours}?" in load(tmp_path / "logs.npz").notes


def test_columns_of_one_number_are_rows(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    columns = {key: raw[key][:, None] for key in ("rewards", "terminals", "timeouts")}
    np.savez(tmp_path / "logs.npz", **{**raw, **columns})
    dataset = load(tmp_path / "logs.npz")
    assert dataset.rewards.tolist() == raw["rewards"].tolist() and dataset.episodes == 2


def test_a_table_is_told_apart_from_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "logs.xlsx").write_text("position,speed")
    with pytest.raises(InputError, match=r"numpy.savez"):
        load(tmp_path / "logs.xlsx")


def test_one_array_is_not_an_archive(tmp_path: Path) -> None:
    with open(tmp_path / "array.npz", "wb") as handle:
        np.save(handle, np.zeros(3))
    with pytest.raises(InputError, match=r"array.npz.*not a readable"):
        load(tmp_path / "array.npz")


def test_pickles_are_refused(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["rewards"] = np.array([{}, 1, 2, 3, 4], dtype=object)
    np.savez(tmp_path / "objects.npz", **raw)
    with pytest.raises(InputError, match="pickles"):
        load(tmp_path / "objects.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"text"])
def test_garbage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "garbage.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"garbage.npz"):
        load(tmp_path / "garbage.npz")


def test_a_missing_archive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "none.npz")


def test_all_extras(tmp_path: Path) -> None:
    extras: dict[str, Any] = {"infos/qpos": np.arange(5.0), "infos/qvel": np.arange(5.0)}
    np.savez(tmp_path / "logs.npz", **logged([2, 3], ["terminal", "timeout"]), **extras)
    assert sorted(load(tmp_path / "logs.npz", infos="all").infos) == ["qpos", "qvel"]


def test_a_missing_extra(tmp_path: Path) -> None:
    np.savez(tmp_path / "logs.npz", **logged([2, 3], ["terminal", "timeout"]))
    with pytest.raises(InputError, match="infos/qpos"):
        load(tmp_path / "logs.npz", infos=["qpos"])

"""D4RL's HDF5 layout in every variety that exists, and every way such a file can be wrong."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings

from arrays import logged, recordings
from stacq import Conventions, Dataset, InputError, from_arrays, load
from stacq.data.hdf5 import read_hdf5, write_hdf5


def write_raw(path: Path, raw: dict[str, Any], **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for key, value in raw.items():
            file.create_dataset(key, data=value, **options)
    return path


def assert_same(left: Dataset, right: Dataset) -> None:
    for key in Dataset.__dataclass_fields__:
        first, second = getattr(left, key), getattr(right, key)
        if key == "infos":
            assert sorted(first) == sorted(second)
            for name in first:
                np.testing.assert_array_equal(first[name], second[name])
                assert first[name].dtype == second[name].dtype
        elif isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
            assert first.dtype == second.dtype, key
        elif key != "notes":
            assert first == second, key


@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "chunks": True}, {"chunks": True}])
def test_v2_layout_with_groups_to_ignore(tmp_path: Path, options: dict[str, Any]) -> None:
    raw = logged([2, 3, 2], ["terminal", "timeout", "cut"])
    policy = {f"{group}/policy/fc0/weight": np.ones((2, 2)) for group in ("metadata", "infos")}
    extras = {"infos/qpos": np.arange(14.0).reshape(7, 2), **policy}
    path = write_raw(tmp_path / "v2.hdf5", {**raw, **extras}, **options)
    dataset = read_hdf5(path)
    np.testing.assert_array_equal(dataset.next_observations, raw["next_observations"])
    assert dataset.episodes == 3 and dataset.infos == {}
    assert read_hdf5(path, infos=["qpos"]).infos["qpos"].dtype == np.float64
    assert list(read_hdf5(path, infos="all").infos) == ["qpos"]


def test_v0_layout_without_timeouts_and_successors(tmp_path: Path) -> None:
    raw = logged([5], ["cut"])
    del raw["timeouts"], raw["next_observations"]
    raw["rewards"], raw["terminals"] = raw["rewards"][:, None], raw["terminals"][:, None]
    path = write_raw(tmp_path / "v0.hdf5", raw)
    dataset = read_hdf5(path, conventions=Conventions(max_episode_steps=2))
    assert np.flatnonzero(dataset.timeouts).tolist() == [1, 3]
    assert dataset.rewards.shape == (5,)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32, bool])
def test_flags_of_any_numeric_type(tmp_path: Path, kind: type) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["terminals"], raw["timeouts"] = raw["terminals"].astype(kind), raw["timeouts"].astype(kind)
    assert read_hdf5(write_raw(tmp_path / "flags.hdf5", raw)).terminals.tolist() == [0, 1, 0, 0, 0]


def test_other_byte_orders_and_half_precision_are_read(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["observations"], raw["rewards"] = raw["observations"].astype(">f4"), raw["rewards"].astype(np.float16)
    dataset = read_hdf5(write_raw(tmp_path / "order.hdf5", raw))
    assert dataset.observations.dtype == np.float32 and dataset.rewards.dtype == np.float32


@settings(max_examples=60)
@given(raw=recordings())
def test_a_round_trip_loses_nothing(raw: dict[str, Any], tmp_path: Path) -> None:
    optional = {key: raw[key] for key in ("timeouts", "next_observations") if key in raw}
    dataset = from_arrays(
        raw["observations"],
        raw["actions"],
        raw["rewards"],
        raw["terminals"],
        **optional,
        infos={"qpos": np.arange(len(raw["rewards"]), dtype=np.float64)},
        conventions=Conventions(name="trip", env_id="Hopper-v4", action_low=-1.25, action_high=1.0),
    )
    write_hdf5(dataset, tmp_path / "trip.hdf5")
    assert_same(dataset, read_hdf5(tmp_path / "trip.hdf5", infos=["qpos"]))


def test_peers_find_what_they_expect(tmp_path: Path) -> None:
    """Other readers take the root keys, refuse NaN, and know nothing of our marks."""
    raw = logged([2, 3], ["terminal", "timeout"])
    del raw["next_observations"]
    dataset = from_arrays(**raw)
    write_hdf5(dataset, tmp_path / "ours.hdf5")
    with h5py.File(tmp_path / "ours.hdf5") as file:
        assert {"observations", "actions", "rewards", "terminals", "timeouts", "next_observations"} <= set(file)
        assert np.isfinite(file["next_observations"][()]).all()
        assert all(file[key].shape[0] == 5 for key in file if isinstance(file[key], h5py.Dataset))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = from_arrays(**logged([2, 3], ["terminal", "timeout"]))
    target = tmp_path / "kept.hdf5"
    write_hdf5(dataset, target)
    before = target.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.File, "create_dataset", full)
    with pytest.raises(InputError, match="No space left"):
        write_hdf5(dataset, target)
    assert target.read_bytes() == before and [path.name for path in tmp_path.glob("*.part")] == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".kept")]


def cases(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    """Wrong files by kind, with words their error must contain."""
    good = write_raw(folder / "good.hdf5", logged([200, 300], ["terminal", "timeout"]))
    raw = logged([2, 3], ["terminal", "timeout"])
    (folder / "empty.hdf5").touch()
    (folder / "truncated.hdf5").write_bytes(good.read_bytes()[:-5000])
    (folder / "page.hdf5").write_text("<html>403</html>")
    (folder / "dir.hdf5").mkdir()
    write_raw(folder / "key.hdf5", {key: value for key, value in raw.items() if key != "rewards"})
    write_raw(folder / "scalar.hdf5", {**raw, "rewards": np.float32(1)})
    write_raw(folder / "infos.hdf5", {**raw, "infos/qpos": np.zeros((3, 1))})
    with h5py.File(write_raw(folder / "group.hdf5", raw), "a") as file:
        del file["actions"]
        file.create_group("actions")
    with h5py.File(write_raw(folder / "unfilled.hdf5", raw), "a") as file:
        del file["observations"]
        file.create_dataset("observations", shape=(10**12, 17), dtype="f4", chunks=(1024, 17))
    return {
        "missing": (folder / "nowhere.hdf5", ["no such file"]),
        "empty": (folder / "empty.hdf5", ["empty"]),
        "truncated": (folder / "truncated.hdf5", ["truncated", "again"]),
        "not HDF5": (folder / "page.hdf5", ["not an HDF5 file", "<html>"]),
        "directory": (folder / "dir.hdf5", ["this is a directory", "name the file itself"]),
        "missing key": (folder / "key.hdf5", ["'rewards' is missing", "observations"]),
        "scalar": (folder / "scalar.hdf5", ["'rewards'", "rank 0"]),
        "group": (folder / "group.hdf5", ["'actions' is a group"]),
        "unfilled": (folder / "unfilled.hdf5", ["'observations'", "claims shape"]),
    }


@pytest.mark.parametrize("case", sorted(["missing", "empty", "truncated", "not HDF5", "directory", "missing key"]))
def test_wrong_files(tmp_path: Path, case: str) -> None:
    path, words = cases(tmp_path)[case]
    with pytest.raises(InputError) as caught:
        load(path)
    assert path.name in str(caught.value)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("case", ["scalar", "group", "unfilled"])
def test_wrong_contents(tmp_path: Path, case: str) -> None:
    path, words = cases(tmp_path)[case]
    with pytest.raises(InputError) as caught:
        load(path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_deflate_can_do_is_no_false_claim(tmp_path: Path) -> None:
    """72 MB of zeros that take a thousandth of it; and few rows of which none was ever written: those are zeros too."""
    rows, raw = 2_250_000, logged([2, 3], ["terminal", "timeout"])
    shapes = {"observations": (rows, 8), "actions": (rows, 1), "rewards": (rows,), "terminals": (rows,)}
    with h5py.File(tmp_path / "zeros.hdf5", "w") as file:
        for key, shape in shapes.items():
            file.create_dataset(key, data=np.zeros(shape, np.float32), compression="gzip", chunks=(250_000, *shape[1:]))
        node = file["observations"]
        assert node.nbytes > 2**26 and node.nbytes > 900 * node.id.get_storage_size()
    assert not read_hdf5(tmp_path / "zeros.hdf5").observations.any()
    with h5py.File(write_raw(tmp_path / "few.hdf5", raw), "a") as file:
        del file["rewards"]
        file.create_dataset("rewards", shape=5, dtype="f4", chunks=(5,))
    assert read_hdf5(tmp_path / "few.hdf5").rewards.tolist() == [0.0] * 5


def test_a_nameless_dataset_is_called_by_its_file(tmp_path: Path) -> None:
    dataset = from_arrays(**logged([2, 3], ["terminal", "timeout"]))
    assert dataset.name == ""
    write_hdf5(dataset, tmp_path / "logs.hdf5")
    assert read_hdf5(tmp_path / "logs.hdf5").name == "logs"


def test_the_reader_itself_knows_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"this is a directory[\s\S]*name the .hdf5 file inside it"):
        read_hdf5(tmp_path)


def test_wrong_extras(tmp_path: Path) -> None:
    cases(tmp_path)
    write_raw(tmp_path / "scalars.hdf5", {**logged([5], ["cut"]), "infos/mass": np.float32(1)})
    with pytest.raises(InputError, match="'infos/mass' is a single value"):
        load(tmp_path / "scalars.hdf5", infos="all")
    with pytest.raises(InputError, match=r"infos/qpos.* 3 rows"):
        load(tmp_path / "infos.hdf5", infos=["qpos"])
    with pytest.raises(InputError, match=r"infos/qvel.* is missing[\s\S]*qpos"):
        load(tmp_path / "infos.hdf5", infos=["qvel"])


def test_a_misspelt_key_is_noted(tmp_path: Path) -> None:
    raw = logged([2, 3], ["terminal", "timeout"])
    raw["truncations"] = raw.pop("timeouts")
    dataset = read_hdf5(write_raw(tmp_path / "theirs.hdf5", {**raw, "infos/timeouts": raw["truncations"]}))
    assert "key 'truncations' is not read; did you mean timeouts?" in dataset.notes
    with pytest.raises(InputError, match=r"is it 'dones'\?(.|\n)*found: actions, dones, next_observations"):
        raw["dones"] = raw.pop("terminals")
        read_hdf5(write_raw(tmp_path / "dones.hdf5", raw))

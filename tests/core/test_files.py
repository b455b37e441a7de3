"""Files appear whole or not at all."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stacq import InputError
from stacq.core.artefacts import cache_key, check_parent, read_artefact, write_artefact
from stacq.core.files import alone, appearing, check_writable, content_hash, home, replacing, write_json
from stacq.core.types import Array

HALF = """
import sys, time
from pathlib import Path
from stacq.core.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("half of the n")
    print("half", flush=True)
    time.sleep(60)
"""


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with subprocess.Popen([sys.executable, "-c", HALF, str(target)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "half\n"
        writer.kill()
    assert target.read_text() == "old"


HOLDING = """
import sys, time
from pathlib import Path
from stacq.core.files import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_comes_second_waits_until_the_first_is_gone(tmp_path: Path) -> None:
    """Killed, not finished: the operating system lets go of what a dead process held."""
    target, told = tmp_path / "file", []
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(target)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"

        def waiting() -> None:
            told.append(holder.poll())
            holder.kill()

        with alone(target, waiting):
            assert holder.wait(10) != 0
    assert told == [None]
    with alone(target, waiting):
        target.touch()
    assert told == [None] and sorted(tmp_path.iterdir()) == [target, tmp_path / "work"]
    with pytest.raises(InputError, match="cannot write"), alone(target / "below"):
        pass


def test_one_at_a_time_among_many(tmp_path: Path) -> None:
    """The lock's file comes and goes between them, and still no two are inside together."""
    inside: list[int] = []
    most, rounds = list[int](), 10

    def work() -> None:
        for _ in range(rounds):
            with alone(tmp_path / "file"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)  # let the others in, if they can come
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * (6 * rounds)
    assert list(tmp_path.iterdir()) == [tmp_path / "work"]


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), replacing(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyError
    assert list(tmp_path.iterdir()) == [tmp_path / "work"]


def test_folders_that_were_made_in_vain_go_again(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    for target in (tmp_path / "kept" / "file", tmp_path / "new" / "newer" / "file"):
        for manager in (replacing, appearing, alone):
            with pytest.raises(RuntimeError), manager(target):
                raise RuntimeError
        check_writable(target)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "work"]


def test_unwritable_places_are_input_errors(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for act in (check_writable, lambda path: write_json(path, {})):
        with pytest.raises(InputError, match="cannot write"):
            act(tmp_path / "file" / "inside")


def test_home_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home() == tmp_path / "home"
    monkeypatch.delenv("STACQ_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert home() == Path("/somewhere/stacq")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert home() == Path.home() / ".cache" / "stacq"


def test_hashes_see_names_types_shapes_and_values() -> None:
    base = {"a": np.zeros(4, dtype=np.float32)}
    others: list[dict[str, Array]] = [
        {"b": base["a"]},
        {"a": base["a"].astype(np.float64)},
        {"a": base["a"].reshape(2, 2)},
        {"a": np.ones(4, dtype=np.float32)},
    ]
    assert len({content_hash(arrays) for arrays in (base, *others)}) == 5


def test_artefacts_round_trip_and_are_verified(tmp_path: Path) -> None:
    arrays = {"x": np.arange(3.0), "flag": np.array([True])}
    write_artefact(tmp_path / "made", "thing", arrays, {"size": 3}, {"dataset": "abc"})
    found = read_artefact(tmp_path / "made", "thing")
    np.testing.assert_array_equal(found.arrays["x"], arrays["x"])
    assert found.config == {"size": 3} and found.parents == {"dataset": "abc"}
    check_parent(found, "dataset", "abc", "the data")
    with pytest.raises(InputError, match="made from another dataset"):
        check_parent(found, "dataset", "abd", "the data")
    with pytest.raises(InputError, match="not a other artefact"):
        read_artefact(tmp_path / "made", "other")
    with pytest.raises(InputError, match="no thing artefact here"):
        read_artefact(tmp_path / "nowhere", "thing")


def test_a_damaged_artefact_is_found_out(tmp_path: Path) -> None:
    write_artefact(tmp_path / "made", "thing", {"x": np.arange(300.0)}, {}, {})
    file = tmp_path / "made" / "arrays.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged"):
        read_artefact(tmp_path / "made", "thing")


def test_cache_keys_follow_inputs_and_options() -> None:
    keys = {
        cache_key("a", {"x": 1}, {"d": "1"}),
        cache_key("b", {"x": 1}, {"d": "1"}),
        cache_key("a", {"x": 2}, {"d": "1"}),
        cache_key("a", {"x": 1}, {"d": "2"}),
    }
    assert len(keys) == 4

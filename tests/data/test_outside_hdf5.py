"""HDF5 files that would end, stop or fill this process, or lead it to other files, if it opened them itself."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from arrays import logged
from hdf5_damage import crash, loop
from stacq import InputError, load
from stacq.data import hdf5_child, hdf5_guard, hdf5_server
from stacq.data.hdf5_guard import Stored, opened
from stacq.data.hdf5_server import Unreadable

RAW = logged([20, 30], ["terminal", "timeout"])
pytestmark = pytest.mark.timeout(60)


def written(path: Path, raw: dict[str, Any] = RAW, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for key, value in raw.items():
            file.create_dataset(key, data=value, **options)
    return path


def changed_child(folder: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """Let other processes be started from here on."""
    text = Path(hdf5_child.__file__).read_text()
    assert before in text
    (folder / "child.py").write_text(text.replace(before, after))
    monkeypatch.setattr(hdf5_child, "__file__", str(folder / "child.py"))
    hdf5_server._end_idle()


def opening(parent: int) -> set[int]:
    """Processes that open files for a process: its child, and the fork of that which is busy with a file."""
    found = {number for number in children(parent) if opens_files(number)}
    return found | {each for number in found for each in children(number)}


def children(parent: int) -> set[int]:
    try:
        return {int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}
    except OSError:
        return set()


def opens_files(number: int) -> bool:
    """False if it has ended, also while nobody has waited for it yet."""
    try:
        return hdf5_child.__file__.encode() in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


# --- Files that the library does not survive


@pytest.mark.parametrize("damage", [crash, loop])
def test_damage_that_would_end_or_stop_the_process_is_told(tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    path = damage(written(tmp_path / "damaged.hdf5"))
    for _ in range(2):
        with pytest.raises(InputError, match=r"damaged.hdf5: the HDF5 file is damaged"):
            load(path)
    assert len(load(written(tmp_path / "whole.hdf5"))) == 50


def test_the_signal_that_ended_it_is_named(tmp_path: Path) -> None:
    with opened(crash(written(tmp_path / "damaged.hdf5"))) as file, pytest.raises(Unreadable, match="SIGSEGV"):
        file.look([""])


def test_computing_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_guard, "MEMORY", 1 << 33)
    monkeypatch.setattr(hdf5_guard, "SECONDS", 0.5)
    with pytest.raises(InputError, match="did not end within 1 seconds"):
        load(loop(written(tmp_path / "damaged.hdf5")))


def test_waiting_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "whole.hdf5")
    load(path)
    (server,) = hdf5_server._idle[os.getpid()]
    os.kill(server.process.pid, signal.SIGSTOP)  # as if its disk were gone
    monkeypatch.setattr(hdf5_server, "PATIENCE", 0.05)
    with pytest.raises(InputError, match=r"did not end within 0.3\d* seconds"):
        load(path)
    assert server.process.returncode == -signal.SIGKILL


def test_memory_is_bounded(tmp_path: Path) -> None:
    """In the child as well: the list that never ends takes no more than a small file may."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(InputError, match="memory allocation failed"):
        load(loop(written(tmp_path / "damaged.hdf5")))
    hdf5_server._end_idle()
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after <= max(before, 400_000), after  # kilobytes


# --- Files that lead to other files


def store_outside(file: h5py.File, other: Path) -> None:
    file.create_dataset("observations", (50, 3), "u1", external=[(str(other), 0, 150)])


def link_outside(file: h5py.File, other: Path) -> None:
    file["observations"] = h5py.ExternalLink(str(other), "/observations")


def link_softly_outside(file: h5py.File, other: Path) -> None:
    file["metadata/away"] = h5py.ExternalLink(str(other), "/")
    file["observations"] = h5py.SoftLink("/metadata/away/observations")


def view_outside(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((50, 3), "f4")
    layout[:] = h5py.VirtualSource(str(other), "observations", (50, 3))
    file.create_virtual_dataset("observations", layout)


def view_itself(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((50, 3), "f4")
    layout[:] = h5py.VirtualSource(".", "observations", (50, 3))
    file.create_virtual_dataset("observations", layout)


LEADING = {
    "has external storage": store_outside,
    "is an external link": link_outside,
    "observations' is an external link": link_softly_outside,
    "is a virtual dataset": view_outside,
    "observations' is a virtual dataset": view_itself,
}


@pytest.mark.parametrize("problem", LEADING)
def test_what_lies_in_other_files_is_refused(tmp_path: Path, problem: str) -> None:
    other = written(tmp_path / "other.hdf5")
    path = written(tmp_path / "leading.hdf5", {key: value for key, value in RAW.items() if key != "observations"})
    with h5py.File(path, "a") as file:
        LEADING[problem](file, other)
    with pytest.raises(InputError, match=f"{problem}, and what lies in other files is not read") as caught:
        load(path)
    assert str(path) in str(caught.value)
    with opened(path) as found, pytest.raises(InputError, match="in other files"):
        found.touch() if "link" not in problem else found.look(["observations"])


def test_the_child_opens_no_second_file_even_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a way out overlooked, it would be shut: the process can open nothing more once it has its file."""
    changed_child(tmp_path, monkeypatch, "raise Refused(", "str(")
    (tmp_path / "secret").write_bytes(bytes(range(1, 151)))
    path = written(tmp_path / "leading.hdf5", {"rewards": RAW["rewards"]})
    with h5py.File(path, "a") as file:
        store_outside(file, tmp_path / "secret")
    try:
        with opened(path) as found, pytest.raises(Unreadable):
            node = found.look(["observations"])["observations"]
            assert isinstance(node, Stored)
            found.read([node])
    finally:
        hdf5_server._end_idle()


def test_soft_links_inside_the_file_are_followed(tmp_path: Path) -> None:
    path = written(tmp_path / "soft.hdf5", {key: value for key, value in RAW.items() if key != "observations"})
    with h5py.File(path, "a") as file:
        file["deep/er/values"] = RAW["observations"]
        file["deep/observations"] = h5py.SoftLink("er/values")
        file["observations"] = h5py.SoftLink("/deep/observations")
    np.testing.assert_array_equal(load(path).observations, RAW["observations"])
    with h5py.File(path, "a") as file:
        del file["deep/er/values"]
        file["deep/er/values"] = h5py.SoftLink("/observations")
    with pytest.raises(InputError, match="leads in a circle"):
        load(path)


# --- Files that claim more than they hold


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """Chunks of zeros shrink a thousand times, so each array may be honest: together they are not."""
    rows, chunk = 5_000_000, 1_250_000
    layout = {"observations": (8,), "next_observations": (8,), "actions": (4,), "rewards": (), "terminals": ()}
    with h5py.File(tmp_path / "bomb.hdf5", "w") as file:
        for key, width in layout.items():
            node = file.create_dataset(key, (rows, *width), "f4", chunks=(chunk, *width), compression="gzip")
            packed = zlib.compress(bytes(node.nbytes * chunk // rows), 9)
            for start in range(0, rows, chunk):
                node.id.write_direct_chunk((start, *(0 for _ in width)), packed)
    size = (tmp_path / "bomb.hdf5").stat().st_size
    with pytest.raises(InputError, match=rf"bomb.hdf5: its arrays claim 440,000,000 bytes, but the file has {size:,}"):
        load(tmp_path / "bomb.hdf5")


def test_many_rows_that_are_really_there_are_no_bomb(tmp_path: Path) -> None:
    raw = logged([5000], ["timeout"])
    raw["observations"][:, 1:] = 0
    raw["next_observations"][:, 1:] = 0
    assert len(load(written(tmp_path / "plain.hdf5", raw, compression="gzip", chunks=True))) == 5000


# --- Values arrive as they are stored


@pytest.mark.parametrize("options", [{}, {"chunks": True}, {"chunks": (7, 1), "compression": "lzf", "shuffle": True}])
@pytest.mark.parametrize("kind", [">f8", "<f2", "i8", "u1", "bool", "c8", "S5"])
def test_values_arrive_as_h5py_reads_them(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    values = (np.arange(60) % 2).reshape(20, 3).astype(kind)
    written(tmp_path / "it.hdf5", {"deep/er": values}, **options)
    with opened(tmp_path / "it.hdf5") as file:
        node = file.look(["deep/er"])["deep/er"]
        assert isinstance(node, Stored) and (node.offset is None) == bool(options)
        (found,) = file.read([node])
    assert found.dtype == values.dtype and found.flags.writeable
    np.testing.assert_array_equal(found, values)


def test_large_arrays_arrive_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(300_000, 3))  # more than is read at once
    written(tmp_path / "it.hdf5", {"a": values, "b": values[::2]}, chunks=(5000, 2), compression="lzf")
    with opened(tmp_path / "it.hdf5") as file:
        nodes = [node for node in file.look(["a", "b"]).values() if isinstance(node, Stored)]
        first, second = file.read(nodes)
    np.testing.assert_array_equal(first, values)
    np.testing.assert_array_equal(second, values[::2])


def test_a_user_block_shifts_the_values(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "it.hdf5", "w", userblock_size=1024) as file:
        file["a"] = RAW["observations"]
    with opened(tmp_path / "it.hdf5") as found:
        node = found.look(["a"])["a"]
        assert isinstance(node, Stored) and node.offset is not None
        np.testing.assert_array_equal(found.read([node])[0], RAW["observations"])


def test_objects_and_records_are_no_numbers(tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "it.hdf5"), "a") as file:
        file["infos/words"] = ["a"] * 50
        file["infos/records"] = np.zeros(50, dtype=[("a", "f4"), ("b", "i4")])
    for key in ("words", "records"):
        with pytest.raises(InputError, match=f"key 'infos/{key}' holds objects or records, not numbers"):
            load(tmp_path / "it.hdf5", infos=(key,))


# --- The processes


def test_one_process_serves_file_after_file(tmp_path: Path) -> None:
    path = written(tmp_path / "it.hdf5")
    load(path)
    (server,) = hdf5_server._idle[os.getpid()]
    load(path)
    assert hdf5_server._idle[os.getpid()] == [server]


def test_a_file_can_be_written_as_soon_as_it_was_read(tmp_path: Path) -> None:
    """Readers hold a lock on it; the other process must have let go of it, also where it told of damage."""
    path = written(tmp_path / "it.hdf5")
    for _ in range(20):
        load(path)
        written(path)
    for _ in range(5):
        with pytest.raises(InputError):
            load(loop(written(path)))
        written(path)


def test_several_threads_read_at_once(tmp_path: Path) -> None:
    path, found = written(tmp_path / "it.hdf5"), []
    threads = [threading.Thread(target=lambda: found.append(len(load(path)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 4


def test_it_ends_when_nothing_is_asked_and_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_child(tmp_path, monkeypatch, "IDLE = 10_000", "IDLE = 100")
    assert len(load(path := written(tmp_path / "it.hdf5"))) == 50
    (server,) = hdf5_server._idle[os.getpid()]
    assert server.process.wait() == 0
    assert len(load(path)) == 50
    hdf5_server._end_idle()


LOADING = """
import sys
from stacq.data import hdf5_guard
hdf5_guard.MEMORY = 1 << 40
from stacq.__main__ import main
print("begins", flush=True)
sys.argv = ["stacq", "data", "inspect", sys.argv[1]]
main()
"""
"""Reads a file that keeps the library busy, with more memory than the list without end fills in the time of a test."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stop_ends_everything_at_once(tmp_path: Path, number: signal.Signals, code: int) -> None:
    path = loop(written(tmp_path / "damaged.hdf5"))
    run = [sys.executable, "-c", LOADING, str(path)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(opening(process.pid)) == 2)  # the process, and its fork that is busy
        busy = opening(process.pid)
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=10) == code
    wait_for(lambda: not any(map(opens_files, busy)))
    assert time.monotonic() - begun < 5  # the limit of computing time


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come about")


def test_nothing_of_the_working_directory_is_imported(tmp_path: Path) -> None:
    """Not even by the names of what the process needs."""
    for name in ("json", "struct", "select", "numpy", "h5py", "random"):
        Path(f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w'); raise SystemExit(1)")
    hdf5_server._end_idle()
    assert len(load(written(tmp_path / "it.hdf5"))) == 50
    assert not (tmp_path / "imported").exists()


def test_a_python_that_lacks_h5py_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_server, "_folders", lambda: ())
    hdf5_server._end_idle()
    with pytest.raises(InputError, match=r"did not start .exit code 1"):
        load(written(tmp_path / "it.hdf5"))

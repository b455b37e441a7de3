"""What lies between HDF5 and a disk that may fill up; tests/test_full_disks.py fills real ones."""

import io
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrays import logged
from stacq import from_arrays
from stacq.data.hdf5 import write_hdf5
from stacq.data.hdf5_new import _Below
from stacq.interrupts import terminate_as_interrupt


class SmallDisk(io.BytesIO):
    """Takes what fits and a part of what does not, like a file system; then refuses."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def write(self, data: Any) -> int:
        room = self.size - self.tell()
        if room <= 0:
            raise OSError(28, "No space left on device")
        return super().write(bytes(data)[:room])

    def truncate(self, size: int | None = None) -> int:
        if (size or 0) > self.size:
            raise OSError(28, "No space left on device")
        return super().truncate(size)


@pytest.mark.parametrize("size", [0, 100, 999, 10_000])
def test_hdf5_finds_what_it_wrote_even_where_the_disk_refused_it(size: int) -> None:
    """Against a plain array of bytes: places that overlap, parts that were taken, reads across both."""
    rng, model, disk = np.random.default_rng(size), bytearray(2_000), SmallDisk(size)
    below = _Below(disk)  # type: ignore[arg-type]
    for _ in range(300):
        place, length = int(rng.integers(1_500)), int(rng.integers(1, 400))
        below.seek(place)
        if rng.random() < 0.5:
            data = rng.bytes(length)
            assert below.write(data) == length
            model[place : place + length] = data
        else:
            found = bytearray(length)
            assert below.readinto(found) == length
            assert found == model[place : place + length]
    assert below.seek(0, io.SEEK_END) <= 2_000
    if size < 2_000:
        with pytest.raises(OSError, match="No space left"):
            below.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_a_file_is_written_waits_for_the_end_of_an_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """HDF5 would take an exception in the midst of its own work for a broken disk."""
    stored, write = list[int](), _Below.write

    def stopped(self: _Below, data: Any) -> int:
        if not stored:
            signal.raise_signal(number)
        stored.append(len(data))
        return write(self, data)

    monkeypatch.setattr(_Below, "write", stopped)
    dataset = from_arrays(**logged([200, 300], ["terminal", "timeout"]))
    with terminate_as_interrupt(), pytest.raises(KeyboardInterrupt):
        write_hdf5(dataset, tmp_path / "stopped.hdf5")
    assert stored and os.listdir(tmp_path) == ["work"]

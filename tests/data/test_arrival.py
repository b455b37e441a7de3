"""What arrives is looked at before it counts."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import h5py
import numpy as np
import pytest

from loopback import (
    FAST,
    INFO,
    PAYLOAD,
    Server,
    encoded,
    give,
    hdf5,
    leave_part,
    leftovers,
    part_file,
    ranges,
    sha256,
    status,
)
from stacq.core.errors import InputError
from stacq.data.arrival import end_of_data
from stacq.data.download import download
from stacq.data.hdf5 import SIGNATURE
from stacq.data.load import cached_file

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]


def flipped(start: int, stop: int) -> bytes:
    return PAYLOAD[:start] + bytes(byte ^ 0xFF for byte in PAYLOAD[start:stop]) + PAYLOAD[stop:]


def damaged_chunk() -> bytes:
    """A compressed file whose header is fine and whose last piece of the rewards cannot be unpacked."""
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        for key, shape in {"observations": (100, 11), "actions": (100, 3)}.items():
            file[key] = np.zeros(shape, dtype=np.float32)
        rewards = np.random.default_rng(0).normal(size=1000)
        node = file.create_dataset("rewards", data=rewards, chunks=(500,), compression="gzip")
        offset = node.id.get_chunk_info(1).byte_offset
    content = bytearray(buffer.getvalue())
    content[offset : offset + 64] = bytes(64)
    return bytes(content)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<!DOCTYPE html><html>Sign in to the hotel's network</html>", "a web page"),
        (b"", "no HDF5 file"),
        (b"\x1f\x8b\x08 compressed", "no HDF5 file"),
        (flipped(0, 4), "no HDF5 file"),
        (flipped(8, 48), "damaged HDF5"),
        (PAYLOAD[: len(PAYLOAD) // 2], "damaged HDF5 file: .*truncated"),
        (damaged_chunk(), "damaged HDF5"),
        (hdf5(observation_size=17), "another dataset, with observations of 17"),
    ],
    ids=["page", "empty", "gzip", "signature", "superblock", "truncated", "chunk", "other"],
)
def test_wrong_content_is_deleted_and_the_next_mirror_asked(server: Server, body: bytes, reason: str) -> None:
    bad, good = server.mirror("a", give(body)), server.mirror("b", give())
    with pytest.raises(InputError, match=reason):
        download(INFO, mirrors=[bad], **FAST)
    assert leftovers() == [] and not cached_file(INFO).exists()
    assert download(INFO, mirrors=[bad, good], **FAST).read_bytes() == PAYLOAD
    assert [mirror for mirror, *_ in server.requests] == ["a", "a", "b"]


STATED = [
    ("Repr-Digest", "sha-512=:AAAA:, sha-256=:{}:", "sha256"),
    ("Digest", "SHA-256={}", "sha256"),
    ("Digest", "MD5={}", "md5"),
    ("Content-MD5", "{}", "md5"),
]


@pytest.mark.parametrize(("header", "form", "algorithm"), STATED)
def test_stated_checksum_must_hold(server: Server, header: str, form: str, algorithm: str) -> None:
    bad = server.mirror("a", give(headers={header: form.format(encoded(algorithm, b"other"))}))
    good = server.mirror("b", give(headers={header: form.format(encoded(algorithm, PAYLOAD))}))
    with pytest.raises(InputError, match="which the server states"):
        download(INFO, mirrors=[bad], **FAST)
    assert leftovers() == []
    assert download(INFO, mirrors=[bad, good], **FAST).read_bytes() == PAYLOAD


def test_checksum_of_a_rest_is_not_taken_for_the_whole(server: Server) -> None:
    leave_part(server)
    rest = encoded("md5", PAYLOAD[4000:])
    assert download(INFO, mirrors=[server.mirror("a", give(headers={"Content-MD5": rest}))], **FAST).exists()


def test_checksum_stated_at_the_start_holds_after_resuming(server: Server) -> None:
    leave_part(server, headers={"Content-MD5": encoded("md5", b"other")})
    with pytest.raises(InputError, match="404"):
        download(INFO, mirrors=[server.mirror("a", give(), status(404))], **FAST)
    assert ranges(server) == ["bytes=4000-", None]  # what was joined contradicted it, so all of it was asked for


def test_checksum_stated_again_is_final(server: Server) -> None:
    wrong = {"Content-MD5": encoded("md5", b"other")}
    leave_part(server, headers=wrong)
    with pytest.raises(InputError, match=r"MD5 .* which the server states"):
        download(INFO, mirrors=[server.mirror("a", give(), give(headers=wrong))], **FAST)


@pytest.mark.parametrize("value", ["sha-256=:not base64:", "sha-256=:AAAA:", "crc32c=:AAAA:", "nonsense"])
def test_unusable_checksum_is_ignored(server: Server, value: str) -> None:
    assert download(INFO, mirrors=[server.mirror("a", give(headers={"Repr-Digest": value}))], **FAST).exists()


# Bytes behind the data


KINDS: dict[str, dict[str, Any]] = {
    "version 0": {},
    "version 2": {"libver": "v108"},
    "version 3": {"libver": "latest"},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("behind", [b"\0", b"#!/bin/sh\n" * 100], ids=["one", "many"])
def test_bytes_behind_the_data_are_refused(server: Server, options: dict[str, Any], behind: bytes) -> None:
    content = hdf5(**options)
    mirrors = [server.mirror("a", give(content + behind)), server.mirror("b", give(content))]
    with pytest.raises(InputError, match=rf"has {len(behind):,} bytes behind the end of its HDF5 data"):
        download(INFO, mirrors=mirrors[:1], sha256=sha256(content + behind), **FAST)
    assert leftovers() == [] and not cached_file(INFO).exists()
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == content


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *KINDS.items(),
        ("version 0", {"userblock_size": 512}),
        ("version 3", {"userblock_size": 4096, "libver": "latest"}),
    ],
)
def test_the_end_of_the_data_is_read_from_the_superblock(kind: str, options: dict[str, Any]) -> None:
    content = hdf5(**options)
    start = options.get("userblock_size", 0)
    assert content[start + 8] == int(kind[-1])
    assert end_of_data(BytesIO(content)) == len(content)
    assert end_of_data(BytesIO(content + b"more")) == len(content)
    assert end_of_data(BytesIO(content[:-9])) == len(content)
    if not start:  # a user block put before a finished file moves everything, but the addresses stay
        assert end_of_data(BytesIO(bytes(1024) + content)) == 1024 + len(content)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_addresses_of_any_width(width: int) -> None:
    """The oldest two versions by hand; the library writes version 1 only for other sizes of its trees."""
    addresses = b"".join(number.to_bytes(width, "little") for number in (0, 2 ** (8 * width) - 1, 1234))
    for version, rest in ((0, b""), (1, bytes(4))):
        fields = bytes([version, 0, 0, 0, 0, width, width, 0]) + bytes(8) + rest
        assert end_of_data(BytesIO(SIGNATURE + fields + addresses)) == 1234


@pytest.mark.parametrize("content", [b"", SIGNATURE, SIGNATURE + b"\x04" + bytes(100), bytes(5000), b"\x89HDF"])
def test_no_superblock_no_end(content: bytes) -> None:
    assert end_of_data(BytesIO(content)) is None


# A part from before


def test_a_part_damaged_on_the_disk_is_fetched_again(server: Server) -> None:
    """Which only the checksum of the whole shows, where one is known."""
    for info in (replace(INFO, sha256=sha256(PAYLOAD)), INFO):
        leave_part(server, size=9000)
        content = bytearray(part_file().read_bytes())
        content[8:40] = bytes(32) if info is INFO else content[8:40]  # without a checksum only the structure tells
        content[-100:] = bytes(100)
        part_file().write_bytes(content)
        path = download(info, mirrors=[server.mirror("a", give())], **FAST)
        assert path.read_bytes() == PAYLOAD and leftovers() == []
        assert ranges(server) == ["bytes=9000-", None]
        path.unlink()


def test_a_resumed_file_that_stays_wrong_is_refused(server: Server) -> None:
    leave_part(server)
    with pytest.raises(InputError, match="another file than the published one"):
        download(replace(INFO, sha256="0" * 64), mirrors=[server.mirror("a", give())], **FAST)
    assert ranges(server) == ["bytes=4000-", None] and leftovers() == []

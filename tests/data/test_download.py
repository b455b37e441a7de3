"""Downloads as a whole, against a real server on this machine."""

import json
import resource
from pathlib import Path

import pytest

from loopback import FAST, INFO, LARGE, PAYLOAD, REMOTE, Server, give, leftovers, ranges, sha256, status
from stacq.core.errors import InputError
from stacq.data.connection import CHUNK
from stacq.data.download import download
from stacq.data.load import cached_file

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]


def test_download_lands_whole_under_its_name(server: Server, cache: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(INFO, mirrors=[server.mirror("a", give())], progress=lambda *now: seen.append(now), **FAST)
    assert path == cached_file(INFO) == cache / "data" / "d4rl" / "hopper_medium-v2.hdf5"
    assert path.read_bytes() == PAYLOAD
    assert leftovers() == []
    assert server.paths == [f"/a/{REMOTE}"]
    assert seen[0] == (0, len(PAYLOAD)) and seen[-1] == (len(PAYLOAD), len(PAYLOAD))
    remembered = json.loads((cache / "data" / "hashes.json").read_text())
    source = f"http://127.0.0.1:{server.server_port}/a/{REMOTE}"
    assert remembered == {path.name: {"sha256": sha256(PAYLOAD), "source": source, "named": False}}


def test_present_file_needs_no_network(server: Server) -> None:
    mirrors = [server.mirror("a", give())]
    download(INFO, mirrors=mirrors, **FAST)
    download(INFO, mirrors=mirrors, **FAST)
    assert len(server.requests) == 1


def test_length_may_be_unknown(server: Server) -> None:
    seen: list[tuple[int, int | None]] = []
    mirrors = [server.mirror("a", give(length=False))]
    path = download(INFO, mirrors=mirrors, progress=lambda *now: seen.append(now), **FAST)
    assert path.read_bytes() == PAYLOAD
    assert seen[-1] == (len(PAYLOAD), None)


def test_redirect_is_followed_and_its_checksum_used(server: Server) -> None:
    right = sha256(PAYLOAD)
    store = server.mirror("store", give())
    moved = server.mirror("a", status(302, Location=store, X_Linked_ETag=f'"{right}"'))
    assert download(INFO, mirrors=[moved], **FAST).read_bytes() == PAYLOAD
    wrong = server.mirror("b", status(302, Location=store, X_Linked_ETag=f'"{"0" * 64}"'))
    with pytest.raises(InputError, match=r"SHA-256 .* is not 0000"):
        download(INFO, mirrors=[wrong], force=True, **FAST)


# The disk


def test_unwritable_place(server: Server, cache: Path) -> None:
    (cache / "data").write_text("a file where the directory should be")
    with pytest.raises(InputError, match="cannot write"):
        download(INFO, mirrors=[server.mirror("a", give())], **FAST)


def test_full_disk(server: Server) -> None:
    mirrors = [server.mirror("a", give(LARGE))]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (CHUNK, limits[1]))
    try:
        with pytest.raises(InputError, match="cannot write"):
            download(INFO, mirrors=mirrors, **FAST)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not cached_file(INFO).exists()
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == LARGE
    assert ranges(server) == [None, f"bytes={CHUNK}-"]

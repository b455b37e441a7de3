"""Which bytes a file must have."""

import json
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from loopback import FAST, INFO, PAYLOAD, Server, give, hdf5, leftovers, sha256, status
from stacq.cli import main
from stacq.core.errors import InputError
from stacq.data.download import download
from stacq.data.load import cached_file
from stacq.data.pins import Pin, pin, pin_text, pinned
from stacq.data.registry import DATASETS, DatasetInfo
from stacq.report.catalogue import print_catalogue

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]

OTHER = hdf5(seed=1)
PUBLISHED = replace(INFO, size=len(PAYLOAD), sha256=sha256(PAYLOAD))
NAME = INFO.name


def test_published_checksum_goes_before_the_remembered_one(server: Server) -> None:
    target = download(INFO, mirrors=[server.mirror("a", give(OTHER))], **FAST)
    with pytest.raises(InputError, match="another file than the published one"):
        download(PUBLISHED, mirrors=[server.mirror("a", give(OTHER))], force=True, **FAST)
    assert target.read_bytes() == OTHER
    with pytest.raises(InputError, match="this is another file than the published one") as caught:
        download(PUBLISHED, mirrors=[server.mirror("a", status(500))], **FAST)
    assert "has changed" not in str(caught.value)  # it has not: it was the wrong one from the beginning
    good = server.mirror("b", give())
    assert download(PUBLISHED, mirrors=[good], force=True, **FAST).read_bytes() == PAYLOAD
    assert download(PUBLISHED, mirrors=[good], **FAST) == target


def test_another_file_than_before_is_refused(server: Server, cache: Path) -> None:
    mirrors = [server.mirror("a", give(), give(OTHER))]
    target = download(INFO, mirrors=mirrors, **FAST)
    with pytest.raises(InputError, match="serves another file than was downloaded before") as caught:
        download(INFO, mirrors=mirrors, force=True, **FAST)
    assert target.read_bytes() == PAYLOAD and leftovers() == []
    assert sha256(PAYLOAD) in str(caught.value) and sha256(OTHER) in str(caught.value)
    assert f"`stacq data download {NAME} --sha256 {sha256(OTHER)}`" in caught.value.fix
    target.unlink()
    with pytest.raises(InputError, match="another file"):
        download(INFO, mirrors=mirrors, **FAST)
    (cache / "data" / "hashes.json").write_text("{}")
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == OTHER


def test_a_right_mirror_is_found_behind_a_wrong_one(server: Server) -> None:
    bad, good = server.mirror("bad", give(OTHER)), server.mirror("good", give())
    assert download(PUBLISHED, mirrors=[bad, good], **FAST).read_bytes() == PAYLOAD
    assert leftovers() == []


@pytest.mark.parametrize("known", [INFO, PUBLISHED], ids=["pinned", "published"])
def test_the_advice_of_a_refusal_accepts_the_new_file(server: Server, known: DatasetInfo) -> None:
    """What is accepted so is pinned as the user's own word, which then stands before what is published."""
    mirrors = [server.mirror("a", give(), give(OTHER))]
    target = download(known, mirrors=mirrors, **FAST)
    assert download(known, mirrors=mirrors, sha256=sha256(OTHER).upper(), **FAST).read_bytes() == OTHER
    for force in (False, True):
        assert download(known, mirrors=mirrors, force=force, **FAST).read_bytes() == OTHER
    assert pinned(INFO) == Pin(sha256(OTHER), f"{mirrors[0]}/{INFO.remote}", named=True)
    target.unlink()
    with pytest.raises(InputError, match="another file than was downloaded before"):
        download(known, mirrors=[server.mirror("b", give())], **FAST)


def test_the_named_checksum_must_hold(server: Server) -> None:
    with pytest.raises(InputError, match="another file than the one named"):
        download(PUBLISHED, mirrors=[server.mirror("a", give())], sha256=sha256(OTHER), **FAST)
    assert leftovers() == [] and pinned(INFO) is None


@pytest.mark.parametrize("text", ["", "abc", sha256(b"") + "0", "g" * 64, "sha256:" + sha256(b"")])
def test_what_is_no_checksum(text: str) -> None:
    with pytest.raises(InputError, match="is no SHA-256"):
        download(INFO, sha256=text)


def test_a_file_of_her_own_is_kept_by_naming_it(server: Server) -> None:
    target = cached_file(INFO)
    target.parent.mkdir(parents=True)
    target.write_bytes(OTHER)
    with pytest.raises(InputError, match="this is another file than the published one") as caught:
        download(PUBLISHED, **FAST)
    assert f"--sha256 {sha256(OTHER)}" in caught.value.fix
    assert download(PUBLISHED, sha256=sha256(OTHER), **FAST) == target
    assert download(PUBLISHED, **FAST).read_bytes() == OTHER


def test_a_changed_file_is_not_overwritten_for_a_named_one(server: Server) -> None:
    target = download(INFO, mirrors=[server.mirror("a", give())], **FAST)
    target.write_bytes(b"mine")
    with pytest.raises(InputError, match="has changed since it was downloaded"):
        download(INFO, mirrors=[server.mirror("a", give(OTHER))], sha256=sha256(OTHER), **FAST)
    assert target.read_bytes() == b"mine"


# First trust


def test_first_trust_is_said_once(server: Server) -> None:
    mirrors = [server.mirror("a", give())]
    with pytest.warns(UserWarning, match=f"nothing vouches .* unencrypted.*{sha256(PAYLOAD)}"):
        download(INFO, mirrors=mirrors, **FAST)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        download(INFO, mirrors=mirrors, **FAST)
        download(INFO, mirrors=mirrors, force=True, **FAST)


@pytest.mark.parametrize("named", [None, sha256(PAYLOAD)])
def test_what_is_vouched_for_comes_without_a_warning(server: Server, named: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        download(INFO if named else PUBLISHED, mirrors=[server.mirror("a", give())], sha256=named, **FAST)


def test_a_file_placed_by_hand_is_trusted_no_more_than_a_download() -> None:
    said: list[str] = []
    target = cached_file(INFO)
    target.parent.mkdir(parents=True)
    target.write_bytes(PAYLOAD)
    for _ in range(2):
        download(INFO, tell=said.append, **FAST)
    assert len(said) == 1 and "placed there by hand" in said[0] and sha256(PAYLOAD) in said[0]


def test_the_command_line_tells_checksum_and_trust(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(DATASETS, NAME, INFO)
    monkeypatch.setenv("STACQ_MIRRORS", server.mirror("a", give(), give(OTHER)))
    main(["data", "download", NAME])
    out, error = capsys.readouterr()
    assert f"pinned SHA-256: {sha256(PAYLOAD)}, which came first; nothing vouches for it" in out
    assert error.startswith("warning: nothing vouches")
    main(["data", "download", NAME, "--sha256", sha256(OTHER)])
    out, error = capsys.readouterr()
    assert f"pinned SHA-256: {sha256(OTHER)}, as you named it" in out and error == ""


def test_inspect_and_list_show_the_pin(
    server: Server, monkeypatch: pytest.MonkeyPatch, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stacq.report.inspect.show", lambda *given: "no picture")
    print_catalogue()
    assert "pinned checksums" not in capsys.readouterr().out
    monkeypatch.setitem(DATASETS, NAME, PUBLISHED)
    download(PUBLISHED, mirrors=[server.mirror("a", give())], **FAST)
    capsys.readouterr()
    main(["data", "inspect", NAME])
    assert f"pinned SHA-256: {sha256(PAYLOAD)}, as TensorFlow Datasets recorded it" in capsys.readouterr().out
    print_catalogue()
    assert f"pinned checksums: {cache / 'data' / 'hashes.json'}" in capsys.readouterr().out
    assert pin_text("hopper-medium-v1") is None and pin_text("stacq/maze-sparse-v0") is None


# The list of them


def test_pins_of_several_downloads_do_not_meet(cache: Path) -> None:
    remote = [info for info in DATASETS.values() if info.remote]

    def pin_some(start: int) -> None:
        for info in remote[start::3]:
            pin(info, Pin("0" * 64))

    threads = [threading.Thread(target=pin_some, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads((cache / "data" / "hashes.json").read_text())) == len(remote)
    assert [path.name for path in (cache / "data").iterdir()] == ["hashes.json"]


def test_what_was_known_of_the_same_bytes_stays() -> None:
    pin(INFO, Pin("1" * 64, "https://x", named=True))
    pin(INFO, Pin("1" * 64))
    assert pinned(INFO) == Pin("1" * 64, "https://x", named=True)
    pin(INFO, Pin("2" * 64))
    assert pinned(INFO) == Pin("2" * 64)


def test_a_bare_checksum_is_a_pin(server: Server, cache: Path) -> None:
    (cache / "data").mkdir()
    (cache / "data" / "hashes.json").write_text(json.dumps({cached_file(INFO).name: sha256(OTHER)}))
    with pytest.raises(InputError, match="another file than was downloaded before"):
        download(INFO, mirrors=[server.mirror("a", give())], **FAST)


def test_file_changed_in_the_cache_is_refused_and_kept(server: Server) -> None:
    mirrors = [server.mirror("a", give())]
    target = download(INFO, mirrors=mirrors, **FAST)
    target.write_bytes(b"mine")
    with pytest.raises(InputError, match="has changed since it was downloaded"):
        download(INFO, mirrors=mirrors, **FAST)
    assert target.read_bytes() == b"mine"


def test_file_placed_by_hand_is_taken_over(server: Server, cache: Path) -> None:
    target = cached_file(INFO)
    target.parent.mkdir(parents=True)
    target.write_bytes(PAYLOAD)
    assert download(INFO, mirrors=[server.mirror("a", status(500))], **FAST) == target
    assert target.name in json.loads((cache / "data" / "hashes.json").read_text())
    assert server.requests == []


@pytest.mark.parametrize("content", [b"<html>", PAYLOAD[:3000]])
def test_bad_file_placed_by_hand_is_refused(content: bytes) -> None:
    target = cached_file(INFO)
    target.parent.mkdir(parents=True)
    target.write_bytes(content)
    with pytest.raises(InputError, match=r"this is .*\n.*\n.*delete it and download again"):
        download(INFO, **FAST)
    assert target.read_bytes() == content


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": {"sha256": 1}}', '{"a": {}}', "[" * 100_000, "\udcff"])
def test_damaged_hash_list(server: Server, cache: Path, text: str) -> None:
    hashes = cache / "data" / "hashes.json"
    hashes.parent.mkdir()
    hashes.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"hashes\.json: cannot be read"):
        download(INFO, mirrors=[server.mirror("a", give())], **FAST)

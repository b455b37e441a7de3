"""Downloads against a real server on this machine that misbehaves on command."""

import base64
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stacq.data import download as module
from stacq.data.download import download
from stacq.data.load import cached_file
from stacq.data.mirrors import DEFAULT_MIRRORS, mirror_urls
from stacq.data.registry import DATASETS, find
from stacq.data.transfer import CHUNK, LONGEST_WAIT
from stacq.errors import InputError

INFO = find("hopper-medium-v2")
REMOTE = "gym_mujoco_v2/hopper_medium-v2.hdf5"
FAST: dict[str, Any] = {"attempts": 3, "delay": 0.001, "timeout": 5.0}


def hdf5(rows: int = 200, *, seed: int = 0, observation_size: int = 11) -> bytes:
    rng = np.random.default_rng(seed)
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        file["observations"] = rng.normal(size=(rows, observation_size)).astype(np.float32)
        file["actions"] = rng.normal(size=(rows, 3)).astype(np.float32)
        file["rewards"] = np.zeros(rows, dtype=np.float32)
        file["metadata/algorithm"] = "SAC"
    return buffer.getvalue()


PAYLOAD = hdf5()
LARGE = hdf5(rows=100_000)  # several times CHUNK


class Handler(BaseHTTPRequestHandler):
    """Answers with the next behaviour of the mirror that the first folder of the path names."""

    server: "Server"

    def do_GET(self) -> None:
        self.close_connection = True
        mirror = self.path.split("/")[1]
        script = self.server.scripts[mirror]
        behaviour = script.pop(0) if len(script) > 1 else script[0]
        self.server.requests.append((mirror, self.headers.get("Range"), self.headers.get("If-Range")))
        self.server.paths.append(self.path)
        behaviour(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts: dict[str, list[Behaviour]] = {}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.paths: list[str] = []
        self.sent: list[int] = []
        self.ended, self.released = threading.Event(), threading.Event()

    def mirror(self, name: str, *script: "Behaviour") -> str:
        self.scripts[name] = list(script)
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def __enter__(self) -> "Server":
        threading.Thread(target=partial(self.serve_forever, poll_interval=0.01)).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()


Behaviour = Callable[[Handler], None]


def status(code: int, **headers: str) -> Behaviour:
    def answer(handler: Handler) -> None:
        handler.send_response(code)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def give(
    payload: bytes = PAYLOAD,
    *,
    stop: int | None = None,  # drop the connection when that many bytes of the file were sent
    how: str = "close",  # or "reset", "hang" until the end, "hold" until released
    etag: str | None = '"one"',
    ranges: bool = True,
    obey_if_range: bool = True,
    shift: int = 0,
    length: bool = True,
    extra: bytes = b"",
    headers: dict[str, str] | None = None,
) -> Behaviour:
    def answer(handler: Handler) -> None:
        asked, condition = handler.headers.get("Range"), handler.headers.get("If-Range")
        resumes = ranges and asked and (condition == etag or not obey_if_range)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and resumes else 0
        if resumes and start >= len(payload):
            return status(416)(handler)
        handler.send_response(206 if resumes else 200)
        if resumes:
            handler.send_header("Content-Range", f"bytes {start + shift}-{len(payload) - 1}/{len(payload)}")
        if length:
            handler.send_header("Content-Length", str(len(payload) - start))
        for key, value in (({"ETag": etag} if etag else {}) | (headers or {})).items():
            handler.send_header(key, value)
        handler.end_headers()
        body = payload[start : len(payload) if stop is None else max(start, stop)] + extra
        handler.server.sent.append(len(body))
        try:
            handler.wfile.write(body)
        except OSError:
            return  # the client gave up, as some tests make it
        if stop is not None and how == "hang":
            handler.server.ended.wait(20)
        if stop is not None and how == "hold":
            assert handler.server.released.wait(20)
        if stop is not None and how == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STACQ_HOME", str(tmp_path))
    monkeypatch.delenv("STACQ_MIRRORS", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


def part_file() -> Path:
    return cached_file(INFO).with_name(cached_file(INFO).name + ".part")


def leftovers() -> list[str]:
    """What lies beside the dataset other than its lock."""
    target = cached_file(INFO)
    return sorted(path.name for path in target.parent.iterdir() if path != target and path.suffix != ".lock")


def ranges(server: Server) -> list[str | None]:
    return [asked for _, asked, _ in server.requests]


# The plain case


def test_download_lands_whole_under_its_name(server: Server, cache: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(INFO, mirrors=[server.mirror("a", give())], progress=lambda *now: seen.append(now), **FAST)
    assert path == cached_file(INFO) == cache / "data" / "d4rl" / "hopper_medium-v2.hdf5"
    assert path.read_bytes() == PAYLOAD
    assert leftovers() == []
    assert server.paths == [f"/a/{REMOTE}"]
    assert seen[0] == (0, len(PAYLOAD)) and seen[-1] == (len(PAYLOAD), len(PAYLOAD))
    remembered = json.loads((cache / "data" / "hashes.json").read_text())
    assert remembered == {path.name: hashlib.sha256(PAYLOAD).hexdigest()}


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
    right = hashlib.sha256(PAYLOAD).hexdigest()
    store = server.mirror("store", give())
    moved = server.mirror("a", status(302, Location=store, X_Linked_ETag=f'"{right}"'))
    assert download(INFO, mirrors=[moved], **FAST).read_bytes() == PAYLOAD
    wrong = server.mirror("b", status(302, Location=store, X_Linked_ETag=f'"{"0" * 64}"'))
    with pytest.raises(InputError, match=r"SHA-256 .* is not 0000"):
        download(INFO, mirrors=[wrong], force=True, **FAST)


# Broken transfers


def test_drops_resume_without_sending_again(server: Server) -> None:
    cuts = [1000, 2500, 9000]
    mirrors = [server.mirror("a", *(give(stop=cut) for cut in cuts), give())]
    path = download(INFO, mirrors=mirrors, attempts=4, delay=0.001)
    assert path.read_bytes() == PAYLOAD
    assert ranges(server) == [None, *(f"bytes={cut}-" for cut in cuts)]
    assert [condition for *_, condition in server.requests] == [None, '"one"', '"one"', '"one"']
    assert sum(server.sent) == len(PAYLOAD)


def test_reset_connection_is_retried(server: Server) -> None:
    mirrors = [server.mirror("a", give(stop=5000, how="reset"), give(stop=9000, how="reset"), give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD


def test_attempts_start_again_after_real_progress(server: Server) -> None:
    cuts = range(CHUNK, len(LARGE), CHUNK)
    assert len(cuts) > FAST["attempts"]
    mirrors = [server.mirror("a", *(give(LARGE, stop=cut) for cut in cuts), give(LARGE))]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == LARGE
    assert sum(server.sent) == len(LARGE)


def test_short_body_forever_is_given_up_and_kept_for_later(server: Server) -> None:
    mirrors = [server.mirror("a", give(stop=4000))]
    with pytest.raises(InputError, match=rf"4,000 of {len(PAYLOAD):,} bytes arrived \(3 attempts\)"):
        download(INFO, mirrors=mirrors, **FAST)
    assert not cached_file(INFO).exists()
    assert part_file().read_bytes() == PAYLOAD[:4000]
    server.mirror("a", give())
    download(INFO, mirrors=mirrors, **FAST)
    assert ranges(server)[-1] == "bytes=4000-"


def test_hanging_server_is_left_after_the_timeout(server: Server) -> None:
    mirrors = [server.mirror("a", give(stop=3000, how="hang"), give())]
    began = time.monotonic()
    assert download(INFO, mirrors=mirrors, attempts=2, delay=0.001, timeout=0.2).read_bytes() == PAYLOAD
    assert time.monotonic() - began < 5
    assert ranges(server) == [None, "bytes=3000-"]


def test_server_that_never_answers(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(InputError, match=r"silent|timed out"):
        download(INFO, mirrors=[f"http://127.0.0.1:{deaf.getsockname()[1]}"], attempts=2, delay=0.001, timeout=0.1)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(InputError, match=r"connection failed.*refused"):
        download(INFO, mirrors=[f"http://127.0.0.1:{port}"], **FAST)


def test_answer_that_is_not_http() -> None:
    def babble(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail.example.org ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=babble, args=(listener,))
        thread.start()
        with pytest.raises(InputError, match="connection failed"):
            download(INFO, mirrors=[f"http://127.0.0.1:{listener.getsockname()[1]}"], attempts=2, delay=0.001)
        thread.join()


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_passing_trouble_is_retried(server: Server, code: int) -> None:
    mirrors = [server.mirror("a", status(code), status(code), give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD
    assert len(server.requests) == 3


def test_waits_double_and_obey_the_server_within_reason(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    script = [status(500), status(500), status(429, Retry_After="7"), status(503, Retry_After="9999"), give()]
    download(INFO, mirrors=[server.mirror("a", *script)], attempts=5, delay=0.5)
    assert waits == [0.5, 1.0, 7.0, LONGEST_WAIT]


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, len(PAYLOAD)), max_size=4), changes=st.sets(st.integers(0, 4)))
def test_any_sequence_of_drops_and_changes_ends_in_one_whole_file(cuts: list[int], changes: set[int]) -> None:
    """The remote file is replaced before the attempts in `changes`; the last version must arrive unmixed."""
    versions = [sum(change <= step for change in changes) for step in range(len(cuts) + 1)]
    payloads = {version: hdf5(seed=version) for version in versions}
    script = [
        give(payloads[version], stop=cut, etag=f'"{version}"')
        for version, cut in zip(versions, [*cuts, None], strict=True)
    ]
    shutil.rmtree(os.environ["STACQ_HOME"])
    with Server() as server:
        path = download(INFO, mirrors=[server.mirror("a", *script)], attempts=9, delay=0.0)
        assert path.read_bytes() in [payloads[version] for version in versions]
        assert leftovers() == []


# Resuming


def leave_part(server: Server, size: int = 4000, **options: Any) -> None:
    with pytest.raises(InputError):
        download(INFO, mirrors=[server.mirror("a", give(stop=size, **options))], attempts=1)
    assert part_file().stat().st_size == size
    server.requests.clear()


@pytest.mark.parametrize("obeys", [True, False], ids=["if-range", "compared"])
def test_changed_file_starts_over(server: Server, obeys: bool) -> None:
    leave_part(server)
    other = hdf5(seed=1)
    mirrors = [server.mirror("a", give(other, etag='"two"', obey_if_range=obeys))]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == other
    assert ranges(server) == (["bytes=4000-"] if obeys else ["bytes=4000-", None])


def test_changed_size_starts_over(server: Server) -> None:
    leave_part(server)
    other = hdf5(rows=300)
    assert download(INFO, mirrors=[server.mirror("a", give(other))], **FAST).read_bytes() == other
    assert ranges(server) == ["bytes=4000-", None]


def test_server_that_ignores_ranges_sends_all(server: Server) -> None:
    leave_part(server)
    assert download(INFO, mirrors=[server.mirror("a", give(ranges=False))], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == ["bytes=4000-"]


def test_shifted_range_is_not_trusted(server: Server) -> None:
    leave_part(server)
    assert download(INFO, mirrors=[server.mirror("a", give(shift=1), give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == ["bytes=4000-", None]


def test_unsatisfiable_range_starts_over(server: Server) -> None:
    leave_part(server)
    assert download(INFO, mirrors=[server.mirror("a", status(416), give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == ["bytes=4000-", None]


def test_unsatisfiable_without_a_range_is_final(server: Server) -> None:
    with pytest.raises(InputError, match="416"):
        download(INFO, mirrors=[server.mirror("a", status(416))], **FAST)
    assert len(server.requests) == 1


def test_more_bytes_than_announced_start_over(server: Server) -> None:
    leave_part(server)
    mirrors = [server.mirror("a", give(length=False, extra=b"and more"), give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == ["bytes=4000-", None]


def test_total_learnt_while_resuming_is_checked(server: Server) -> None:
    script = [give(stop=3000, how="hang", length=False), give(stop=5000), give()]
    path = download(INFO, mirrors=[server.mirror("a", *script)], attempts=3, delay=0.001, timeout=0.2)
    assert path.read_bytes() == PAYLOAD
    assert ranges(server) == [None, "bytes=3000-", "bytes=5000-"]


@pytest.mark.parametrize("etag", [None, 'W/"one"'], ids=["none", "weak"])
def test_nothing_is_resumed_without_proof(server: Server, etag: str | None) -> None:
    leave_part(server, etag=etag)
    assert download(INFO, mirrors=[server.mirror("a", give(etag=etag))], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None]


def test_date_serves_as_proof(server: Server) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    leave_part(server, etag=None, headers={"Last-Modified": date})
    server.mirror("a", give(etag=None, headers={"Last-Modified": date}, obey_if_range=False))
    download(INFO, mirrors=[f"http://127.0.0.1:{server.server_port}/a"], **FAST)
    assert server.requests == [("a", "bytes=4000-", date)]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 3}', "\x00\x00"])
def test_damaged_sidecar_starts_over(server: Server, text: str) -> None:
    leave_part(server)
    part_file().with_name(part_file().name + ".json").write_text(text)
    assert download(INFO, mirrors=[server.mirror("a", give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None]


def test_part_of_one_mirror_is_not_joined_to_another(server: Server) -> None:
    leave_part(server)
    other = hdf5(seed=1)
    mirrors = [server.mirror("a", status(404)), server.mirror("b", give(other))]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == other
    assert server.requests == [("a", "bytes=4000-", '"one"'), ("b", None, None)]


def test_refusal_elsewhere_keeps_the_part(server: Server) -> None:
    leave_part(server)
    with pytest.raises(InputError):
        download(INFO, mirrors=[server.mirror("b", status(403)), server.mirror("a", status(500))], **FAST)
    assert part_file().read_bytes() == PAYLOAD[:4000]


def test_complete_part_is_put_in_place_without_network(server: Server) -> None:
    leave_part(server)
    part_file().write_bytes(PAYLOAD)
    assert download(INFO, mirrors=[server.mirror("a", status(500))], **FAST).read_bytes() == PAYLOAD
    assert server.requests == []


def test_keyboard_interrupt_leaves_the_part(server: Server) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    mirrors = [server.mirror("a", give(LARGE))]
    with pytest.raises(KeyboardInterrupt):
        download(INFO, mirrors=mirrors, progress=interrupt, **FAST)
    kept = part_file().stat().st_size
    assert 0 < kept <= CHUNK and not cached_file(INFO).exists()
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == LARGE
    assert ranges(server) == [None, f"bytes={kept}-"]


SCRIPT = """
import sys
from stacq.data.download import download
from stacq.data.registry import find
download(find("hopper-medium-v2"), mirrors=[sys.argv[1]])
"""


def test_killed_process_leaves_a_part_to_resume(server: Server) -> None:
    half = len(PAYLOAD) // 2
    mirror = server.mirror("a", give(stop=half, how="hang"), give())
    with subprocess.Popen([sys.executable, "-c", SCRIPT, mirror]) as process:
        wait_until(lambda: part_file().exists() and part_file().stat().st_size == half)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not cached_file(INFO).exists()
    assert download(INFO, mirrors=[mirror], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None, f"bytes={half}-"]
    assert leftovers() == []


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_processes_fetch_once(server: Server) -> None:
    """The second waits while the first is in the middle of its transfer, and finds the file ready."""
    mirror = server.mirror("a", give(stop=4000, how="hold"), give())
    children = [subprocess.Popen([sys.executable, "-c", SCRIPT, mirror])]
    wait_until(lambda: part_file().exists() and part_file().stat().st_size == 4000)
    children.append(subprocess.Popen([sys.executable, "-c", SCRIPT, mirror]))
    time.sleep(1.0)  # without a lock the second would have asked the server by now
    assert len(server.requests) == 1
    server.mirror("a", give())
    server.released.set()
    assert [child.wait(timeout=30) for child in children] == [0, 0]
    assert cached_file(INFO).read_bytes() == PAYLOAD
    assert ranges(server) == [None, "bytes=4000-"]
    assert leftovers() == []


def test_the_name_never_shows_a_half_file(server: Server, cache: Path) -> None:
    """Who looks at every step sees nothing, or the old file, until the new one is whole."""
    target, seen = cached_file(INFO), set()

    def look(done: int, total: int | None) -> None:
        seen.add(target.read_bytes() if target.exists() else None)

    download(INFO, mirrors=[server.mirror("a", give())], progress=look, **FAST)
    (cache / "data" / "hashes.json").unlink()
    download(INFO, mirrors=[server.mirror("a", give(LARGE))], progress=look, force=True, **FAST)
    assert seen == {None, PAYLOAD}
    assert target.read_bytes() == LARGE


# Wrong content


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


def encoded(algorithm: str, content: bytes) -> str:
    return base64.b64encode(hashlib.new(algorithm, content).digest()).decode()


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
    with pytest.raises(InputError, match=r"MD5 .* which the server states"):
        download(INFO, mirrors=[server.mirror("a", give())], **FAST)


@pytest.mark.parametrize("value", ["sha-256=:not base64:", "sha-256=:AAAA:", "crc32c=:AAAA:", "nonsense"])
def test_unusable_checksum_is_ignored(server: Server, value: str) -> None:
    assert download(INFO, mirrors=[server.mirror("a", give(headers={"Repr-Digest": value}))], **FAST).exists()


def test_published_checksum_goes_before_the_remembered_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    other = hdf5(seed=1)
    target = download(INFO, mirrors=[server.mirror("a", give(other))], **FAST)
    monkeypatch.setitem(module.CHECKSUMS, target.name, hashlib.sha256(PAYLOAD).hexdigest())
    with pytest.raises(InputError, match="is not the published"):
        download(INFO, mirrors=[server.mirror("a", give(other))], force=True, **FAST)
    assert target.read_bytes() == other
    good = server.mirror("b", give())
    assert download(INFO, mirrors=[good], force=True, **FAST).read_bytes() == PAYLOAD
    assert download(INFO, mirrors=[good], **FAST) == target


def test_no_checksum_is_invented() -> None:
    assert module.CHECKSUMS == {}


# The remembered hash


def test_another_file_than_before_is_refused(server: Server, cache: Path) -> None:
    other = hdf5(seed=1)
    mirrors = [server.mirror("a", give(), give(other))]
    target = download(INFO, mirrors=mirrors, **FAST)
    with pytest.raises(InputError, match="serves another file than was downloaded before") as caught:
        download(INFO, mirrors=mirrors, force=True, **FAST)
    assert target.read_bytes() == PAYLOAD and leftovers() == []
    assert target.name in caught.value.fix and "hashes.json" in caught.value.fix
    target.unlink()
    with pytest.raises(InputError, match="another file"):
        download(INFO, mirrors=mirrors, **FAST)
    (cache / "data" / "hashes.json").write_text("{}")
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == other


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


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "\udcff"])
def test_damaged_hash_list(server: Server, cache: Path, text: str) -> None:
    hashes = cache / "data" / "hashes.json"
    hashes.parent.mkdir()
    hashes.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"hashes\.json: cannot be read"):
        download(INFO, mirrors=[server.mirror("a", give())], **FAST)


# Mirrors


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_refusal_moves_on_at_once(server: Server, code: int) -> None:
    mirrors = [server.mirror("a", status(code)), server.mirror("b", give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD
    assert [mirror for mirror, *_ in server.requests] == ["a", "b"]


def test_strange_success_moves_on(server: Server) -> None:
    mirrors = [server.mirror("a", status(204)), server.mirror("b", status(206)), server.mirror("c", give())]
    assert download(INFO, mirrors=mirrors, **FAST).read_bytes() == PAYLOAD


def test_all_mirrors_failing_are_listed_with_ways_out(server: Server) -> None:
    mirrors = [server.mirror("a", status(403)), server.mirror("b", status(404)), server.mirror("c", status(500))]
    with pytest.raises(InputError) as caught:
        download(INFO, mirrors=mirrors, **FAST)
    text = str(caught.value)
    for mirror, reason in zip(mirrors, ("403 Forbidden", "404 Not Found", "500 .*3 attempts"), strict=True):
        assert [line for line in text.splitlines() if line.strip().startswith(f"{mirror}/{REMOTE}: {reason[:3]}")]
    assert "3 attempts" in text
    assert "STACQ_MIRRORS" in text and str(cached_file(INFO)) in text
    assert "stacq data generate stacq/hopper-medium-v0" in text
    assert len(server.requests) == 2 + FAST["attempts"]


def test_without_a_regenerated_twin_minari_is_named(server: Server) -> None:
    with pytest.raises(InputError, match=r"minari download D4RL/antmaze/umaze-v1"):
        download(find("antmaze-umaze-v2"), mirrors=[server.mirror("a", status(404))], **FAST)


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("/x", f"/x/{REMOTE}"),
        ("/x/", f"/x/{REMOTE}"),
        ("/x/{path}?raw=1", f"/x/{REMOTE}?raw=1"),
        ("/x/{file}", f"/x/{Path(REMOTE).name}"),
    ],
)
def test_templates(server: Server, template: str, path: str) -> None:
    server.mirror("x", give())
    download(INFO, mirrors=[f" http://127.0.0.1:{server.server_port}{template} "], **FAST)
    assert server.paths == [path]


def test_argument_then_environment_then_config(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = (server.mirror(name, status(404)) for name in "abc")
    (cache / "config.toml").write_text(f'[download]\nmirrors = ["{c}"]\n')
    with pytest.raises(InputError):
        download(INFO, **FAST)
    monkeypatch.setenv("STACQ_MIRRORS", f"{b}, {c},")
    with pytest.raises(InputError):
        download(INFO, **FAST)
    with pytest.raises(InputError):
        download(INFO, mirrors=[a], **FAST)
    assert [mirror for mirror, *_ in server.requests] == ["c", "b", "c", "a"]


@pytest.mark.parametrize("config", [None, "[other]\nx = 1\n", "[download]\n"])
def test_defaults_stand_where_nothing_is_said(cache: Path, config: str | None) -> None:
    if config is not None:
        (cache / "config.toml").write_text(config)
    assert mirror_urls(INFO, None) == [
        f"http://rail.eecs.berkeley.edu/datasets/offline_rl/{REMOTE}",
        "https://huggingface.co/datasets/imone/D4RL/resolve/main/hopper_medium-v2.hdf5",
    ]
    assert len(DEFAULT_MIRRORS) == 2


@pytest.mark.parametrize(
    "config",
    [
        b"[download",
        b"\xff\xfe",
        b"download = 3",
        b"[download]\nmirrors = 'http://x'",
        b"[download]\nmirrors = [1]",
        b"[download]\nmirrors = []",
    ],
)
def test_malformed_config(cache: Path, config: bytes) -> None:
    (cache / "config.toml").write_bytes(config)
    with pytest.raises(InputError, match=r"mirrors|config"):
        download(INFO, **FAST)


@pytest.mark.parametrize(
    "mirror", ["", "rail.eecs", "ftp://x/{path}", "file:///etc", "http://", "http://[x", "http://x:y", "http://a b"]
)
def test_mirror_that_is_no_address(mirror: str) -> None:
    with pytest.raises(InputError, match="no web address"):
        download(INFO, mirrors=[mirror], **FAST)


def test_address_that_only_the_network_layer_refuses() -> None:
    with pytest.raises(InputError, match="not a usable address"):
        download(INFO, mirrors=[f"http://{'a' * 70}.example"], **FAST)


@pytest.mark.parametrize("name", ["stacq/hopper-medium-v0", "mujoco/hopper/medium-v0"])
def test_what_is_not_d4rl_is_answered_with_its_command(name: str) -> None:
    command = f"stacq data generate {name}" if name.startswith("stacq") else f"minari download {name}"
    with pytest.raises(InputError, match=command):
        download(find(name))


def test_file_names_are_keys() -> None:
    """The hash list and the cache know files by name alone."""
    remotes = [info.remote for info in DATASETS.values() if info.remote]
    assert len({Path(remote).name for remote in remotes}) == len(remotes)


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

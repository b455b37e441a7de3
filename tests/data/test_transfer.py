"""Transfers that break off, and go on."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopback import (
    FAST,
    INFO,
    LARGE,
    PAYLOAD,
    SCRIPT,
    Server,
    give,
    hdf5,
    leave_part,
    leftovers,
    part_file,
    ranges,
    status,
    wait_until,
)
from stacq.core.errors import InputError
from stacq.data.connection import CHUNK
from stacq.data.download import download
from stacq.data.load import cached_file
from stacq.data.transfer import LONGEST_WAIT

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]


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

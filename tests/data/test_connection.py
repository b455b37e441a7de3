"""Servers that send too much, too slowly, for ever, or to another place."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from loopback import (
    CHUNKED,
    DRIPS,
    FAST,
    INFO,
    LARGE,
    OK,
    PAYLOAD,
    Behaviour,
    Handler,
    Server,
    give,
    hdf5,
    leave_part,
    leftovers,
    part_file,
    ranges,
    sha256,
    status,
    stream,
)
from stacq.core.errors import InputError
from stacq.data import registry
from stacq.data.connection import OVERHEAD
from stacq.data.download import LEAST_SPEED, TIME_LIMIT, download

pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.filterwarnings("ignore:nothing vouches")]

EXACT = replace(INFO, size=len(PAYLOAD), sha256=sha256(PAYLOAD))
SLOW: dict[str, Any] = {"attempts": 1, "delay": 0, "timeout": 0.2}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No server on earth makes a download of some kilobytes last."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10


# Size


def test_announced_size_is_refused_before_reading(server: Server) -> None:
    endless = stream(OK + b"Content-Length: 100000000000\r\n\r\n", bytes(1 << 16))
    with pytest.raises(InputError, match=rf"announces 100,000,000,000 bytes; the file has at most {len(PAYLOAD):,}"):
        download(EXACT, mirrors=[server.mirror("a", endless)], **FAST)
    assert leftovers() == [] and len(server.requests) == 1


@pytest.mark.parametrize("head", [b"", b"Transfer-Encoding: chunked\r\n"], ids=["plain", "chunked"])
def test_endless_body_is_cut_at_the_size(server: Server, head: bytes) -> None:
    seen: list[int] = []
    piece = b"1000\r\n" + bytes(0x1000) + b"\r\n" if head else bytes(0x1000)
    mirrors = [server.mirror("a", stream(OK + head + b"\r\n", piece)), server.mirror("b", give())]
    path = download(EXACT, mirrors=mirrors, progress=lambda done, total: seen.append(done), **FAST)
    assert path.read_bytes() == PAYLOAD and leftovers() == []
    assert [mirror for mirror, *_ in server.requests] == ["a", "b"]
    assert max(seen) <= len(PAYLOAD)
    with pytest.raises(InputError, match=rf"sends more than {len(PAYLOAD):,} bytes"):
        download(EXACT, mirrors=mirrors[:1], force=True, **FAST)


@pytest.mark.parametrize("length", [True, False])
def test_a_file_of_just_that_size_is_taken(server: Server, length: bool) -> None:
    assert download(EXACT, mirrors=[server.mirror("a", give(length=length))], **FAST).read_bytes() == PAYLOAD


def test_resuming_does_not_pass_the_size(server: Server) -> None:
    """Neither by what is announced for the whole, nor by what comes after the part."""
    leave_part(server)
    grown = give(PAYLOAD + bytes(1000))
    with pytest.raises(InputError, match="announces"):
        download(EXACT, mirrors=[server.mirror("a", grown)], **FAST)
    assert leftovers() == []
    leave_part(server)
    endless = stream(
        b'HTTP/1.1 206 Partial Content\r\nETag: "one"\r\nContent-Range: bytes 4000-9999/*\r\n\r\n', bytes(1 << 12)
    )
    with pytest.raises(InputError, match="sends more than"):
        download(EXACT, mirrors=[server.mirror("a", endless)], **FAST)
    assert ranges(server) == ["bytes=4000-"] and leftovers() == []


def test_a_part_beyond_the_size_is_dropped(server: Server) -> None:
    leave_part(server)
    part_file().write_bytes(bytes(len(PAYLOAD) + 1))
    assert download(EXACT, mirrors=[server.mirror("a", give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None]


def test_without_a_known_size_rows_and_columns_bound_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BESIDE_ROWS", 8000)
    small = replace(INFO, rows=200)
    assert small.size_bound == 200 * 8 * (4 * 11 + 2 * 3 + 8) + 8000
    with pytest.raises(InputError, match=rf"the file has at most {small.size_bound:,}"):
        download(small, mirrors=[server.mirror("a", give(LARGE))], **FAST)
    assert download(small, mirrors=[server.mirror("a", give())], **FAST).read_bytes() == PAYLOAD


def test_a_named_file_may_be_larger_than_the_published_one(server: Server) -> None:
    other = hdf5(rows=300)
    path = download(EXACT, mirrors=[server.mirror("a", give(other))], sha256=sha256(other), **FAST)
    assert path.read_bytes() == other


# Speed and time


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_slow_drip_is_left(server: Server, drip: Behaviour) -> None:
    """A byte now and then never meets the socket's own timeout."""
    began = time.monotonic()
    with pytest.raises(InputError, match=r"(was not there after|less than the least speed).*\(1 attempts\)"):
        download(INFO, mirrors=[server.mirror("a", drip)], **SLOW)
    assert time.monotonic() - began < 2


def test_slow_drip_is_asked_again_then_left(server: Server) -> None:
    mirrors = [server.mirror("a", DRIPS["body"]), server.mirror("b", give())]
    assert download(INFO, mirrors=mirrors, **SLOW | {"attempts": 2}).exists()
    assert [mirror for mirror, *_ in server.requests] == ["a", "a", "b"]


FLOODS = {
    "header": stream(OK + b"X: ", b"x" * 65536),
    "continue": stream(b"", b"HTTP/1.1 100 Continue\r\n" + b"X: y\r\n" * 90 + b"X: " + b"y" * 60_000 + b"\r\n\r\n"),
    "redirect": stream(b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n", bytes(65536)),
    "chunks": stream(CHUNKED, b"1;" + b"x" * 60_000 + b"\r\nx\r\n"),
    "trailer": stream(CHUNKED + b"0\r\n", b"X: " + b"y" * 60_000 + b"\r\n"),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_endless_answers_without_a_file_are_left(server: Server, flood: Behaviour) -> None:
    with pytest.raises(InputError):
        download(INFO, mirrors=[server.mirror("a", flood)], least_speed=100_000, **SLOW)
    assert server.sent[0] < 100_000_000  # it was the client that left


def test_what_is_not_of_the_file_is_bounded(server: Server) -> None:
    for name in ("continue", "redirect", "chunks", "trailer"):
        with pytest.raises(InputError, match=rf"sent {OVERHEAD:,} bytes that are not of the file"):
            download(INFO, mirrors=[server.mirror("a", FLOODS[name])], **FAST)


def test_a_good_beginning_is_no_credit(server: Server) -> None:
    burst = stream(OK + b"Content-Length: 9000000\r\n\r\n" + bytes(5_000_000), b"x", every=0.02)
    with pytest.raises(InputError, match="less than the least speed"):
        download(INFO, mirrors=[server.mirror("a", burst)], time_limit=3, **SLOW)


def test_a_pause_between_attempts_is_not_the_servers(server: Server) -> None:
    mirrors = [server.mirror("a", status(503), give())]
    assert download(INFO, mirrors=mirrors, attempts=2, delay=0.25, timeout=0.2).exists()


def test_least_speed_is_the_users(server: Server) -> None:
    """30,000 bytes a second for half a second, judged in stretches of 0.2 s."""
    head = OK + f"Content-Length: {len(PAYLOAD)}\r\n\r\n".encode()
    mirrors = [server.mirror("a", trickle(head, PAYLOAD, rate=30_000))]
    assert download(INFO, mirrors=mirrors, least_speed=1_000, **SLOW).read_bytes() == PAYLOAD
    with pytest.raises(InputError, match="less than the least speed, 90,000"):
        download(INFO, mirrors=mirrors, force=True, least_speed=90_000, **SLOW)


def trickle(head: bytes, content: bytes, *, rate: float, every: float = 0.05) -> Behaviour:
    """All of it, evenly."""
    step = int(rate * every)

    def answer(handler: Handler) -> None:
        with contextlib.suppress(OSError):
            handler.connection.sendall(head)
            for start in range(0, len(content), step):
                handler.connection.sendall(content[start : start + step])
                handler.server.ended.wait(every)

    return answer


def test_time_limit_keeps_what_arrived(server: Server) -> None:
    head = OK + f'ETag: "one"\r\nContent-Length: {len(PAYLOAD)}\r\n\r\n'.encode()
    drip = stream(head + PAYLOAD[:5000], b"", every=0.02)
    with pytest.raises(InputError, match=r"not complete after 0.5 seconds; 5,000 bytes are here") as caught:
        download(INFO, mirrors=[server.mirror("a", drip)], time_limit=0.5, least_speed=0, **FAST)
    assert "--time-limit" in caught.value.fix
    assert download(INFO, mirrors=[server.mirror("a", give())], **FAST).read_bytes() == PAYLOAD
    assert ranges(server) == [None, "bytes=5000-"]


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_time_limit_holds_wherever_the_server_is(server: Server, drip: Behaviour) -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match=r"not complete after 0.1 seconds"):
        download(INFO, mirrors=[server.mirror("a", drip)], time_limit=0.1, least_speed=0, **FAST)
    assert time.monotonic() - began < 2


def test_time_limit_is_of_all_mirrors_and_pauses_together(server: Server) -> None:
    busy = status(503, Retry_After="60")
    with pytest.raises(InputError, match=r"not complete after 0.3 seconds; 0 bytes"):
        download(INFO, mirrors=[server.mirror("a", busy), server.mirror("b", busy)], attempts=9, time_limit=0.3)
    assert [mirror for mirror, *_ in server.requests] == ["a"]


def test_impossible_limits() -> None:
    always, positive = (-1, float("nan"), float("inf"), 1e300), ("attempts", "timeout", "time_limit")
    for option in (*positive, "delay", "least_speed"):
        for value in (*always, 0) if option in positive else always:
            with pytest.raises(InputError, match=f"{option} is"):
                download(INFO, **{option: value})  # type: ignore[arg-type]


def test_the_command_line_has_the_same_limits() -> None:
    from stacq.cli.data import Download

    verb = Download("hopper-medium-v2")
    assert (verb.time_limit, verb.least_speed) == (TIME_LIMIT, LEAST_SPEED)

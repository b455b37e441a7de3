"""Downloads from servers that lie, drop, drip, redirect and shout, and then from one that does nothing wrong.

Whatever a server does, the download ends in time with a message; what it did leaves no trace in the next, honest one.
"""

import functools
import inspect
import socket
import struct
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np

from attack.bench import Bench
from attack.hostile import DATASET, Behaviour, Server, give, honest, payload
from attack.jobs import JOBS, referred
from attack.processes import Answer, Request, judged
from attack.trees import Tree, compared, snapshot
from attack.verdict import Finding, Kind, Outcome

CATEGORY = "servers"
ENTRY = "attack.servers:impatient"
SECONDS = 240.0  # for one download of a few kilobytes
DISK = 1536 << 20  # bytes that no server may fill, whatever it sends: several times the size of the dataset
ESCAPES = "\x1b]0;owned\x07\x1b[2J"
IMPATIENT: dict[str, Any] = {"attempts": 3, "delay": 0.01, "timeout": 1.0}


def impatient() -> None:
    """The command line, but a download does not wait long between attempts."""
    import stacq.data.download as module
    from stacq.__main__ import main

    known = inspect.signature(module.download).parameters
    fewer = {key: value for key, value in IMPATIENT.items() if key in known}
    module.download = functools.partial(module.download, **fewer)
    main()


def attack(bench: Bench, numbers: Iterator[int]) -> Iterator[Outcome]:
    reference = referred(bench, next(job for job in JOBS if job.name == "download"))
    server = Server(give)
    try:
        for number in numbers:
            rng = bench.rng(CATEGORY, number)
            crafted = [each for each in CRAFTED if not (bench.short and each in SLOW)]
            server.behaviour = crafted[number] if number < len(crafted) else drawn(rng)
            yield Outcome(
                number, tuple(downloaded(bench, server, reference.after, described(server.behaviour, number)))
            )
    finally:
        server.shutdown()
        server.server_close()


def downloaded(bench: Bench, server: Server, honest_tree: Tree, what: str) -> list[Finding]:
    folder = bench.fresh("job-download")
    bad = bench.server.run(request(folder, server.url))
    findings = judged(bad, what)
    if bad.interrupted and not bad.hung:
        findings.append(Finding(Kind.HANG, what, f"not done after {SECONDS:.0f} s"))
    findings += misled(folder, bad, what)
    good = bench.server.run(request(folder, honest().url))
    if bad.code == 0:
        return findings
    return findings + judged(good, f"{what}; then honest", codes=(0,)) + compared(snapshot(folder), honest_tree, what)


def misled(folder: Path, answer: Answer, what: str) -> list[Finding]:
    """What a server can do although the download ended."""
    findings = []
    for path in (folder / "home").rglob("*"):
        if path.suffix == ".hdf5" and path.read_bytes() != payload():
            findings.append(Finding(Kind.STATE, what, f"accepted: {path.name} of {path.stat().st_size:,} bytes"))
        if path.is_file() and path.stat().st_blocks * 512 > DISK:
            findings.append(Finding(Kind.MEMORY, what, f"{path.name} grew to {path.stat().st_size >> 20} MB"))
    if "\x1b" in answer.err + answer.out:
        findings.append(Finding(Kind.STATE, what, f"{answer.err!r}\ncontrol characters of the server are printed"))
    return findings


def request(folder: Path, url: str) -> Request:
    arguments = ("data", "download", DATASET, "--mirrors", url)
    return Request(arguments, str(folder), SECONDS, entry=ENTRY)


def described(behaviour: Behaviour, number: int) -> str:
    inner = behaviour
    while isinstance(inner, functools.partial):
        inner = inner.func
    given = getattr(behaviour, "keywords", {})
    return f"server {number}: {getattr(inner, '__name__', 'odd')} {given!r:.300}"


def answer(
    handler: BaseHTTPRequestHandler,
    *,
    status: int = 200,
    reason: str = "OK",
    headers: tuple[tuple[str, str], ...] = (),
    length: str | None = "true",
    start: int = 0,
    stop: int | None = None,
    extra: int = 0,
    end: str = "close",
) -> None:
    """The file, or part of it, with whatever around it."""
    body = payload()[start:stop] + b"\x00" * extra
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{key}: {value}" for key, value in headers)]
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length == 'true' else length}")
    handler.wfile.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body)
    handler.wfile.flush()
    if end == "reset":
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if end == "silence":
        time.sleep(2.5)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, so that the line never falls silent."""
    answer(handler, length=str(len(payload())), stop=1)
    for byte in payload()[1:]:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.4)


def drip_headers(handler: BaseHTTPRequestHandler) -> None:
    for letter in "HTTP/1.1 200 OK\r\n" + "X-Slow: 1\r\n" * 10_000:
        handler.wfile.write(letter.encode())
        handler.wfile.flush()
        time.sleep(0.4)


def flood(handler: BaseHTTPRequestHandler) -> None:
    """More than the dataset could ever be, as fast as it is taken."""
    answer(handler, length=None)
    for _ in range(2048):
        handler.wfile.write(bytes(1 << 20))


def flood_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(200_000):
        handler.wfile.write(b"X-%d: %s\r\n" % (number, b"y" * 1000))


def redirect_for_ever(handler: BaseHTTPRequestHandler) -> None:
    answer(handler, status=302, reason="Found", headers=(("Location", f"{handler.path}x"),), stop=0)


def nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(np.random.default_rng(0).bytes(5000))


def with_(**options: Any) -> Behaviour:
    return functools.partial(answer, **options)


def redirected(target: str) -> Behaviour:
    return with_(status=302, reason="Found", headers=(("Location", target),), stop=0)


SLOW: tuple[Behaviour, ...] = (drip, drip_headers, flood)
CRAFTED: tuple[Behaviour, ...] = (
    with_(extra=1),
    with_(extra=4096),
    with_(extra=100, length=str(len(payload()))),
    with_(reason=ESCAPES, status=404),
    with_(reason=ESCAPES, status=503),
    with_(headers=(("ETag", f'"{ESCAPES}"'), ("Last-Modified", ESCAPES)), stop=900, length=str(len(payload()))),
    with_(headers=(("Content-Encoding", "gzip"),)),
    with_(headers=(("Content-Range", "bytes 5-9/10"),), status=206, reason="Partial Content"),
    with_(length="999999999999999999999999"),
    with_(length="-5"),
    with_(length="x"),
    with_(status=429, headers=(("Retry-After", "2"),), stop=0),
    with_(status=503, headers=(("Retry-After", "-1"),), stop=0),
    with_(headers=(("Digest", "sha-256=AAAA"), ("Content-MD5", "x" * 5000))),
    with_(headers=(("Transfer-Encoding", "chunked"),), length=None),
    redirected("file:///etc/passwd"),
    redirected("ftp://127.0.0.1:9/x"),
    redirected("http://127.0.0.1:9/x"),
    redirected("http://[::1"),
    redirected(f"http://127.0.0.1:9/{ESCAPES}"),
    redirected("x" * 70_000),
    redirect_for_ever,
    nonsense,
    flood_headers,
    flood,
    drip,
    drip_headers,
)


def drawn(rng: np.random.Generator) -> Behaviour:
    """Any mixture of status, lengths, cuts and endings."""

    def among(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    size = len(payload())
    cut = int(rng.integers(size))
    return with_(
        status=among(200, 200, 200, 206, 206, 204, 301, 304, 400, 403, 404, 408, 416, 429, 500, 503, 999),
        reason=among("OK", "OK", "", ESCAPES, "x" * 500),
        headers=tuple(
            among(("ETag", '"one"'), ("ETag", 'W/"one"'), ("Content-Range", f"bytes {cut}-{size - 1}/{size}"))
            for _ in range(int(rng.integers(3)))
        ),
        length=among("true", "true", None, str(size), str(size - 1), str(size + 1), "0", str(cut), "1e3"),
        start=among(0, 0, 0, cut),
        stop=among(None, None, cut, 0),
        extra=among(0, 0, 0, 1, 100),
        end=among("close", "close", "close", "reset", "reset", "silence"),
    )

"""A real server on this machine that misbehaves on command, and small files for it to serve."""

import base64
import hashlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from stacq.core.errors import InputError
from stacq.data.download import download
from stacq.data.load import cached_file
from stacq.data.registry import find

INFO = replace(find("hopper-medium-v2"), size=None, sha256=None)  # nothing is known of its bytes
REMOTE = "gym_mujoco_v2/hopper_medium-v2.hdf5"
FAST: dict[str, Any] = {"attempts": 3, "delay": 0.001, "timeout": 5.0}

SCRIPT = """
import sys
from dataclasses import replace
from stacq.data.download import download
from stacq.data.registry import find
download(replace(find("hopper-medium-v2"), size=None, sha256=None), mirrors=[sys.argv[1]])
"""


def hdf5(rows: int = 200, *, seed: int = 0, observation_size: int = 11, **options: Any) -> bytes:
    rng = np.random.default_rng(seed)
    buffer = BytesIO()
    with h5py.File(buffer, "w", **options) as file:
        file["observations"] = rng.normal(size=(rows, observation_size)).astype(np.float32)
        file["actions"] = np.tanh(rng.normal(size=(rows, 3))).astype(np.float32)
        file["rewards"] = np.zeros(rows, dtype=np.float32)
        file["terminals"] = np.zeros(rows, dtype=np.bool_)
        file["metadata/algorithm"] = "SAC"
    return buffer.getvalue()


PAYLOAD = hdf5()
LARGE = hdf5(rows=100_000)  # several times CHUNK


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encoded(algorithm: str, content: bytes) -> str:
    return base64.b64encode(hashlib.new(algorithm, content).digest()).decode()


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
    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.scheme = "https"
        self.scripts: dict[str, list[Behaviour]] = {}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.paths: list[str] = []
        self.sent: list[int] = []
        self.ended, self.released = threading.Event(), threading.Event()

    def mirror(self, name: str, *script: "Behaviour") -> str:
        self.scripts[name] = list(script)
        return f"{self.scheme}://127.0.0.1:{self.server_port}/{name}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave, or refuse the certificate, are part of the tests."""

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


def stream(head: bytes, piece: bytes, *, every: float = 0.0, most: int = 100_000_000) -> Behaviour:
    """Raw bytes: `head`, then `piece` again and again until the client leaves, at the latest after `most` bytes."""

    def answer(handler: Handler) -> None:
        handler.server.sent.append(0)
        try:
            handler.connection.sendall(head)
            while handler.server.sent[-1] < most and not handler.server.ended.wait(every):
                handler.connection.sendall(piece)
                handler.server.sent[-1] += len(piece)
        except OSError:
            return

    return answer


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
DRIPS = {
    "head": stream(b"HTTP/1.1 200", b"0", every=0.02),
    "header": stream(OK + b"X: ", b"x", every=0.02),
    "headers": stream(OK, b"X: y\r\n", every=0.02),
    "continue": stream(b"", b"HTTP/1.1 100 Continue\r\n\r\n", every=0.02),
    "redirect": stream(b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n", b"x", every=0.02),
    "body": stream(OK + b"Content-Length: 9999\r\n\r\n", b"x", every=0.02),
    "unknown": stream(OK + b"\r\n", b"x", every=0.02),
    "chunks": stream(CHUNKED, b"1\r\nx\r\n", every=0.02),
    "size": stream(CHUNKED, b"0", every=0.02),
    "trailer": stream(CHUNKED + b"0\r\n", b"X: y\r\n", every=0.02),
}


def part_file() -> Path:
    return cached_file(INFO).with_name(cached_file(INFO).name + ".part")


def leftovers() -> list[str]:
    """What lies beside the dataset other than its lock."""
    target = cached_file(INFO)
    return sorted(path.name for path in target.parent.glob("*") if path != target and path.suffix != ".lock")


def ranges(server: Server) -> list[str | None]:
    return [asked for _, asked, _ in server.requests]


def leave_part(server: Server, size: int = 4000, **options: Any) -> None:
    with pytest.raises(InputError):
        download(INFO, mirrors=[server.mirror("a", give(stop=size, **options))], attempts=1)
    assert part_file().stat().st_size == size
    server.requests.clear()


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

"""A server on this machine that behaves as it is told."""

import functools
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from stacq.data.registry import DATASETS

INFO = next(info for info in DATASETS.values() if info.remote and not getattr(info, "sha256", None))
DATASET = INFO.name  # one of which no checksum is known: no file of ours could have it
FILE = Path(INFO.remote or "").name
ROWS = 200
Behaviour = Callable[[BaseHTTPRequestHandler], None]


@functools.cache
def payload() -> bytes:
    """A small file that passes for the dataset."""
    rng = np.random.default_rng(0)
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        file["observations"] = rng.normal(size=(ROWS, INFO.task.observation_size)).astype(np.float32)
        file["actions"] = rng.uniform(-1, 1, (ROWS, INFO.task.action_size)).astype(np.float32)
        file["rewards"] = np.zeros(ROWS, dtype=np.float32)
        file["terminals"] = np.zeros(ROWS, dtype=np.bool_)
        file["timeouts"] = np.arange(ROWS) % 100 == 99
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """One behaviour for every request, until another one is set."""

    daemon_threads = True

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour
        threading.Thread(target=functools.partial(self.serve_forever, poll_interval=0.05), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{{file}}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what the attack is about."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.close_connection = True
        server: socketserver.BaseServer = self.server
        assert isinstance(server, Server)
        server.behaviour(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def give(handler: BaseHTTPRequestHandler) -> None:
    """The file, or the rest of it, as a server should."""
    asked = handler.headers.get("Range")
    start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
    body = payload()[start:]
    if not body:
        handler.send_error(416)
        return
    handler.send_response(206 if asked else 200)
    if asked:
        handler.send_header("Content-Range", f"bytes {start}-{len(payload()) - 1}/{len(payload())}")
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("ETag", '"one"')
    handler.end_headers()
    handler.wfile.write(body)


@functools.cache
def honest() -> Server:
    """A server that does nothing wrong, for the whole attack."""
    return Server(give)

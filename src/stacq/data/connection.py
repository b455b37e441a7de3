"""One answer of a server that may be slow, endless or hostile: every wait and every byte of it is counted.

The socket's own timeout bounds one silence. A server that sends a byte now and then never meets it, be it in the head
of an answer, between chunks or after them; so the clock is looked at where bytes leave the socket, below `http.client`.
"""

import contextlib
import http.client
import io
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from functools import partial
from typing import IO, Any

from stacq.core.errors import InputError

CHUNK = 1 << 20
OVERHEAD = 4 * CHUNK  # most bytes that bring nothing of the file: heads, bodies of redirects, trailers
EXCUSED = 8  # bytes of overhead for each byte of the file: chunks of one byte take six
LONGEST_REASON = 300  # characters of what a server says
POSITIVE = ("attempts", "timeout", "time_limit")
MOST = 1e9  # of each limit; sockets refuse waits much longer
RETRIED_STATUS = (408, 425, 429)  # and every 5xx; other refusals are final


class UnavailableError(Exception):
    """This mirror cannot give the file; another one may."""

    def __init__(self, reason: str) -> None:
        super().__init__(_shown(reason))


class PassingError(UnavailableError):
    """This attempt failed in a way that a later one may not; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class StaleError(Exception):
    """The bytes so far are not the beginning of what the server has."""


class OverdueError(Exception):
    """The time allowed for the whole download is used up."""


@dataclass(frozen=True)
class Limits:
    """How often and how long a download is tried; `timeout`, `time_limit` in seconds, `least_speed` in bytes/s."""

    attempts: int
    delay: float
    timeout: float
    time_limit: float
    least_speed: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= MOST or (value == 0 and name in POSITIVE):
                low = "above 0" if name in POSITIVE else "of 0 or more"
                raise InputError(f"{name} is {value}", expected=f"a number {low}, up to {MOST:g}", fix="choose another")


class Pace:
    """The clock of one download, over all its answers and mirrors."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = time.monotonic() + limits.time_limit
        self.expect_head()

    def expect_head(self) -> None:
        self._in_head = True
        self._overhead = 0
        self._restart()

    def expect_body(self) -> None:
        self._in_head = False
        self._restart()

    def left(self) -> float:
        """Seconds until the download must be over."""
        if (left := self._end - time.monotonic()) <= 0:
            raise OverdueError
        return left

    def wait(self) -> float:
        """Seconds that the next read may take."""
        if self._in_head and self._overhead and self._elapsed() >= self.limits.timeout:
            raise PassingError(f"the head of its answer was not there after {self.limits.timeout:g} s")
        return min(self.limits.timeout, self.left())

    def received(self, count: int) -> None:
        """Count what came from the socket, all of which may yet prove to be of the file."""
        self._overhead += count
        if self._overhead > OVERHEAD:
            raise UnavailableError(f"it sent {OVERHEAD:,} bytes that are not of the file")
        if not self._in_head:
            self._judge(self._brought + count)

    def brought(self, count: int) -> None:
        """Count bytes of the file itself."""
        self._overhead = max(self._overhead - EXCUSED * count, 0)
        self._brought += count
        if self._judge(self._brought):
            self._restart()

    def _judge(self, count: int) -> bool:
        """Whether a stretch as long as the longest silence is over; if so, its speed must have been enough."""
        elapsed = self._elapsed()
        if elapsed < self.limits.timeout:
            return False
        if (speed := count / elapsed) < self.limits.least_speed:
            raise PassingError(f"{speed:,.0f} bytes/s are less than the least speed, {self.limits.least_speed:,.0f}")
        return True

    def _restart(self) -> None:
        self._since, self._brought = time.monotonic(), 0

    def _elapsed(self) -> float:
        return time.monotonic() - self._since


class _PacedSocket(io.RawIOBase):
    def __init__(self, connection: socket.socket, raw: io.RawIOBase, pace: Pace) -> None:
        self._connection, self._raw, self._pace = connection, raw, pace

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """A read that fails ends the connection: `urllib` would leave that of a redirect open."""
        try:
            self._connection.settimeout(self._pace.wait())
            count: int | None = self._raw.readinto(buffer)
            self._pace.received(count or 0)
        except BaseException:
            self._raw.close()
            raise
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _PacedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, pace: Pace, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_PacedSocket(sock, self.fp.detach(), pace))


def _paced(kind: type[http.client.HTTPConnection], pace: Pace) -> Callable[..., http.client.HTTPConnection]:
    def connect(host: str, /, **options: Any) -> http.client.HTTPConnection:
        connection = kind(host, **options)
        connection.response_class = partial(_PacedResponse, pace=pace)  # type: ignore[assignment]
        pace.expect_head()
        return connection

    return connect


class _Http(urllib.request.HTTPHandler):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_paced(http.client.HTTPConnection, self._pace), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_paced(http.client.HTTPSConnection, self._pace), req)


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to the web alone, and never from https to http.

    Keeps the SHA-256 of a large file that Hugging Face states only where it redirects to the storage.
    """

    def __init__(self) -> None:
        self.published: dict[str, str] = {}

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        scheme = newurl.partition(":")[0].lower()
        if scheme not in {"https", req.type}:
            fp.close()
            raise UnavailableError(f"it redirects from {req.type} to {newurl}, which is not followed")
        linked = headers.get("X-Linked-ETag", "").strip('"')
        if re.fullmatch(r"[0-9a-f]{64}", linked):  # small files have a Git hash there
            self.published["sha-256"] = linked
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def open_url(url: str, headers: dict[str, str], redirects: Redirects, pace: Pace) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers=headers)
    pace.expect_head()
    try:
        with network():
            response: http.client.HTTPResponse = _opener(redirects, pace).open(request, timeout=pace.wait())
        return response
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error, "Range" in headers) from error
    except (ValueError, http.client.InvalidURL) as error:
        raise UnavailableError(f"not a usable address: {error}") from error


def _opener(redirects: Redirects, pace: Pace) -> urllib.request.OpenerDirector:
    """The web alone: the usual opener also knows ftp, files and data in addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        redirects,
        _Http(pace),
        _Https(pace),
    ):
        opener.add_handler(handler)
    return opener


def _refusal(error: urllib.error.HTTPError, asked_for_rest: bool) -> Exception:
    reason = f"{error.code} {error.reason}"
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and asked_for_rest:
        return StaleError(reason)
    if error.code in RETRIED_STATUS or error.code >= 500:
        wait = error.headers.get("Retry-After", "")
        return PassingError(reason, wait=float(wait) if wait.isdecimal() else 0.0)
    return UnavailableError(reason)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Keep the network's errors apart from the disk's, which are OSError too; answers of refusal pass."""
    try:
        yield
    except (urllib.error.HTTPError, http.client.InvalidURL):
        raise
    except TimeoutError as error:
        raise PassingError("the server fell silent") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise UnavailableError(f"its certificate is not accepted: {reason.verify_message}") from error
        raise PassingError(f"the connection failed: {reason}") from error


def _shown(text: str) -> str:
    """What a server says, fit for a terminal: on one line, without control characters, of bounded length."""
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line[:LONGEST_REASON])

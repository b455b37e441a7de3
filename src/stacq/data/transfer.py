"""One file over HTTP into a part file beside its target, resumed after any interruption."""

import base64
import binascii
import contextlib
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from email.message import Message
from pathlib import Path
from typing import IO

from stacq.files import write_json, writing
from stacq.reading import read_text

Progress = Callable[[int, int | None], None]

CHUNK = 1 << 20
LONGEST_WAIT = 60.0  # seconds between attempts, whatever the backoff or the server says
RETRIED_STATUS = (408, 425, 429)  # and every 5xx; other refusals are final
DIGEST_BYTES = {"sha-256": 32, "md5": 16}


class UnavailableError(Exception):
    """This mirror cannot give the file; another one may."""


class _InterruptedError(Exception):
    """This attempt failed in a way that a later one may not; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _StaleError(Exception):
    """The bytes so far are not the beginning of what the server has."""


@dataclass(frozen=True)
class Patience:
    attempts: int
    delay: float
    timeout: float


@dataclass(frozen=True)
class _Origin:
    """The remote file that a part file is a part of."""

    url: str
    etag: str | None
    modified: str | None
    total: int | None
    digests: dict[str, str] = field(default_factory=dict)  # published by the server: algorithm -> hexadecimal

    @property
    def validator(self) -> str | None:
        """What proves that the file is unchanged byte for byte; a weak ETag does not."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def contradicts(self, other: "_Origin") -> bool:
        pairs = ((self.etag, other.etag), (self.modified, other.modified), (self.total, other.total))
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@dataclass(frozen=True)
class Part:
    """The bytes so far, and beside them a JSON file that says where they come from."""

    path: Path

    @property
    def sidecar(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def origin(self, url: str) -> _Origin | None:
        """What the bytes belong to if that is `url`; a missing or damaged sidecar makes them worthless."""
        try:
            origin = _Origin(**json.loads(read_text(self.sidecar)))
        except (OSError, ValueError, TypeError):
            return None
        return origin if origin.url == url else None

    def begin(self, origin: _Origin) -> None:
        """Empty the part before its origin is written: a crash in between must not join the two."""
        with writing(self.path):
            self.path.write_bytes(b"")
        write_json(self.sidecar, asdict(origin))

    def append(self, data: bytes) -> None:
        with writing(self.path), open(self.path, "ab") as file:
            file.write(data)

    def discard(self) -> None:
        with writing(self.path):
            self.path.unlink(missing_ok=True)
            self.sidecar.unlink(missing_ok=True)


def fetch(url: str, part: Part, patience: Patience, progress: Progress) -> None:
    """Attempt until the part is complete, or nothing new came `attempts` times in a row."""
    failures, most = 0, 0
    while True:
        try:
            return _attempt(url, part, patience.timeout, progress)
        except _StaleError:
            part.discard()  # cannot recur at once: an empty part is never stale
        except _InterruptedError as error:
            failures = 1 if part.size >= most + CHUNK else failures + 1
            most = max(most, part.size)
            if failures >= patience.attempts:
                raise UnavailableError(f"{error} ({failures} attempts)") from error
            time.sleep(min(max(patience.delay * 2 ** (failures - 1), error.wait), LONGEST_WAIT))


def _attempt(url: str, part: Part, timeout: float, progress: Progress) -> None:
    known = part.origin(url)
    if known and known.total and part.size == known.total:
        return  # complete, but its process died before it was put in place
    offset = part.size if known and known.validator else 0
    redirects = _Redirects()
    headers = _headers(offset, known.validator if known else None)
    with contextlib.closing(_open(url, headers, redirects, timeout)) as response:
        origin = _described(url, response, redirects.published)
        if response.status == http.client.OK:
            part.begin(origin)
        elif response.status == http.client.PARTIAL_CONTENT and known and offset:
            _check_continues(response, offset, known, origin)
            origin = replace(known, total=origin.total or known.total)
        else:
            raise UnavailableError(f"unexpected answer {response.status} {response.reason}")
        _receive(response, part, origin.total, progress)
    _check_length(part, origin.total)


def _headers(offset: int, validator: str | None) -> dict[str, str]:
    """`If-Range` makes a server with another file answer with all of it instead of the rest."""
    headers = {"User-Agent": "stacq"}  # several servers refuse Python's own name
    if offset and validator:
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
    return headers


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps the SHA-256 of a large file that Hugging Face states only where it redirects to the storage."""

    def __init__(self) -> None:
        self.published: dict[str, str] = {}

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        linked = headers.get("X-Linked-ETag", "").strip('"')
        if re.fullmatch(r"[0-9a-f]{64}", linked):  # small files have a Git hash there
            self.published["sha-256"] = linked
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _open(url: str, headers: dict[str, str], redirects: _Redirects, timeout: float) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers=headers)
    try:
        with _network():
            response: http.client.HTTPResponse = urllib.request.build_opener(redirects).open(request, timeout=timeout)
        return response
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error, "Range" in headers) from error
    except (ValueError, http.client.InvalidURL) as error:
        raise UnavailableError(f"not a usable address: {error}") from error


def _refusal(error: urllib.error.HTTPError, asked_for_rest: bool) -> Exception:
    reason = f"{error.code} {error.reason}"
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and asked_for_rest:
        return _StaleError(reason)
    if error.code in RETRIED_STATUS or error.code >= 500:
        wait = error.headers.get("Retry-After", "")
        return _InterruptedError(reason, wait=float(wait) if wait.isdecimal() else 0.0)
    return UnavailableError(reason)


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Keep the network's errors apart from the disk's, which are OSError too; answers of refusal pass."""
    try:
        yield
    except (urllib.error.HTTPError, http.client.InvalidURL):
        raise
    except TimeoutError as error:
        raise _InterruptedError("the server fell silent") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise _InterruptedError(f"the connection failed: {reason}") from error


def _described(url: str, response: http.client.HTTPResponse, published: Mapping[str, str]) -> _Origin:
    whole = response.status == http.client.OK
    stated = re.search(r"/(\d+)\s*$", response.headers.get("Content-Range", ""))
    return _Origin(
        url=url,
        etag=response.headers.get("ETag"),
        modified=response.headers.get("Last-Modified"),
        total=response.length if whole else int(stated[1]) if stated else None,
        digests={**_digests(response.headers), **published},
    )


def _digests(headers: Message) -> dict[str, str]:
    """Checksums that the server states. Only those of a complete answer are kept: Content-MD5 is of the body."""
    stated = ",".join([headers.get("Repr-Digest", ""), headers.get("Digest", "")])
    found = re.findall(r"(sha-256|md5)=:?([a-z0-9+/]+={0,2})", stated, re.IGNORECASE)
    if "Content-MD5" in headers:
        found.append(("md5", headers["Content-MD5"]))
    digests = {}
    for algorithm, text in found:
        with contextlib.suppress(binascii.Error, ValueError):
            value = base64.b64decode(text, validate=True)
            if len(value) == DIGEST_BYTES[algorithm.lower()]:
                digests[algorithm.lower()] = value.hex()
    return digests


def _check_continues(response: http.client.HTTPResponse, offset: int, known: _Origin, origin: _Origin) -> None:
    """The answer must be the rest of the same file; servers exist that ignore `If-Range` or shift the range."""
    stated = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if stated is None or int(stated[1]) != offset or known.contradicts(origin):
        raise _StaleError("the answer does not continue the part")


def _receive(response: http.client.HTTPResponse, part: Part, total: int | None, progress: Progress) -> None:
    size = part.size
    progress(size, total)
    while total is None or size < total:
        with _network():
            data = response.read1(CHUNK)  # what has arrived: read() would lose it if the connection broke
        if not data:
            return
        part.append(data)
        size += len(data)
        progress(size, total)


def _check_length(part: Part, total: int | None) -> None:
    size = part.size
    if total is None or size == total:
        return
    if size > total:
        part.discard()
    raise _InterruptedError(f"{size:,} of {total:,} bytes arrived")

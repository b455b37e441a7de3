"""One file over HTTP into a part file next to its target, resumed after any interruption."""

import base64
import binascii
import contextlib
import http.client
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.message import Message
from typing import NoReturn

from stacq.data.connection import (
    CHUNK,
    Pace,
    PassingError,
    Redirects,
    StaleError,
    UnavailableError,
    network,
    open_url,
)
from stacq.data.part import Origin, Part

Progress = Callable[[int, int | None], None]

LONGEST_WAIT = 60.0  # seconds between attempts, whatever the backoff or the server says
LONGEST_VALIDATOR = 200  # characters; a longer one is not sent back
DIGEST_BYTES = {"sha-256": 32, "md5": 16}


def fetch(url: str, part: Part, most: int, pace: Pace, progress: Progress) -> bool:
    """Attempt until the part is complete, or nothing new came `attempts` times in a row.

    Never more than `most` bytes are kept. Says whether bytes of more than one answer were joined.
    """
    failures, longest = 0, 0
    while True:
        try:
            return _attempt(url, part, most, pace, progress)
        except StaleError:
            part.discard()  # cannot recur at once: an empty part is never stale
        except PassingError as error:
            failures = 1 if part.size >= longest + CHUNK else failures + 1
            longest = max(longest, part.size)
            if failures >= pace.limits.attempts:
                raise UnavailableError(f"{error} ({failures} attempts)") from error
            time.sleep(min(max(pace.limits.delay * 2 ** (failures - 1), error.wait), LONGEST_WAIT, pace.left()))


def _attempt(url: str, part: Part, most: int, pace: Pace, progress: Progress) -> bool:
    if part.size > most:
        part.discard()
    known = part.origin(url)
    if known and known.total and part.size == known.total:
        return True  # complete, but its process died before it was put in place
    offset = part.size if known and known.validator else 0
    redirects = Redirects()
    headers = _headers(offset, known.validator if known else None)
    with contextlib.closing(open_url(url, headers, redirects, pace)) as response:
        origin = _described(url, response, redirects.published)
        if origin.total is not None and origin.total > most:
            _refuse_total(origin.total, most, part if known else None)
        joins = response.status == http.client.PARTIAL_CONTENT and bool(known and offset)
        if response.status == http.client.OK:
            part.begin(origin)
        elif joins and known:
            _check_continues(response, offset, known, origin)
            origin = replace(known, total=origin.total or known.total)
        else:
            raise UnavailableError(f"unexpected answer {response.status} {response.reason}")
        _receive(response, part, origin.total, most, pace, progress)
    _check_length(part, origin.total)
    return joins


def _headers(offset: int, validator: str | None) -> dict[str, str]:
    """`If-Range` makes a server with another file answer with all of it instead of the rest."""
    headers = {"User-Agent": "stacq"}  # several servers refuse Python's own name
    if offset and validator:
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
    return headers


def _described(url: str, response: http.client.HTTPResponse, published: Mapping[str, str]) -> Origin:
    whole = response.status == http.client.OK
    stated = re.search(r"/(\d{1,18})\s*$", response.headers.get("Content-Range", ""))
    return Origin(
        url=url,
        etag=_validator(response.headers.get("ETag")),
        modified=_validator(response.headers.get("Last-Modified")),
        total=response.length if whole else int(stated[1]) if stated else None,
        digests={**_digests(response.headers), **published},
    )


def _validator(text: str | None) -> str | None:
    """What can be sent back in a header as it came."""
    return text if text and text.isascii() and text.isprintable() and len(text) <= LONGEST_VALIDATOR else None


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


def _refuse_total(total: int, most: int, part: Part | None) -> NoReturn:
    if part:
        part.discard()
    raise UnavailableError(f"it announces {total:,} bytes; the file has at most {most:,}")


def _check_continues(response: http.client.HTTPResponse, offset: int, known: Origin, origin: Origin) -> None:
    """The answer must be the rest of the same file; servers exist that ignore `If-Range` or shift the range."""
    stated = re.match(r"bytes (\d{1,18})-", response.headers.get("Content-Range", ""))
    if stated is None or int(stated[1]) != offset or known.contradicts(origin):
        raise StaleError("the answer does not continue the part")


def _receive(
    response: http.client.HTTPResponse, part: Part, total: int | None, most: int, pace: Pace, progress: Progress
) -> None:
    """What was announced is not trusted: more than `most` bytes are refused when they come."""
    size = part.size
    progress(size, total)
    pace.expect_body()
    while total is None or size < total:
        with network():
            data = response.read1(CHUNK)  # what has arrived: read() would lose it if the connection broke
        if not data:
            return
        size += len(data)
        if size > most:
            part.discard()
            raise UnavailableError(f"it sends more than {most:,} bytes, the most that the file has")
        part.append(data)
        progress(size, total)
        if size != total:
            pace.brought(len(data))


def _check_length(part: Part, total: int | None) -> None:
    size = part.size
    if total is None or size == total:
        return
    if size > total:
        part.discard()
    raise PassingError(f"{size:,} of {total:,} bytes arrived")

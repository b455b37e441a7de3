"""Fetch D4RL's files over unreliable networks from mirrors that are not ours.

Beside the target lie, while it is on its way, `NAME.part` (the bytes so far), `NAME.part.json` (what they are
a part of) and `.NAME.lock`. The lock makes a second process wait and then find the file ready; it is
released by the operating system when its holder dies, and there is none on Windows. The final name appears
only for a complete file that passed every check.
"""

import base64
import binascii
import contextlib
import hashlib
import http.client
import json
import os
import re
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

import h5py

from stacq.data.hdf5 import SIGNATURE
from stacq.data.load import cached_file
from stacq.data.registry import DATASETS, DatasetInfo
from stacq.errors import InputError
from stacq.files import home, replacing, unwritable, write_json

if sys.platform != "win32":
    import fcntl

Progress = Callable[[int, int | None], None]

DEFAULT_MIRRORS = (
    "http://rail.eecs.berkeley.edu/datasets/offline_rl/{path}",
    "https://huggingface.co/datasets/imone/D4RL/resolve/main/{file}",
)
CHECKSUMS: dict[str, str] = {}  # file name -> SHA-256; D4RL publishes none
CHUNK = 1 << 20
LONGEST_WAIT = 60.0  # seconds between attempts, whatever the backoff or the server says
RETRIED_STATUS = (408, 425, 429)  # and every 5xx; other refusals are final
DIGEST_BYTES = {"sha-256": 32, "md5": 16}


def download(
    info: DatasetInfo,
    *,
    mirrors: Sequence[str] | None = None,
    progress: Progress | None = None,
    force: bool = False,
    attempts: int = 4,
    delay: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Bring a D4RL dataset into the cache and return its file; an interrupted transfer is resumed.

    A mirror is a URL with `{path}` (folder and file) or `{file}`, or a base URL to which `/{path}` is added.
    Mirrors are tried in order: those given, else `STACQ_MIRRORS` (comma separated), else `[download] mirrors`
    in `$STACQ_HOME/config.toml`, else `DEFAULT_MIRRORS`.

    A file already in the cache is returned without any network access, unless `force` is set. The SHA-256 of
    the first download is remembered, and another content is refused from then on.

    `attempts` counts failures in a row on one mirror, with `delay` doubling between them; one that brought
    `CHUNK` new bytes starts the count again, so a poor line still delivers a large file. `timeout` is the
    longest silence of a server, not of the transfer. `progress` gets the bytes so far and the total, if known.
    """
    _check_downloadable(info)
    target = cached_file(info)
    if not force and _already_here(target, info):
        return target
    urls = _urls(info, mirrors)
    patience = _Patience(attempts, delay, timeout)
    with _locked(target):
        if not force and _already_here(target, info):  # brought by the process that held the lock
            return target
        part = _Part(target.with_name(f"{target.name}.part"))
        sha256 = _fetch_from_any(urls, part, info, patience, progress or _silent)
        _install(part, target)
        _remember(target.name, sha256)
    return target


class _UnavailableError(Exception):
    """This mirror cannot give the file; another one may."""


class _InterruptedError(Exception):
    """This attempt failed in a way that a later one may not; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _StaleError(Exception):
    """The bytes so far are not the beginning of what the server has."""


@dataclass(frozen=True)
class _Patience:
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
class _Part:
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
            origin = _Origin(**json.loads(self.sidecar.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return origin if origin.url == url else None

    def begin(self, origin: _Origin) -> None:
        """Empty the part before its origin is written: a crash in between must not join the two."""
        with _writing(self.path):
            self.path.write_bytes(b"")
        write_json(self.sidecar, asdict(origin))

    def append(self, data: bytes) -> None:
        with _writing(self.path), open(self.path, "ab") as file:
            file.write(data)

    def discard(self) -> None:
        with _writing(self.path):
            self.path.unlink(missing_ok=True)
            self.sidecar.unlink(missing_ok=True)


# Mirrors


def _check_downloadable(info: DatasetInfo) -> None:
    if info.remote is not None:
        return
    command = f"minari download {info.name}" if info.family == "minari" else f"stacq data generate {info.name}"
    raise InputError(
        f"'{info.name}' is not one of D4RL's files: there is nothing to download",
        expected="a D4RL dataset such as hopper-medium-v2",
        fix=f"run `{command}`",
    )


def _urls(info: DatasetInfo, mirrors: Sequence[str] | None) -> list[str]:
    chosen = _chosen_mirrors() if mirrors is None else mirrors
    if not chosen:
        raise InputError("the list of mirrors is empty", expected="at least one URL", fix="name a mirror")
    return [_url(mirror.strip(), info.remote or "") for mirror in chosen]


def _chosen_mirrors() -> Sequence[str]:
    named = [mirror for mirror in os.environ.get("STACQ_MIRRORS", "").split(",") if mirror.strip()]
    if named:
        return named
    configured = _configured_mirrors(home() / "config.toml")
    return DEFAULT_MIRRORS if configured is None else configured


def _configured_mirrors(path: Path) -> list[str] | None:
    """`[download] mirrors` of the configuration, None where it has none; other sections are left alone."""
    section = _toml(path).get("download", {})
    mirrors = section.get("mirrors") if isinstance(section, dict) else section
    if mirrors is None:
        return None
    if not isinstance(mirrors, list) or not all(isinstance(mirror, str) for mirror in mirrors):
        raise InputError(
            f"the mirrors are {mirrors!r}",
            where=path,
            expected='a section [download] with mirrors = ["https://...", ...]',
            fix="correct the file or delete it",
        )
    return mirrors


def _toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}", where=path, expected="TOML in UTF-8", fix="correct the file or delete it"
        ) from error


def _url(mirror: str, remote: str) -> str:
    template = mirror if "{path}" in mirror or "{file}" in mirror else mirror.rstrip("/") + "/{path}"
    url = template.replace("{path}", quote(remote)).replace("{file}", quote(Path(remote).name))
    if not _is_web_address(url):
        raise InputError(
            f"the mirror {mirror!r} is no web address",
            expected="a URL that starts with http:// or https://, with {path}, {file} or neither",
            fix="correct it in STACQ_MIRRORS, config.toml or the call",
        )
    return url


def _is_web_address(url: str) -> bool:
    try:
        split = urlsplit(url)
        port_fits = split.port is None or split.port > 0  # the property itself refuses what is no number
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and port_fits and split.scheme in ("http", "https") and bool(split.hostname)


def _fetch_from_any(
    urls: Sequence[str], part: _Part, info: DatasetInfo, patience: _Patience, progress: Progress
) -> str:
    """Leave a complete and checked file in `part` and return its SHA-256."""
    reasons = []
    for url in urls:
        try:
            _fetch(url, part, patience, progress)
            return _checked(part, url, info)
        except _UnavailableError as error:
            reasons.append(f"{url}: {error}")
    raise InputError(
        "\n    ".join([f"no mirror gave '{info.name}'", *reasons]),
        where=cached_file(info),
        fix=_other_ways(info),
    )


def _other_ways(info: DatasetInfo) -> str:
    ways = ["set STACQ_MIRRORS to the URL of a mirror that has it", f"place the file by hand at {cached_file(info)}"]
    regenerated = f"stacq/{info.name.rsplit('-v', 1)[0]}-v0"
    if regenerated in DATASETS:
        ways.append(f"make similar data with `stacq data generate {regenerated}`")
    elif info.minari:
        ways.append(f"use similar data from `minari download {info.minari}`")
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


# Transfer


def _fetch(url: str, part: _Part, patience: _Patience, progress: Progress) -> None:
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
                raise _UnavailableError(f"{error} ({failures} attempts)") from error
            time.sleep(min(max(patience.delay * 2 ** (failures - 1), error.wait), LONGEST_WAIT))


def _attempt(url: str, part: _Part, timeout: float, progress: Progress) -> None:
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
            raise _UnavailableError(f"unexpected answer {response.status} {response.reason}")
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
        raise _UnavailableError(f"not a usable address: {error}") from error


def _refusal(error: urllib.error.HTTPError, asked_for_rest: bool) -> Exception:
    reason = f"{error.code} {error.reason}"
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and asked_for_rest:
        return _StaleError(reason)
    if error.code in RETRIED_STATUS or error.code >= 500:
        wait = error.headers.get("Retry-After", "")
        return _InterruptedError(reason, wait=float(wait) if wait.isdecimal() else 0.0)
    return _UnavailableError(reason)


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


def _receive(response: http.client.HTTPResponse, part: _Part, total: int | None, progress: Progress) -> None:
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


def _check_length(part: _Part, total: int | None) -> None:
    size = part.size
    if total is None or size == total:
        return
    if size > total:
        part.discard()
    raise _InterruptedError(f"{size:,} of {total:,} bytes arrived")


def _silent(done: int, total: int | None) -> None:
    pass


# Checks


def _checked(part: _Part, url: str, info: DatasetInfo) -> str:
    """The SHA-256 of a complete part that nothing speaks against; one that is not the dataset is deleted."""
    sha256 = _digest(part.path, "sha256")
    complaint = _digest_complaint(part, url, sha256) or _content_complaint(part.path, info)
    if complaint:
        part.discard()
        raise _UnavailableError(complaint)
    name = cached_file(info).name
    before = _remembered().get(name)
    if name not in CHECKSUMS and before not in (None, sha256):
        part.discard()
        raise InputError(
            f"{url} serves another file than was downloaded before: SHA-256 {sha256}, before {before}",
            where=cached_file(info),
            expected="the same bytes under the same name; nothing in the cache was changed",
            fix=f"find out which is right; to accept the new file, delete the entry '{name}' in {_hashes_file()}",
        )
    return sha256


def _digest_complaint(part: _Part, url: str, sha256: str) -> str | None:
    expected = CHECKSUMS.get(part.path.name.removesuffix(".part"), sha256)
    if expected.lower() != sha256:
        return f"SHA-256 {sha256} is not the published {expected}"
    origin = part.origin(url)
    for algorithm, stated in origin.digests.items() if origin else ():
        found = _digest(part.path, algorithm.replace("-", ""))
        if found != stated:
            return f"{algorithm.upper()} {found} is not {stated}, which the server states"
    return None


def _content_complaint(path: Path, info: DatasetInfo) -> str | None:
    """Why the file is not the dataset, or None; every array is touched at its end, but not read through."""
    with open(path, "rb") as file:
        head = file.read(64)
    if not head.startswith(SIGNATURE):
        kind = "a web page" if head.lstrip().startswith(b"<") else f"no HDF5 file (it starts with {head[:8]!r})"
        return f"what arrived is {kind}, not the dataset"
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            file.visititems(_touch)
            sizes = tuple(int(file[key].shape[1]) for key in ("observations", "actions"))
    except Exception as error:  # h5py tells damage by nearly every type of exception
        return f"what arrived is a damaged HDF5 file: {' '.join(str(error).split())[:200]}"
    if sizes != (info.task.observation_size, info.task.action_size):
        return f"what arrived is another dataset, with observations of {sizes[0]} and actions of {sizes[1]} numbers"
    return None


def _touch(name: str, node: Any) -> None:
    if isinstance(node, h5py.Dataset) and node.shape:
        node[-1:]


def _already_here(target: Path, info: DatasetInfo) -> bool:
    """Whether the cache has the file; one placed there by hand is checked and remembered like a download."""
    if not target.exists():
        return False
    sha256 = _digest(target, "sha256")
    known = CHECKSUMS.get(target.name) or _remembered().get(target.name)
    if known is None:
        _adopt(target, info, sha256)
    elif known.lower() != sha256:
        raise InputError(
            f"the file has changed since it was downloaded: SHA-256 {sha256}, before {known}",
            where=target,
            fix=f"delete it and download again, or, to keep it, delete the entry '{target.name}' in {_hashes_file()}",
        )
    return True


def _adopt(target: Path, info: DatasetInfo, sha256: str) -> None:
    if complaint := _content_complaint(target, info):
        raise InputError(
            complaint.replace("what arrived", "this"),
            where=target,
            expected=f"the HDF5 file of '{info.name}'",
            fix="delete it and download again",
        )
    _remember(target.name, sha256)


def _digest(path: Path, algorithm: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=path, fix="check what it is") from error


# Files


def _install(part: _Part, target: Path) -> None:
    """Sync while the bytes can still be resumed from, then rename."""
    with _writing(part.path), open(part.path, "rb") as file:
        os.fsync(file.fileno())
    with replacing(target) as temporary:
        os.replace(part.path, temporary)
    part.discard()


def _hashes_file() -> Path:
    return home() / "data" / "hashes.json"


def _remembered() -> dict[str, str]:
    path = _hashes_file()
    try:
        hashes = json.loads(path.read_bytes()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise _bad_hashes(path, str(error)) from error
    if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
        raise _bad_hashes(path, "not an object of strings")
    return hashes


def _bad_hashes(path: Path, reason: str) -> InputError:
    return InputError(
        f"cannot be read: {reason}",
        where=path,
        expected="JSON with the SHA-256 of every downloaded file",
        fix="correct it, or delete it to trust the files as they are",
    )


def _remember(name: str, sha256: str) -> None:
    path = _hashes_file()
    with _locked(path):  # downloads of other names write here too
        write_json(path, {**_remembered(), name: sha256})


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `.NAME.lock` beside `path`; it is never deleted, since someone may be waiting for that very file."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error

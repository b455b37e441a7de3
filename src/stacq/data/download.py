"""Fetch D4RL's files over unreliable networks from mirrors that are not ours.

During a download there are, next to the target, `NAME.part` (the bytes so far), `NAME.part.json` (what they are
a part of) and `.stacq-NAME.lock`. The lock makes a second process wait and then find the file ready. The final name
appears only for a complete file that passed every check.
"""

import os
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from stacq.core.errors import InputError
from stacq.core.files import alone, replacing, writing
from stacq.data.arrival import complaint, digest, surplus
from stacq.data.connection import Limits, OverdueError, Pace, UnavailableError
from stacq.data.load import cached_file
from stacq.data.mirrors import mirror_urls
from stacq.data.part import Part
from stacq.data.pins import Expected, Pin, expected, pin, pinned
from stacq.data.registry import DATASETS, DatasetInfo
from stacq.data.transfer import Progress, fetch

TIME_LIMIT = 4 * 3600.0  # seconds: half a gigabyte, the largest file, at 35 kB/s
LEAST_SPEED = 10_000.0  # bytes per second


class _OtherBytesError(UnavailableError):
    """A whole file came, but not the expected one."""

    def __init__(self, reason: str, sha256: str) -> None:
        super().__init__(reason)
        self.sha256 = sha256


@dataclass(frozen=True)
class _Wanted:
    info: DatasetInfo
    target: Path
    expected: Expected | None

    @property
    def most(self) -> int:
        """Bytes that the file may have: no more than published, unless another file than that is expected."""
        known = self.expected and self.expected.sha256 == self.info.sha256
        return self.info.size if known and self.info.size else self.info.size_bound


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def download(
    info: DatasetInfo,
    *,
    mirrors: Sequence[str] | None = None,
    progress: Progress | None = None,
    force: bool = False,
    sha256: str | None = None,
    attempts: int = 4,
    delay: float = 1.0,
    timeout: float = 30.0,
    time_limit: float = TIME_LIMIT,
    least_speed: float = LEAST_SPEED,
    tell: Callable[[str], None] = _warn,
) -> Path:
    """Bring a D4RL dataset into the cache and return its file; an interrupted transfer is resumed.

    A mirror is a URL with `{path}` (folder and file) or `{file}`, or a base URL to which `/{path}` is added.
    Mirrors are tried in order: those given, else `STACQ_MIRRORS` (comma separated), else `[download] mirrors`
    in `$STACQ_HOME/config.toml`, else `DEFAULT_MIRRORS`.

    A file already in the cache is returned without any network access, unless `force` is set. The file must have the
    given `sha256`, else the one that the user gave before, else the published one, else that of the first download:
    then nothing vouches for it, which goes to `tell`. A `sha256` that is given is how another file is accepted.

    `attempts` counts failures in a row on one mirror, with `delay` doubling between them; one that brought
    `CHUNK` new bytes starts the count again, so a poor line still delivers a large file. `timeout` is the longest
    silence of a server, and the stretch over which fewer than `least_speed` bytes per second are a failure. All
    mirrors together have `time_limit` seconds. `progress` gets the bytes so far and the total, if known.
    """
    _check_downloadable(info)
    limits = Limits(attempts, delay, timeout, time_limit, least_speed)
    named = None if sha256 is None else _checked_hash(sha256)
    wanted = _Wanted(info, cached_file(info), expected(info, named))
    if not force and _already_here(wanted, named, tell):
        return wanted.target
    urls = mirror_urls(info, mirrors, verifiable=wanted.expected is not None)
    with alone(wanted.target):
        wanted = _Wanted(info, wanted.target, expected(info, named))  # another process may have pinned it meanwhile
        if not force and _already_here(wanted, named, tell):
            return wanted.target
        part = Part(wanted.target.with_name(f"{wanted.target.name}.part"))
        came = _fetch_from_any(urls, part, wanted, Pace(limits), progress or _silent)
        _install(part, wanted.target)
        pin(info, replace(came, named=named is not None))
    if wanted.expected is None:
        tell(_first_trust(info, came))
    return wanted.target


def _check_downloadable(info: DatasetInfo) -> None:
    if info.remote is not None:
        return
    command = f"minari download {info.name}" if info.source == "minari" else f"stacq data generate {info.name}"
    raise InputError(
        f"'{info.name}' is not one of D4RL's files: there is nothing to download",
        expected="a D4RL dataset such as hopper-medium-v2",
        fix=f"run `{command}`",
    )


def _checked_hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise InputError(
            f"{text!r} is no SHA-256", expected="64 hexadecimal digits", fix="copy all of it, as `sha256sum` prints it"
        )
    return text.lower()


def _fetch_from_any(urls: Sequence[str], part: Part, wanted: _Wanted, pace: Pace, progress: Progress) -> Pin:
    """Leave a complete and checked file in `part`; gives its SHA-256 and its address."""
    failures: list[tuple[str, UnavailableError]] = []
    for url in urls:
        try:
            return Pin(_fetched(url, part, wanted, pace, progress), url)
        except UnavailableError as error:
            failures.append((url, error))
        except OverdueError:
            raise _overdue(wanted, part, pace.limits) from None
    _give_up(wanted, failures)


def _fetched(url: str, part: Part, wanted: _Wanted, pace: Pace, progress: Progress) -> str:
    """The SHA-256 of a complete part that passed every check; one that is not the dataset is deleted."""
    joined = fetch(url, part, wanted.most, pace, progress)
    found, error = _examined(url, part, wanted)
    if error and joined:  # perhaps only because of the bytes from before
        part.discard()
        fetch(url, part, wanted.most, pace, progress)
        found, error = _examined(url, part, wanted)
    if error:
        part.discard()
        raise error
    return found


def _examined(url: str, part: Part, wanted: _Wanted) -> tuple[str, UnavailableError | None]:
    """The SHA-256 of a complete part, and the check that it failed."""
    found = digest(part.path)
    if text := surplus(part.path):
        return found, UnavailableError(text)
    if wanted.expected and wanted.expected.sha256 != found:
        return found, _OtherBytesError(f"it serves {wanted.expected.refuses(found)}", found)
    text = _contradicted(url, part, found) or complaint(part.path, wanted.info.task)
    return found, UnavailableError(text) if text else None


def _contradicted(url: str, part: Part, sha256: str) -> str | None:
    origin = part.origin(url)
    for algorithm, stated in origin.digests.items() if origin else ():
        found = sha256 if algorithm == "sha-256" else digest(part.path, algorithm)
        if found != stated:
            return f"{algorithm.upper()} {found} is not {stated}, which the server states"
    return None


def _give_up(wanted: _Wanted, failures: Sequence[tuple[str, UnavailableError]]) -> NoReturn:
    info = wanted.info
    fix = _other_ways(info)
    if others := sorted({error.sha256 for _, error in failures if isinstance(error, _OtherBytesError)}):
        accept = f"`stacq data download {info.name} --sha256 {others[0] if len(others) == 1 else 'SHA-256'}`"
        fix = f"find out which file is right; to accept the one that is served, run {accept}; else {fix}"
    raise InputError(
        f"no mirror gave '{info.name}'",
        details=[f"{url}: {error}" for url, error in failures],
        where=wanted.target,
        expected="the dataset's file; nothing in the cache was changed" if others else "",
        fix=fix,
    )


def _other_ways(info: DatasetInfo) -> str:
    ways = ["set STACQ_MIRRORS to the URL of a mirror that has it", f"place the file by hand at {cached_file(info)}"]
    regenerated = f"stacq/{info.name.rsplit('-v', 1)[0]}-v0"
    if regenerated in DATASETS:
        ways.append(f"make similar data with `stacq data generate {regenerated}`")
    if info.minari:
        ways.append(f"use similar data from `minari download {info.minari}`")
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


def _overdue(wanted: _Wanted, part: Part, limits: Limits) -> InputError:
    return InputError(
        f"'{wanted.info.name}' was not complete after {limits.time_limit:,g} seconds; {part.size:,} bytes are here",
        where=wanted.target,
        fix="run the same command again to go on from there, or allow more time (--time-limit)",
    )


def _silent(done: int, total: int | None) -> None:
    pass


def _already_here(wanted: _Wanted, named: str | None, tell: Callable[[str], None]) -> bool:
    """Whether the cache has the file; one placed there by hand is checked and pinned like a download."""
    target, info = wanted.target, wanted.info
    if not target.exists():
        return False
    here, before = Pin(digest(target), named=named is not None), pinned(info)
    if wanted.expected is None:
        _check_placed(target, info)
    elif wanted.expected.sha256 != here.sha256:
        if named and before and before.sha256 == here.sha256:
            return False  # it is replaced, as asked, once the other one is here
        raise _not_expected(wanted, wanted.expected, here, before)
    pin(info, here)
    if wanted.expected is None:
        tell(_first_trust(info, here))
    return True


def _not_expected(wanted: _Wanted, expected: Expected, here: Pin, before: Pin | None) -> InputError:
    changed = "the file has changed since it was downloaded: " if before and before.sha256 != here.sha256 else ""
    keep = f"`stacq data download {wanted.info.name} --sha256 {here.sha256}`"
    return InputError(
        f"{changed}this is {expected.refuses(here.sha256)}",
        where=wanted.target,
        fix=f"delete it and download again, or keep it: {keep}",
    )


def _check_placed(target: Path, info: DatasetInfo) -> None:
    if text := surplus(target) or complaint(target, info.task):
        raise InputError(
            text.replace("what arrived", "this"),
            where=target,
            expected=f"the HDF5 file of '{info.name}'",
            fix="delete it and download again",
        )


def _first_trust(info: DatasetInfo, came: Pin) -> str:
    way = f"it came from {came.source}" if came.source else "it was placed there by hand"
    if came.source.startswith("http:"):
        way += ", unencrypted, so anyone on the way could change it"
    return (
        f"nothing vouches for the file of {info.name}: no checksum of it is published, and {way}. From now on it is "
        f"pinned. Compare its SHA-256 with someone else's, or give it to others for --sha256: {came.sha256}"
    )


def _install(part: Part, target: Path) -> None:
    """Sync while the bytes can still be resumed from, then rename."""
    with writing(part.path), open(part.path, "rb") as file:
        os.fsync(file.fileno())
    with replacing(target) as temporary:
        os.replace(part.path, temporary)
    part.discard()

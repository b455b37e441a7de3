"""Fetch D4RL's files over unreliable networks from mirrors that are not ours.

Beside the target lie, while it is on its way, `NAME.part` (the bytes so far), `NAME.part.json` (what they are
a part of) and `.NAME.lock`. The lock makes a second process wait and then find the file ready. The final name
appears only for a complete file that passed every check.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py

from stacq.data.hdf5 import SIGNATURE
from stacq.data.load import cached_file
from stacq.data.mirrors import mirror_urls
from stacq.data.registry import DATASETS, DatasetInfo
from stacq.data.transfer import Part, Patience, Progress, UnavailableError, fetch
from stacq.errors import InputError
from stacq.files import alone, home, replacing, write_json, writing

CHECKSUMS: dict[str, str] = {}  # file name -> SHA-256; D4RL publishes none


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
    urls = mirror_urls(info, mirrors)
    patience = Patience(attempts, delay, timeout)
    with alone(target):
        if not force and _already_here(target, info):  # brought by the process that held the lock
            return target
        part = Part(target.with_name(f"{target.name}.part"))
        sha256 = _fetch_from_any(urls, part, info, patience, progress or _silent)
        _install(part, target)
        _remember(target.name, sha256)
    return target


def _check_downloadable(info: DatasetInfo) -> None:
    if info.remote is not None:
        return
    command = f"minari download {info.name}" if info.family == "minari" else f"stacq data generate {info.name}"
    raise InputError(
        f"'{info.name}' is not one of D4RL's files: there is nothing to download",
        expected="a D4RL dataset such as hopper-medium-v2",
        fix=f"run `{command}`",
    )


def _fetch_from_any(urls: Sequence[str], part: Part, info: DatasetInfo, patience: Patience, progress: Progress) -> str:
    """Leave a complete and checked file in `part` and return its SHA-256."""
    reasons = []
    for url in urls:
        try:
            fetch(url, part, patience, progress)
            return _checked(part, url, info)
        except UnavailableError as error:
            reasons.append(f"{url}: {error}")
    raise InputError(
        f"no mirror gave '{info.name}'",
        details=reasons,
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


def _silent(done: int, total: int | None) -> None:
    pass


def _checked(part: Part, url: str, info: DatasetInfo) -> str:
    """The SHA-256 of a complete part that nothing speaks against; one that is not the dataset is deleted."""
    sha256 = _digest(part.path, "sha256")
    complaint = _digest_complaint(part, url, sha256) or _content_complaint(part.path, info)
    if complaint:
        part.discard()
        raise UnavailableError(complaint)
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


def _digest_complaint(part: Part, url: str, sha256: str) -> str | None:
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


def _install(part: Part, target: Path) -> None:
    """Sync while the bytes can still be resumed from, then rename."""
    with writing(part.path), open(part.path, "rb") as file:
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
    with alone(path):  # downloads of other names write here too
        write_json(path, {**_remembered(), name: sha256})

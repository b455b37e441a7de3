"""Where D4RL's files are served, and how a user says otherwise."""

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from stacq.core.errors import InputError
from stacq.core.files import home
from stacq.core.reading import read_text
from stacq.data.registry import DatasetInfo

DEFAULT_MIRRORS = (
    "https://rail.eecs.berkeley.edu/datasets/offline_rl/{path}",
    "https://huggingface.co/datasets/imone/D4RL/resolve/main/{file}",
    "http://rail.eecs.berkeley.edu/datasets/offline_rl/{path}",
)


def mirror_urls(info: DatasetInfo, mirrors: Sequence[str] | None, *, verifiable: bool) -> list[str]:
    """Addresses in the order in which to try them.

    A file can be changed on its way over plain http. Unless the user names such a mirror, it is only used for a file
    whose checksum is known.
    """
    chosen = _chosen_mirrors(verifiable) if mirrors is None else mirrors
    if not chosen:
        raise InputError("the list of mirrors is empty", expected="at least one URL", fix="name a mirror")
    return [_url(mirror.strip(), info.remote or "") for mirror in chosen]


def _chosen_mirrors(verifiable: bool) -> Sequence[str]:
    named = [mirror for mirror in os.environ.get("STACQ_MIRRORS", "").split(",") if mirror.strip()]
    if named:
        return named
    configured = _configured_mirrors(home() / "config.toml")
    if configured is not None:
        return configured
    return [mirror for mirror in DEFAULT_MIRRORS if verifiable or mirror.startswith("https:")]


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
        return tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
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

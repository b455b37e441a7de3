"""Where D4RL's files are served, and how a user says otherwise."""

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from stacq.data.registry import DatasetInfo
from stacq.errors import InputError
from stacq.files import home
from stacq.reading import read_text

DEFAULT_MIRRORS = (
    "http://rail.eecs.berkeley.edu/datasets/offline_rl/{path}",
    "https://huggingface.co/datasets/imone/D4RL/resolve/main/{file}",
)


def mirror_urls(info: DatasetInfo, mirrors: Sequence[str] | None) -> list[str]:
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

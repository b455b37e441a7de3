"""Which bytes a D4RL file must have: named by the user, published, or pinned when it first came.

`data/hashes.json` in the cache keeps the SHA-256 of every file that came, and where it came from.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stacq.core.errors import InputError
from stacq.core.files import alone, home, write_json
from stacq.core.outside import json_object
from stacq.core.reading import read_text
from stacq.data.load import cached_file
from stacq.data.published import VOUCHER
from stacq.data.registry import DATASETS, DatasetInfo


@dataclass(frozen=True)
class Pin:
    """What came once under a name; only the same comes again."""

    sha256: str
    source: str = ""  # the address that it came from; none if the file was put there by hand
    named: bool = False  # by the user, who thereby vouches for it


@dataclass(frozen=True)
class Expected:
    """The SHA-256 that a file must have, and where that is known from."""

    sha256: str
    known: str

    def refuses(self, found: str) -> str:
        return f"another file than {self.known}: SHA-256 {found} is not {self.sha256}"


def expected(info: DatasetInfo, named: str | None) -> Expected | None:
    """What the user says goes before what is published, and that before what merely came first."""
    pin = pinned(info)
    if named is not None:
        return Expected(named, "the one named")
    if info.sha256 and not (pin and pin.named):
        return Expected(info.sha256, "the published one")
    return Expected(pin.sha256, "was downloaded before") if pin else None


def pinned(info: DatasetInfo) -> Pin | None:
    return _read().get(cached_file(info).name)


def pin(info: DatasetInfo, came: Pin) -> None:
    """Keep what came, with what was known of the same bytes before."""
    path, name = hashes_file(), cached_file(info).name
    with alone(path):  # downloads of other names write here too
        pins = _read()
        before = pins.get(name)
        if before and before.sha256 == came.sha256:
            came = Pin(came.sha256, came.source or before.source, came.named or before.named)
        if came != before:
            write_json(path, {key: asdict(value) for key, value in {**pins, name: came}.items()})


def pin_text(name: str) -> str | None:
    """The pinned checksum of a dataset and who vouches for it; None where nothing is pinned."""
    info = DATASETS.get(name)
    pin = pinned(info) if info and info.remote else None
    if info is None or pin is None:
        return None
    if pin.named:
        vouched = "as you named it"
    elif pin.sha256 == info.sha256:
        vouched = f"as {VOUCHER} recorded it"
    else:
        vouched = "which came first; nothing vouches for it"
    return f"pinned SHA-256: {pin.sha256}, {vouched}"


def hashes_file() -> Path:
    return home() / "data" / "hashes.json"


def _read() -> dict[str, Pin]:
    path = hashes_file()
    try:
        stored = json_object(read_text(path)) if path.exists() else {}
        return {name: _pin(value) for name, value in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"cannot be read: {error}",
            where=path,
            expected="JSON with the SHA-256 of every downloaded file",
            fix="correct it, or delete it to trust the files as they are",
        ) from error


def _pin(value: Any) -> Pin:
    """A bare text is a pin too: a checksum noted by hand or by an older version."""
    found = Pin(value) if isinstance(value, str) else Pin(**value)
    if not (isinstance(found.sha256, str) and isinstance(found.source, str) and isinstance(found.named, bool)):
        raise ValueError(f"{value!r} is no pin")
    return found

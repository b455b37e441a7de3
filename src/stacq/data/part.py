"""The bytes of a transfer so far, and what they are a part of."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from stacq.core.files import write_json, writing
from stacq.core.outside import json_object
from stacq.core.reading import read_text


@dataclass(frozen=True)
class Origin:
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

    @property
    def sound(self) -> bool:
        """Whether every field is of its type: it may have been read from a damaged file."""
        texts = (self.etag, self.modified)
        return (
            isinstance(self.url, str)
            and all(text is None or isinstance(text, str) for text in texts)
            and (self.total is None or isinstance(self.total, int))
            and isinstance(self.digests, dict)
            and all(isinstance(value, str) for value in self.digests.values())
        )

    def contradicts(self, other: "Origin") -> bool:
        pairs = ((self.etag, other.etag), (self.modified, other.modified), (self.total, other.total))
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@dataclass(frozen=True)
class Part:
    """The bytes so far, and next to them a JSON file that says where they come from."""

    path: Path

    @property
    def sidecar(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def origin(self, url: str) -> Origin | None:
        """What the bytes belong to if that is `url`; a missing or damaged sidecar makes them worthless."""
        try:
            origin = Origin(**json_object(read_text(self.sidecar)))
        except (OSError, ValueError, TypeError):
            return None
        return origin if origin.sound and origin.url == url else None

    def begin(self, origin: Origin) -> None:
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

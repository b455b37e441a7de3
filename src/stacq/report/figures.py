"""Figures into files."""

import io
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from stacq.core.errors import InputError
from stacq.core.files import write_bytes

FORMATS = {".png": "png", ".svg": "svg"}


def save_figure(figure: Figure, path: Path) -> None:
    """Write PNG or SVG, as the suffix says; the file appears whole or not at all."""
    write_bytes(path, figure_bytes(figure, figure_format(path)))


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Drawn in memory, as the encoders tell a full disk in words of their own; the same data gives the same bytes."""
    metadata = {"Date": None} if kind == "svg" else None
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "stacq"}):
        figure.savefig(drawn, format=kind, metadata=metadata)
    return drawn.getvalue()


def figure_format(path: Path) -> str:
    """The format a suffix asks for; another one than .png or .svg is refused."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        better = path / "figure.png" if path.is_dir() or not path.name else path.with_suffix(".png")
        raise InputError(
            f"a figure cannot be saved as '{path.suffix}'",
            where=path,
            expected="a file name ending in .png or .svg",
            fix=f"write to {better}",
        )
    return kind

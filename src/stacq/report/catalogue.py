"""The list of known datasets, as a person wants to read it."""

import contextlib
from pathlib import Path

from rich.table import Table

from stacq.core.errors import InputError
from stacq.core.files import exists, home
from stacq.core.terminal import Console
from stacq.data.load import cached_file
from stacq.data.pins import hashes_file
from stacq.data.registry import DATASETS, DatasetInfo, find


def print_catalogue(console: Console | None = None) -> None:
    """Print every known name with its origin, its task, its rows, and the size of its file if it is here."""
    console = console or Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, side in (("name", "left"), ("environment", "left"), ("rows", "right"), ("here", "right")):
        table.add_column(title, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for info in _shown():
        rows = f"{info.rows:,}" if info.rows else "?"
        table.add_row(info.name, _environment(info), rows, _size(info))
    console.print(table)
    console.print(f"\ncache: {home()}", soft_wrap=True)
    if hashes_file().exists():
        console.print(f"pinned checksums: {hashes_file()}", soft_wrap=True)
    console.print(
        "stacq/...: `stacq data generate NAME`   D4RL: `stacq data download NAME`   Minari: `minari download NAME`"
    )


def _shown() -> list[DatasetInfo]:
    """The registry, followed by regenerated sets of other sizes that lie in the cache."""
    names = sorted(f"stacq/{path.stem}" for path in (home() / "data" / "stacq").glob("*.hdf5"))
    variants = []
    for name in names:
        with contextlib.suppress(InputError):  # a stray file is not ours to complain about
            variants += [find(name)] if name not in DATASETS else []
    return [*DATASETS.values(), *variants]


def _environment(info: DatasetInfo) -> str:
    return "as stored" if info.source == "minari" else info.env_id or "none in Gymnasium"


def _size(info: DatasetInfo) -> str:
    if info.source == "embedded":
        return "always"  # made when it is loaded
    if info.source == "minari":
        return _size_in_minari(info)
    path: Path = cached_file(info)
    return _readable(path.stat().st_size) if exists(path) else "-"


def _size_in_minari(info: DatasetInfo) -> str:
    from stacq.data.minari_layout import minari_root

    with contextlib.suppress(InputError):  # an account without a home has no root of Minari's either
        folder = minari_root() / info.name
        files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        return _readable(sum(path.stat().st_size for path in files)) if files else "-"
    return "-"


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

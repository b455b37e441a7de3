"""The list of known datasets, as a person wants to read it."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from stacq.data.load import cached_file
from stacq.data.registry import DATASETS, DatasetInfo, find
from stacq.files import home


def print_catalogue(console: Console | None = None) -> None:
    """Print every known name with its origin, its task, its rows, and the size of its file if it is here."""
    console = console or Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, side in (("name", "left"), ("environment", "left"), ("rows", "right"), ("here", "right")):
        table.add_column(title, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for info in _shown():
        rows = f"{info.rows:,}" if info.rows else "?"
        table.add_row(info.name, info.env_id or "none in Gymnasium", rows, _size(info))
    console.print(table)
    console.print(f"\ncache: {home()}", soft_wrap=True)
    console.print(
        "stacq/...: `stacq data generate NAME`   D4RL: `stacq data download NAME`   Minari: `minari download NAME`"
    )


def _shown() -> list[DatasetInfo]:
    """The registry, followed by regenerated sets of other sizes that lie in the cache."""
    folder = home() / "data" / "stacq"
    variants = sorted(f"stacq/{path.stem}" for path in folder.glob("*.hdf5"))
    extra = [find(name) for name in variants if name not in DATASETS and name.partition("@")[0] in DATASETS]
    return [*DATASETS.values(), *extra]


def _size(info: DatasetInfo) -> str:
    if info.family == "minari":
        from stacq.data.minari_layout import minari_root

        folder = minari_root() / info.name
        files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
        return _readable(sum(path.stat().st_size for path in files)) if files else "-"
    path: Path = cached_file(info)
    return _readable(path.stat().st_size) if path.exists() else "-"


def _readable(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

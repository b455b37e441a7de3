"""A dataset printed and drawn."""

import re
from pathlib import Path

from stacq.core.files import check_writable, fitting, home
from stacq.core.terminal import Console
from stacq.data.dataset import Dataset
from stacq.data.inspect import summarise
from stacq.report.figures import figure_format, save_figure
from stacq.report.summary_figure import draw_summary
from stacq.report.summary_text import print_summary


def picture_path(dataset: Dataset, what: str = "") -> Path:
    """In the cache directory; another dataset of the same name has another one."""
    name = fitting(re.sub(r"[^A-Za-z0-9._-]+", "-", dataset.name)) or "dataset"
    return home() / "inspect" / f"{name}-{dataset.fingerprint[:8]}{what}.png"


def show(dataset: Dataset, path: Path | None = None, console: Console | None = None) -> Path:
    """Print the summary and draw it to `path`, by default a PNG in the cache directory; gives the picture's path."""
    path = path or picture_path(dataset)
    figure_format(path)
    check_writable(path)
    summary = summarise(dataset)
    print_summary(summary, console or Console())
    save_figure(draw_summary(dataset, summary), path)
    return path

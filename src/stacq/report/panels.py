"""Pages and panels as every figure draws them."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stacq.core.printable import printable

INK, GREY, FAINT = "#2b2b2b", "#6f6f6f", "#dddddd"
# Okabe and Ito's palette: its colours can be distinguished with every kind of colour vision.
BLUE, ORANGE, SAND = "#0072b2", "#d55e00", "#e69f00"
SKY = "#a6cee8"  # a light shade of the blue
WIDTH, HEIGHT = 16.0, 10.0  # inches
DPI = 100
DASHED = (0, (4, 3))
PLAIN_TICKS = "{x:g}"
MOST_TICKS = 12  # of an axis of dimensions


def page(title: str, subtitle: str, height: float = HEIGHT) -> Figure:
    """An empty page under its two lines of heading."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor="white")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.01, 0.01, 0.98, 0.99 - 0.9 / height), w_pad=0.12, h_pad=0.14)  # type: ignore[call-arg]
    figure.text(0.018, 1 - 0.28 / height, title, size=19, weight="bold", color=INK, va="center", parse_math=False)
    figure.text(0.018, 1 - 0.64 / height, subtitle, size=11, color=GREY, va="center", parse_math=False)
    return figure


def shortened(name: str, most: int = 80) -> str:
    """A name that fits into a title; of a path, the end says more than the beginning."""
    name = printable(name)
    return name if len(name) <= most else f"...{name[3 - most :]}"


def panel(ax: Axes, title: str, note: str = "") -> None:
    """Title, note and the plain look of one plot of a page."""
    ax.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=24)
    ax.annotate(note, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", size=9.5, color=GREY)
    ax.tick_params(colors=GREY, labelsize=9, length=3)
    ax.xaxis.set_major_formatter(PLAIN_TICKS)  # the usual formatter would write powers of ten over the note
    ax.yaxis.set_major_formatter(PLAIN_TICKS)
    ax.xaxis.label.set(color=GREY, size=10)
    ax.yaxis.label.set(color=GREY, size=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.grid(axis="y", color="#eeeeee", linewidth=0.8)
    ax.set_axisbelow(True)


def legend_above(ax: Axes) -> None:
    """In the line of the other panels' notes, where it covers no data."""
    legend = ax.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=3,
        frameon=False,
        fontsize=9.5,
        labelcolor=GREY,
        handlelength=0.8,
        handletextpad=0.4,
        columnspacing=1.5,
        borderpad=0,
    )
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)


def whole_ticks() -> MaxNLocator:
    return MaxNLocator(nbins=7, integer=True, min_n_ticks=1)


def dimension_axis(ax: Axes, count: int, label: str) -> None:
    ax.set_xlim(-0.8, count - 0.2)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=MOST_TICKS, integer=True, min_n_ticks=1))
    ax.set_xlabel(label)

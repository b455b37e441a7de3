"""The plan of a maze with what was recorded in it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.patches import Circle, Rectangle

from stacq.data.dataset import Dataset
from stacq.data.tours import Tour, recording_starts
from stacq.envs.bodies import GOAL_RADIUS
from stacq.report.panels import FAINT, GREY, INK, ORANGE, PLAIN_TICKS, panel
from stacq.report.tables import plural

WALLS = "#464c56"
MOST_ROWS = 20_000  # whose paths are drawn
LEAST, MOST = 4, 60  # recordings that are drawn


def draw_plan(ax: Axes, dataset: Dataset, tour: Tour) -> None:
    """Walls, how often each cell was visited, some recordings from start to end, the start cell and the goal."""
    arena = tour.arena
    starts = recording_starts(dataset)
    shown = _some(len(starts), len(dataset))
    panel(ax, "Walks", f"{len(shown):,} of {plural(len(starts), 'recording')}; ring: goal, square: start cell")
    visits = np.array(tour.visits, dtype=np.float64)
    rows, columns = visits.shape
    scale = LogNorm(1, max(visits.max(), 10))
    seen = np.ma.masked_less(visits, 1)
    ax.imshow(seen, extent=(0, columns, rows, 0), cmap="Blues", norm=scale, alpha=0.75, zorder=1)
    for row, column in arena.layout.walls:
        ax.add_patch(Rectangle((column, row), 1, 1, color=WALLS, linewidth=0, zorder=2))
    ends = [*starts[1:], len(dataset)]
    paths = [arena.body.grid.drawn(dataset.observations[starts[k] : ends[k], :2]) for k in shown]
    ax.add_collection(LineCollection(paths, colors=INK, linewidths=0.6, alpha=0.35, rasterized=True, zorder=3))
    _landmarks(ax, tour)
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    ax.set_aspect("equal")
    ax.grid(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    bar = ax.figure.colorbar(ScalarMappable(scale, "Blues"), ax=ax, aspect=40, pad=0.02, format=PLAIN_TICKS)
    bar.set_label("rows in the cell", color=GREY, size=10)
    bar.ax.tick_params(colors=GREY, labelsize=9, length=3)
    bar.outline.set_edgecolor(FAINT)


def _some(count: int, rows: int) -> list[int]:
    """Numbers of recordings spread evenly over all."""
    wanted = int(np.clip(MOST_ROWS * count / rows, LEAST, MOST))
    return sorted({int(each) for each in np.linspace(0, count - 1, min(count, wanted)).round()})


def _landmarks(ax: Axes, tour: Tour) -> None:
    arena = tour.arena
    row, column = arena.start
    ax.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, color=ORANGE, linewidth=1.5, zorder=4))
    x, y = arena.body.grid.drawn(np.array(arena.usual_goal))
    radius = GOAL_RADIUS / arena.body.grid.size
    ax.add_patch(Circle((x, y), radius, fill=False, color=ORANGE, linewidth=2.5, zorder=4))

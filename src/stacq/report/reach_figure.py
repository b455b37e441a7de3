"""Reachable sets as a picture: the states in a plane, trajectories in grey, stitches between them in colour."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from stacq.core.types import Float64s, Ints, Rows
from stacq.data.dataset import Dataset
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import Stitching
from stacq.report.panels import BLUE, GREY, ORANGE, page, panel, shortened, whole_ticks
from stacq.report.reach_text import criterion_line

PATH = "#b8bec4"
HEIGHT = 7.0  # inches
MOST_STITCHES = 1500
MOST_EPISODES = 60
FIT_ROWS = 5_000


def draw_stitching(dataset: Dataset, sets: ReachableSets, found: Stitching) -> Figure:
    """Left, the distribution of set sizes; right, paths of episodes and the stitches that join them."""
    more = (
        f"{found.extra:.3g} reachable states per state beyond the own successor, {criterion_line(found, sets.config)}"
    )
    figure = page(f"Reachable sets of {shortened(dataset.name or 'unnamed dataset')}", more, HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    _draw_sizes(left, found)
    _draw_stitches(right, dataset, sets)
    return figure


def _draw_sizes(ax: Axes, found: Stitching) -> None:
    sizes, counts = (np.array(column) for column in zip(*found.size_histogram, strict=True))
    ax.bar(sizes, counts, width=0.9, color=BLUE)
    ax.set(xlabel="states in the set", ylabel="states of the data", yscale="log")
    panel(ax, "Sizes of reachable sets", f"{found.more_than_own / found.rows:.1%} hold more than the own successor")
    ax.xaxis.set_major_locator(whole_ticks())


def _draw_stitches(ax: Axes, dataset: Dataset, sets: ReachableSets) -> None:
    points = _projected(dataset)
    chosen, stitches = _sampled(dataset, sets)
    paths = [points[dataset.episode(int(index))] for index in chosen]
    ax.add_collection(LineCollection(paths, colors=PATH, linewidths=0.6, label="episodes"))
    start, stop = points[stitches[0]], points[np.minimum(stitches[1] + 1, len(points) - 1)]
    lines = list(np.stack([start, stop], axis=1))
    ax.add_collection(LineCollection(lines, colors=ORANGE, linewidths=0.8, alpha=0.7, label="stitches"))
    ax.autoscale_view()
    ax.legend(loc="upper right", frameon=False, fontsize=9.5, labelcolor=GREY)
    ax.set(**_axis_names(dataset))
    panel(ax, f"Paths of {len(chosen)} episodes", f"{len(stitches[0]):,} stitches between them")


def _sampled(dataset: Dataset, sets: ReachableSets) -> tuple[Ints, tuple[Rows, Rows]]:
    """A few episodes, and the stitches among them; successors at the ends of episodes have no row to be drawn at."""
    rng = np.random.default_rng(0)
    count = min(MOST_EPISODES, dataset.episodes)
    chosen = np.sort(rng.choice(dataset.episodes, count, replace=False))
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    shown = np.isin(episode, chosen)
    anchors, rows = sets.anchors, sets.indices
    last = np.zeros(len(dataset), dtype=np.bool_)
    last[dataset.last_rows] = True
    between = shown[anchors] & shown[rows] & (episode[anchors] != episode[rows]) & ~last[rows]
    picked = np.flatnonzero(between)
    picked = rng.permutation(picked)[:MOST_STITCHES]
    return chosen, (anchors[picked], rows[picked])


def _axis_names(dataset: Dataset) -> dict[str, str]:
    names = {1: ("step of the episode", "state"), 2: ("state dimension 0", "state dimension 1")}
    across, up = names.get(dataset.observation_size, ("first principal component", "second principal component"))
    return {"xlabel": across, "ylabel": up}


def _projected(dataset: Dataset) -> Float64s:
    """The plane of greatest variance of the scaled states; a plane as it is, a single dimension against time."""
    if dataset.observation_size == 2:
        return dataset.observations.astype(np.float64)
    scale = dataset.observations.std(axis=0, dtype=np.float64) + 1e-9
    values = (dataset.observations - dataset.observations.mean(axis=0, dtype=np.float64)) / scale
    if values.shape[1] == 1:
        return np.column_stack([np.concatenate([np.arange(n) for n in dataset.lengths]), values])
    sample = values[:: max(1, len(values) // FIT_ROWS)]
    axes = np.linalg.svd(sample, full_matrices=False)[2][:2]
    return np.asarray(values @ axes.T)

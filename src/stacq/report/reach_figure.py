"""Reachable sets as a picture: the states in a plane, trajectories in grey, stitches between them in colour."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stacq.data.dataset import Dataset
from stacq.reach.sets import ReachableSets
from stacq.reach.stitching import Stitching
from stacq.types import Float64s, Ints

INK, GREY, PATH, STITCH, BAR = "#262626", "#6b6b6b", "#b8bec4", "#d55e00", "#0072b2"
MOST_STITCHES = 1500
MOST_EPISODES = 60
FIT_ROWS = 5_000


def draw_stitching(dataset: Dataset, sets: ReachableSets, found: Stitching) -> Figure:
    """Left, the distribution of set sizes; right, paths of episodes and the stitches that join them."""
    figure = Figure(figsize=(14, 6.5), dpi=100, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.5])
    _draw_sizes(left, found)
    _draw_stitches(right, dataset, sets)
    figure.suptitle(
        f"{dataset.name or 'dataset'}: {found.extra:.2f} reachable states beyond the own successor",
        x=0.01, ha="left", size=15, weight="bold", color=INK,
    )  # fmt: skip
    return figure


def _draw_sizes(ax: Axes, found: Stitching) -> None:
    sizes, counts = (np.array(column) for column in zip(*found.size_histogram, strict=True))
    ax.bar(sizes, counts, width=0.9, color=BAR)
    ax.set(xlabel="states in the set", ylabel="states of the data", yscale="log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("Sizes of reachable sets", loc="left", color=INK, weight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_stitches(ax: Axes, dataset: Dataset, sets: ReachableSets) -> None:
    points = _projected(dataset)
    chosen, stitches = _sampled(dataset, sets)
    paths = [points[dataset.episode(int(index))] for index in chosen]
    ax.add_collection(LineCollection(paths, colors=PATH, linewidths=0.6))
    start, stop = points[stitches[0]], points[np.minimum(stitches[1] + 1, len(points) - 1)]
    ax.add_collection(LineCollection(list(np.stack([start, stop], axis=1)), colors=STITCH, linewidths=0.8, alpha=0.7))
    ax.autoscale_view()
    ax.set(xlabel="first principal component", ylabel="second principal component")
    title = f"Paths of {len(chosen)} episodes, {len(stitches[0]):,} stitches between them"
    ax.set_title(title, loc="left", color=INK, weight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def _sampled(dataset: Dataset, sets: ReachableSets) -> tuple[Ints, tuple[Ints, Ints]]:
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


def _projected(dataset: Dataset) -> Float64s:
    """The plane of greatest variance of the scaled states; a single dimension is drawn against time."""
    scale = dataset.observations.std(axis=0, dtype=np.float64) + 1e-9
    values = (dataset.observations - dataset.observations.mean(axis=0, dtype=np.float64)) / scale
    if values.shape[1] == 1:
        return np.column_stack([np.concatenate([np.arange(n) for n in dataset.lengths]), values])
    sample = values[:: max(1, len(values) // FIT_ROWS)]
    axes = np.linalg.svd(sample, full_matrices=False)[2][:2]
    return np.asarray(values @ axes.T)

"""Made-up runs and a made-up maze picture, shaped like real ones. `python page_samples.py DIR` writes two pages."""

import itertools
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from stacq.core.types import Float64s
from stacq.evaluation.records import EpisodeRecord
from stacq.report.page import MazePicture, Rollout, RunSummary, write_page
from stacq.tabular.maze import Cell, Maze, load

ENVIRONMENT = {
    "command": ["/home/someone/.venv/bin/stacq", "train", "hopper-medium-v2", "--algorithm", "stacq", "--seeds", "5"],
    "python": "3.12.4",
    "platform": "Linux x86_64",
    "cores": 2,
    "device": "TFRT_CPU_0",
    "versions": {"stacq": "0.1.0", "numpy": "2.4.6", "jax": "0.10.2", "gymnasium": "1.4.0"},
    "git_revision": "0f3c9d1",
    "started": "2026-01-01T12:00:00+0000",
}
LEVELS = {"StaCQ": 82.0, "TD3+BC": 66.0, "BC": 51.0}
ALGORITHMS = {"StaCQ": "stacq", "TD3+BC": "td3bc", "BC": "bc"}
REACH = {
    "set_sizes": {
        "1": 61_000,
        "2": 21_000,
        "3": 9_000,
        "4": 4_600,
        "5": 2_400,
        "6": 1_200,
        "7": 500,
        "8": 210,
        "11": 90,
    },
    "extra_per_state": 0.83,
    "criterion": "calibrated",
    "epsilon": 0.1,
    "recall": 0.953,
    "worst_dimension": 7,
}


def locomotion_run(label: str, dataset: str, *, seeds: int = 5, evaluations: int = 40, base: int = 0) -> RunSummary:
    """Saturating curves with noise; scores of every evaluation as records, the critic's value as metrics."""
    rng = np.random.default_rng([base, len(dataset), sum(map(ord, label + dataset))])
    top = LEVELS.get(label, 60.0) + 6 * rng.normal() + 5 * rng.normal(size=seeds)
    records, metrics = [], []
    for step in np.linspace(0, 1_000_000, evaluations + 1).astype(int)[1:]:
        share = 1 - np.exp(-step / 180_000)
        for seed in range(seeds):
            level = top[seed] * share + 5 * rng.normal()
            for episode in range(5):
                score = level + 3 * rng.normal()
                values = (score * 32.3 - 20, 1000, score, None)
                records.append(
                    EpisodeRecord(ALGORITHMS.get(label, label), dataset, seed + base, int(step), episode, *values)
                )
            metrics.append(
                {"step": int(step), "seed": seed + base, "critic_loss": float(rng.random()), "time": float(step)}
            )
            if label != "BC":
                measured = 2.4 * level
                over = {"StaCQ": 1.06, "TD3+BC": 1.35}.get(label, 1.2)
                metrics.append(
                    {
                        "step": int(step),
                        "seed": seed + base,
                        "eval/return": level * 32.3 - 20,
                        "eval/score": level,
                        "eval/value": measured * over + 6 * rng.normal(),
                        "eval/discounted_return": measured,
                    }
                )
    config: dict[str, Any] = {
        "algorithm": ALGORITHMS.get(label, label),
        "dataset": dataset,
        "seeds": list(range(base, base + seeds)),
    }
    config |= {"steps": 1_000_000, "batch": 256, "learning_rate": 3e-4, "network": {"hidden": [256, 256], "norm": None}}
    return RunSummary(
        label=label,
        algorithm=config["algorithm"],
        dataset=dataset,
        config=config,
        environment=ENVIRONMENT,
        seeds=tuple(range(base, base + seeds)),
        records=records,
        metrics=metrics,
        reach=REACH if label == "StaCQ" else None,
        dynamics=dynamics(11) if label == "StaCQ" else None,
    )


def dynamics(size: int) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    error = 0.03 * np.exp(0.8 * rng.normal(size=size))
    return {
        "dimensions": list(range(size)),
        "normalised_error": error.tolist(),
        "single_member_error": (error * 1.25).tolist(),
        "persistence_error": (error * np.exp(1.5 + rng.random(size))).tolist(),
    }


def maze_run(label: str, *, seeds: int = 5) -> RunSummary:
    """Returns only: a maze has no reference scores."""
    rng = np.random.default_rng(sum(map(ord, label)))
    share = {"StaCQ": 0.97, "TD3+BC": 0.62, "BC": 0.31}[label]
    records = []
    for step in range(1000, 20_001, 1000):
        for seed in range(seeds):
            level = share * (1 - np.exp(-step / 4000))
            for episode in range(57):
                success = bool(rng.random() < level)
                record = (8.5 if success else -6.0, 40 if success else 60, None, success)
                records.append(EpisodeRecord(ALGORITHMS[label], "maze/stitching", seed, step, episode, *record))
    config = {"algorithm": ALGORITHMS[label], "dataset": "maze/stitching", "seeds": list(range(seeds)), "steps": 20_000}
    environment = {**ENVIRONMENT, "command": ["stacq", "run"]}
    names = {"dimensions": ["x", "y"], "normalised_error": [0.02, 0.03], "persistence_error": [0.4, 0.5]}
    return RunSummary(
        label, ALGORITHMS[label], "maze/stitching", config, environment, tuple(range(seeds)), records, [], REACH, names
    )


def maze_picture(centre: float = 0.5) -> MazePicture:
    maze = load("stitching")
    rng = np.random.default_rng(0)
    cells = sorted({cell for way in maze.trajectories for cell in way} - {maze.goal})
    towards = _towards(maze)
    logged = {cell: after for way in maze.trajectories for cell, after in itertools.pairwise(way)}
    fields = {
        "StaCQ": towards,
        "TD3+BC": {**towards, **{c: logged[c] for c in cells[::3] if c in logged}},
        "BC": logged,
    }
    return MazePicture(
        rows=maze.rows,
        goal=maze.goal,
        trajectories=[_noisy(_fine(way), rng) + centre for way in maze.trajectories for _ in range(3)],
        stitches=np.array([[*a, *b] for a, b in _stitches(maze)], dtype=float)
        + centre
        + rng.normal(0, 0.1, (len(_stitches(maze)), 4)),
        policies={
            label: _arrows(field, cells, rng) + np.array([centre, centre, 0, 0]) for label, field in fields.items()
        },
        rollouts={
            label: [_rollout(maze, field, cell, rng, centre) for cell in cells] for label, field in fields.items()
        },
        success={
            "StaCQ": [0.98, 0.96, 1.0, 0.98, 0.95],
            "TD3+BC": [0.61, 0.7, 0.58, 0.66, 0.55],
            "BC": [0.3, 0.35, 0.28, 0.33, 0.3],
        },
        tabular={"SCQL": 1.0, "BCQL": 0.19},
        centre=centre,
        name="stitching",
    )


def _fine(way: Any) -> Float64s:
    points = np.array(way, dtype=float)
    time = np.arange(len(points))
    fine = np.arange(0, len(points) - 0.99, 0.25)
    return np.column_stack([np.interp(fine, time, points[:, axis]) for axis in (0, 1)])


def _noisy(points: Float64s, rng: np.random.Generator) -> Float64s:
    return np.clip(points + rng.normal(0, 0.08, points.shape), -0.45, None)


def _towards(maze: Maze) -> dict[Cell, Cell]:
    """The next cell on a shortest way to the goal."""
    found: dict[Cell, Cell] = {}
    queue = deque([maze.goal])
    while queue:
        x, y = queue.popleft()
        for cell in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            inside = 0 <= cell[0] < maze.width and 0 <= cell[1] < maze.height
            if inside and maze.rows[cell[1]][cell[0]] != "#" and cell not in found and cell != maze.goal:
                found[cell] = (x, y)
                queue.append(cell)
    return found


def _stitches(maze: Maze) -> list[tuple[Cell, Cell]]:
    ways = [set(way) for way in maze.trajectories]
    return [
        (a, b)
        for i, first in enumerate(ways)
        for j, second in enumerate(ways)
        if i != j
        for a in sorted(first - second)
        for b in sorted(second - first)
        if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1
    ]


def _arrows(field: dict[Cell, Cell], cells: list[Cell], rng: np.random.Generator) -> Float64s:
    rows = []
    for x, y in cells:
        to = field.get((x, y), (x, y))
        rows.append([x, y, to[0] - x + 0.15 * rng.normal(), to[1] - y + 0.15 * rng.normal()])
    return np.array(rows)


def _rollout(maze: Maze, field: dict[Cell, Cell], start: Cell, rng: np.random.Generator, centre: float) -> Rollout:
    way = [start]
    while way[-1] != maze.goal and way[-1] in field and len(way) < 40:
        way.append(field[way[-1]])
    points = _fine(way) if len(way) > 1 else np.array([start] * 12, dtype=float)
    return Rollout(start, points + rng.normal(0, 0.05, points.shape) + centre, way[-1] == maze.goal)


def maze_page(path: Path) -> Path:
    runs = [maze_run(label) for label in LEVELS]
    return write_page(path, runs, title="Stitching trajectories that never touched", maze=maze_picture())


def locomotion_page(path: Path) -> Path:
    names = ("hopper-medium-v2", "walker2d-medium-replay-v2", "halfcheetah-medium-expert-v2")
    runs = [locomotion_run(label, name) for name in names for label in LEVELS]
    return write_page(path, runs, title="Three algorithms on three datasets")


def single_page(path: Path) -> Path:
    return write_page(path, [locomotion_run("StaCQ", "hopper-medium-v2")], title="StaCQ on hopper-medium-v2")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for make in (maze_page, locomotion_page, single_page):
        print(make(folder / f"{make.__name__}.html"))

"""From data to one page: the maze of the first run, or any dataset, with every method side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stacq.algos import names
from stacq.core.errors import InputError
from stacq.core.files import check_writable
from stacq.core.printable import printable
from stacq.core.types import Array, Floats
from stacq.data.conventions import NOTHING_STATED, Conventions
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.data.registry import family_of
from stacq.envs.bodies import ARENAS
from stacq.envs.maze import MAX_STEP, Rollouts, centres, data_cells, maze_of, success_by_cell
from stacq.judgement.verdict import Report as Judged
from stacq.pipeline.arena_picture import draw_arena
from stacq.pipeline.judge import judge_trained
from stacq.pipeline.models import made_dynamics
from stacq.pipeline.options import MAZE, MAZE_METHODS, METHODS, Comparison, Options, Stages
from stacq.pipeline.plan import Plan, make_plan, short_name
from stacq.pipeline.reporter import Reporter
from stacq.pipeline.train import train
from stacq.pipeline.trained import Trained
from stacq.policies import Policy
from stacq.reach.config import ReachConfig
from stacq.reach.sets import ReachableSets
from stacq.report.page import MazePicture, Rollout, write_page
from stacq.report.page_judge import judge_section
from stacq.report.statistics import difference
from stacq.report.tables import plural, spread_text
from stacq.runs.summary import nothing_to_stitch, read_run
from stacq.runs.trackers import check_logs
from stacq.tabular.command import sweeps_of
from stacq.tabular.compare import compare
from stacq.tabular.maze import Maze

MOST_STITCHES = 400  # drawn; a dataset has hundreds of thousands
ARROWS_PER_CELL = 2  # along each axis


def compare_methods(
    comparison: Comparison, conventions: Conventions = NOTHING_STATED, reporter: Reporter = Reporter()
) -> Path:
    """Train every method, compare them, and write the page; what was made before is reused."""
    if comparison.algos is not None and not comparison.algos:
        raise InputError("no methods", where="--algos", expected=f"some of {', '.join(names())}", fix="leave it out")
    check_logs(comparison.log)
    source = comparison.source or MAZE
    dataset = load(source, conventions=conventions)
    on_plane = family_of(dataset.name) == "plane-maze"
    if on_plane:
        dataset = load(source, infos="all", conventions=conventions)  # which path a walk follows
    methods = comparison.algos or (MAZE_METHODS if on_plane else METHODS)
    plans = [make_plan(dataset, _options(comparison, method)) for method in methods]
    check_writable(comparison.out / "page.html")
    reporter.say(_announced(plans, dataset, source))
    reporter.concerns(dataset)
    stages = Stages(dynamics_preset=comparison.dynamics_preset, reach=ReachConfig(criterion=comparison.criterion))
    found: dict[str, Trained] = {}
    for number, plan in enumerate(plans, 1):
        reporter.say(f"\n{number}/{len(plans) + 1} {plan.label}, {plan.steps:,} steps")
        found[plan.label] = train(
            dataset,
            plan.options,
            stages,
            root=comparison.out,
            workers=comparison.workers,
            log=comparison.log,
            reporter=reporter,
            concerns=False,
        )
    reporter.say(f"\n{len(plans) + 1}/{len(plans) + 1} the page")
    maze = _maze_of(dataset)
    picture = _picture(dataset, maze, plans, found, comparison.workers)
    if picture is not None and maze is not None:
        reporter.say(success_text(picture))
    runs = [read_run(trained.directory) for trained in found.values()]
    report = _judged(dataset, plans, found, stages, comparison, reporter)
    first = [] if report is None else [judge_section(report)]
    place = comparison.out / f"{short_name(dataset)}.html"
    page = write_page(place, runs, title=_title(dataset, maze), maze=picture, first=first)
    if unstitched := nothing_to_stitch(runs):
        reporter.say(unstitched)
    reporter.say(f"page: {page}")
    return page


def _judged(
    dataset: Dataset,
    plans: Sequence[Plan],
    found: Mapping[str, Trained],
    stages: Stages,
    comparison: Comparison,
    reporter: Reporter,
) -> Judged | None:
    """Where nothing could be scored: what the policies are worth by the data alone, with the models of the training."""
    if any(plan.env for plan in plans):
        return None
    modelled = any(plan.algorithm.needs.reachable for plan in plans)
    dynamics = made_dynamics(dataset, stages, small=not comparison.full, reporter=Reporter()) if modelled else None
    reporter.say("no environment is known: judging the policies by the data alone")
    directories = [trained.directory for trained in found.values()]
    return judge_trained(dataset, directories, None if dynamics is None else dynamics.dynamics, reporter)


def _options(comparison: Comparison, method: str) -> Options:
    return Options(
        method, seeds=comparison.seeds, steps=comparison.steps, env=comparison.env, small=not comparison.full
    )


def _announced(plans: Sequence[Plan], dataset: Dataset, source: str) -> str:
    """What comes, before anything long begins."""
    labels = [plan.label for plan in plans]
    methods = " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
    what = f"{printable(dataset.name or source)}, {len(dataset):,} rows"
    text = f"{what}: {methods}, {plural(plans[0].options.seeds, 'seed')} each, then one page"
    if family_of(dataset.name) == "plane-maze":
        return f"{text}; two or three minutes on two cores"
    return f"{text}; every training says how long it will take"


def _maze_of(dataset: Dataset) -> Maze | None:
    return maze_of(dataset.env_id or "")


def _picture(
    dataset: Dataset, maze: Maze | None, plans: Sequence[Plan], found: Mapping[str, Trained], workers: int | None
) -> MazePicture | None:
    """Of the plane maze of the data, or of the maze with a body in it that policies were scored in."""
    if maze is not None:
        return draw_maze(dataset, maze, found)
    env_id = str(plans[0].env)
    return draw_arena(dataset, env_id, found, workers) if env_id in ARENAS else None


def _title(dataset: Dataset, maze: Maze | None) -> str:
    return "Stitching trajectories that never touched" if maze else f"Methods on {dataset.name or 'a dataset'}"


def draw_maze(dataset: Dataset, maze: Maze, found: Mapping[str, Trained]) -> MazePicture:
    """The maze, its data, and what each method does from every cell of the data."""
    everyone = {
        name: [success_by_cell(policy, maze) for policy in trained.policies.values()] for name, trained in found.items()
    }
    sets = next((trained.sets for trained in found.values() if trained.sets is not None), None)
    typical = {name: _typical(list(trained.policies.values()), everyone[name]) for name, trained in found.items()}
    spots = arrow_places(maze)
    exact = {result.label: result.reached / result.data_states for result in compare(maze, sweeps=sweeps_of(maze))}
    return MazePicture(
        rows=maze.rows,
        goal=maze.goal,
        trajectories=[dataset.observations[rows] for rows in dataset.iterate_episodes()],
        stitches=np.empty((0, 4)) if sets is None else stitches(dataset, sets),
        policies={name: np.hstack([spots, policy(spots) * MAX_STEP]) for name, policy in typical.items()},
        rollouts={name: [each for seed in rollouts for each in _shown(seed)] for name, rollouts in everyone.items()},
        success={name: [float(each.success.mean()) for each in rollouts] for name, rollouts in everyone.items()},
        tabular={name: exact[name] for name in ("SCQL", "BCQL")},
        name=maze.name,
    )


def _typical(policies: list[Policy], rollouts: list[Rollouts]) -> Policy:
    """The policy of the seed in the middle."""
    shares = [float(each.success.mean()) for each in rollouts]
    return policies[sorted(range(len(shares)), key=shares.__getitem__)[len(shares) // 2]]


def _shown(rollouts: Rollouts) -> list[Rollout]:
    return [
        Rollout(cell, rollouts.path(index), bool(rollouts.success[index])) for index, cell in enumerate(rollouts.cells)
    ]


def arrow_places(maze: Maze) -> Floats:
    """Places spread evenly over the cells of the data, [N, 2]."""
    offsets = (np.arange(ARROWS_PER_CELL) + 0.5) / ARROWS_PER_CELL - 0.5
    grid = np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)
    corners = centres(data_cells(maze))[:, None, :] + grid[None]
    places: Floats = corners.reshape(-1, 2).astype(np.float32)
    return places


def stitches(dataset: Dataset, sets: ReachableSets, *, seed: int = 0) -> Floats:
    """Some of the steps from a state of one episode to a state of another that nothing logged, [M, 4]."""
    anchors = sets.anchors
    episode = np.repeat(np.arange(dataset.episodes), dataset.lengths)
    path = dataset.infos.get("path", episode)  # walks along one path are the same trajectory to the eye
    across = np.flatnonzero(path[anchors] != path[sets.indices])
    keep: Array = np.random.default_rng(seed).permutation(across)[:MOST_STITCHES]
    return np.hstack([dataset.observations[anchors[keep]], dataset.next_observations[sets.indices[keep]]])


def success_text(picture: MazePicture) -> str:
    """Success by method with intervals, and the lead of the first over the others."""
    lines = []
    for name, values in picture.success.items():
        percent = 100 * np.array(values)
        lines.append(f"{name}: reaches the goal from {percent.mean():.1f} % of the cells ({spread_text(percent)})")
    first, *others = picture.success.items()
    for name, values in others:
        lines.append(_lead_text(first[0], name, 100 * np.array(first[1]), 100 * np.array(values)))
    exact = ", ".join(f"{name} {100 * share:.0f} %" for name, share in picture.tabular.items())
    return "\n".join([*lines, f"tabular answers on the same maze: {exact}"])


def _lead_text(first: str, other: str, x: Floats, y: Floats) -> str:
    """Who is ahead, and by how much; where one has two seeds, nothing is said of the interval."""
    if x.mean() < y.mean():
        word, lead = "trails", difference(y, x)
    else:
        word, lead = "leads", difference(x, y)
    fewest = min(len(x), len(y))
    sure = f"95 % interval {lead.low:.1f} to {lead.high:.1f}" if fewest > 2 else ("one seed", "two seeds")[fewest - 1]
    return f"{first} {word} {other} by {lead.value:.1f} points ({sure})"

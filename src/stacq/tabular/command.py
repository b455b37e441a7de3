"""`stacq maze`: compare the methods on a maze, print a table, draw the panels, write the summary."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacq.core.errors import InputError

if TYPE_CHECKING:
    from stacq.tabular.compare import Result
    from stacq.tabular.maze import Maze

DEFAULT_MAZE = "stitching"


def maze(file: Path | None = None, steps_reach: int = 1, out: Path | None = None) -> dict[str, Any]:
    """Compare BC, BCQL and SCQL on a maze file, or on a shipped one by name; return what summary.json holds.

    The shipped mazes use the published 100 sweeps. A maze of your own is swept until the values stand still,
    because 100 sweeps do not carry the goal's value across a large one.
    """
    from stacq.core.files import check_writable, write_json
    from stacq.tabular.compare import compare
    from stacq.tabular.figures import draw
    from stacq.tabular.reach import MOST_STEPS

    if not 1 <= steps_reach <= MOST_STEPS:
        raise InputError(f"--steps-reach {steps_reach}", expected=f"a whole number from 1 to {MOST_STEPS}")
    layout = _load(file)
    sweeps = sweeps_of(layout)
    folder = out or Path("maze")
    check_writable(folder / "maze.png")
    results = compare(layout, steps_reach, sweeps)
    summary = summarise(layout, results, steps_reach, sweeps)
    draw(layout, results, folder / "maze.png", folder / "maze.svg")
    write_json(folder / "summary.json", summary)
    _print(summary, folder)
    return summary


def sweeps_of(layout: "Maze") -> int | None:
    """The published number for the shipped mazes; None, until nothing changes, for others."""
    from stacq.tabular.compare import PAPER_SWEEPS
    from stacq.tabular.maze import shipped

    return PAPER_SWEEPS if layout.name in shipped() else None


def _load(file: Path | None) -> "Maze":
    from stacq.core.files import exists
    from stacq.tabular.maze import load, read, shipped

    name = DEFAULT_MAZE if file is None else str(file)
    if name in shipped() and not Path(name).is_file():
        return load(name)
    if not exists(Path(name)):
        raise InputError("there is no such file", where=name, expected=f"a maze file, or one of {', '.join(shipped())}")
    return read(Path(name))


def summarise(layout: "Maze", results: "list[Result]", steps_reach: int, sweeps: int | None) -> dict[str, Any]:
    """The numbers of the table, with what is needed to repeat them."""
    from stacq.tabular.compare import LEARNING_RATE, optimality_gap
    from stacq.tabular.maze import DISCOUNT, GOAL_REWARD, MOVE_REWARD

    optimum = results[-1].returns
    return {
        "maze": layout.name,
        "width": layout.width,
        "height": layout.height,
        "trajectories": len(layout.trajectories),
        "learning_rate": LEARNING_RATE,
        "discount": DISCOUNT,
        "move_reward": MOVE_REWARD,
        "goal_reward": GOAL_REWARD,
        "sweeps": sweeps,
        "steps_reach": steps_reach,
        "methods": {
            result.name: {
                "label": result.label,
                "reached": result.reached,
                "data_states": result.data_states,
                "mean_return": result.mean_return,
                "optimality_gap": optimality_gap(result, optimum),
                "steps_to_converge": result.steps_to_converge,
            }
            for result in results
        },
    }


def _print(summary: dict[str, Any], folder: Path) -> None:
    from rich.table import Table

    from stacq.core.terminal import Console

    sweeps = "until converged" if summary["sweeps"] is None else f"for {summary['sweeps']} sweeps"
    caption = f"learning rate {summary['learning_rate']} {sweeps}; means over the data states"
    table = Table(title=f"maze: {summary['maze']}", title_justify="left", caption=caption)
    table.add_column("method")
    for heading in ("reach the goal", "mean return", "optimality gap"):
        table.add_column(heading, justify="right")
    for method in summary["methods"].values():
        reached = f"{method['reached']} of {method['data_states']}"
        gap = f"{method['optimality_gap']:.3f}"
        table.add_row(method["label"], reached, f"{method['mean_return']:.3f}", gap)
    console = Console()
    console.print(table)
    console.print(f"{folder / 'maze.png'}, maze.svg, summary.json", soft_wrap=True, highlight=False)

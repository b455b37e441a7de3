"""What a replay found, in words."""

from stacq.core.terminal import Console
from stacq.evaluation.replay import Replay
from stacq.report.tables import fact_table, number

WHEN = {"before": "before the action", "after": "after the action, as in D4RL's AntMaze files"}


def print_replay(found: Replay, console: Console | None = None) -> None:
    console = console or Console()
    table = fact_table()
    table.add_row("environment", found.env_id)
    table.add_row("rows replayed", f"{found.rows:,}")
    table.add_row("states stored", WHEN[found.stored])
    table.add_row("stored state from observation", f"{number(found.misplaced)} (median)")
    table.add_row("length of a recorded step", f"{number(found.step)} (median)")
    distances = (found.median, found.p99, found.largest)
    table.add_row("replayed from recorded", "median {}, 99% {}, largest {}".format(*map(number, distances)))
    worst = f"{found.worst_r2:.4f} in dimension {found.worst}"
    table.add_row("R2 of a step", f"{found.r2:.4f} in the median dimension, {worst}")
    console.print(table)
    console.print(found.verdict, soft_wrap=True)

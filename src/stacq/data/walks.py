"""How the recordings of walks through D4RL's mazes are made: the facts by the name of the dataset."""

from dataclasses import dataclass
from typing import Literal

NEAR = 4  # moves between start and goal of a stitch episode
ANT_NOISE, POINT_NOISE = 0.2, 0.5  # deviations of the noise on actions, as D4RL has them


@dataclass(frozen=True)
class Walk:
    """A recording: who walks from where to where, for how long.

    `free` is any cell, `unmarked` any but D4RL's marked goals, `near` a cell four moves from the start.
    """

    task: str  # key of the task, which names the environment
    starts: Literal["start", "free", "unmarked"]
    goals: Literal["goal", "free", "marked", "near"]
    steps: int = 1000  # of an episode
    noise: float = ANT_NOISE
    renewed: bool = False  # a new goal as soon as one is reached; else the body stays there

    def facts(self) -> dict[str, str]:
        """What a recorded file says of itself."""
        stay = "drawn anew when it is reached" if self.renewed else "one for each episode"
        return {
            "start_rule": RULES[self.starts],
            "goal_rule": f"{RULES[self.goals]}; {stay}",
            "way_points": "near the middle of each cell of a shortest way, one after the other, and then the goal",
            "action_noise": f"normal, deviation {self.noise}, then cut off at -1 and 1",
            "episode": f"{self.steps} steps; the last one is a timeout",
            "labels": "reward and terminal where the next state is within 0.5 of label_goal; the body walks on",
        }


RULES = {
    "start": "the evaluation's start cell",
    "goal": "the evaluation's goal cell",
    "free": "any free cell, the goal another than the start",
    "unmarked": "any free cell but D4RL's marked goals",
    "marked": "D4RL's marked goals",
    "near": f"a cell {NEAR} moves from the start, or the farthest where none is",
}


def _ant(layout: str, variant: str) -> Walk:
    task = f"antmaze-{layout}"
    match variant:
        case "":
            return Walk(task, "start", "goal")
        case "play":
            return Walk(task, "unmarked", "marked")
        case "stitch":
            return Walk(task, "free", "near", steps=200)
        case _:
            return Walk(task, "free", "free")


def _point(layout: str, variant: str) -> Walk:
    task = f"pointmaze-{layout}"
    if variant == "stitch":
        return Walk(task, "free", "near", steps=150, noise=POINT_NOISE)
    return Walk(task, "free", "free", noise=POINT_NOISE, renewed=True)


WALKS = {
    **{f"pointmaze-{layout}": _point(layout, "") for layout in ("umaze", "medium", "large")},
    **{f"pointmaze-{layout}-stitch": _point(layout, "stitch") for layout in ("umaze", "medium", "large")},
    "antmaze-umaze": _ant("umaze", ""),
    "antmaze-umaze-diverse": _ant("umaze", "diverse"),
    **{
        f"antmaze-{layout}-{kind}": _ant(layout, kind) for layout in ("medium", "large") for kind in ("play", "diverse")
    },
    **{f"antmaze-{layout}-stitch": _ant(layout, "stitch") for layout in ("umaze", "medium", "large")},
}
"""By the short name of the dataset."""

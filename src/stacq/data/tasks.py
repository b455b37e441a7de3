"""The tasks that scores are made for, as D4RL defines them, and this package's own."""

from dataclasses import dataclass
from typing import Literal

Source = Literal["d4rl", "stacq", "minari", "embedded"]
Family = Literal["locomotion", "antmaze", "pointmaze", "plane-maze", "ogbench-pointmaze"]


@dataclass(frozen=True)
class Task:
    """An environment as D4RL scores it: sizes, step limit and the two returns that mean 0 and 100."""

    key: str
    family: Family
    env_id: str | None  # Gymnasium id, of this package where it starts so; None where nobody has such a task
    observation_size: int
    action_size: int
    max_episode_steps: int
    random_return: float  # normalised score 0
    expert_return: float  # normalised score 100


TASKS = {
    task.key: task
    for task in (
        Task("hopper", "locomotion", "Hopper-v4", 11, 3, 1000, -20.272305, 3234.3),
        Task("walker2d", "locomotion", "Walker2d-v4", 17, 6, 1000, 1.629008, 4592.3),
        Task("halfcheetah", "locomotion", "HalfCheetah-v4", 17, 6, 1000, -280.178953, 12135.0),
        Task("ant", "locomotion", None, 111, 8, 1000, -325.6, 3879.7),
        Task("antmaze-umaze", "antmaze", "stacq/AntMaze-umaze-v0", 29, 8, 700, 0.0, 1.0),
        Task("antmaze-medium", "antmaze", "stacq/AntMaze-medium-v0", 29, 8, 1000, 0.0, 1.0),
        Task("antmaze-large", "antmaze", "stacq/AntMaze-large-v0", 29, 8, 1000, 0.0, 1.0),
        Task("pointmaze-umaze", "pointmaze", "stacq/PointMaze-umaze-v0", 4, 2, 300, 0.0, 1.0),
        Task("pointmaze-medium", "pointmaze", "stacq/PointMaze-medium-v0", 4, 2, 600, 0.0, 1.0),
        Task("pointmaze-large", "pointmaze", "stacq/PointMaze-large-v0", 4, 2, 800, 0.0, 1.0),
        Task("maze2d-open", "pointmaze", None, 4, 2, 150, 0.01, 20.66),
        Task("maze2d-open-dense", "pointmaze", None, 4, 2, 150, 11.17817, 27.166538620695782),
        Task("maze2d-umaze", "pointmaze", None, 4, 2, 300, 23.85, 161.86),
        Task("maze2d-umaze-dense", "pointmaze", None, 4, 2, 300, 68.537689, 193.66285642381482),
        Task("maze2d-medium", "pointmaze", None, 4, 2, 600, 13.13, 277.39),
        Task("maze2d-medium-dense", "pointmaze", None, 4, 2, 600, 44.264742, 297.4552547777125),
        Task("maze2d-large", "pointmaze", None, 4, 2, 800, 6.7, 273.99),
        Task("maze2d-large-dense", "pointmaze", None, 4, 2, 800, 30.569041, 303.4857382709002),
        # 0 is uniform actions from every data cell but the goal, 100 the tabular optimum from there.
        Task("stacq/maze-stitching", "plane-maze", "stacq/Maze-stitching-v0", 2, 2, 100, -8.4, 9.04),
        Task("stacq/maze-sparse", "plane-maze", "stacq/Maze-sparse-v0", 2, 2, 100, -8.0, 9.05),
    )
}


def normalised_score(task: Task, episode_return: float) -> float:
    """D4RL's score: 0 for the random policy's return, 100 for the expert's."""
    return 100.0 * (episode_return - task.random_return) / (task.expert_return - task.random_return)

"""One of everything that stacq reads, made by stacq itself: what the attacks damage, and what commands are run on."""

from importlib.resources import files
from pathlib import Path

import numpy as np

from arrays import logged
from attack.bench import Bench, emptied
from attack.processes import Request

ROWS = ([150, 200, 70], ["terminal", "timeout", "cut"])  # as many as dynamics need
SIZES = (2, 2)  # those of the maze, so that policies can be scored in it
MAZE = "stacq/maze-stitching-v0"
TINY = ("--set", "hidden=8,8", "batch=16")

SMALL = ("--small", "--steps", "20", "--seeds", "1", "--workers", "1", *TINY)
TRAINED = ("train", MAZE, "--algo", "bc", *SMALL, "--eval-every", "10", "--episodes", "2", "--out", "run")
SCORING = ("--env", "stacq/Maze-stitching-v0", "--episodes", "2", "--workers", "1", "--out", "scored")
FITTING = ("dynamics", "fit", "logs.npz", "--preset", "small", "--epochs", "1")
REACHING = ("reach", "logs.npz", "--dynamics", "dynamics", "--actions", "8")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("data", "convert", "logs.npz", "logs.hdf5"),
    ("data", "convert", "logs.npz", "minari:mine/logs-v0"),
    TRAINED,
    (*FITTING, "--out", "dynamics"),
    REACHING,
)
MAPPING = """
episode = "run"
time = "t"
observations = ["obs_*"]
actions = ["action_0", "action_1"]
reward = "reward - 0.1 * abs(next(obs_0)) ** 2"
terminal = "max(obs_0, obs_1) > 2.5"
"""
QUICK = 3  # as many of the commands as a short attack waits for


def samples(bench: Bench) -> Path:
    """The folder of samples, laid out as a case; made on the first call."""
    folder = bench.shared / "samples"
    if folder.exists():
        return folder
    emptied(folder)
    work = folder / "work"
    np.savez(work / "logs.npz", **logged(*ROWS, sizes=SIZES))
    tables(work)
    policy(work / "policy.safetensors")
    (work / "maze.txt").write_text(shipped_maze(), encoding="utf-8")
    for command in COMMANDS[: QUICK if bench.short else None]:
        answer = bench.server.run(Request(command, str(folder), seconds=300))
        if answer.code:
            raise SystemExit(f"the attack cannot begin: {' '.join(command)} ended with {answer.code}\n{answer.err}")
    return folder


def tables(work: Path) -> None:
    """The logs as a table, and a mapping of its columns."""
    logs = logged(*ROWS, sizes=SIZES, dtype=np.float64)
    episode = np.repeat(np.arange(len(ROWS[0])), ROWS[0])
    columns = [episode, np.arange(len(episode)), *logs["observations"].T, *logs["actions"].T, logs["rewards"]]
    names = "run,t,obs_0,obs_1,action_0,action_1,reward"
    np.savetxt(work / "logs.csv", np.stack(columns, axis=1), delimiter=",", header=names, comments="", fmt="%.6g")
    (work / "columns.toml").write_text(MAPPING, encoding="utf-8")


def policy(path: Path) -> None:
    from stacq import Policy

    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((SIZES[0], 8)), rng.standard_normal((8, SIZES[1]))]
    Policy.from_mlp(weights, [np.zeros(8), np.zeros(SIZES[1])]).save(path)


def shipped_maze() -> str:
    return (files("stacq") / "tabular" / "mazes" / "stitching.txt").read_text(encoding="utf-8")

"""The regenerated datasets beside D4RL v2: returns, lengths, and mean and spread of the observations.

    for body in hopper walker2d halfcheetah; do for quality in random medium medium-replay medium-expert expert
    do stacq data generate $body-$quality; done; done
    python research/regenerated_data.py

Prints the table of docs/data.md. D4RL's statistics come from `d4rl_v2_observation_statistics.json`.
"""

import json
from pathlib import Path

import numpy as np

from stacq import Dataset, load
from stacq.core.types import Bools
from stacq.data.generate import streams
from stacq.data.registry import BODIES, QUALITIES, recipe
from stacq.data.tasks import TASKS, normalised_score

STATISTICS = json.loads(Path(__file__).with_name("d4rl_v2_observation_statistics.json").read_text())


def distance(dataset: Dataset, name: str) -> tuple[str, str]:
    """Mean over dimensions of |difference of means| in D4RL's deviations, and range of the ratios of deviations."""
    if name not in STATISTICS:
        return "-", "-"
    mean, std = (np.array(STATISTICS[name][key]) for key in ("mean", "std"))
    shift = np.abs(dataset.observations.mean(axis=0, dtype=np.float64) - mean) / std
    ratio = dataset.observations.std(axis=0, dtype=np.float64) / std
    return f"{shift.mean():.2f} (max {shift.max():.2f})", f"{ratio.min():.2f} to {ratio.max():.2f}"


def whole_episodes(dataset: Dataset, body: str, quality: str) -> Bools:
    """Episodes that ended by themselves or at the step limit; a policy's last one stops where its rows are full."""
    ends_of_streams = np.cumsum([stream.rows for stream in streams(recipe(f"{body}-{quality}"))]) - 1
    stopped = np.isin(dataset.last_rows, ends_of_streams) & (dataset.lengths < TASKS[body].max_episode_steps)
    return ~(stopped & ~dataset.terminals[dataset.last_rows])


def row(body: str, quality: str) -> str:
    dataset = load(f"stacq/{body}-{quality}-v0")
    finished = whole_episodes(dataset, body, quality)
    returns, lengths = dataset.returns[finished], dataset.lengths[finished]
    score = normalised_score(TASKS[body], float(returns.mean()))
    shift, ratio = distance(dataset, f"{body}-{quality}-v2")
    cells = (
        f"{body}-{quality}",
        f"{len(dataset):,}",
        f"{dataset.episodes:,}",
        f"{returns.mean():,.0f} ± {returns.std():,.0f}",
        f"{score:.1f}",
        f"{lengths.mean():,.0f}",
        f"{dataset.terminals.sum():,}",
        shift,
        ratio,
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    print("| dataset | rows | episodes | return | score | length | terminals | shift of means | ratio of spreads |")
    print("|" + "---|" * 9)
    for body in BODIES:
        for quality in QUALITIES:
            print(row(body, quality), flush=True)


if __name__ == "__main__":
    main()

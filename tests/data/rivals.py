"""What d3rlpy and TorchRL read, said in JSON; run as a script where they are installed: `python rivals.py LIBRARY`.

In a process of its own: importing either warns, logs and starts threads.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from arrays import logged
from stacq import Dataset, from_arrays, generate, load
from stacq.data.convert import convert
from stacq.data.hdf5 import write_hdf5
from stacq.data.minari import read_minari

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
OURS, COLLECTED = "mine/hopper-v0", "collected/pendulum-v0"


def collect() -> None:
    """Five episodes of 20 steps by Minari's own collector."""
    import gymnasium
    import minari

    env = minari.DataCollector(gymnasium.make("Pendulum-v1", max_episode_steps=20))
    env.action_space.seed(0)
    for seed in range(5):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    env.create_dataset(COLLECTED)


def as_shown(library: str) -> Any:
    """The replay buffer that the page's example for a library makes of logs.hdf5."""
    (code,) = (each for each in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if library in each)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["replay"]


def d3rlpy_minari(name: str, dataset: Dataset) -> dict[str, Any]:
    from d3rlpy.datasets import get_minari

    return _of_episodes(get_minari(name)[0], dataset)


def d3rlpy_shown(dataset: Dataset) -> dict[str, Any]:
    return _of_episodes(as_shown("d3rlpy"), dataset)


def _of_episodes(replay: Any, dataset: Dataset) -> dict[str, Any]:
    """By episode, whether its columns are the dataset's."""
    rows = list(dataset.iterate_episodes())
    right = {
        key: [
            bool(np.array_equal(getattr(found, key).reshape(len(found), -1), column[part].reshape(len(found), -1)))
            for found, part in zip(replay.episodes, rows, strict=True)
        ]
        for key, column in _columns(dataset).items()
    }
    ended = [bool(found.terminated) for found in replay.episodes]
    return {**right, "terminals": ended, "transitions": int(replay.transition_count)}


def _columns(dataset: Dataset) -> dict[str, Any]:
    return {"observations": dataset.observations, "actions": dataset.actions, "rewards": dataset.rewards}


def torchrl_minari(name: str, dataset: Dataset) -> dict[str, Any]:
    from torchrl.data.datasets.minari_data import MinariExperienceReplay

    replay = MinariExperienceReplay(name, batch_size=8, root=Path("torchrl"), load_from_local_minari=True)
    largest = {str(key): float(replay[:][key].abs().max()) for key in ("action", "observation", ("next", "reward"))}
    return {"rows": len(replay), "wanted": len(dataset), "largest": largest}


def torchrl_shown(dataset: Dataset) -> dict[str, Any]:
    """By column, whether it is the dataset's, of the rows that can be learned from."""
    replay = as_shown("torchrl")
    assert replay.sample()["next", "reward"].shape == (256, 1)
    kept, found = dataset.successor_known | dataset.terminals, replay[:]
    known = dataset.successor_known[kept]
    cut = np.zeros(len(dataset), dtype=bool)
    cut[dataset.last_rows[dataset.cut]] = True
    wanted = {
        "observation": dataset.observations,
        "action": dataset.actions,
        ("next", "reward"): dataset.rewards[:, None],
        ("next", "terminated"): dataset.terminals[:, None],
        ("next", "truncated"): (dataset.timeouts | cut)[:, None],
        ("next", "done"): (dataset.terminals | dataset.timeouts | cut)[:, None],
    }
    right = {str(key): bool(np.array_equal(found[key].numpy(), value[kept])) for key, value in wanted.items()}
    after = found["next", "observation"].numpy()
    right["next observation"] = bool(np.array_equal(after[known], dataset.next_observations[kept][known]))
    right["numbers"] = bool(np.isfinite(after).all())
    return right


def odd() -> Dataset:
    """Recordings that stop without a flag, or with both, or without a successor."""
    lengths, ends = [40, 30, 50, 60, 20], ["terminal", "cut", "timeout", "both", "cut"]
    arrays = logged(lengths, ends)
    arrays["next_observations"][[39, 199]] = np.nan
    return from_arrays(**arrays)


READERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "d3rlpy": (d3rlpy_minari, d3rlpy_shown),
    "torchrl": (torchrl_minari, torchrl_shown),
}


def main(library: str) -> None:
    """In a working directory of its own, and with Minari's root there."""
    by_minari, shown = READERS[library]
    path = generate("hopper-medium", size=2000)
    convert(str(path), f"minari:{OURS}")
    collect()
    found = {"ours": by_minari(OURS, load(path)), "collected": by_minari(COLLECTED, read_minari(COLLECTED))}
    for name, dataset in (("shown", load(path)), ("odd", odd())):
        write_hdf5(dataset, "logs.hdf5")
        found[name] = shown(dataset)
    Path("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])

"""How near other episodes are: what it takes to ask."""

import tracemalloc

import numpy as np

from stacq.data.border import from_arrays
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.nearness import nearness


def many_short_episodes(episodes: int, length: int) -> Dataset:
    """Steps of a random walk, cut into recordings."""
    rng, rows = np.random.default_rng(0), episodes * length
    states = rng.standard_normal((rows + 1, 2)).cumsum(axis=0).astype(np.float32)
    ends = np.arange(rows) % length == length - 1
    actions = rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
    conventions = Conventions(action_low=-1.0, action_high=1.0, name="cut")
    rewards = np.zeros(rows, np.float32)
    return from_arrays(states[:-1], actions, rewards, ends, next_observations=states[1:], conventions=conventions)


def test_many_short_episodes_take_no_more_memory_than_a_few_long_ones() -> None:
    """Where every row at a goal ends an episode, recordings have tens of thousands of them."""
    data, peaks = [many_short_episodes(20, 1_000), many_short_episodes(10_000, 2)], []
    for each in data:
        tracemalloc.start()
        nearness(each)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]

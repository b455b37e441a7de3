"""Parts of a dataset that are datasets again."""

import dataclasses

import numpy as np

from stacq.core.errors import InputError
from stacq.core.types import Ints
from stacq.data.dataset import Dataset


def best_episodes(dataset: Dataset, share: float) -> Dataset:
    """The best `share` of the episodes by undiscounted return, at least one, in their old order.

    Episodes are those of the recording, cut at its own terminals and timeouts: counting a thousand rows
    instead drifts across their borders.
    """
    if not 0 < share <= 1:
        raise InputError(f"share {share}", expected="above 0 and at most 1", fix="use --top 0.1 for the best tenth")
    count = max(1, int(share * dataset.episodes + 1e-9))  # 0.29 of 100 is 29, whatever the product's last digit
    return take_episodes(dataset, np.sort(np.argsort(-dataset.returns, kind="stable")[:count]))


def take_episodes(dataset: Dataset, episodes: Ints) -> Dataset:
    """These episodes alone, in this order."""
    offsets = dataset.episode_offsets
    rows = np.concatenate([np.arange(offsets[each], offsets[each + 1]) for each in episodes])
    return dataclasses.replace(
        dataset,
        observations=dataset.observations[rows],
        actions=dataset.actions[rows],
        rewards=dataset.rewards[rows],
        next_observations=dataset.next_observations[rows],
        terminals=dataset.terminals[rows],
        timeouts=dataset.timeouts[rows],
        successor_known=dataset.successor_known[rows],
        infos={key: values[rows] for key, values in dataset.infos.items()},
        episode_offsets=np.concatenate([[0], np.cumsum(dataset.lengths[episodes])]),
    )

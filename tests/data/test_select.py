"""Parts of a dataset: whole episodes, the right ones, with everything that belongs to their rows."""

import numpy as np
import pytest

from arrays import logged
from stacq import Dataset, InputError, from_arrays
from stacq.data.select import best_episodes


def recording(returns: list[float], lengths: list[int], ends: list[str]) -> Dataset:
    """Episodes of these returns, all of it earned in their last step."""
    raw = logged(lengths, ends)
    rewards = np.zeros(sum(lengths), np.float32)
    rewards[np.cumsum(lengths) - 1] = returns
    return from_arrays(
        raw["observations"],
        raw["actions"],
        rewards,
        raw["terminals"],
        timeouts=raw["timeouts"],
        next_observations=raw["next_observations"],
    )


def test_the_best_episodes_are_whole_and_in_their_old_order() -> None:
    data = recording([5, 1, 9, 3], [2, 4, 3, 2], ["timeout", "terminal", "terminal", "cut"])
    found = best_episodes(data, 0.5)
    rows = [0, 1, 6, 7, 8]  # the first episode and the third, cut where the recording cut them
    assert found.episode_offsets.tolist() == [0, 2, 5] and found.returns.tolist() == [5, 9]
    for name in ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "successor_known"):
        np.testing.assert_array_equal(getattr(found, name), getattr(data, name)[rows])
    assert best_episodes(data, 1.0).fingerprint == data.fingerprint


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.29, 29), (0.1, 10), (0.999, 99), (1.0, 100)])
def test_a_share_is_rounded_down_and_never_to_nothing(share: float, count: int) -> None:
    data = recording(list(range(100)), [2] * 100, ["terminal"] * 100)
    assert best_episodes(data, share).returns.tolist() == list(range(100 - count, 100))


def test_of_equal_returns_the_earlier_are_taken() -> None:
    data = recording([float(each % 3) for each in range(60)], list(range(2, 62)), ["terminal"] * 60)
    wanted = [each for each in range(60) if each % 3 == 2] + [1, 4, 7, 10, 13]  # all of the best, five of the next
    assert best_episodes(data, 25 / 60).lengths.tolist() == [each + 2 for each in sorted(wanted)]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_other_shares_are_refused(share: float) -> None:
    with pytest.raises(InputError, match="above 0 and at most 1"):
        best_episodes(recording([1], [2], ["terminal"]), share)

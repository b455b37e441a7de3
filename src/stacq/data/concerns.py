"""What the numbers of a dataset warn of before training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stacq.core.normaliser import EPSILON
from stacq.core.types import Bools, Float64s
from stacq.data.checks import DISCRETE, whole_single
from stacq.data.dataset import Dataset
from stacq.data.tours import recording_starts

if TYPE_CHECKING:
    from stacq.data.inspect import Summary

FEW_EPISODES = 10
MANY_SATURATED = 0.2
MANY_DUPLICATES = 0.1
MANY_UNKNOWN = 0.01
MANY_SINGLE = 0.1  # of the episodes
SCALE_RATIO = 1e4
SMALL_SPREAD = 10 * EPSILON
DOMINANT = 0.5  # of all reward, in one episode
USED_PART = 0.55  # of the width of the bounds: actions that never use more hint at wrong ones
ENOUGH_ROWS = 100  # before the absence of large actions means anything
REPEATED_LIMIT = 5  # episodes of exactly the greatest length, before it looks like a step limit


def concerns(summary: "Summary", dataset: Dataset, returns: Float64s) -> Iterator[str]:
    """What each finding means for training and what to do, one sentence each."""
    yield from _about_observations(summary)
    yield from _about_actions(summary)
    if whole_single(dataset.actions):
        yield DISCRETE
    yield from _about_rewards(summary, returns)
    yield from _about_ends(summary, _ended_at_longest(dataset), single=_single(dataset))


def _single(dataset: Dataset) -> int:
    """Episodes of one row, but for those that are labelled on a walk that goes on."""
    return int((np.diff(recording_starts(dataset), append=len(dataset)) == 1).sum())


def _about_observations(summary: "Summary") -> Iterator[str]:
    names = summary.observation_names
    constant = [d for d, column in enumerate(summary.observations) if column.constant]
    if constant:
        yield (
            f"observation {_dimensions(constant, 'never change', names)}: a constant carries no information, "
            "so leave it out or check the recording"
        )
    stds = [column.std for column in summary.observations if column.std > 0]
    if stds and max(stds) > SCALE_RATIO * min(stds):
        yield (
            f"observation scales differ by a factor of {max(stds) / min(stds):.0e}: without normalisation "
            "the large dimensions drown the small ones, so keep it on and check the units"
        )
    small = [
        d for d, column in enumerate(summary.observations) if 0 < column.std < SMALL_SPREAD and not column.constant
    ]
    if small:
        yield (
            f"observation {_dimensions(small, 'spread', names)} by less than {SMALL_SPREAD:g}: normalisation adds "
            f"{EPSILON:g} to every spread and flattens these, so record them in a smaller unit"
        )
    if summary.duplicates > MANY_DUPLICATES * summary.rows:
        yield (
            f"{summary.duplicates / summary.rows:.0%} of rows repeat an earlier observation: training weighs these "
            "states more, so remove copied episodes, unless states are discrete by nature"
        )


def _about_actions(summary: "Summary") -> Iterator[str]:
    names = summary.action_names
    constant = [d for d, column in enumerate(summary.actions) if column.constant]
    if constant:
        yield (
            f"action {_dimensions(constant, 'never change', names)}: the effect of a constant cannot be learned, "
            "so leave it out or check the recording"
        )
    if summary.saturated > MANY_SATURATED:
        yield (
            f"{summary.saturated:.0%} of action entries lie at a bound: a squashed policy reaches bounds only slowly, "
            "so check that the actions were not clipped after they had been executed"
        )
    timid = [d for d in range(len(summary.actions)) if _uses_a_part(summary, d)]
    if timid and summary.rows >= ENOUGH_ROWS:
        first = summary.actions[timid[0]]
        within = f"{summary.action_low[timid[0]]:g} to {summary.action_high[timid[0]]:g}"
        yield (
            f"action {_dimensions(timid, 'use', names)} about half of the bounds or less "
            f"({first.low:.3g} to {first.high:.3g} of {within}): "
            "a policy will try actions far from the data if the bounds are wrong, so state the true "
            "ones (--action-low, --action-high)"
        )


def _about_rewards(summary: "Summary", returns: Float64s) -> Iterator[str]:
    low, high = summary.rewards.low, summary.rewards.high
    if low == high == 0:
        yield "every reward is zero: no behaviour is better than another, so check the recording or label rewards"
    elif low == high:
        yield (
            f"every reward is {low:g}: only the length of episodes tells them apart, "
            "so check that terminals are right or label rewards"
        )
    share = _largest_share(returns)
    if summary.episodes > 2 and share > DOMINANT:
        yield (
            f"one episode holds {share:.0%} of all reward: results will hang on its few rows, "
            "so compare several seeds or collect more like it"
        )


def _about_ends(summary: "Summary", at_longest: int, single: int) -> Iterator[str]:
    if summary.episodes < FEW_EPISODES:
        yield (
            f"the number of episodes is only {summary.episodes}: there is little to stitch together "
            "and no spread to judge, so collect more if you can"
        )
    if single > MANY_SINGLE * summary.episodes:
        yield (
            f"{single / summary.episodes:.0%} of the episodes hold a single row: nothing leads there or on from there, "
            "so check that rows are in order and that flags mark ends only"
        )
    if not summary.terminals:
        yield (
            "no row is terminal: values never stop at an end, which is right for tasks that cannot fail or finish; "
            "otherwise store the terminals"
        )
    if not summary.timeouts and (summary.cut_episodes > 1 or not summary.terminals):
        yield (
            f"no row is a timeout, yet terminals end only {summary.episodes - summary.cut_episodes:,} of "
            f"{summary.episodes:,} episodes: unmarked breaks may have joined episodes, "
            "so store timeouts or state the step limit (--max-episode-steps)"
        )
    if not summary.timeouts and at_longest >= max(REPEATED_LIMIT, 0.1 * summary.episodes):
        yield (
            f"{at_longest:,} episodes end in a terminal after exactly {summary.lengths.high:,.0f} rows and none in a "
            "timeout: a step limit stored as terminal teaches that no reward follows, so store it as timeout"
        )
    if summary.unknown_successors > MANY_UNKNOWN * summary.rows:
        yield (
            f"{summary.unknown_successors / summary.rows:.1%} of rows have no known successor: "
            "dynamics and reachability leave them out, so store next_observations if you can"
        )


def _uses_a_part(summary: "Summary", dimension: int) -> bool:
    column, width = summary.actions[dimension], summary.action_high[dimension] - summary.action_low[dimension]
    return not column.constant and column.high - column.low < USED_PART * width


def _largest_share(returns: Float64s) -> float:
    """Of the sum of all returns' sizes, the part of the largest one."""
    sizes = np.abs(returns)
    return float(1 / (sizes / sizes.max()).sum()) if sizes.max() > 0 else 0.0


def _ended_at_longest(dataset: Dataset) -> int:
    terminal: Bools = dataset.terminals[dataset.last_rows]
    return int((terminal & (dataset.lengths == dataset.lengths.max())).sum())


def _dimensions(indices: list[int], verb: str, names: tuple[str, ...], most: int = 8) -> str:
    """ "dimension 3 stays" or "dimensions 3, 4 stay", with their names if they have any; a long list is cut."""
    called = [f"{index} ({names[index]})" if names else str(index) for index in indices[:most]]
    listed = ", ".join(called) + (f" and {len(indices) - most} more" if len(indices) > most else "")
    return f"dimension {listed} {verb}s" if len(indices) == 1 else f"dimensions {listed} {verb}"

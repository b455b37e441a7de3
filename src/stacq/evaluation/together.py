"""Rollouts of policies that act in many episodes at once: all environments in this process, stepped in turn."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from stacq.core.errors import InputError
from stacq.envs.gym import EnvSource, facts_of, make_env
from stacq.evaluation.rollouts import Counting, Episode, EvaluationFailed, Going, Stream, check_sizes
from stacq.policies import Policy

AT_ONCE = 256  # episodes; memory is the limit


class Ended(Exception):
    """Nobody waits for the episodes any more."""


def act_together(policy: object) -> bool:
    """Whether it is evaluated here, and not in worker processes."""
    return bool(getattr(policy, "together", False))


def run_together(
    policies: Sequence[Policy],
    env: EnvSource,
    label: str,
    streams: Sequence[Sequence[Stream]],
    counting: Counting = Counting(),
    *,
    wanted: Callable[[], bool] = lambda: True,
) -> list[list[Episode]]:
    """The episodes of every policy, [K][E], each from the random numbers of its stream alone; `streams` are [K][E]."""
    most = max(AT_ONCE // len(policies), 1)
    found: list[list[Episode]] = [[] for _ in policies]
    for first in range(0, len(streams[0]), most):
        part = _run(policies, env, label, [lane[first : first + most] for lane in streams], counting, wanted)
        for episodes, more in zip(found, part, strict=True):
            episodes.extend(more)
    return found


def _run(
    policies: Sequence[Policy],
    env: EnvSource,
    label: str,
    streams: Sequence[Sequence[Stream]],
    counting: Counting,
    wanted: Callable[[], bool],
) -> list[list[Episode]]:
    crew = type(policies[0]).crew(policies, len(streams[0]))
    with _seats(policies, env, label, streams, counting) as seats:
        rngs = [[seat.rng for seat in lane] for lane in seats]
        running = np.array([[not seat.ended for seat in lane] for lane in seats])
        while running.any():
            if not wanted():
                raise Ended
            actions = crew(running, np.stack([[seat.observation for seat in lane] for lane in seats]), rngs)
            for lane, place in np.argwhere(running).tolist():
                with _failures(label, place):
                    seats[lane][place].take(actions[lane, place])
                running[lane, place] = not seats[lane][place].ended
        return [[seat.episode() for seat in lane] for lane in seats]


@contextmanager
def _seats(
    policies: Sequence[Policy],
    env: EnvSource,
    label: str,
    streams: Sequence[Sequence[Stream]],
    counting: Counting,
) -> Iterator[list[list[Going]]]:
    """An environment for every episode, at its first observation; all are closed at the end."""
    with ExitStack() as stack:

        def begun(policy: Policy, stream: Stream, place: int) -> Going:
            with _failures(label, place):
                body: Any = make_env(env)
                stack.callback(body.close)
                facts = facts_of(body, label)
                check_sizes(policy, facts)
                return Going(body, facts, stream, counting)

        yield [
            [begun(policy, stream, place) for place, stream in enumerate(lane)]
            for policy, lane in zip(policies, streams, strict=True)
        ]


@contextmanager
def _failures(label: str, place: int) -> Iterator[None]:
    """What an environment raises ends the evaluation, with the episode's number."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise EvaluationFailed(f"episode {place} in {label} failed: {type(error).__name__}: {error}") from error

"""Rollouts to honest scores: one record per episode, the same whatever the number of workers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from stacq.core.errors import InputError, check_seed, check_whole
from stacq.core.types import Floats
from stacq.core.workers import WorkerFailed, WorkerPool, available_cores
from stacq.data.registry import task_of
from stacq.data.single_tasks import single_task
from stacq.data.tasks import Task, normalised_score
from stacq.envs.gym import STEP_LIMIT, EnvFacts, EnvSource, facts_of, flatten, make_env
from stacq.evaluation.records import EpisodeRecord
from stacq.policies import Actor, Policy

MOST_EPISODES = 1_000_000


class Episode(NamedTuple):
    """What one rollout gives, before it has a name."""

    episode_return: float
    length: int
    success: bool | None
    discounted_return: float  # as the critics count
    start: Floats  # the first observation, [S]


class EvaluationFailed(RuntimeError):
    """The evaluation ended early; the message says in which episode and why."""


def evaluate(
    policy: Actor,
    env: EnvSource,
    episodes: int = 10,
    seed: int = 0,
    *,
    workers: int | None = None,
    pool: WorkerPool | None = None,
    algorithm: str = "",
    dataset: str = "",
    step: int = 0,
    on_episode: Callable[[EpisodeRecord], None] | None = None,
) -> list[EpisodeRecord]:
    """Run a policy for `episodes` episodes in worker processes and return their records in order.

    Episode k draws its start and its noise from (seed, k) alone. `workers` defaults to all cores, never
    more than episodes; a warm `pool` is used instead if given. A policy that acts in many episodes at once needs
    neither: its environments are all in this process. The scores' reference returns come from
    the dataset's name or the environment's id.
    """
    _check_kinds(policy, env)
    check_numbers(episodes, seed)
    task = reference_task(dataset, env)
    records = []
    for index, episode in enumerate(_episodes(policy, env, episodes, seed, workers, pool)):
        record = record_of(episode, task, algorithm, dataset, (seed, step, index))
        records.append(record)
        if on_episode:
            on_episode(record)
    return records


def _episodes(
    policy: Actor, env: EnvSource, episodes: int, seed: int, workers: int | None, pool: WorkerPool | None
) -> Iterator[Episode]:
    """In order, from workers, or all at once where the policy asks for that."""
    from stacq.evaluation.together import act_together, run_together

    label = env_label(env)
    if isinstance(policy, Policy) and act_together(policy):
        yield from run_together([policy], env, label, [[(seed, index) for index in range(episodes)]])[0]
        return
    run = partial(run_episode, policy, env, label, (seed,))
    try:
        with nullcontext(pool) if pool else WorkerPool(crew_size(workers, episodes)) as crew:
            yield from crew.map(run, range(episodes))
    except WorkerFailed as failure:
        reason = f"episode {failure.task} (of 0 to {episodes - 1}) in {label} failed: {failure.summary}"
        raise EvaluationFailed(f"{reason}\n{failure.details}".rstrip()) from None


def record_of(
    episode: Episode, task: Task | None, algorithm: str, dataset: str, place: tuple[int, int, int]
) -> EpisodeRecord:
    """An episode with a name: whose it is, and its place as (seed, step, number)."""
    score = score_of(episode, task, dataset)
    return EpisodeRecord(algorithm, dataset, *place, episode.episode_return, episode.length, score, episode.success)


def score_of(episode: Episode, task: Task | None, dataset: str) -> float | None:
    """By the task's reference returns; in OGBench's single tasks the success in percent, as its package has it."""
    if task is not None:
        return normalised_score(task, episode.episode_return)
    if episode.success is not None and single_task(dataset) is not None:
        return 100.0 * episode.success
    return None


def _check_kinds(policy: object, env: object) -> None:
    if not callable(policy):
        raise InputError(
            f"the policy is {type(policy).__name__} {policy!r:.80}",
            where="evaluate",
            expected="a stacq.Policy, or a function of (observation, generator)",
            fix="load a file with stacq.Policy.load, or take one of `policies` of what was trained",
        )
    if not isinstance(env, str) and not callable(env):
        raise InputError(
            f"the environment is {type(env).__name__} {env!r:.80}",
            where="evaluate",
            expected="a Gymnasium id, or a function that makes an environment: every worker makes its own",
            fix="give the id, such as 'Hopper-v4', or `lambda: env_you_make()`",
        )


def check_numbers(episodes: int, seed: int) -> None:
    expected = f"at least one episode, and at most {MOST_EPISODES:,}"
    check_whole(f"{episodes} episodes", episodes, 1, MOST_EPISODES, expected=expected, fix="use --episodes 10")
    check_seed(seed)


def crew_size(workers: int | None, episodes: int) -> int:
    """All cores unless said otherwise, and never more processes than episodes."""
    return min(available_cores() if workers is None else workers, episodes)


def check_fit(policy: Actor, env: EnvSource, dataset: str, pool: WorkerPool) -> EnvFacts:
    """Make the environment in a worker and refuse a policy or dataset that does not fit, before any episode."""
    reference_task(dataset, env)
    return next(pool.map(partial(_facts_for, policy, env), [env_label(env)]))


def _facts_for(policy: Actor, env: EnvSource, label: str) -> EnvFacts:
    with env_of(env, label) as (_, facts):
        check_sizes(policy, facts)
        return facts


def env_label(env: EnvSource) -> str:
    """What an environment is called in messages."""
    return env if isinstance(env, str) else getattr(env, "__name__", "environment")


def reference_task(dataset: str, env: EnvSource) -> Task | None:
    """The task whose reference returns make the score; data and environment must not be of different ones."""
    of_data, of_env = task_of(dataset), task_of(env) if isinstance(env, str) else None
    if of_data and of_env and of_data != of_env:
        raise InputError(
            f"the dataset '{dataset}' belongs to {of_data.key}",
            where=env,
            expected=f"a dataset of {of_env.key}, or none",
            fix="name the environment of the data (--env), or another dataset",
        )
    return of_data or of_env


class Counting(NamedTuple):
    """How critics count rewards: discounted, and as they were scaled and shifted before they learned from them."""

    discount: float = 1.0
    shift: float = 0.0
    scale: float = 1.0


Stream = tuple[int, ...]
"""What an episode's start and noise are drawn from: seeds and numbers, the episode's own last."""


def run_episode(
    policy: Actor, env: EnvSource, label: str, stream: Stream, index: int, counting: Counting = Counting()
) -> Episode:
    """One episode, in a worker process, from the random numbers of (stream, index) alone."""
    with env_of(env, label) as (body, facts):
        check_sizes(policy, facts)
        going = Going(body, facts, (*stream, index), counting)
        while not going.ended:
            going.take(np.asarray(policy(going.observation, going.rng)))
        return going.episode()


class Going:
    """An episode on its way: what is seen now, the generator of its noise, and what came so far."""

    def __init__(self, body: Any, facts: EnvFacts, stream: Stream, counting: Counting) -> None:
        starts, noise = np.random.SeedSequence(stream).spawn(2)
        self.body, self.facts, self.counting = body, facts, counting
        self.rng = np.random.default_rng(noise)
        seen, _ = body.reset(seed=int(starts.generate_state(1)[0]))
        self.observation = self.start = flatten(seen)
        self.total, self.discounted, self.length = 0.0, 0.0, 0
        self.info: dict[str, Any] = {}
        self.ended = False

    def take(self, action: Floats) -> None:
        """One step; an action that is none is refused before the simulator sees it."""
        check_action(action, self.facts, self.length)
        seen, reward, terminated, truncated, self.info = self.body.step(action)
        self.observation = flatten(seen)
        self.total += float(reward)
        counted = float(reward) * self.counting.scale + self.counting.shift
        self.discounted += self.counting.discount**self.length * counted
        self.length += 1
        self.ended = bool(terminated or truncated) or self.length >= STEP_LIMIT

    def episode(self) -> Episode:
        return Episode(self.total, self.length, _success(self.info), self.discounted, self.start)


@cache
def _made(source: str) -> Any:
    return make_env(source)


@contextmanager
def env_of(source: EnvSource, label: str) -> Iterator[tuple[Any, EnvFacts]]:
    """Named environments are made once per worker; a function is called anew, since it may hold state."""
    env = _made(source) if isinstance(source, str) else make_env(source)
    try:
        yield env, facts_of(env, label)
    finally:
        if not isinstance(source, str):
            env.close()


def check_sizes(policy: Actor, facts: EnvFacts) -> None:
    wanted = (getattr(policy, "observation_size", None), getattr(policy, "action_size", None))
    if wanted[0] is not None and wanted != (facts.observation_size, facts.action_size):
        raise InputError(
            f"the policy is for observations of {wanted[0]} and actions of {wanted[1]} numbers",
            where=facts.label,
            expected=f"{facts.observation_size} and {facts.action_size}, the sizes of {facts.label}",
            fix="evaluate it in the environment of its data (--env)",
        )


def check_action(action: Floats, facts: EnvFacts, step: int | None = None) -> None:
    """Refuse what is no action, before a simulator is given it."""
    place = "" if step is None else f" at step {step}"
    if action.shape != (facts.action_size,):
        raise ValueError(f"the policy returned shape {action.shape}{place}, expected ({facts.action_size},)")
    if not np.isfinite(action).all():
        raise ValueError(f"the policy returned {action.tolist()}{place}, expected finite numbers")


def _success(info: dict[str, Any]) -> bool | None:
    for key in ("success", "is_success"):
        if key in info:
            return bool(info[key])
    return None

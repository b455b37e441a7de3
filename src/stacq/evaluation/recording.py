"""Datasets recorded by any policy in any environment, the same bits on any number of cores."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from stacq.core.errors import InputError
from stacq.core.files import check_writable
from stacq.core.progress import progress
from stacq.core.types import Float32s, Floats
from stacq.core.workers import WorkerPool
from stacq.data.behaviour import TanhGaussian
from stacq.data.conventions import Conventions
from stacq.data.dataset import Dataset
from stacq.data.generate import Group, Rollout, Stream, as_dataset, collect, provenance, whole_episodes
from stacq.data.hdf5 import write_hdf5
from stacq.envs.gym import EnvFacts, EnvSource
from stacq.evaluation.rollouts import check_action, check_fit, env_label, env_of
from stacq.evaluation.together import act_together
from stacq.policies import Actor

PREFIX = "rollout/"  # of the names of such datasets: none is taken for a known one


@dataclass(frozen=True, eq=False)
class Recorded:
    """A policy as it acts while it is recorded: within the bounds, and with noise if there is any to be.

    With noise, a stochastic policy acts by its mean: the noise takes the place of its own.
    """

    policy: Actor
    facts: EnvFacts
    noise: float | None  # standard deviation, in units of half the range of an action

    def __call__(self, observation: Floats, rng: np.random.Generator) -> Float32s:
        low, high = self.facts.action_low, self.facts.action_high
        action = np.asarray(self._chosen(observation, rng))
        check_action(action, self.facts)
        push = 0.0 if self.noise is None else self.noise * (high - low) / 2 * rng.standard_normal(len(low))
        acted: Float32s = np.clip(action + push, low, high).astype(np.float32)
        return acted

    def _chosen(self, observation: Floats, rng: np.random.Generator) -> Floats:
        if self.noise is not None and isinstance(self.policy, TanhGaussian):
            return self.policy.mode(observation)
        return self.policy(observation, rng)


def rollout(
    policy: Actor | Sequence[Actor],
    env: EnvSource,
    rows: int,
    *,
    noise: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    name: str = "",
    progress: Callable[[int], None] | None = None,
) -> Dataset:
    """Let a policy act for so many rows, or several for a share of them each, one after the other.

    A policy acts as it is, a stochastic one by chance; with `noise`, its mean action is disturbed by so much of half
    the action's range. Rows, successors and ends are as those of `generate`: the last episode of each policy is cut
    where its rows are full and marked timeout. They depend on the policy, the environment, `rows`, `noise` and `seed`.
    """
    policies = list(policy) if isinstance(policy, Sequence) else [policy]
    _check(policies, rows, noise, seed)
    borders = [rows * place // len(policies) for place in range(len(policies) + 1)]
    streams = [Stream(str(place), borders[place + 1] - borders[place]) for place in range(len(policies))]
    with WorkerPool(workers) as pool:
        for each in policies:
            facts = check_fit(each, env, "", pool)
        _check_bounded(facts)
        actors = [Recorded(each, facts, noise) for each in policies]
        try:
            columns = collect(streams, seed, partial(_group, env, actors), pool, progress)
        except MemoryError as error:
            raise InputError(f"{rows:,} rows do not fit into memory", where="rollout", fix="record fewer") from error
    bounds = Conventions(tuple(facts.action_low.tolist()), tuple(facts.action_high.tolist()))
    known = replace(bounds, env_id=env if isinstance(env, str) else None, name=name)
    noise_entry = {} if noise is None else {"noise": str(noise)}
    return replace(as_dataset(columns, known), provenance={**provenance(seed), **noise_entry})


def record(
    policies: Sequence[Actor],
    called: str,
    env: str,
    rows: int,
    *,
    noise: float | None = None,
    seed: int = 0,
    workers: int | None = None,
    out: Path | None = None,
    force: bool = False,
) -> Path:
    """`rollout` into a file, with progress; `called` says in the file whose data it is."""
    short = re.sub(r"[^\w.+-]+", "-", called.removesuffix("/").rpartition("/")[2]).strip("-.")
    path = out or Path(f"{short}-{rows}.hdf5")
    if path.suffix not in (".hdf5", ".h5"):
        raise InputError(f"'{path.suffix}' is not written", where=path, expected=".hdf5", fix="choose another --out")
    if path.exists() and not force:
        raise InputError("this file exists already", where=path, fix="choose another --out, or add --force")
    check_writable(path)
    with progress(f"recording {called}", rows, "rows") as update:
        dataset = rollout(
            policies,
            env,
            rows,
            noise=noise,
            seed=seed,
            workers=workers,
            name=PREFIX + path.stem,
            progress=update,
        )
    write_hdf5(replace(dataset, provenance={**dataset.provenance, "policy": called}), path)
    return path


def _group(env: EnvSource, actors: Sequence[Actor], group: Group) -> Rollout:
    with env_of(env, env_label(env)) as (body, _):
        return whole_episodes(body, actors[int(group.tag)], group.seed)


def _check(policies: Sequence[Actor], rows: int, noise: float | None, seed: int) -> None:
    if not policies or not all(map(callable, policies)):
        raise InputError(
            "this is no policy",
            where="rollout",
            expected="a stacq.Policy, a function of (observation, generator), or several of them",
            fix="load a file with stacq.Policy.load",
        )
    if any(map(act_together, policies)):
        raise InputError(
            "this policy acts in many episodes at once, in one process, and recordings are made by workers",
            where="rollout",
            expected="a policy that acts by itself",
            fix="record with a policy of another kind",
        )
    if rows < len(policies):
        raise InputError(f"{rows} rows", where="rollout", expected=f"at least {len(policies)}", fix="ask for more rows")
    if seed < 0:
        raise InputError(f"seed {seed}", where="rollout", expected="a seed of 0 or more", fix="use 0")
    if noise is not None and not (np.isfinite(noise) and noise >= 0):
        raise InputError(
            f"noise of {noise}", where="rollout", expected="a finite number from 0, in half ranges", fix="try 0.1"
        )


def _check_bounded(facts: EnvFacts) -> None:
    if not (np.isfinite(facts.action_low).all() and np.isfinite(facts.action_high).all()):
        raise InputError(
            f"actions may go from {facts.action_low.tolist()} to {facts.action_high.tolist()}",
            where=facts.label,
            expected="finite bounds: a dataset states them",
            fix="wrap the environment so that its actions are bounded",
        )

"""Every policy of a set, judged by critics, models and plain checks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stacq.core.types import Float32s, Float64s
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics
from stacq.judgement.candidates import Candidate, check_sizes
from stacq.judgement.checks import Support, far_share, support_of
from stacq.judgement.config import JudgeConfig, check_config
from stacq.judgement.evidence import (
    Evidence,
    actions_at,
    affordable,
    discounted_returns,
    evidence_of,
    resampled_mean,
)
from stacq.judgement.fqe import Critics, evaluated, prepared
from stacq.judgement.outcome import fit_outcome
from stacq.judgement.rollouts import World, imagine, trusted, world_of
from stacq.judgement.verdict import (
    SHARED_ERROR,
    Interval,
    Judgement,
    Report,
    careful_value,
    chance_note,
    recommendation,
    together,
    verdict_of,
)

NORMAL = 1.96  # deviations of a normal distribution that hold 95 percent
LONGEST = 1_000  # steps of a rollout, unless more are asked for
LEAST_ROWS = 1_000  # that critics are fitted to
WIDENING = 1.0  # of the critics' own interval


class Court(NamedTuple):
    """All that is made once for a set of policies."""

    evidence: Evidence
    data: Interval
    critics: Critics
    of_states: Critics | None
    world: World | None
    pairs: Support  # of (s, a)
    arrivals: Support  # of s'
    horizon: int
    config: JudgeConfig


def judged(
    dataset: Dataset,
    candidates: Sequence[Candidate],
    dynamics: Dynamics | None,
    config: JudgeConfig = JudgeConfig(),
    *,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """The report on a set of policies. Without dynamics there are no rollouts, and intervals lean on critics alone."""
    check_config(config)
    check_sizes(candidates, dataset.observation_size, dataset.action_size, dataset.name)
    court = court_of(dataset, dynamics, config, any(each.states for each in candidates))
    found, notes = [], []
    for number, candidate in enumerate(candidates, 1):
        rows = affordable(candidate.policy, court.evidence.raw(court.evidence.s), config.seconds)
        if rows < min(LEAST_ROWS, len(court.evidence.r)):
            notes.append(f"{candidate.name} is not judged: it acts too slowly for the data ({rows:,} rows in time)")
            continue
        found.append(judgement_of(candidate, court, rows))
        say(f"judged {number} of {len(candidates)}: {candidate.name}")
    ranked = tuple(sorted(found, key=lambda each: (each.verdict == "not judged", -each.careful)))
    name, advice = recommendation(ranked, court.data)
    if dynamics is None:
        notes.append("no models: values are the critics' alone, which overrate policies unlike the data")
    if note := chance_note(len(ranked)):
        notes.append(note)
    return Report(dataset.name, config.discount, court.data, ranked, name, advice, tuple(notes))


def court_of(dataset: Dataset, dynamics: Dynamics | None, config: JudgeConfig, states: bool) -> Court:
    """Critics of the data's own behaviour, models of reward and ending, and the data's borders."""
    evidence = evidence_of(dataset, None if dynamics is None else dynamics.normaliser)
    data = Interval(*resampled_mean(discounted_returns(dataset, config.discount), config.seed))
    world = None
    if dynamics is not None:
        evidence = with_successors(evidence, dataset, dynamics)
        outcome = fit_outcome(evidence, evidence.s_next, config.outcome, config.seed)
        world = world_of(evidence, dynamics, outcome, config.seed)
    of_states = None
    if states and dynamics is not None:
        of_states = prepared(evidence, config.discount, config.fqe, config.seed, states=True)
    return Court(
        evidence=evidence,
        data=data,
        critics=prepared(evidence, config.discount, config.fqe, config.seed),
        of_states=of_states,
        world=world,
        pairs=support_of(np.concatenate([evidence.s, evidence.a], axis=1), evidence.episode, config.seed),
        arrivals=support_of(evidence.s_next, evidence.episode, config.seed),
        horizon=config.horizon or min(evidence.longest, LONGEST),
        config=config,
    )


def with_successors(evidence: Evidence, dataset: Dataset, dynamics: Dynamics) -> Evidence:
    """With the models' prediction where a terminal row has no successor."""
    usable = np.flatnonzero(dataset.successor_known | dataset.terminals)
    missing = np.flatnonzero(~dataset.successor_known[usable])
    if not len(missing):
        return evidence
    rows, s_next = usable[missing], evidence.s_next.copy()
    s_next[missing] = evidence.normaliser.apply(dynamics.predict(dataset.observations[rows], dataset.actions[rows]))
    return evidence._replace(s_next=s_next)


def judgement_of(candidate: Candidate, court: Court, rows: int) -> Judgement:
    """One policy, on so many rows of the data at most."""
    policy, config = candidate.policy, court.config
    part = court.evidence.some(rows, config.seed)
    a_next, a_start = (acts(policy, court, states) for states in (part.s_next, part.starts))
    critics = of_members(evaluated(court.critics, part, part.a, a_next, a_start))
    of_states = None
    if candidate.states and court.of_states is not None:
        s_after, s_first = arrives(court, part.s_next, a_next), arrives(court, part.starts, a_start)
        of_states = of_members(evaluated(court.of_states, part, part.s_next, s_after, s_first))
    rollouts, horizon = rolled_out(candidate, court, rows)
    worst = worst_of(court)
    both = [critics] if of_states is None else [critics, of_states]
    parts = [*both, *([] if rollouts is None else [rollouts])]
    slack = SHARED_ERROR * max(court.data.value - worst, 0.0)
    value = together(parts, float(np.mean([each.value for each in both])), slack)
    far_actions, far_states = far_from_data(policy, court)
    word, because = verdict_of(value, court.data, far_actions, horizon, config.discount)
    lowest = min(both, key=lambda each: each.low)
    return Judgement(
        name=candidate.name,
        value=value,
        careful=careful_value(lowest, rollouts, 1 - far_actions, court.data.value, worst),
        critics=critics,
        critics_of_states=of_states,
        rollouts=rollouts,
        horizon=horizon,
        far_actions=far_actions,
        far_states=far_states,
        verdict=word,
        because=because,
    )


def worst_of(court: Court) -> float:
    """The data's lowest rewards for ever, or nothing where these are positive: then the worst is that the task ends."""
    return min(court.evidence.rewards[0], 0.0) / (1 - court.config.discount)


def acts(policy: object, court: Court, states: Float32s) -> Float32s:
    """Scaled actions of a policy at normalised states."""
    evidence = court.evidence
    return evidence.scaled(actions_at(policy, evidence.raw(states), court.config.seed))  # type: ignore[arg-type]


def arrives(court: Court, states: Float32s, actions: Float32s) -> Float32s:
    """Where scaled actions lead by the models, normalised."""
    assert court.world is not None
    evidence = court.evidence
    raw = actions * evidence.action_half + evidence.action_middle
    return evidence.normaliser.apply(court.world.dynamics.predict(evidence.raw(states), raw))


def of_members(values: Float64s) -> Interval:
    """Mean and normal interval; members are so few that their quantiles would say nothing."""
    middle, spread = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Interval(middle, middle - NORMAL * WIDENING * spread, middle + NORMAL * WIDENING * spread)


def rolled_out(candidate: Candidate, court: Court, rows: int) -> tuple[Interval | None, float | None]:
    """Value and interval by rollouts, and the steps that can be believed. None where the policy is too slow.

    What comes after the models disagree is unknown: the low end counts the data's lowest rewards for it, or nothing
    where these are positive, and the high end what the data's best rewards would give.
    """
    config, world = court.config, court.world
    if world is None:
        return None, None
    count = min(config.starts, court.evidence.episodes)
    if rows < count * world.dynamics.models.forward.members * court.horizon:
        return None, None
    chosen = np.random.default_rng(config.seed).permutation(court.evidence.episodes)[:count]
    starts = court.evidence.starts[chosen]
    found = imagine(candidate.policy, court.evidence, world, starts, court.horizon, config.seed)
    kept = trusted(found, config.discount, court.horizon)
    low, high = (reward / (1 - config.discount) for reward in court.evidence.rewards)
    ends = kept.value + kept.rest * min(low, 0.0), kept.value + kept.rest * max(high, 0.0)
    by_start = [each.reshape(count, -1).mean(axis=1) for each in ends]
    error = [NORMAL * float(each.std(ddof=1)) / count**0.5 if count > 1 else 0.0 for each in by_start]
    bounds = float(by_start[0].mean()) - error[0], float(by_start[1].mean()) + error[1]
    return Interval(float(kept.value.mean()), *bounds), float(np.median(kept.length))


def far_from_data(policy: object, court: Court) -> tuple[float, float | None]:
    """Shares of proposed actions, and of the states they lead to, that lie beyond the data."""
    evidence, pairs, arrivals = court.evidence, court.pairs, court.arrivals
    s = evidence.s[pairs.asked]
    a = acts(policy, court, s)
    data = np.concatenate([evidence.s, evidence.a], axis=1)
    far_actions = far_share(pairs, np.concatenate([s, a], axis=1), data, evidence.episode)
    if court.world is None:
        return far_actions, None
    s = evidence.s[arrivals.asked]
    s_next = arrives(court, s, acts(policy, court, s))
    return far_actions, far_share(arrivals, s_next, evidence.s_next, evidence.episode)

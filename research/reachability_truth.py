"""How true is the estimated reachability? Candidates of the box join, tried out in the simulator.

    python research/reachability_truth.py --models DIR --out research/reachability_truth.json

`--models` holds dynamics-BODY-default, fitted to stacq/BODY-medium-v0. Anchors are drawn from the rows that no member
was trained or stopped on. `--keep DIR` stores the measured pairs (tens of MB) and reads them back, so that tables can
be printed again without the simulator. Two cores need about 10 minutes a body.

Words: an *anchor* is a row s; its *candidates* are dataset successors s' inside its box; *own* is its recorded
successor. A candidate is *truly reachable* if a search in the simulator finds an action that lands within 0.1 of
the true one-step range (per dimension over simulated actions) of s' in every dimension; it is *hit* if the clipped
inverse action does. Pairs count by the share of candidates they stand for, since only some per anchor are tried.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq import Dataset, load
from stacq.core.types import Array, Float32s, Float64s, Ints
from stacq.core.workers import WorkerPool
from stacq.dynamics.fit import _hold_out
from stacq.dynamics.models import Dynamics, Models, forward_members, inverse_mean
from stacq.dynamics.recipes import FitConfig
from stacq.envs.simulator import Simulator
from stacq.reach.calibration import Calibration, refined
from stacq.reach.config import Estimator
from stacq.reach.join import BoxIndex, typical_widths
from stacq.reach.options import ACTIONS as DEFAULT_ACTIONS
from stacq.reach.ranges import range_actions, ranges, widened
from stacq.reach.search import REACHED_AT, search

BODIES = {"hopper": "Hopper-v4", "walker2d": "Walker2d-v4", "halfcheetah": "HalfCheetah-v4"}
SEED = 42
ACTIONS = DEFAULT_ACTIONS["random"]  # as the paper's authors
SCREENED = 16_000  # more rows asked with a cheap box, where most anchors have no candidate but their own
POOL = 200  # candidates per anchor that the models see
LIKELY, OTHERS = 12, 8  # of these, tried in the simulator: the best by the paper's score, and any others
SIMULATED = 128  # uniform actions behind a true range, beside the corners
NEAR = (REACHED_AT, 0.1, 0.2)  # L-inf distances in true ranges that may count as reached
THRESHOLDS = (0.01, 0.05, 0.1, 0.5)  # appendix F
RECALLS = (0.9, 0.95, 0.98)  # of known pairs
REACHED = (0.25, 0.5, 0.8)  # recalls of truly reachable candidates
CHEAP = (0, 32, 64, 128)  # uniform actions beside the corners
CHEAP_ANCHORS = 200  # for the comparison of estimators where anchors have thousands of candidates
BATCH = 4096
RANGE_BATCH = 1000


# --- The simulator


simulator = lru_cache(Simulator)


class Trial(NamedTuple):
    """An anchor's simulator state, its goals (normalised) and the actions to start from."""

    env_id: str
    qpos: Float64s
    qvel: Float64s
    mean: Float32s
    scale: Float32s
    range_actions: Float32s  # [K, A]
    goals: Float32s  # [P, S]; the first is the recorded successor
    inverse: Float32s  # [P, A], clipped
    refined: Float32s  # [P, A]


class Outcome(NamedTuple):
    true_range: Float64s  # [S]
    executed: Float64s  # [P, S]: where the clipped inverse action lands, minus the goal
    executed_refined: Float64s  # [P, S]: the same for the refined action
    best: Float64s  # [P]: L-inf distance in true ranges after the search
    check: float  # the same for a goal that a random action reaches, searched without the models' help


def attempt(trial: Trial) -> Outcome:
    body = simulator(trial.env_id)

    def reach(action: Float64s) -> Float64s:
        seen = body.next_observation(trial.qpos, trial.qvel, action)
        return np.asarray((seen - trial.mean) / trial.scale)

    tried = trial.range_actions.astype(np.float64)
    landed = np.array([reach(action) for action in tried])
    everything = np.concatenate([landed, trial.goals[:1]])
    true_range = np.maximum(everything.max(axis=0) - everything.min(axis=0), 2e-6)
    low, high = tried.min(axis=0), tried.max(axis=0)  # corners are among them
    executed, best = [], []
    for goal, action in zip(trial.goals.astype(np.float64), trial.inverse.astype(np.float64), strict=True):
        executed.append(reach(action) - goal)
        nearest = tried[np.abs((landed - goal) / true_range).max(axis=1).argmin()]
        distance = lambda a, goal=goal: (reach(a) - goal) / true_range  # noqa: E731
        found = search(distance, action, low, high)
        best.append(found if found <= NEAR[0] else min(found, search(distance, nearest, low, high)))
    check = check_search(reach, tried, landed, true_range)
    refined_lands = np.array([reach(action) for action in trial.refined.astype(np.float64)]) - trial.goals.astype(
        np.float64
    )
    return Outcome(true_range, np.array(executed), refined_lands, np.array(best), check)


def check_search(
    reach: Callable[[Float64s], Float64s], tried: Float64s, landed: Float64s, true_range: Float64s
) -> float:
    """Does the search find what is there? The goal is the last tried action's, the start the nearest other one."""
    distances = np.abs((landed[:-1] - landed[-1]) / true_range).max(axis=1)
    low, high = tried.min(axis=0), tried.max(axis=0)
    return search(lambda a: (reach(a) - landed[-1]) / true_range, tried[distances.argmin()], low, high)


# --- The models


@jax.jit
def _features(models: Models, s: jax.Array, s_next: jax.Array, low: jax.Array, high: jax.Array) -> dict[str, jax.Array]:
    action = inverse_mean(models, s, s_next)
    clipped = jnp.clip(action, low, high)
    at_free, at_clipped = forward_members(models, s, action), forward_members(models, s, clipped)
    return {
        "action": action,
        "residual": at_free.mean(axis=0) - s_next,
        "residual_clipped": at_clipped.mean(axis=0) - s_next,
        "spread": at_free.std(axis=0),
        "spread_clipped": at_clipped.std(axis=0),
    }


def batched(function: Callable[..., Any], *columns: Float32s) -> Any:
    """`function` over padded batches of one size, so that it compiles once."""
    parts = []
    for start in range(0, len(columns[0]), BATCH):
        cut = [column[start : start + BATCH] for column in columns]
        size = len(cut[0])
        padded = [np.concatenate([c, np.repeat(c[:1], BATCH - size, axis=0)]) for c in cut]
        parts.append(jax.tree.map(lambda leaf, size=size: np.asarray(leaf)[:size], function(*padded)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def boxes_of(dynamics: Dynamics, s: Float32s, s_next: Float32s, actions: Float32s) -> tuple[Float32s, Float32s]:
    parts = np.array_split(s, max(1, len(s) // RANGE_BATCH))
    found = [ranges(dynamics.models, jnp.asarray(part), jnp.asarray(actions)) for part in parts]
    low, high = (np.concatenate([np.asarray(box[side]) for box in found]) for side in (0, 1))
    return widened(low, high, s_next, np.ones(len(s), dtype=bool))


# --- Measuring


class Setting(NamedTuple):
    body: str
    dataset: Dataset
    dynamics: Dynamics
    known: Ints  # rows whose successor is recorded: the points that candidates come from
    points: Float32s  # [M, S], normalised
    unseen: Ints  # positions among the points of the rows that no member saw
    seed: int  # of the anchors, the pairs that are tried and the actions behind ranges
    estimator: Estimator  # of the ranges


def setting_of(body: str, models: Path, seed: int, estimator: Estimator) -> Setting:
    dataset = load(f"stacq/{body}-medium-v0", infos=("qpos", "qvel"))
    dynamics = Dynamics.load(models / f"dynamics-{body}-default")
    known = np.flatnonzero(dataset.successor_known)
    points = dynamics.normaliser.apply(dataset.next_observations[known])
    unseen = np.searchsorted(known, unseen_rows(dataset, dynamics))
    return Setting(body, dataset, dynamics, known, points, unseen, seed, estimator)


def unseen_rows(dataset: Dataset, dynamics: Dynamics) -> Ints:
    """The fit's held-out rows; an artefact that does not store them is asked for its seed."""
    if dynamics.parents["dataset"] != dataset.fingerprint:
        raise SystemExit(f"these dynamics were not fitted to {dataset.name}")
    if len(dynamics.held_out):
        return dynamics.held_out
    return _hold_out(dataset, FitConfig(**{**dynamics.config, "hidden": tuple(dynamics.config["hidden"])}))[0]


def measure(setting: Setting, anchors: int, workers: int) -> dict[str, Array]:
    """Every quantity of every tried pair, and the anchors' sets of candidates."""
    dataset, dynamics = setting.dataset, setting.dynamics
    rng = np.random.default_rng(setting.seed)
    drawn = rng.choice(setting.unseen, anchors + SCREENED, replace=False)  # positions among the points
    count = DEFAULT_ACTIONS[setting.estimator]
    actions = range_actions(dynamics.action_low, dynamics.action_high, count, setting.estimator, setting.seed)
    clock = Clock(setting.body)

    def states(positions: Ints) -> tuple[Float32s, Float32s]:
        return dynamics.normaliser.apply(dataset.observations[setting.known[positions]]), setting.points[positions]

    chosen, screened = drawn[:anchors], 0
    low, high = boxes_of(dynamics, *states(chosen), actions)
    clock.say("ranges")
    index = BoxIndex(setting.points, widths=typical_widths(low, high))
    indptr, indices = index.query(low, high)
    clock.say("join")
    if (np.diff(indptr) > 1).mean() < 0.5:
        cheap = range_actions(dynamics.action_low, dynamics.action_high, 32, "corners", setting.seed)
        counts = np.diff(index.query(*boxes_of(dynamics, *states(drawn[anchors:]), cheap))[0])
        more = drawn[anchors:][counts > 1]
        chosen, screened = np.concatenate([chosen, more]), SCREENED
        boxes = boxes_of(dynamics, *states(more), actions)
        low, high = np.concatenate([low, boxes[0]]), np.concatenate([high, boxes[1]])
        indptr, indices = index.query(low, high)
        clock.say(f"{len(more)} screened anchors")
    anchor, position, weight = pool_of(chosen, indptr, indices, rng)
    s, s_next = states(chosen)[0], setting.points[position]
    bounds = dynamics.action_low, dynamics.action_high
    pairs = batched(lambda s, s_next: _features(dynamics.models, s, s_next, *bounds), s[anchor], s_next)
    pairs |= {"anchor": anchor, "weight": weight, "own": position == chosen[anchor], "range": (high - low)[anchor]}
    clock.say(f"models on {len(anchor)} pairs")
    kept, more_weight = likely_and_others(pairs, rng)
    pairs = {name: column[kept] for name, column in pairs.items()} | {"weight": weight[kept] * more_weight}
    anchor, s, s_next = anchor[kept], s[anchor[kept]], s_next[kept]
    residual, spread, action = batched(
        lambda s, s_next, sizes: refined(dynamics.models, s, s_next, sizes, *bounds), s, s_next, pairs["range"]
    )
    pairs |= {"goal": s_next, "residual_refined": residual, "spread_refined": spread, "action_refined": action}
    clock.say(f"refining {len(anchor)} pairs")
    inverse = np.clip(pairs["action"], *bounds)
    pairs |= simulate(setting, setting.known[chosen], anchor, s_next, inverse, action, workers)
    clock.say("simulator")
    pairs |= {"candidates": np.diff(indptr) - 1, "chosen": chosen, "asked": np.array([anchors, anchors + screened])}
    return pairs


class Clock:
    def __init__(self, body: str) -> None:
        self.body, self.last = body, time.perf_counter()

    def say(self, what: str) -> None:
        now = time.perf_counter()
        print(f"  {self.body}: {what}, {now - self.last:.0f} s", flush=True)
        self.last = now


def pool_of(chosen: Ints, indptr: Ints, indices: Ints, rng: np.random.Generator) -> tuple[Ints, Ints, Float64s]:
    """Per anchor its own successor first, then up to POOL others, each standing for `weight` candidates."""
    anchor, position, weight = [], [], []
    for i, own in enumerate(chosen):
        others = indices[indptr[i] : indptr[i + 1]]
        others = others[others != own]
        picked = rng.permutation(others)[:POOL]
        anchor.append(np.full(len(picked) + 1, i))
        position.append(np.concatenate([[own], picked]))
        weight.append(np.concatenate([[1.0], np.full(len(picked), max(1.0, len(others) / POOL))]))
    return np.concatenate(anchor), np.concatenate(position), np.concatenate(weight)


def likely_and_others(pairs: dict[str, Array], rng: np.random.Generator) -> tuple[Ints, Float64s]:
    """Pairs to simulate: reachable ones are rare, so the likely are all tried and the rest are sampled."""
    score = np.abs(pairs["residual"] / pairs["range"]).max(axis=1)
    starts = np.flatnonzero(pairs["own"])
    kept, weight = [], []
    for start, end in zip(starts, np.append(starts[1:], len(score)), strict=True):
        others = start + 1 + np.argsort(score[start + 1 : end])
        rest = others[LIKELY:]
        sampled = rng.permutation(rest)[:OTHERS]
        kept.append(np.concatenate([[start], others[:LIKELY], sampled]))
        ones = np.ones(1 + len(others[:LIKELY]))
        weight.append(np.concatenate([ones, np.full(len(sampled), len(rest) / max(1, len(sampled)))]))
    return np.concatenate(kept), np.concatenate(weight)


def simulate(
    setting: Setting, rows: Ints, anchor: Ints, goals: Float32s, inverse: Float32s, better: Float32s, workers: int
) -> dict[str, Array]:
    dataset, normaliser = setting.dataset, setting.dynamics.normaliser
    low, high = setting.dynamics.action_low, setting.dynamics.action_high
    tried = range_actions(low, high, SIMULATED, "corners", setting.seed)
    starts = np.searchsorted(anchor, np.arange(len(rows) + 1))

    def trials() -> Iterator[Trial]:
        for i, row in enumerate(rows):
            part = slice(starts[i], starts[i + 1])
            qpos, qvel = (np.asarray(dataset.infos[name][row], dtype=np.float64) for name in ("qpos", "qvel"))
            start = BODIES[setting.body], qpos, qvel, normaliser.mean, normaliser.scale
            yield Trial(*start, tried, goals[part], inverse[part], better[part])

    with WorkerPool(workers) as pool:
        outcomes = list(pool.map(attempt, trials()))
    return {
        "true_range": np.repeat([outcome.true_range for outcome in outcomes], np.diff(starts), axis=0),
        "executed": np.concatenate([outcome.executed for outcome in outcomes]),
        "executed_refined": np.concatenate([outcome.executed_refined for outcome in outcomes]),
        "best": np.concatenate([outcome.best for outcome in outcomes]),
        "check": np.array([outcome.check for outcome in outcomes]),
    }


def pairs_of(setting: Setting, anchors: int, workers: int, keep: Path | None) -> dict[str, Array]:
    """Measured now, or read back from `keep`."""
    name = f"pairs-{setting.body}-{anchors}-seed{setting.seed}-{setting.estimator}.npz"
    path = None if keep is None else keep / name
    if path is not None and path.exists():
        return dict(np.load(path))
    pairs = measure(setting, anchors, workers)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **pairs)  # type: ignore[arg-type]  # no name here is allow_pickle
    return pairs


# --- Tables


class Judged(NamedTuple):
    """A body's pairs with their verdicts; `own` rows are known pairs, the others are candidates with weights."""

    pairs: dict[str, Array]
    fit: Array  # [P]: own pairs that criteria are calibrated on
    held: Array  # [P]: own pairs that recall is measured on
    other: Array  # [P]: candidates
    weight: Float64s  # [P]: candidates that each stands for
    hit: Float64s  # [P]: L-inf distance, in true ranges, of the clipped inverse action's landing
    hit_refined: Float64s  # [P]: of the refined action's
    best: Float64s  # [P]: of the best action found
    asked: int  # rows that all candidates come from


def judge(pairs: dict[str, Array]) -> Judged:
    own, anchor = pairs["own"], pairs["anchor"]
    random = own & (anchor < pairs["asked"][0])
    hit, better = (np.abs(pairs[n] / pairs["true_range"]).max(axis=1) for n in ("executed", "executed_refined"))
    best = np.minimum(np.minimum(hit, better), pairs["best"])
    halves = random & (anchor % 2 == 0), random & (anchor % 2 == 1)
    return Judged(pairs, *halves, ~own, pairs["weight"], hit, better, best, int(pairs["asked"][1]))


def quality(judged: Judged, score: Float64s, threshold: float) -> dict[str, float | None]:
    """What a criterion `score <= threshold` does to known pairs and to candidates."""
    weight = judged.weight * judged.other
    accepted = weight * (score <= threshold)
    result = {
        "threshold": threshold,
        "own": float((score[judged.held] <= threshold).mean()),
        "extra": accepted.sum() / judged.asked,
    }
    for near in NEAR[1:]:
        reachable = judged.best <= near
        result |= {
            f"hit_{near}": share(accepted, judged.hit <= near),
            f"refined_hit_{near}": share(accepted, judged.hit_refined <= near),
            f"precision_{near}": share(accepted, reachable),
            f"recall_{near}": share(weight * reachable, score <= threshold),
        }
    return {name: None if np.isnan(value) else round(float(value), 4) for name, value in result.items()}


def share(weight: Float64s, true: Array) -> float:
    return float((weight * true).sum() / weight.sum()) if weight.sum() > 0 else float("nan")


def precision_at(judged: Judged, score: Float64s, near: float, recall: float) -> float:
    """Precision where this share of the truly reachable candidates is accepted."""
    order = np.argsort(np.where(judged.other, score, np.inf))
    weight = (judged.weight * judged.other)[order]
    true = np.cumsum(weight * (judged.best[order] <= near))
    place = int(np.searchsorted(true, recall * true[-1]))
    return round(float(true[place] / np.cumsum(weight)[place]), 4)


def norm_scores(pairs: dict[str, Array]) -> dict[str, Float64s]:
    scaled = np.abs(pairs["residual"] / pairs["range"])
    squares = (scaled**2).sum(axis=1)
    return {"linf": scaled.max(axis=1), "l1": scaled.sum(axis=1), "l2": np.sqrt(squares), "l2-unrooted": squares}


def variant_scores(judged: Judged) -> dict[str, Float64s]:
    """Criteria that may replace the paper's; all are L-inf over dimensions, lower is better."""
    pairs, fit = judged.pairs, judged.fit
    size = pairs["range"]
    scores: dict[str, Float64s] = {}
    for kind in ("", "_clipped", "_refined"):
        e = np.abs(pairs[f"residual{kind}"])
        spread = pairs[f"spread{kind}"]
        sigma = np.sqrt((e[fit] ** 2).mean(axis=0))
        trust = np.sqrt((e[fit] ** 2).mean(axis=0) / (spread[fit] ** 2).mean(axis=0))  # error per unit of spread
        name = kind.strip("_") or "free"
        scores |= {
            f"{name}: e / r": (e / size).max(axis=1),
            f"{name}: e / hypot(0.1 r, sigma)": (e / np.hypot(0.1 * size, sigma)).max(axis=1),
            f"{name}: e / (0.1 r + q95)": (e / (0.1 * size + np.quantile(e[fit], 0.95, axis=0))).max(axis=1),
            f"{name}: e / hypot(0.1 r, spread)": (e / np.hypot(0.1 * size, trust * spread)).max(axis=1),
            f"{name}: e / hypot(0.1 r, 2 spread)": (e / np.hypot(0.1 * size, 2 * trust * spread)).max(axis=1),
            f"{name}: (e + 2 spread) / r": ((e + 2 * trust * spread) / size).max(axis=1),
        }
    outside = np.maximum(np.abs(pairs["action"]) - 1.0, 0.0).max(axis=1)  # all three bodies act within [-1, 1]
    for bound in (0.05, 0.3):
        scores[f"free, outside <= {bound}: e / r"] = np.where(outside > bound, np.inf, scores["free: e / r"])
    return scores


def norm_table(judged: Judged) -> list[dict[str, Any]]:
    return [
        {"norm": norm, **quality(judged, score, threshold)}
        for norm, score in norm_scores(judged.pairs).items()
        for threshold in THRESHOLDS
    ]


def variant_table(judged: Judged) -> list[dict[str, Any]]:
    rows = []
    for name, score in variant_scores(judged).items():
        for recall in RECALLS:
            threshold = float(np.quantile(score[judged.fit], recall))
            rows.append({"criterion": name, "own_goal": recall, **quality(judged, score, threshold)})
        if name.endswith("e / r"):
            rows.append({"criterion": name, "own_goal": "-", **quality(judged, score, 0.1)})
    return [*rows, calibrated_row(judged)]


def calibrated_row(judged: Judged) -> dict[str, Any]:
    """What the library offers, as it is: `stacq.reach.calibration`, fitted on one half of the known pairs."""
    columns = tuple(judged.pairs[name] for name in ("residual_refined", "spread_refined", "range"))
    fitted = Calibration.fit(*(column[judged.fit] for column in columns))
    found = quality(judged, fitted.scores(*columns).astype(np.float64), fitted.threshold)
    return {"criterion": "stacq.reach.calibration", "own_goal": ">= 0.95", **found}


def curve_table(judged: Judged) -> list[dict[str, Any]]:
    """Precision at equal recall among truly reachable candidates."""
    rows: list[dict[str, Any]] = []
    for name, score in variant_scores(judged).items():
        at = {f"P{n} at R{recall}": precision_at(judged, score, n, recall) for n in NEAR[1:] for recall in REACHED}
        rows.append({"criterion": name, **at})
    return rows


def facts(judged: Judged) -> dict[str, Any]:
    """Sizes of the sample, and how the simulator sees it before any criterion."""
    pairs, weight = judged.pairs, judged.weight * judged.other
    held = judged.fit | judged.held
    worst = np.abs(pairs["residual"] / pairs["range"])[held]
    fails = np.bincount(worst.argmax(axis=1)[worst.max(axis=1) > 0.1], minlength=worst.shape[1])
    return {
        "anchors": int(pairs["own"].sum()),
        "rows_asked": judged.asked,
        "tried_candidates": int(judged.other.sum()),
        "candidates_per_row": weight.sum() / judged.asked,
        **{f"candidates_reachable_{near}": share(weight, judged.best <= near) for near in NEAR},
        **{f"tried_reachable_{near}": int((judged.other & (judged.best <= near)).sum()) for near in NEAR},
        **{f"own_hit_{near}": float((judged.hit[held] <= near).mean()) for near in NEAR},
        "own_found": float((judged.best[held] <= NEAR[0]).mean()),
        "search_check": float((pairs["check"] <= NEAR[0]).mean()),
        "estimated_over_true_range": np.median(pairs["range"][held] / pairs["true_range"][held], axis=0).tolist(),
        "fails_by_dimension": fails.tolist(),
    }


def estimator_table(setting: Setting, pairs: dict[str, Array]) -> list[dict[str, Any]]:
    """Cheap ranges against the 1,000-action ones: sets of candidates, and what passes the paper's test at 0.1."""
    dynamics = setting.dynamics
    random = pairs["chosen"][: pairs["asked"][0]]
    crowded = np.median(pairs["candidates"]) > POOL
    chosen = random[:CHEAP_ANCHORS] if crowded else random
    s, own = dynamics.normaliser.apply(dataset_rows(setting, chosen)), setting.points[chosen]
    bounds = dynamics.action_low, dynamics.action_high
    truth = pairs["true_range"][np.flatnonzero(pairs["own"])[: len(chosen)]]
    sets, rows, index = [], [], None
    tries: list[tuple[Estimator, int]] = [("random", ACTIONS), *(("corners", count) for count in CHEAP)]
    for estimator, count in tries:
        actions = range_actions(*bounds, count, estimator, setting.seed)
        started = time.perf_counter()
        low, high = boxes_of(dynamics, s, own, actions)
        seconds = time.perf_counter() - started
        index = index or BoxIndex(setting.points, widths=typical_widths(low, high))
        indptr, indices = index.query(low, high)
        anchor = np.repeat(np.arange(len(chosen)), np.diff(indptr))
        other = indices != chosen[anchor]
        anchor, indices = anchor[other], indices[other]
        e = batched(
            lambda s, g: _features(dynamics.models, s, g, *bounds)["residual"], s[anchor], setting.points[indices]
        )
        passed = np.abs(e / (high - low)[anchor]).max(axis=1) <= 0.1
        keys = anchor * len(setting.points) + indices
        sets.append((set(keys.tolist()), set(keys[passed].tolist())))
        rows.append({
            "estimator": f"{estimator} + {count}" if estimator == "corners" else f"{count} random",
            "actions": len(actions),
            "seconds": round(seconds, 2),
            "box_over_true": round(float(np.median((high - low) / truth)), 3),
            "candidates": round(len(sets[-1][0]) / len(chosen), 3),
            "accepted": round(len(sets[-1][1]) / len(chosen), 3),
        })  # fmt: skip
        for which, name in enumerate(("candidates", "accepted")):
            same = len(sets[-1][which] & sets[0][which])
            rows[-1][f"{name}_recall"] = round(same / max(1, len(sets[0][which])), 4)
            rows[-1][f"{name}_precision"] = round(same / max(1, len(sets[-1][which])), 4)
    return rows


def dataset_rows(setting: Setting, positions: Ints) -> Float32s:
    return setting.dataset.observations[setting.known[positions]]


def markdown(title: str, rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    lines += [" | ".join(str(row.get(name, "")) for name in names) for row in rows]
    return "\n".join([f"\n### {title}\n", *(f"| {line} |" for line in lines)])


def _plain(value: Any) -> Any:
    """JSON knows no NaN: a share of nothing becomes null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bodies", nargs="+", default=list(BODIES), choices=list(BODIES))
    parser.add_argument("--anchors", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--estimator", choices=["random", "corners"], default="random", help="of the ranges")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("reachability_truth.json"))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for body in chosen.bodies:
        setting = setting_of(body, chosen.models, chosen.seed, chosen.estimator)
        judged = judge(pairs_of(setting, chosen.anchors, chosen.workers, chosen.keep))
        results[body] = {
            "facts": facts(judged),
            "norms": norm_table(judged),
            "variants": variant_table(judged),
            "curves": curve_table(judged),
            "estimators": estimator_table(setting, judged.pairs),
        }
        print(f"\n## {body}\n\n{json.dumps(results[body]['facts'], indent=1)}")
        for part in ("norms", "variants", "curves", "estimators"):
            print(markdown(f"{body}: {part}", results[body][part]), flush=True)
        chosen.out.write_text(json.dumps(_plain(results)))


if __name__ == "__main__":
    import reachability_truth  # by its name, so that workers import it once and keep their simulators

    reachability_truth.main()

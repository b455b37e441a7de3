"""Other answers to what a policy is worth, measured on the policies of studies/judge.py: docs/judge.md says the result.

    python research/judge_candidates.py answer --policies runs/judge
    python research/judge_candidates.py answer --policies runs/judge --kinds graph --datasets hopper-medium
    python research/judge_candidates.py beyond --policies runs/judge
    python research/judge_candidates.py table

`one-step`, `k-step` and `affine` are ensembles with LayerNorm in which a policy acts for 1,000 steps from recorded
starts; states are held within the data's range, so that rollouts stay bounded.

    one-step  s' = s + f(s, a)
    k-step    s_{t+k} = s_t + f_k(s_t, a_t ... a_{t+k-1}), k = 1 ... 5: the next state is told from five earlier states
    affine    s' = s + f(s) + G(s) a

Disagreement is taken over members and, for `k-step`, over the earlier states; its unit is the largest that rows of
the data have. `graph` is the exact value of walking on the recorded rows: at row i the one of the ten near rows, or
the row itself, is taken whose action is nearest to the policy's; that may cost a price for its distance.

A line per policy and kind goes to `research/results/judge-candidates.jsonl`; what is there already is not made again.
`beyond` runs policies in the simulator and says how far from the data they are there.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import rankdata

from stacq.core.types import Array, Float32s, Float64s
from stacq.data.dataset import Dataset
from stacq.data.load import load
from stacq.evaluation.rollouts import Counting, Going, env_of
from stacq.graph.edges import Edges, edges_of, steps_of
from stacq.graph.price import noise_of
from stacq.graph.solve import Problem, solve
from stacq.graph.usual import Steps, usual
from stacq.judgement.checks import nearest, support_of
from stacq.judgement.evidence import Evidence, actions_at, discounted_returns, evidence_of
from stacq.judgement.verdict import Interval, careful_value
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.mlp import MLP, each_member, init_ensemble
from stacq.policies import Policy

RESULTS = Path(__file__).parent / "results" / "judge-candidates.jsonl"
BEYOND = Path(__file__).parent / "results" / "judge-beyond.jsonl"
JUDGED = Path(__file__).parent.parent / "studies" / "results" / "judge.jsonl"
DATASETS = ("hopper-medium", "walker2d-medium", "halfcheetah-medium", "halfcheetah-medium-replay")
ENVS = {"hopper": "Hopper-v4", "walker2d": "Walker2d-v4", "halfcheetah": "HalfCheetah-v4"}
OUTSIDERS = ("expert", "d4rl-medium")  # good, and unlike the policies that recorded the data
HIDDEN, BATCH, RATE, ENDS = (128, 128), 128, 1e-3, 16
STARTS, BRANCHES, HORIZON, MARGIN = 12, 3, 1_000, 0.05
DISCOUNTS = (0.99, 0.995, 0.998, 1.0)
SOFT = (0.15, 0.25, 0.4)  # disagreement from which a step counts less; at twice as much it counts as the worst
PRICES = (0.0, 0.1)  # of a graph's step at an unusual action, in deviations of the usual advantage


class Kind(NamedTuple):
    points: int  # earlier states that the next one is told from
    members: int
    affine: bool
    steps: int  # of the fit


KINDS = {
    "one-step": Kind(1, 3, False, 8_000),
    "k-step": Kind(5, 2, False, 12_000),
    "affine": Kind(1, 3, True, 10_000),
}


class Rows(NamedTuple):
    """The data as the fit reads it."""

    s: jax.Array  # [N, S]
    a: jax.Array  # [N, A]
    r: jax.Array  # [N]
    s_next: jax.Array  # [N, S]
    done: jax.Array  # [N]
    run: jax.Array  # [N] rows of the episode up to this one
    mean: jax.Array  # [K, S] of s_{t+k} - s_t
    scale: jax.Array  # [K, S]


class Model(NamedTuple):
    network: MLP
    rows: Rows
    low: Float32s
    high: Float32s
    most: float  # disagreement about rows of the data


def inputs_of(kind: Kind, s: jax.Array, actions: jax.Array, back: jax.Array) -> jax.Array:
    """[B, S], [B, K, A] with zeros behind the last action, and [B] which says how many there are."""
    if kind.affine:
        return s
    flat = actions.reshape(*actions.shape[:-2], -1)
    return jnp.concatenate([s, flat, jax.nn.one_hot(back - 1, kind.points)], axis=-1)


def outputs_of(kind: Kind, network: MLP, s: jax.Array, actions: jax.Array, back: jax.Array) -> jax.Array:
    """The scaled change of state, the reward and the log odds of the end, [M, ..., S + 2]."""
    told = each_member(network, inputs_of(kind, s, actions, back))
    if not kind.affine:
        return told
    a, size = actions[..., 0, :], s.shape[-1]
    parts = told.reshape(*told.shape[:-1], size + 2, -1)
    squares = jnp.arange(size + 2)[:, None] >= size  # a reward may fall with the square of an action
    features = jnp.concatenate([jnp.ones((*a.shape[:-1], 1)), a], axis=-1)
    of_squares = (parts[..., 1 + a.shape[-1] :] * squares * (a**2)[..., None, :]).sum(axis=-1)
    linear: jax.Array = (parts[..., : 1 + a.shape[-1]] * features[..., None, :]).sum(axis=-1)
    return linear + of_squares


def sizes_of(kind: Kind, state: int, action: int) -> tuple[int, ...]:
    if kind.affine:
        return (state, *HIDDEN, (state + 2) * (1 + 2 * action))
    return (state + kind.points * (action + 1), *HIDDEN, state + 2)


@partial(jax.jit, static_argnames="kind")
def fitted(rows: Rows, going: jax.Array, over: jax.Array, kind: Kind) -> MLP:
    """Each batch draws last rows e and how far back k to begin, at most to the start of the episode."""
    state, action = rows.s.shape[1], rows.a.shape[1]
    adam = optax.adamw(optax.cosine_decay_schedule(RATE, kind.steps), weight_decay=1e-4)
    k_init, k_steps = jax.random.split(jax.random.key(0))
    first = init_ensemble(k_init, kind.members, sizes_of(kind, state, action), layer_norm=True)
    ends = ENDS if over.shape[0] else 0

    def step(number: jax.Array, learner: Learner[MLP]) -> Learner[MLP]:
        keys = jax.random.split(jax.random.fold_in(k_steps, number), 3)
        last = going[jax.random.randint(keys[0], (BATCH - ends,), 0, going.shape[0])]
        if ends:
            last = jnp.concatenate([last, over[jax.random.randint(keys[1], (ends,), 0, over.shape[0])]])
        most = jnp.minimum(rows.run[last], kind.points)
        back = 1 + (jax.random.uniform(keys[2], (BATCH,)) * most).astype(int)
        begun = last - back + 1
        places = begun[:, None] + jnp.arange(kind.points)
        used = (jnp.arange(kind.points) < back[:, None])[..., None]
        actions = jnp.where(used, rows.a[jnp.minimum(places, rows.a.shape[0] - 1)], 0)
        y = (rows.s_next[last] - rows.s[begun] - rows.mean[back - 1]) / rows.scale[back - 1]

        def loss(network: MLP) -> tuple[jax.Array, dict[str, jax.Array]]:
            told = outputs_of(kind, network, rows.s[begun], actions, back)
            of_state = (((told[..., :state] - y) ** 2).mean(axis=-1) * (1 - rows.done[last])).mean(axis=1).sum()
            of_reward = ((told[..., state] - rows.r[last]) ** 2).mean(axis=1).sum() / state
            of_end = optax.sigmoid_binary_cross_entropy(told[..., state + 1], rows.done[last]).mean(axis=1).sum()
            return of_state + of_reward + 0.3 * of_end, {}

        return descend(learner, loss, adam)[0]

    network: MLP = jax.lax.fori_loop(0, kind.steps, step, new_learner(first, adam, target=False)).network
    return network


def rows_of(evidence: Evidence, kind: Kind) -> Rows:
    """Rows that are kept lie one after the other within an episode, but for its last one."""
    number = np.arange(len(evidence.r))
    starts = np.flatnonzero(np.diff(evidence.episode, prepend=-1))
    run = number - np.repeat(starts, np.diff(np.append(starts, len(number)))) + 1
    mean, scale = [], []
    for back in range(1, kind.points + 1):
        last = np.flatnonzero((run >= back) & (evidence.done == 0))
        change = evidence.s_next[last] - evidence.s[last - back + 1]
        mean.append(change.mean(axis=0))
        scale.append(change.std(axis=0))
    e = evidence
    parts = (e.s, e.a, e.r, e.s_next, e.done, run, np.stack(mean), np.stack(scale))
    return Rows(*(jnp.asarray(part) for part in parts))


def model_of(evidence: Evidence, kind: Kind) -> Model:
    rows = rows_of(evidence, kind)
    going, over = (jnp.asarray(np.flatnonzero(evidence.done == value)) for value in (0, 1))
    network = fitted(rows, going, over, kind)
    full = np.flatnonzero((np.asarray(rows.run) >= kind.points) & (evidence.done == 0))
    last = np.random.default_rng(0).permutation(full)[:6_000]
    places = last - np.arange(kind.points)[::-1, None]  # [K, B], the newest last
    told = np.asarray(told_from(kind, network, rows, jnp.asarray(evidence.s[places]), jnp.asarray(evidence.a[places])))
    spread = spread_of(told[..., : evidence.s.shape[1]], np.asarray(rows.scale[0]))
    low, high = evidence.s.min(axis=0), evidence.s.max(axis=0)
    pad = MARGIN * (high - low)
    return Model(network, rows, low - pad, high + pad, float(spread.max()))


@partial(jax.jit, static_argnames="kind")
def told_from(kind: Kind, network: MLP, rows: Rows, states: jax.Array, actions: jax.Array) -> jax.Array:
    """The next state from each of the last K states, the nearest first, and reward and end, [M, K, B, S + 2]."""
    points, batch = actions.shape[:2]
    seen = []
    for back in range(1, points + 1):
        used = jnp.concatenate([actions[points - back :], jnp.zeros_like(actions[: points - back])])
        seen.append(jnp.moveaxis(used, 0, 1))
    ages = jnp.broadcast_to(jnp.arange(1, points + 1)[:, None], (points, batch))
    told = outputs_of(kind, network, states[::-1], jnp.stack(seen), ages)
    size = states.shape[-1]
    arrived = states[::-1] + rows.mean[:, None] + rows.scale[:, None] * told[..., :size]
    return jnp.concatenate([arrived, told[..., size:]], axis=-1)


def spread_of(arrived: Array, scale: Array) -> Float64s:
    """max over members and earlier states of the distance from their mean, in the data's steps, [B]."""
    flat = arrived.reshape(-1, *arrived.shape[2:])
    found: Float64s = np.sqrt((((flat - flat.mean(axis=0)) / scale) ** 2).mean(axis=-1)).max(axis=0)
    return found


class Rollouts(NamedTuple):
    reward: Float64s  # [T, B]
    alive: Array  # [T, B]
    spread: Float64s  # [T, B], in units of the data's largest


def rollouts(policy: Policy, evidence: Evidence, model: Model, kind: Kind) -> Rollouts:
    """A branch keeps its member; the earlier state that the next one is told from is drawn at every step."""
    rng, size = np.random.default_rng(0), evidence.s.shape[1]
    chosen = np.random.default_rng(0).permutation(evidence.episodes)[:STARTS]
    s = np.repeat(evidence.starts[chosen], BRANCHES, axis=0)
    branch = np.arange(len(s))
    states = np.zeros((kind.points, *s.shape), np.float32)
    actions = np.zeros((kind.points, len(s), evidence.a.shape[1]), np.float32)
    rewards, odds, spreads = [], [], []
    for step in range(HORIZON):
        a = evidence.scaled(policy(evidence.raw(s), rng))
        states = np.concatenate([states[1:], s[None]])
        actions = np.concatenate([actions[1:], a[None]])
        told = np.asarray(told_from(kind, model.network, model.rows, jnp.asarray(states), jnp.asarray(actions)))
        told = told[:, : step + 1]
        rewards.append(told[..., size].mean(axis=(0, 1)))
        odds.append(told[..., size + 1].mean(axis=(0, 1)))
        spreads.append(spread_of(told[..., :size], np.asarray(model.rows.scale[0])))
        point = rng.integers(0, told.shape[1], len(s))
        s = np.clip(told[branch % kind.members, point, branch, :size], model.low, model.high).astype(np.float32)
    over = np.stack(odds) > 0
    alive: Array = np.cumsum(over, axis=0) - over == 0
    return Rollouts(np.stack(rewards) * evidence.reward_scale, alive, np.stack(spreads) / model.most)


def values_of(found: Rollouts, worst: float) -> dict[str, float]:
    """By discount: all steps; only steps before the disagreement is above the data's largest; steps by how well known
    they are, with the worst reward for the rest. And how long rollouts stay within the data's disagreement."""
    held = found.alive & (np.cumsum(found.spread > 1, axis=0) == 0)
    values = {"survival": float(held.sum(axis=0).mean()), "disagreement": -float(np.median(found.spread[:100]))}
    for discount in DISCOUNTS:
        power = discount ** np.arange(HORIZON)[:, None]
        total = (found.reward * found.alive * power).sum(axis=0)
        values[f"all {discount}"] = float(total.mean())
        values[f"low quarter {discount}"] = float(np.quantile(total, 0.25))
        values[f"cut {discount}"] = float((found.reward * held * power).sum(axis=0).mean())
        for border in SOFT:
            unknown = np.clip(found.spread / border - 1, 0, 1)
            kept = ((1 - unknown) * found.reward + unknown * worst) * found.alive
            values[f"soft {border} {discount}"] = float((kept * power).sum(axis=0).mean())
    return values


# --- the graph


class Walk(NamedTuple):
    """What all policies share."""

    steps: Steps
    edges: Edges
    start: Float64s  # values to begin with
    noise: float  # of the usual advantage
    deviation: Float64s  # of actions around the usual one, [A]


def walk_of(dataset: Dataset) -> Walk:
    steps = steps_of(dataset)
    found = usual(steps, DISCOUNTS[0], 512, 0)
    deviation = (steps.a - found.action).std(axis=0)
    return Walk(steps, edges_of(dataset, steps, 10), found.value, noise_of(steps, found, DISCOUNTS[0]), deviation)


def walked(policy: Policy, dataset: Dataset, walk: Walk) -> dict[str, float]:
    """V(i) = r_j - c |a_j - pi(s_i)| + gamma V(follow_j), where j is the near row of the nearest action."""
    low, high = dataset.action_low, dataset.action_high
    actions = (actions_at(policy, dataset.observations, 0) - low) / (high - low) * 2 - 1
    lender = np.maximum(walk.edges.rows, 0)
    away = np.sqrt((((walk.steps.a[lender] - actions[:, None]) / walk.deviation) ** 2).mean(axis=-1))
    away[walk.edges.rows < 0] = np.inf
    column = away.argmin(axis=1)[:, None]
    rows, away = np.take_along_axis(walk.edges.rows, column, 1), np.take_along_axis(away, column, 1)
    found = {}
    for price in PRICES:
        problem = Problem(
            rows, walk.edges.follow, walk.steps.r[rows], price * walk.noise * away, DISCOUNTS[0], temperature=0.0
        )
        value = solve(problem, walk.start, 0.02 * walk.noise).value
        found[f"price {price:g}"] = float(value[dataset.episode_offsets[:-1]].mean())
    return {**found, "nearness": -float(away.mean())}


# --- stages


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def add(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def policies_of(folder: Path, name: str) -> Iterator[tuple[str, Policy]]:
    for file in sorted((folder / "policies" / name).glob("*/*.safetensors")):
        yield f"{name}/{file.parent.name}/{file.stem}", Policy.load(file)


def answer(name: str, kinds: list[str], folder: Path) -> None:
    """Every kind's answers for every policy of a dataset."""
    known = {(line["key"], line["kind"]) for line in lines(RESULTS)}
    dataset = load(f"stacq/{name}-v0@100000")
    evidence = evidence_of(dataset)
    unit = {f"{discount}": float(discounted_returns(dataset, discount).mean()) for discount in DISCOUNTS}
    for kind in kinds:
        todo = [(key, policy) for key, policy in policies_of(folder, name) if (key, kind) not in known]
        if not todo:
            continue
        began = time.process_time()
        ask = asker(kind, dataset, evidence)
        print(f"{name}, {kind}: prepared in {time.process_time() - began:.0f} s", flush=True)
        for key, policy in todo:
            began = time.process_time()
            values = ask(policy)
            seconds = round(time.process_time() - began, 2)
            facts = {"key": key, "kind": kind, "values": values, "unit": unit, "seconds": seconds}
            add(RESULTS, {**facts, "hash": dataset.fingerprint})


def asker(kind: str, dataset: Dataset, evidence: Evidence) -> Callable[[Policy], dict[str, float]]:
    if kind == "graph":
        walk = walk_of(dataset)
        return lambda policy: walked(policy, dataset, walk)
    settings = KINDS[kind]
    model, worst = model_of(evidence, settings), min(evidence.rewards[0], 0.0)
    return lambda policy: values_of(rollouts(policy, evidence, model, settings), worst)


def beyond(name: str, folder: Path, episodes: int = 4, steps: int = 100) -> None:
    """Share of the states that foreign policies really come to which lie beyond the data, and the one-step models'
    error there, in deviations of the data's steps."""
    evidence = evidence_of(load(f"stacq/{name}-v0@100000"))
    kind, env = KINDS["one-step"], ENVS[name.split("-")[0]]
    model, support = model_of(evidence, kind), support_of(evidence.s, evidence.episode)
    held = evidence.s[support.held] / support.scale
    for key, policy in policies_of(folder, name):
        if "/foreign/" not in key:
            continue
        far, errors = [], []
        for index in range(episodes):
            s, a = recorded(policy, env, index, steps, evidence)
            away = nearest(s / support.scale, held, np.full(len(s), -1), evidence.episode[support.held])
            far.append(away > support.border)
            told = np.asarray(told_from(kind, model.network, model.rows, jnp.asarray(s[None]), jnp.asarray(a[None])))
            missed = (told[:, 0, :-1, : s.shape[1]].mean(axis=0) - s[1:]) / np.asarray(model.rows.scale[0])
            errors.append(np.sqrt((missed**2).mean(axis=-1)))
        line = {"key": key, "steps": steps, "far": float(np.concatenate(far).mean())}
        add(BEYOND, {**line, "error": float(np.concatenate(errors).mean())})
        print(line, flush=True)


def recorded(policy: Policy, env: str, index: int, steps: int, evidence: Evidence) -> tuple[Float32s, Float32s]:
    """States and actions of the first steps of an episode in the simulator."""
    states: list[Float32s] = []
    actions: list[Float32s] = []
    with env_of(env, env) as (body, facts):
        going = Going(body, facts, (0, index), Counting())
        while not going.ended and len(states) < steps:
            action = np.asarray(policy(going.observation, going.rng), np.float32)
            states.append(np.asarray(going.observation, np.float32))
            actions.append(action)
            going.take(action)
    return evidence.normaliser.apply(np.stack(states)), evidence.scaled(np.stack(actions))


# --- the table


class Measured(NamedTuple):
    """By set of policies: rank correlation, and regret at 1 on a scale where the range of the set is 1."""

    correlation: Float64s
    regret: Float64s

    @property
    def merit(self) -> Float64s:
        return self.correlation - self.regret


def measured(told: Float64s, true: Float64s, places: list[Array]) -> Measured:
    correlations, regrets = [], []
    for rows in places:
        ranks = rankdata(told[rows]), rankdata(true[rows])
        varied = np.ptp(ranks[0]) > 0
        correlations.append(float(np.corrcoef(*ranks)[0, 1]) if varied else 0.0)
        regrets.append(float((true[rows].max() - true[rows][np.argmax(told[rows])]) / np.ptp(true[rows])))
    return Measured(np.array(correlations), np.array(regrets))


def answers_of(keys: list[str], judged: dict[str, Any]) -> dict[str, Float64s]:
    """Every answer for these policies, in units of the data's own value."""
    asked = {(line["kind"], line["key"]): line for line in lines(RESULTS)}
    found: dict[str, Float64s] = {}
    for kind in KINDS:
        if not all((kind, key) in asked for key in keys):
            continue
        for way in asked[kind, keys[0]]["values"]:
            unit = "0.99" if way in ("survival", "disagreement") else way.split()[-1]
            told = [asked[kind, key]["values"][way] for key in keys]
            scale = [1.0 if way == "disagreement" else asked[kind, key]["unit"][unit] for key in keys]
            found[f"{kind}, {way}"] = np.array(told) / np.maximum(scale, 1.0)
    for name, told_by in RECORDED.items():
        found[name] = np.array([told_by(judged[key]) for key in keys])
    found["the ranking"] = np.array([ranked(judged[key]) for key in keys])
    return found


def scaled(record: dict[str, Any], value: float) -> float:
    """In units of the data's value above the worst."""
    data, worst = record["data"]["value"], record["worst"]
    return float((max(value, worst) - worst) / (data - worst))


RECORDED: dict[str, Callable[[dict[str, Any]], float]] = {
    "recorded: critics": lambda record: scaled(record, record["judgement"]["critics"]["value"]),
    "recorded: critics, low end": lambda record: scaled(record, record["judgement"]["critics"]["low"]),
    "recorded: rollouts": lambda record: scaled(record, record["judgement"]["rollouts"]["value"]),
    "recorded: rollouts, low end": lambda record: scaled(record, record["judgement"]["rollouts"]["low"]),
    "recorded: horizon": lambda record: float(np.log1p(record["judgement"]["horizon"]) / np.log(HORIZON)),
    "recorded: actions near the data": lambda record: 1 - float(record["judgement"]["far_actions"]),
    "recorded: states near the data": lambda record: 1 - float(record["judgement"]["far_states"]),
}


def ranked(record: dict[str, Any]) -> float:
    """As the package ranks, in units of the data's value above the worst."""
    judgement, data, worst = record["judgement"], record["data"]["value"], record["worst"]
    ways = [Interval(**judgement[way]) for way in ("critics", "rollouts")]
    careful = careful_value(ways[0], ways[1], 1 - judgement["far_actions"], data, worst)
    return scaled(record, careful)


def table() -> Iterator[str]:
    judged = {record["key"]: record for record in lines(JUDGED)}
    keys = sorted(judged)
    for title, kept in (("all policies", keys), ("without the outsiders", [k for k in keys if not outside(k)])):
        true = np.array([judged[key]["truth"]["1"] for key in kept])
        sets = sorted({key.rsplit("/", 1)[0] for key in kept})
        places = [np.flatnonzero([key.rsplit("/", 1)[0] == name for key in kept]) for name in sets]
        answers = answers_of(kept, judged)
        columns = ["answer", *sets, "foreign", "trained", "all"]
        yield f"### {title}\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
        found = {name: measured(told, true, places) for name, told in answers.items()}
        kinds = np.array([name.split("/")[1] for name in sets])
        yield from (line_of(name, found[name], kinds) for name in answers)
        yield from chosen(answers, true, places, np.array(sets))
        yield from of_graph(kept, judged, true)


def outside(key: str) -> bool:
    return key.split("/")[-1] in OUTSIDERS


def line_of(name: str, found: Measured, kinds: Array) -> str:
    groups = [kinds == "foreign", kinds == "trained", kinds != ""]
    cells = [f"{c:.2f}, {r:.2f}" for c, r in zip(found.correlation, found.regret, strict=True)]
    cells += [f"{found.correlation[rows].mean():.2f}, {found.regret[rows].mean():.2f}" for rows in groups]
    return f"| {name} | {' | '.join(cells)} |"


def chosen(answers: dict[str, Float64s], true: Float64s, places: list[Array], sets: Array) -> Iterator[str]:
    """The best of all answers and sums of two afterwards, and what three datasets choose for the fourth: of all of
    them, and of those that were recorded before."""
    sums: dict[tuple[str, ...], Float64s] = {(name,): told for name, told in answers.items()}
    sums |= {(a, b): answers[a] + answers[b] for a, b in combinations(answers, 2)}
    found = {names: measured(told, true, places) for names, told in sums.items()}
    datasets, kinds = (np.array([name.split("/")[place] for name in sets]) for place in (0, 1))
    for title, group in (
        ("", list(found)),
        ("recorded, ", [names for names in found if all(name in RECORDED for name in names)]),
    ):
        foreign = kinds == "foreign"
        for label, rows in (("", kinds != ""), (" in foreign sets", foreign)):
            best = max(group, key=lambda names, rows=rows: float(found[names].merit[rows].mean()))  # type: ignore[misc]
            yield line_of(f"{title}best of {len(group):,}{label} afterwards: {' + '.join(best)}", found[best], kinds)
        taken = {
            dataset: max(group, key=lambda names, away=datasets != dataset: float(found[names].merit[away].mean()))  # type: ignore[misc]
            for dataset in DATASETS
        }
        for dataset, names in taken.items():
            yield f"<!-- {title}without {dataset}: {' + '.join(names)} -->"
        of_set = [found[taken[dataset]] for dataset in datasets]
        joined = [
            np.array([getattr(each, field)[row] for row, each in enumerate(of_set)]) for field in Measured._fields
        ]
        yield line_of(f"{title}chosen on the other three datasets", Measured(*joined), kinds)


def of_graph(keys: list[str], judged: dict[str, Any], true: Float64s) -> Iterator[str]:
    """The graph's answers, for the sets that it was asked about, beside the critics'."""
    asked = {line["key"]: line["values"] for line in lines(RESULTS) if line["kind"] == "graph"}
    for name in sorted({key.rsplit("/", 1)[0] for key in keys if key in asked}):
        rows = np.array([row for row, key in enumerate(keys) if key.rsplit("/", 1)[0] == name and key in asked])
        ways = {way: np.array([asked[keys[row]][way] for row in rows]) for way in asked[keys[rows[0]]]}
        ways["critics"] = np.array([judged[keys[row]]["judgement"]["critics"]["value"] for row in rows])
        for way, told in ways.items():
            found = measured(told, true[rows], [np.arange(len(rows))])
            yield f"| graph, {name}: {way} | {found.correlation[0]:.2f}, {found.regret[0]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["answer", "beyond", "table"])
    parser.add_argument("--policies", type=Path, default=Path("runs/judge"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=[*KINDS, "graph"])
    options = parser.parse_args()
    if options.stage == "table":
        print("\n".join(table()))
        return
    for name in options.datasets:
        if options.stage == "answer":
            answer(name, options.kinds, options.policies)
        else:
            beyond(name, options.policies)


if __name__ == "__main__":
    main()

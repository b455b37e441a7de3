"""Small worlds, exact dynamics, and the equations' building blocks once more in plain NumPy."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos.pairs import Pairs
from stacq.algos.world import Batch, Extras, Rows, World, gather, pack_rows
from stacq.core.normaliser import Normaliser
from stacq.core.types import Array, Bools, Float64s
from stacq.data.dataset import Dataset
from stacq.dynamics.models import Dynamics, Models
from stacq.nn.mlp import MLP, init_ensemble
from stacq.reach.sets import ReachableSets

S, A = 3, 2
LENGTHS = (5, 4, 3)  # of the episodes in `small_world`


def plain(*trees: Any) -> Any:
    """The same with NumPy arrays: loops over single numbers of device arrays take ages."""
    found = tuple(jax.tree.map(np.asarray, tree) for tree in trees)
    return found if len(found) > 1 else found[0]


def net(network: MLP, x: Any, member: int | None = None) -> Float64s:
    """One network on one vector, in float64."""
    values = np.asarray(x, np.float64)
    chosen: Any = slice(None) if member is None else member
    weights = [np.asarray(w)[chosen].astype(np.float64) for w in network.weights]
    biases = [np.asarray(b)[chosen].astype(np.float64) for b in network.biases]
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        values = values @ weight + bias
        if layer < len(weights) - 1:
            if network.layer_norm:
                values = (values - values.mean()) / np.sqrt(values.var() + 1e-5)
            values = np.maximum(values, 0.0)
    return values


def joined(*parts: Any) -> Float64s:
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


def q_of(critic: MLP, member: int, *parts: Any) -> float:
    return float(net(critic, joined(*parts), member)[0])


def policy(actor: MLP, s: Any) -> Float64s:
    return np.tanh(net(actor, s))


def disturbed(a: Float64s, draw: Any, deviation: float, clip: float) -> Float64s:
    """Clipped Gaussian noise on an action, from the standard normal `draw`."""
    noise = np.minimum(np.maximum(deviation * np.asarray(draw, np.float64), -clip), clip)
    return np.minimum(np.maximum(a + noise, -1.0), 1.0)


def model(world: World, s: Any, a: Any) -> Float64s:
    """f(s, a): the mean of what the members say."""
    assert world.ensemble is not None
    s = np.asarray(s, np.float64)
    told = [s + net(world.ensemble, joined(s, a), member) for member in range(world.ensemble.members)]
    return np.asarray(np.mean(told, axis=0), np.float64)


def as64(network: MLP) -> MLP:
    """The same numbers as float64 NumPy arrays, to be nudged one by one."""
    weights = tuple(np.array(w, np.float64) for w in network.weights)
    biases = tuple(np.array(b, np.float64) for b in network.biases)
    return MLP(weights, biases, network.layer_norm)  # type: ignore[arg-type]


def random_net(rng: np.random.Generator, sizes: Sequence[int], members: int = 0, layer_norm: bool = False) -> MLP:
    """Weights of no particular origin; an ensemble if `members`."""
    lead = (members,) if members else ()

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0, 0.6, (*lead, *shape)), jnp.float32)

    layers = list(pairwise(sizes))
    return MLP(tuple(draw(*layer) for layer in layers), tuple(draw(layer[1]) for layer in layers), layer_norm)


def rows_of(rng: np.random.Generator, count: int, done: Bools) -> Rows:
    """Rows of recordings: within an episode s' is the state of the row after."""
    s = rng.normal(size=(count, S)).astype(np.float32)
    s_next = rng.normal(size=(count, S)).astype(np.float32)
    ends = np.cumsum(LENGTHS) - 1
    for row in range(count):
        if row not in ends:
            s_next[row] = s[row + 1]
    a = rng.uniform(-0.9, 0.9, (count, A)).astype(np.float32)
    r = rng.normal(size=count).astype(np.float32)
    return pack_rows(s, a, r, s_next, done)


def small_world(seed: int = 2, members: int = 2, sizes: Sequence[int] | None = None) -> World:
    """Three episodes: one ends the task, one is stopped with a recorded successor, one is cut without.

    `sizes` are the numbers of extra reachable rows of each anchor. With the default seed one of them ends the task,
    and the critics of the equations' tests disagree about which is best.
    """
    rng = np.random.default_rng(seed)
    count = sum(LENGTHS)
    done = np.zeros(count, dtype=np.bool_)
    done[LENGTHS[0] - 1] = True
    usable = np.ones(count, dtype=np.bool_)
    usable[-1] = False
    links = np.ones(count, dtype=np.bool_)
    links[np.cumsum(LENGTHS) - 1] = False
    rows = rows_of(rng, count, done)
    return World(
        rows=rows,
        anchors=jnp.asarray(np.flatnonzero(usable), jnp.int32),
        usable=jnp.asarray(usable),
        chained=jnp.asarray(links),
        ensemble=random_net(rng, (S + A, 8, S), members),
        extras=random_extras(rng, sizes if sizes is not None else rng.integers(0, 4, count), usable),
    )


def random_extras(rng: np.random.Generator, sizes: Sequence[int] | Array, usable: Bools) -> Extras:
    """For each anchor, so many usable rows other than itself."""
    lists = [
        rng.choice([row for row in np.flatnonzero(usable) if row != anchor], int(size), replace=False).tolist()
        for anchor, size in enumerate(sizes)
    ]
    return extras_from(lists, rng)


def extras_from(lists: Sequence[Sequence[int]], rng: np.random.Generator) -> Extras:
    """Extra rows of every anchor as given, with actions of no particular origin."""
    flat = np.array([row for each in lists for row in each] or [0], dtype=np.int32)
    counts = np.array([len(each) for each in lists], dtype=np.int32)
    actions = rng.uniform(-1, 1, (len(flat), A)).astype(np.float32)
    start = (np.cumsum(counts) - counts).astype(np.int32)
    return Extras(*map(jnp.asarray, (start, counts, flat, actions)))


def listed(extras: Extras, row: int) -> list[int]:
    """The extra rows of one anchor."""
    start, size = int(extras.start[row]), int(extras.size[row])
    return [int(each) for each in extras.rows[start : start + size]]


def entries_of(extras: Extras, row: int) -> list[int]:
    start, size = int(extras.start[row]), int(extras.size[row])
    return list(range(start, start + size))


def batch_of(world: World, rows: Sequence[int]) -> Batch:
    return gather(world.rows, jnp.asarray(rows, jnp.int32))


def pairs_by_hand(extras: Extras, rows: Sequence[int], slots: int) -> Pairs:
    """All pairs of the anchors in order, padded to the slots; they must fit."""
    anchor, member, entry = [], [], []
    for place, row in enumerate(rows):
        for each in entries_of(extras, row):
            anchor.append(place)
            member.append(int(extras.rows[each]))
            entry.append(each)
    used = len(anchor)
    assert used <= slots
    rest = slots - used
    flat = (anchor + [len(rows)] * rest, member + [int(extras.rows[0])] * rest, entry + [0] * rest)
    weight = [1.0] * used + [0.0] * rest
    places, members, entries = (jnp.asarray(each, jnp.int32) for each in flat)
    return Pairs(places, members, entries, jnp.asarray(weight, jnp.float32), jnp.asarray(used, jnp.int32))


def linear_member(matrix: Any) -> MLP:
    """One member that computes x @ matrix exactly, as relu(x) - relu(-x)."""
    wide = np.asarray(matrix, np.float32)
    eye = np.eye(len(wide), dtype=np.float32)
    weights = np.concatenate([eye, -eye], axis=1), np.concatenate([wide, -wide])
    return MLP(
        tuple(jnp.asarray(w)[None] for w in weights),
        (jnp.zeros((1, 2 * len(wide))), jnp.zeros((1, wide.shape[1]))),
    )


def point_dynamics(step: float, dims: int = 2, parents: dict[str, str] | None = None) -> Dynamics:
    """s' = s + step a and a = (s' - s) / step, exactly; actions within [-1, 1]."""
    eye, nothing = np.eye(dims), np.zeros((dims, dims))
    forward = linear_member(np.concatenate([nothing, step * eye]))
    inverse = linear_member(np.concatenate([-eye / step, eye / step]))
    one = np.ones(dims, np.float32)
    models = Models(forward, inverse, jnp.zeros(dims), jnp.ones(dims))
    return Dynamics(models, Normaliser.identity(dims), -one, one, {}, parents or {})


def random_dynamics(
    seed: int,
    low: Sequence[float],
    high: Sequence[float],
    state: int = S,
    members: int = 3,
    hidden: tuple[int, ...] = (8,),
) -> Dynamics:
    """Models of nothing in particular, with scales of their own."""
    rng = np.random.default_rng(seed)
    keys = jax.random.split(jax.random.key(seed))
    size = len(low)
    models = Models(
        init_ensemble(keys[0], members, (state + size, *hidden, state)),
        init_ensemble(keys[1], 2, (2 * state, *hidden, size)),
        jnp.asarray(rng.normal(0, 0.1, state), jnp.float32),
        jnp.asarray(rng.uniform(0.1, 2, state), jnp.float32),
    )
    normaliser = Normaliser(rng.normal(size=state).astype(np.float32), rng.uniform(0.5, 2, state).astype(np.float32))
    return Dynamics(models, normaliser, np.asarray(low, np.float32), np.asarray(high, np.float32), {}, {})


def recording(
    paths: Sequence[Any],
    actions: Sequence[Any],
    rewards: Sequence[Any],
    *,
    terminal: Sequence[bool],
    known: Sequence[bool] | None = None,
    low: Any = None,
    high: Any = None,
) -> Dataset:
    """Episodes from their states (one more than actions), with or without the last successor."""
    known = [True] * len(paths) if known is None else list(known)
    lengths = [len(each) for each in actions]
    ends = np.cumsum(lengths) - 1
    s = np.concatenate([np.asarray(path, np.float32)[:-1] for path in paths])
    s_next = np.concatenate([np.asarray(path, np.float32)[1:] for path in paths])
    count, size = len(s), np.asarray(actions[0]).shape[1]
    has = np.ones(count, dtype=np.bool_)
    has[ends] = known
    s_next[~has] = np.nan
    over = np.zeros(count, dtype=np.bool_)
    over[ends] = terminal
    stopped = np.zeros(count, dtype=np.bool_)
    stopped[ends] = ~np.asarray(terminal) & np.asarray(known)
    return Dataset(
        observations=s,
        actions=np.concatenate([np.asarray(each, np.float32) for each in actions]),
        rewards=np.concatenate([np.asarray(each, np.float32) for each in rewards]),
        next_observations=s_next,
        terminals=over,
        timeouts=stopped,
        successor_known=has,
        episode_offsets=np.concatenate([[0], ends + 1]).astype(np.int64),
        action_low=-np.ones(size, np.float32) if low is None else np.asarray(low, np.float32),
        action_high=np.ones(size, np.float32) if high is None else np.asarray(high, np.float32),
        name="recording",
    )


def sets_of(lists: Sequence[Sequence[int]]) -> ReachableSets:
    """Reachable sets from plain lists of rows."""
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.int64)
    indices = np.array([row for each in lists for row in sorted(each)], dtype=np.int64)
    return ReachableSets(indptr, indices, {}, {}, {})

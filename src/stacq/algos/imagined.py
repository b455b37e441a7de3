"""What RAMBO's model sees and imagines: the surroundings it is fitted in, steps of it, and rollouts into a pool."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stacq.algos.common import member_values
from stacq.algos.world import Batch, World, gather, scaled_actions
from stacq.core.errors import InputError
from stacq.core.types import Ints
from stacq.data.dataset import Dataset
from stacq.data.registry import task_of
from stacq.envs.termination import Ending, ending_of, ends, never
from stacq.nn.gaussian_ensemble import Gaussian, GaussianEnsemble, chosen_members, predicted
from stacq.nn.mlp import MLP
from stacq.nn.pool import Pool, below, put
from stacq.nn.squashed import mean_action, sampled_action
from stacq.policies import Space

HELD_OUT = 1000  # rows at most, and a tenth of all at most
SPLIT_SEED = 0


class Surroundings(NamedTuple):
    """What is computed once from the whole data, as arrays; every seed's model is fitted to the same rows."""

    training: Any  # [T] rows with a known successor
    held_out: Any  # [H] the others of these
    input_mean: Any  # [S + A] of states and actions as updates see them
    input_scale: Any  # [S + A]
    mean: Any  # [S] raw state = mean + scale * state
    scale: Any  # [S]
    ending: Ending  # of raw states


Act = Callable[[jax.Array, jax.Array], jax.Array]
"""(states [..., S], standard normals [..., A]) -> actions [..., A]"""


def surroundings(dataset: Dataset, space: Space, cfg: Any, say: Callable[[str], None]) -> Surroundings:
    del cfg
    training, held_out = split_rows(np.flatnonzero(dataset.successor_known), dataset.name)
    normaliser = space.normaliser
    inputs = np.concatenate([normaliser.apply(dataset.observations), scaled_actions(dataset)], axis=1)[training]
    deviation = inputs.std(axis=0, dtype=np.float64)
    return Surroundings(
        training=training,
        held_out=held_out,
        input_mean=inputs.mean(axis=0, dtype=np.float64).astype(np.float32),
        input_scale=np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32),
        mean=normaliser.mean,
        scale=normaliser.scale,
        ending=_ending(dataset, say),
    )


def split_rows(rows: Ints, name: str | None) -> tuple[Any, Any]:
    """Rows to fit the model on, and rows to judge it by; at least one of each."""
    order = np.random.default_rng(SPLIT_SEED).permutation(rows).astype(np.int32)
    if len(order) < 2:
        raise InputError(
            f"{len(order)} rows have a known successor",
            where=name or "dataset",
            expected="at least 2: a model is fitted on some and judged on others",
            fix="store next_observations, or keep whole episodes together",
        )
    count = min(max(len(order) // 10, 1), HELD_OUT)
    return order[count:], order[:count]


def _ending(dataset: Dataset, say: Callable[[str], None]) -> Ending:
    task = task_of(dataset.name or "")
    found = None if task is None else ending_of(task.key, dataset.observation_size)
    if found is None:
        say("note: where this task ends is not known; what the model imagines never ends")
        return never(dataset.observation_size)
    return found


def is_over(world: World, s_next: jax.Array) -> jax.Array:
    """Whether the task ends at normalised states [..., S], [...]."""
    near: Surroundings = world.prepared
    return jnp.asarray(ends(near.ending, near.mean + near.scale * s_next))


def model_inputs(world: World, s: jax.Array, a: jax.Array) -> jax.Array:
    """(s, a), standardised once more: actions have no deviation of 1, and states not with every preset."""
    near: Surroundings = world.prepared
    return jnp.asarray((jnp.concatenate([s, a], axis=-1) - near.input_mean) / near.input_scale)


def model_targets(batch: Batch) -> jax.Array:
    """(r, s' - s), what the model predicts, [..., 1 + S]."""
    return jnp.concatenate([batch.r[..., None], batch.s_next - batch.s], axis=-1)


def fitting_rows(world: World, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inputs and targets of some rows of the data."""
    batch = gather(world.rows, rows)
    return model_inputs(world, batch.s, batch.a), model_targets(batch)


def sample(gaussian: Gaussian, noise: jax.Array) -> jax.Array:
    return gaussian.mean + jnp.exp(gaussian.log_variance / 2) * noise


def sample_of_one(gaussian: Gaussian, which: jax.Array, noise: jax.Array) -> jax.Array:
    """A draw for every row from the member that `which` [B] names, [E, B, D] -> [B, D]."""
    return sample(Gaussian(*(jnp.take_along_axis(each, which[None, :, None], 0)[0] for each in gaussian)), noise)


def rollouts(
    pool: Pool, elites: GaussianEnsemble, act: Act, world: World, key: jax.Array, count: int, length: int
) -> Pool:
    """`length` imagined steps from `count` states of the data, put into the pool; a branch that ended is left out.

    Branches lie in one block per elite, so that no row is given to an elite that is not asked. Before every step the
    elites move on by a random number of blocks, the same for all: every single branch meets a random elite each time.
    """
    size, states, actions = elites.members, *widths(world)
    k_start, k_turn, k_steps = jax.random.split(key, 3)
    start = world.anchors[below(k_start, (size, block(count, size)), world.anchors.shape[0])]

    def step(now: tuple[jax.Array, jax.Array], given: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        (s, alive), (turn, key) = now, given
        noise = jax.random.normal(key, (*start.shape, actions + 1 + states))
        a = act(s, noise[..., :actions])
        turned = chosen_members(elites, (jnp.arange(size) + turn) % size)
        y = sample(predicted(turned, model_inputs(world, s, a)), noise[..., actions:])
        s_next = s + y[..., 1:]
        over = is_over(world, s_next)
        row = jnp.concatenate([s, a, y[..., :1], s_next, over[..., None]], axis=-1)
        return (s_next, alive & ~over), (row, alive)

    first = gather(world.rows, start).s, jnp.ones(start.shape, bool)
    given = below(k_turn, (length,), size), jax.random.split(k_steps, length)
    _, (rows, kept) = jax.lax.scan(step, first, given)
    return put(pool, rows.reshape(-1, rows.shape[-1]), kept.reshape(-1))


def widths(world: World) -> tuple[int, int]:
    """The lengths of a state and of an action."""
    state = world.rows.state
    return state, world.rows.table.shape[1] - 2 * state - 2


def block(count: int, members: int) -> int:
    """Branches per elite: `count` in all, rounded up to whole blocks."""
    return -(-count // members)


def drawn_actions(actor: MLP, s: jax.Array, noise: jax.Array) -> jax.Array:
    """Of the policy."""
    return sampled_action(actor, s, noise)[0]


def random_actions(s: jax.Array, noise: jax.Array) -> jax.Array:
    """Uniform in [-1, 1], wherever they are taken."""
    del s
    return 2 * jax.scipy.special.ndtr(noise) - 1


class Imagined(NamedTuple):
    """One step of the model from every state of a chain, as the adversary learns from it."""

    x: jax.Array  # [B, S + A], the model's inputs
    y: jax.Array  # [B, 1 + S], (r, s' - s) as drawn
    s_next: jax.Array  # [B, S]
    over: jax.Array  # [B]
    advantage: jax.Array  # [B]


def imagined_step(
    elites: GaussianEnsemble, actor: MLP, critic: MLP, s: jax.Array, world: World, key: jax.Array, discount: Any
) -> Imagined:
    """A step from states [B, S] with actions of the policy and a random elite each."""
    k_noise, k_elite = jax.random.split(key)
    states, actions = widths(world)
    noise = jax.random.normal(k_noise, (len(s), actions + 1 + states))
    a = drawn_actions(actor, s, noise[:, :actions])
    x = model_inputs(world, s, a)
    told = predicted(elites, jnp.broadcast_to(x, (elites.members, *x.shape)))
    y = sample_of_one(told, below(k_elite, (len(s),), elites.members), noise[:, actions:])
    s_next = s + y[:, 1:]
    over = is_over(world, s_next)
    q, after = (member_values(critic, *at).min(axis=0) for at in ((s, a), (s_next, mean_action(actor, s_next))))
    return Imagined(x, y, s_next, over, advantage(y[:, 0], over, after, q, discount))


def advantage(r: jax.Array, over: jax.Array, after: jax.Array, q: jax.Array, discount: Any) -> jax.Array:
    """r + gamma (1 - d) min_j Q_j(s', pi(s')) - min_j Q_j(s, a), then standardised over the batch, [B].

    Q(s, a) is the baseline: it lowers the variance of the gradient and does not move its mean.
    """
    raw = r + discount * (1 - over) * after - q
    return jnp.asarray((raw - raw.mean()) / (raw.std() + 1e-6))

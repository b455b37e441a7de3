"""The policy that plans: it draws windows into the future, pushes them to higher values and begins the best one.

A plan takes dozens of passes through two networks, far too long for NumPy. So this kind computes with JAX, loaded when
the first plan is made, and all episodes of an evaluation are planned together, by a `crew`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stacq.core.errors import InputError
from stacq.core.normaliser import Normaliser
from stacq.core.types import Bools, Float32s, Floats, Ints
from stacq.policies.networks import float32
from stacq.policies.policy import Crew, Policy, Space, space_of

if TYPE_CHECKING:
    import jax

WHERE = "a policy that plans"
NETWORKS = ("denoiser", "value")
LEAST = 8  # channels: the value network ends with a quarter of them
MOST = 1 << 24  # numbers of one decision's plans


@dataclass(frozen=True)
class Planning:
    """How plans are made: what shapes the compiled program."""

    channels: tuple[int, ...]
    attends: bool
    horizon: int
    plans: int  # for one decision
    noise_steps: int
    guide_steps: int
    guide_until: int
    warm_steps: int  # of noise on the plan of the decision before; from `noise_steps` on, every plan is noise at first
    limits: bool  # whether windows are scaled to [-1, 1], and denoised ones cut there
    goal: bool  # whether plans end at the goal


class Scales(NamedTuple):
    """Between normalised states and raw actions, and the numbers in windows; actions come first."""

    mean: Any  # [A + S]
    scale: Any  # [A + S]
    goal: Any  # [S], as in windows


@dataclass(frozen=True, eq=False)
class PlannerPolicy(Policy):
    """Two networks, and how plans are made with them."""

    planning: Planning
    scales: Scales
    guide_scale: float
    networks: Mapping[str, Float32s]  # "denoiser.down.0.first.time.bias" and so on
    kind: ClassVar[str] = "planner"
    together: ClassVar[bool] = True

    def act(self, seen: Float32s, rng: np.random.Generator | None) -> Float32s:
        """Without a generator the noise is that of seed 0. Nothing is remembered from one call to the next."""
        rng = np.random.default_rng(0) if rng is None else rng
        rows = np.atleast_2d(seen)
        crew = Planners([self], len(rows))
        found = crew.plan(np.arange(len(rows))[None], rows[None], _seeds(rng, len(rows))[None])
        actions: Float32s = found[0].reshape(*seen.shape[:-1], self.action_size)
        return actions

    @classmethod
    def crew(cls, policies: Sequence[Policy], episodes: int) -> Crew:
        """All episodes of all seeds at once: one compiled plan for each step of all of them."""
        return Planners([policy for policy in policies if isinstance(policy, PlannerPolicy)], episodes)

    def arrays(self) -> dict[str, Float32s]:
        return {**{f"scales.{name}": part for name, part in self.scales._asdict().items()}, **self.networks}

    def facts(self) -> dict[str, Any]:
        return {"planning": asdict(self.planning), "guide_scale": self.guide_scale}


class Planners:
    """Policies of several seeds in episodes that go on side by side; remembers each episode's last plan."""

    def __init__(self, policies: Sequence[PlannerPolicy], episodes: int) -> None:
        import jax

        self.policies, self.planning, self.space = policies, policies[0].planning, policies[0].space
        size = len(policies[0].scales.mean)
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *(_inputs(policy) for policy in policies))
        self.inputs = jax.device_put(stacked)
        self.plans = np.zeros((len(policies), episodes, self.planning.horizon, size), np.float32)
        self.warm = False

    def __call__(self, running: Bools, observations: Floats, rngs: Sequence[Sequence[np.random.Generator]]) -> Float32s:
        """Actions [K, E, A] for observations [K, E, S] of the episodes that go on; those of others mean nothing."""
        seats = _seats(running)
        lanes = np.arange(len(seats))[:, None]
        seeds = np.zeros((*seats.shape, 2), np.uint32)
        for lane, places in enumerate(seats):
            for column, place in enumerate(places[: running[lane].sum()]):
                seeds[lane, column] = _seeds(rngs[lane][place], 1)[0]
        actions = np.zeros((*running.shape, self.policies[0].action_size), np.float32)
        seen = self.space.normaliser.apply(observations[lanes, seats])
        actions[lanes, seats] = self.plan(seats, seen, seeds)
        return actions

    def plan(self, seats: Ints, seen: Float32s, seeds: Any) -> Float32s:
        """The first actions of the best plans, [K, E', A], for the episodes with these numbers, [K, E']."""
        lanes = np.arange(len(seats))[:, None]
        warm = self.warm and self.planning.warm_steps < self.planning.noise_steps
        found = np.asarray(_program(self.planning, warm)(self.inputs, seen, self.plans[lanes, seats], seeds))
        self.plans[lanes, seats], self.warm = found, True
        scales = np.stack([np.stack(policy.scales[:2]) for policy in self.policies])[:, :, None]  # [K, 2, 1, D]
        raw = (found[:, :, 0] * scales[:, 1] + scales[:, 0])[..., : self.policies[0].action_size]
        actions: Float32s = np.clip(raw, self.space.action_low, self.space.action_high)
        return actions


class _Inputs(NamedTuple):
    """What a program is given of one seed."""

    denoiser: Any
    value: Any
    scales: Scales
    guide_scale: Any


def _inputs(policy: PlannerPolicy) -> _Inputs:
    from stacq.nn.unet import from_names

    shapes = network_shapes(policy.planning, policy.action_size + policy.observation_size)
    denoiser, value = (from_names(shapes[name], _part(policy.networks, name)) for name in NETWORKS)
    return _Inputs(denoiser, value, policy.scales, np.float32(policy.guide_scale))


def network_shapes(planning: Planning, size: int) -> dict[str, Any]:
    """Of both networks, by name."""
    from stacq.nn.unet import unet_shapes, value_shapes

    denoiser = unet_shapes(size, planning.channels, attends=planning.attends)
    return {"denoiser": denoiser, "value": value_shapes(size, planning.channels, planning.horizon)}


def _part(arrays: Mapping[str, Float32s], name: str) -> dict[str, Float32s]:
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _seeds(rng: np.random.Generator, count: int) -> Any:
    return rng.integers(2**32, size=(count, 2), dtype=np.uint32)


def _seats(running: Bools) -> Ints:
    """The episodes of every seed that go on, [K, E'], and others behind them up to a common power of two.

    Each length is compiled once, so there are few of them; and episodes that have ended are soon planned no more.
    """
    most = int(running.sum(axis=1).max())
    room = min(1 << (most - 1).bit_length(), running.shape[1])
    return np.argsort(~running, axis=1, kind="stable")[:, :room].astype(np.int64)


@cache
def _program(planning: Planning, warm: bool) -> Any:
    """The best plans of all seeds: side by side on a GPU, one after the other on a CPU, whose cache fits one."""
    import jax

    one = partial(best_plans, planning, warm)
    if jax.default_backend() == "cpu":
        return jax.jit(lambda *given: jax.lax.map(lambda each: one(*each), given))
    return jax.jit(jax.vmap(one))


def best_plans(
    planning: Planning, warm: bool, inputs: _Inputs, seen: "jax.Array", before: "jax.Array", seeds: "jax.Array"
) -> "jax.Array":
    """For every state [E, S] the plan of greatest value, [E, H, D], of one seed; `before` are the last ones."""
    import jax
    import jax.numpy as jnp

    from stacq.nn import diffusion, unet

    episodes, size = seen.shape[0], inputs.scales.mean.shape[0]
    actions, shape = size - seen.shape[1], (planning.plans, planning.horizon, size)
    schedule = diffusion.cosine_schedule(planning.noise_steps)
    keys = jax.vmap(partial(jax.random.wrap_key_data, impl="threefry2x32"))(seeds)

    def noise(t: Any) -> jax.Array:
        drawn = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, t), shape))(keys)
        return drawn.reshape(-1, *shape[1:])

    def hold(x: jax.Array) -> jax.Array:
        return diffusion.held(x, known, diffusion.fixed_places(shape[1], actions, size, goal=planning.goal))

    def clean(x: jax.Array, t: jax.Array) -> jax.Array:
        found = unet.denoised(inputs.denoiser, x, t)
        return jnp.clip(found, -1, 1) if planning.limits else found

    known = jnp.zeros((episodes, *shape[1:])).at[:, -1, actions:].set(inputs.scales.goal)
    state = (seen - inputs.scales.mean[actions:]) / inputs.scales.scale[actions:]
    known = jnp.repeat(known.at[:, 0, actions:].set(state), planning.plans, axis=0)
    x, start = noise(planning.noise_steps), planning.warm_steps if warm else planning.noise_steps
    if warm:
        later = jnp.concatenate([before[:, 1:], before[:, -1:]], axis=1)
        x = diffusion.noised(schedule, jnp.repeat(later, planning.plans, axis=0), jnp.asarray(start - 1), x)
    guide = diffusion.Guide(
        partial(unet.judged, inputs.value), inputs.guide_scale, planning.guide_steps, planning.guide_until
    )
    plans, values = diffusion.undone(x, start, schedule, clean, guide, hold, noise)
    best = values.reshape(episodes, -1).argmax(axis=1)
    return plans.reshape(episodes, *shape)[jnp.arange(episodes), best]


def planner_policy(
    space: Space, planning: Planning, scales: Scales, guide_scale: float, networks: Mapping[str, Float32s]
) -> PlannerPolicy:
    """A policy from arrays, checked."""
    from stacq.nn.unet import names_of

    size = len(space.action_low) + len(space.normaliser.mean)
    shapes = network_shapes(planning, size)
    wanted = {f"{part}.{name}": leaf.shape for part in NETWORKS for name, leaf in names_of(shapes[part]).items()}
    lengths = (size, size, len(space.normaliser.mean))
    wanted |= {f"scales.{name}": (length,) for name, length in zip(Scales._fields, lengths, strict=True)}
    given = {**networks, **{f"scales.{name}": part for name, part in scales._asdict().items()}}
    wrong = sorted(name for name in {*wanted, *given} if name not in given or given[name].shape != wanted.get(name))
    broken = sorted(name for name, array in given.items() if not np.isfinite(array).all())
    if wrong or broken or not (scales.scale > 0).all():
        raise InputError(
            f"{(wrong or broken or ['scales.scale'])[0]} does not fit",
            where=WHERE,
            expected="finite arrays of the shapes that the settings ask for, and scales above 0",
            fix="save it again",
        )
    return PlannerPolicy(space, planning, scales, guide_scale, networks)


def from_file(
    arrays: Mapping[str, Float32s],
    facts: Mapping[str, Any],
    normaliser: Normaliser,
    bounds: tuple[ArrayLike, ArrayLike],
) -> PlannerPolicy:
    told = dict(facts["planning"])
    planning = Planning(**{**told, "channels": tuple(told["channels"])})
    check_planning(planning)
    scales = Scales(*(float32(arrays[f"scales.{name}"]) for name in Scales._fields))
    actions = len(scales.mean) - len(normaliser.mean)
    space = space_of(normaliser, bounds, len(normaliser.mean), actions, WHERE)
    networks = {name: float32(array) for name, array in arrays.items() if name.startswith(NETWORKS)}
    return planner_policy(space, planning, scales, float(facts["guide_scale"]), networks)


def check_planning(planning: Planning) -> None:
    """Refuse settings that no plan can be made with."""
    counts = (*planning.channels, planning.horizon, planning.plans, planning.noise_steps, planning.warm_steps)
    others = planning.guide_steps, planning.guide_until
    whole = all(isinstance(count, int) for count in (*counts, *others))
    if not planning.channels or not whole or min(counts) < 1 or min(others) < 0:
        raise InputError(
            f"{planning} cannot be", where=WHERE, expected="whole numbers from 1", fix="correct the setting"
        )
    halvings = len(planning.channels) - 1
    shortest = 2**halvings
    if planning.horizon * planning.plans * max(planning.channels) > MOST or planning.noise_steps > 10_000:
        raise InputError(
            f"{planning.plans} plans of {planning.horizon} steps, {planning.noise_steps} steps of noise",
            where=WHERE,
            expected=f"at most {MOST:,} numbers in a layer, and 10,000 steps of noise",
            fix="set fewer",
        )
    if planning.horizon % shortest:
        raise InputError(
            f"a horizon of {planning.horizon} steps",
            where=WHERE,
            expected=f"a multiple of {shortest}: {len(planning.channels)} channels halve it {halvings} times",
            fix="set another horizon, or fewer channels",
        )
    if min(planning.channels) < LEAST:
        raise InputError(
            f"channels {planning.channels}",
            where=WHERE,
            expected=f"at least {LEAST} everywhere",
            fix="set more channels",
        )

"""Diffuser (Janner et al. 2022): plans are drawn by undoing noise, and pushed to higher values on the way."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Metrics, Needs, Phase, Sizes, Variant
from stacq.algos.windows import Windows, make_windows
from stacq.algos.world import Batch, World
from stacq.nn.diffusion import cosine_schedule, fixed_places, held, noised
from stacq.nn.learner import Learner, descend, follow, new_learner
from stacq.nn.unet import UNet, ValueNet, denoised, filled, judged, names_of, unet_shapes, value_shapes
from stacq.policies import Policy, Space
from stacq.policies.planner import Planning, Scales, check_planning, planner_policy


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=1_000_000, metadata=STATIC)
    value_steps: int = field(default=200_000, metadata=STATIC)
    batch: int = field(default=64, metadata=STATIC)  # published as two gradients of 32 windows, averaged
    channels: tuple[int, ...] = field(default=(32, 64, 128, 256), metadata=STATIC)  # of the U-Net's levels
    attention: bool = field(default=False, metadata=STATIC)  # in the U-Net; the value network has none
    horizon: int = field(default=32, metadata=STATIC)  # H, steps of a window
    noise_steps: int = field(default=20, metadata=STATIC)  # T
    plans: int = field(default=64, metadata=STATIC)  # drawn for one decision
    guide_steps: int = field(default=2, metadata=STATIC)  # pushes per step of the noise
    guide_until: int = field(default=2, metadata=STATIC)  # no pushes below this step of the noise
    warm_steps: int = field(default=20, metadata=STATIC)  # of noise on the last plan; `noise_steps`: noise alone
    scaling: Literal["gaussian", "limits"] = field(default="gaussian", metadata=STATIC)
    goal: bool = field(default=False, metadata=STATIC)  # windows end at a known state, and plans where tasks ended
    fall_cost: float = field(default=100.0, metadata=STATIC)  # of the last reward where an episode ends the task
    return_discount: float = field(default=0.997, metadata=STATIC)  # of the returns that the value network learns
    guide_scale: float = 0.1
    action_weight: float = 10.0  # of the window's first action in the loss
    learning_rate: float = 2e-4
    ema_decay: float = 0.995
    ema_every: int = field(default=10, metadata=STATIC)
    ema_start: int = field(default=2_000, metadata=STATIC)  # copied until then


class Acting(NamedTuple):
    """What a policy must know of the settings: a state is all that it is made from."""

    limits: jax.Array
    goal: jax.Array
    horizon: jax.Array
    plans: jax.Array
    noise_steps: jax.Array
    guide_steps: jax.Array
    guide_until: jax.Array
    warm_steps: jax.Array
    guide_scale: jax.Array


class State(NamedTuple):
    denoiser: Learner[UNet]  # plans are made with the slow copies of both
    guide: Learner[ValueNet]
    scales: Scales  # of the data, known after the first update
    acting: Acting


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    check_planning(planning(cfg))
    k_denoiser, k_guide = jax.random.split(key)
    size, adam = sizes.action + sizes.state, optax.adam(cfg.learning_rate)
    denoiser = filled(k_denoiser, unet_shapes(size, cfg.channels, attends=cfg.attention))
    guide = filled(k_guide, value_shapes(size, cfg.channels, cfg.horizon))
    scales = Scales(jnp.zeros(size), jnp.ones(size), jnp.zeros(sizes.state))
    told = {"limits": cfg.scaling == "limits", **{name: getattr(cfg, name) for name in Acting._fields[1:]}}
    acting = Acting(**{name: jnp.asarray(value, jnp.float32) for name, value in told.items()})
    return State(new_learner(denoiser, adam), new_learner(guide, adam), scales, acting)


def planning(cfg: Config) -> Planning:
    counts = cfg.horizon, cfg.plans, cfg.noise_steps, cfg.guide_steps, cfg.guide_until, cfg.warm_steps
    return Planning(cfg.channels, cfg.attention, *counts, cfg.scaling == "limits", cfg.goal)


def prepared(dataset: Any, space: Space, cfg: Config, say: Any) -> Windows:
    check_planning(planning(cfg))
    return make_windows(
        dataset,
        space.normaliser,
        horizon=cfg.horizon,
        discount=cfg.return_discount,
        fall_cost=cfg.fall_cost,
        limits=cfg.scaling == "limits",
        stays=cfg.goal,
        say=say,
    )


class Noisy(NamedTuple):
    """What both networks learn from."""

    clean: jax.Array  # [B, H, A + S]
    x: jax.Array  # the same with noise, but for what is known
    t: jax.Array  # [B]
    returns: jax.Array  # [B]


def draw(world: World, key: jax.Array, cfg: Config) -> Noisy:
    """Windows anywhere in the data, with any amount of noise."""
    windows: Windows = world.prepared
    k_row, k_t, k_noise = jax.random.split(key, 3)
    row = windows.starts[jax.random.randint(k_row, (cfg.batch,), 0, windows.starts.shape[0])]
    clean = windows.at(row, cfg.horizon)
    t = jax.random.randint(k_t, (cfg.batch,), 0, cfg.noise_steps)
    noise = jax.random.normal(k_noise, clean.shape)
    x = noised(cosine_schedule(cfg.noise_steps), clean, t, noise)
    return Noisy(clean, held(x, clean, known(world, cfg)), t, windows.returns[row])


def known(world: World, cfg: Config) -> Any:
    """The places of a window that are never noisy, [H, A + S]."""
    size = world.prepared.table.shape[1]
    return fixed_places(cfg.horizon, size - world.rows.state, size, goal=cfg.goal)


def plan_loss(denoiser: UNet, noisy: Noisy, fixed: Any, cfg: Config) -> tuple[jax.Array, Metrics]:
    """Mean over everything of w (x_0 - f(x_t, t))^2, w = `action_weight` for the first action and 1 elsewhere."""
    predicted = held(denoised(denoiser, noisy.x, noisy.t), noisy.clean, fixed)
    error = (predicted - noisy.clean) ** 2
    actions = int((~fixed[0]).sum())  # the first step's free numbers
    weight = jnp.ones(fixed.shape).at[0, :actions].set(cfg.action_weight)
    loss = jnp.mean(weight * error)
    return loss, {"plan_loss": loss, "first_action_error": error[:, 0, :actions].mean()}


def value_loss(guide: ValueNet, noisy: Noisy) -> tuple[jax.Array, Metrics]:
    """Mean of (J(x_t, t) - R)^2, R the discounted return from the window's first step."""
    value = judged(guide, noisy.x, noisy.t)
    loss = jnp.mean((value - noisy.returns) ** 2)
    return loss, {"value_loss": loss, "plan_value": value.mean()}


def averaged(learner: Learner[Any], cfg: Config) -> Learner[Any]:
    """The slow copy after an update: moved every `ema_every` updates, and a plain copy in the first `ema_start`."""
    assert learner.moments is not None
    before = optax.tree.get(learner.moments, "count") - 1
    rate = jnp.where(before < cfg.ema_start, 1.0, 1.0 - cfg.ema_decay)
    return follow(learner, jnp.where(before % cfg.ema_every == 0, rate, 0.0))


def update_guide(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """The value network by itself. Windows are drawn here: not every row begins one."""
    del batch
    noisy = draw(world, key, cfg)
    guide, metrics = descend(state.guide, lambda net: value_loss(net, noisy), optax.adam(cfg.learning_rate))
    return state._replace(guide=averaged(guide, cfg), scales=world.prepared.scales), metrics


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del batch
    noisy, fixed = draw(world, key, cfg), known(world, cfg)
    adam = optax.adam(cfg.learning_rate)
    denoiser, metrics = descend(state.denoiser, lambda net: plan_loss(net, noisy, fixed, cfg), adam)
    return state._replace(denoiser=averaged(denoiser, cfg), scales=world.prepared.scales), metrics


def phases(cfg: Config) -> tuple[Phase, ...]:
    """The guide first: it learns from the data alone, and plans can be scored as soon as there are any."""
    return Phase(cfg.value_steps, (update_guide,), acts=False), Phase(cfg.steps, (update,))


def kept(state: State) -> State:
    """The slow copies alone."""
    slow = [Learner(None, learner.target, None) for learner in (state.denoiser, state.guide)]
    return State(slow[0], slow[1], state.scales, state.acting)  # type: ignore[arg-type]


def policy(state: State, space: Space) -> Policy:
    denoiser, guide, told = state.denoiser.target, state.guide.target, state.acting
    assert denoiser is not None and guide is not None
    counts = {name: round(float(value)) for name, value in told._asdict().items() if name != "guide_scale"}
    shape = Planning(
        channels=tuple(int(level.first.second.norm.gain.shape[0]) for level in denoiser.down),
        attends=denoiser.middle.attention is not None,
        limits=bool(counts.pop("limits")),
        goal=bool(counts.pop("goal")),
        **counts,
    )
    parts = {"denoiser": denoiser, "value": guide}
    arrays = {f"{part}.{name}": np.asarray(leaf) for part, net in parts.items() for name, leaf in names_of(net).items()}
    scales = Scales(*(np.asarray(part) for part in state.scales))
    return planner_policy(space, shape, scales, float(told.guide_scale), arrays)


ALGORITHM = Algorithm(
    name="diffuser",
    title="Diffuser",
    about="draws plans by undoing noise, pushed to higher values on the way",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    kept=kept,
    needs=Needs(successors=False, prepared=prepared),
    published={
        "halfcheetah": {
            "horizon": 4,
            "channels": (32, 128, 256),
            "attention": True,
            "guide_scale": 0.001,
            "guide_until": 4,
        },
        "hopper-medium-expert": {"guide_scale": 0.0001, "guide_until": 4},
        "antmaze": {"fall_cost": 0.0},  # these tasks end at the goal
        "pointmaze": {"fall_cost": 0.0},
    },
    variants={
        "paper": PAPER,
        "warm": Variant(
            "plans begin with the last one, half noisy",
            {"warm_steps": 10},
            small={"warm_steps": 3},
            by_family={"plane-maze": {"warm_steps": 3}},
        ),
        "goal": Variant(
            "plans end where tasks ended, without a guide",
            {"goal": True, "guide_scale": 0.0, "scaling": "limits", "fall_cost": 0.0},
        ),
    },
    small={
        "steps": 30_000,
        "value_steps": 10_000,
        "batch": 32,
        "channels": (16, 32, 64),
        "horizon": 16,
        "noise_steps": 10,
        "plans": 8,
        "guide_steps": 1,
        "warm_steps": 3,
    },
    maze={
        "steps": 10_000,
        "value_steps": 4_000,
        "batch": 32,
        "channels": (16, 32),
        "horizon": 16,
        "noise_steps": 10,
        "plans": 16,
        "scaling": "limits",
        "fall_cost": 0.0,
        "return_discount": 0.99,
        "guide_scale": 10.0,
        "learning_rate": 1e-3,
    },
    evaluations=5,
    counts=("value_steps", "steps"),
)

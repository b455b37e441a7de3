"""MBTS (Hepburn and Montana, 2022): trajectories are stitched into better ones, and what comes out is cloned.

The work is done before the training, by `stacq.stitch`: it writes new data, which anything else can be trained on too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import optax

from stacq.algos import bc
from stacq.algos.algorithm import PAPER, STATIC, Algorithm, Metrics, Needs, Phase, Settings, Shown, Sizes, Variant
from stacq.algos.bc import State
from stacq.algos.world import Batch, World
from stacq.data.dataset import Dataset
from stacq.data.registry import task_of
from stacq.nn.learner import descend
from stacq.nn.mlp import MLP
from stacq.stitch.config import ForwardConfig, InverseConfig, RewardConfig, StitchConfig, ValueConfig
from stacq.stitch.stages import stitched


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=101_000, metadata=STATIC)
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    learning_rate: float = 1e-3
    iterations: int = field(default=5, metadata=STATIC)  # of stitching
    radius: float = field(default=0.0, metadata=STATIC)  # between raw states; 0: half a median step of the data
    between_only: bool = field(default=False, metadata=STATIC)  # whether a stitch must lead to another episode
    least_gain: float = field(default=0.1, metadata=STATIC)  # a new episode's return, in shares of the old one's size
    data_seed: int = field(default=1, metadata=STATIC)  # of everything before the cloning
    forward_members: int = field(default=7, metadata=STATIC)
    forward_elites: int = field(default=5, metadata=STATIC)
    forward_hidden: tuple[int, ...] = field(default=(200, 200, 200, 200), metadata=STATIC)
    forward_epochs: int = field(default=1000, metadata=STATIC)  # at most
    forward_patience: int = field(default=50, metadata=STATIC)  # epochs without a better one before a member stops
    forward_rate: float = field(default=3e-4, metadata=STATIC)
    value_fit_steps: int = field(default=1_000_000, metadata=STATIC)  # in every iteration
    value_hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    value_rate: float = field(default=3e-4, metadata=STATIC)
    discount: float = field(default=0.99, metadata=STATIC)
    tau: float = field(default=0.005, metadata=STATIC)
    inverse_fit_steps: int = field(default=400_000, metadata=STATIC)
    inverse_width: int = field(default=750, metadata=STATIC)  # of both layers, from 900,000 rows on
    inverse_narrow: int = field(default=128, metadata=STATIC)  # with fewer rows
    inverse_rate: float = field(default=1e-4, metadata=STATIC)
    reward_fit_steps: int = field(default=500_000, metadata=STATIC)
    reward_hidden: tuple[int, ...] = field(default=(512, 512), metadata=STATIC)
    reward_rate: float = field(default=1e-4, metadata=STATIC)


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    return bc.init(key, sizes, bc.Config(hidden=cfg.hidden, learning_rate=cfg.learning_rate))


def cloning_loss(actor: MLP, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Behaviour cloning's, on stitched rows: mean over batch and dimensions of (pi(s) - a)^2."""
    return bc.actor_loss(actor, batch)


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del world, key
    actor, metrics = descend(state.actor, lambda actor: cloning_loss(actor, batch), optax.adam(cfg.learning_rate))
    return State(actor), metrics


def phases(cfg: Config) -> tuple[Phase, ...]:
    return (Phase(cfg.steps, (update,)),)


def stitching(dataset: Dataset, cfg: Config) -> StitchConfig:
    """What the data is stitched with; an episode is as long at most as the task, or the data, knows them."""
    task = task_of(dataset.name)
    return StitchConfig(
        iterations=cfg.iterations,
        radius=cfg.radius,
        between_only=cfg.between_only,
        least_gain=cfg.least_gain,
        limit=int(dataset.lengths.max()) if task is None else task.max_episode_steps,
        seed=cfg.data_seed,
        forward=ForwardConfig(
            cfg.forward_members,
            cfg.forward_elites,
            cfg.forward_hidden,
            cfg.forward_rate,
            cfg.forward_epochs,
            cfg.forward_patience,
        ),
        value=ValueConfig(cfg.value_fit_steps, cfg.value_hidden, cfg.value_rate, cfg.discount, cfg.tau),
        inverse=InverseConfig(cfg.inverse_fit_steps, cfg.inverse_width, cfg.inverse_narrow, cfg.inverse_rate),
        reward=RewardConfig(cfg.reward_fit_steps, cfg.reward_hidden, cfg.reward_rate),
    )


def stitched_data(dataset: Dataset, cfg: Config, say: Callable[[str], None]) -> Dataset:
    """The data after all iterations."""
    return stitched(dataset, stitching(dataset, cfg), say)


PUBLISHED: dict[str, Settings] = {
    "hopper": {"radius": 0.1},
    "walker2d": {"radius": 1.0},
    "halfcheetah": {"radius": 3.0},
}
SMALL: Settings = {
    "steps": 20_000,
    "hidden": (128, 128),
    "forward_members": 3,
    "forward_elites": 2,
    "forward_hidden": (128, 128),
    "forward_epochs": 25,
    "forward_patience": 5,
    "forward_rate": 1e-3,
    "value_fit_steps": 15_000,
    "value_hidden": (64, 64),
    "value_rate": 1e-3,
    "inverse_fit_steps": 15_000,
    "inverse_width": 128,
    "inverse_rate": 1e-3,
    "reward_fit_steps": 15_000,
    "reward_hidden": (128, 128),
    "reward_rate": 1e-3,
}
ALGORITHM = Algorithm(
    name="mbts",
    title="MBTS",
    about="trajectories stitched into better ones by models of the data, then cloned",
    Config=Config,
    init=init,
    phases=phases,
    policy=bc.policy,
    needs=Needs(successors=False, data=stitched_data),
    shown={"locomotion": Shown(normalise=False), "antmaze": Shown(normalise=False, reward_shift=-1.0)},
    published=PUBLISHED,
    variants={
        "paper": PAPER,
        "between-episodes": Variant("no stitches within an episode, which may circle", {"between_only": True}),
    },
    small=SMALL,
    maze={**SMALL, "steps": 5_000, "batch": 128, "hidden": (64, 64), "value_fit_steps": 5_000, "radius": 0.3},
)

"""RAMBO (Rigter, Lacerda and Hawes, 2022): a policy and a model of the task, the one against the other.

The model is learned from the data, and the policy from the data and from what the model imagines. Meanwhile the model
is moved to where the policy's value is less, as far as the data's likelihood lets it.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stacq.algos.algorithm import STATIC, Algorithm, Metrics, Needs, Phase, Settings, Shown, Sizes
from stacq.algos.common import member_values, tanh_policy
from stacq.algos.ensemble_fit import Fit, best_first, likelihood_step, new_fit
from stacq.algos.imagined import (
    Imagined,
    block,
    drawn_actions,
    fitting_rows,
    imagined_step,
    random_actions,
    rollouts,
    surroundings,
)
from stacq.algos.soft import actor_loss, clone_loss, critic_loss, glorot, soft_target, temperature_loss
from stacq.algos.world import Batch, World
from stacq.nn.gaussian_ensemble import (
    GaussianEnsemble,
    chosen_members,
    init_gaussian_ensemble,
    likelihood_loss,
    log_mixture,
    predicted,
)
from stacq.nn.lanes import when
from stacq.nn.learner import Learner, descend, follow, new_learner, stripped
from stacq.nn.mlp import MLP, init_ensemble, init_mlp
from stacq.nn.pool import Pool, below, draw, empty_pool
from stacq.nn.squashed import mean_action, mean_network
from stacq.policies import Policy, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    steps: int = field(default=2_000_000, metadata=STATIC)  # of agent and adversary
    model_steps: int = field(default=400_000, metadata=STATIC)  # at most; they end early where nothing improves
    clone_steps: int = field(default=195_000, metadata=STATIC)
    clone: bool = field(default=True, metadata=STATIC)  # begin with a policy that is cloned from the data
    batch: int = field(default=256, metadata=STATIC)
    hidden: tuple[int, ...] = field(default=(256, 256), metadata=STATIC)
    critics: int = field(default=2, metadata=STATIC)
    layer_norm: bool = field(default=False, metadata=STATIC)  # in the critics
    model_hidden: tuple[int, ...] = field(default=(200, 200, 200, 200), metadata=STATIC)
    members: int = field(default=7, metadata=STATIC)
    elites: int = field(default=5, metadata=STATIC)  # members that are used, the best on held-out rows
    patience: int = field(default=10, metadata=STATIC)  # epochs without a better member
    rollouts: int = field(default=50_000, metadata=STATIC)  # branches at a time
    rollout_every: int = field(default=1_000, metadata=STATIC)  # steps
    rollout_length: int = field(default=5, metadata=STATIC)
    rounds_kept: int = field(default=5, metadata=STATIC)  # of rollouts, in the pool
    random_rollouts: bool = field(default=False, metadata=STATIC)  # by uniform actions instead of the policy's
    real_ratio: float = field(default=0.5, metadata=STATIC)  # of a batch: rows of the data, the others imagined
    tune_entropy: bool = field(default=True, metadata=STATIC)  # else its weight stays
    entropy_weight: float = 1.0  # to begin with
    adversary: float = 3e-4  # lambda, the weight of the value against the likelihood; at 0 the model stays
    discount: float = 0.99
    tau: float = 0.005
    learning_rate: float = 3e-4  # of critics and model
    actor_rate: float = 1e-4  # of policy and entropy weight


class Chain(NamedTuple):
    """The states that the adversary goes on from."""

    s: jax.Array  # [B, S]
    age: jax.Array  # [B] imagined steps since a state of the data; at 0 a new one is taken


class State(NamedTuple):
    model: Learner[GaussianEnsemble]  # `target`: the best of every member so far; the elites first once it is fitted
    fit: Fit
    actor: Learner[MLP]  # mean and log deviation
    critic: Learner[MLP]  # [M, ...]
    temperature: Learner[jax.Array]  # log alpha, the logarithm of the weight of the entropy
    pool: Pool
    chain: Chain
    clock: jax.Array  # steps of the agent


def init(key: jax.Array, sizes: Sizes, cfg: Config) -> State:
    k_model, k_actor, k_critic = jax.random.split(key, 3)
    s, a = sizes
    model = init_gaussian_ensemble(k_model, cfg.members, s + a, cfg.model_hidden, 1 + s)
    actor = glorot(init_mlp(k_actor, (s, *cfg.hidden, 2 * a)))
    critic = glorot(init_ensemble(k_critic, cfg.critics, (s + a, *cfg.hidden, 1), layer_norm=cfg.layer_norm))
    slow, fast = optax.adam(cfg.actor_rate), optax.adam(cfg.learning_rate)
    zero = jnp.asarray(0, jnp.int32)
    capacity = cfg.rounds_kept * cfg.rollout_length * cfg.elites * block(cfg.rollouts, cfg.elites)
    return State(
        model=new_learner(model, fast),
        fit=new_fit(cfg.members),
        actor=new_learner(actor, slow, target=False),
        critic=new_learner(critic, fast),
        temperature=new_learner(jnp.log(jnp.asarray(cfg.entropy_weight, jnp.float32)), slow, target=False),
        pool=empty_pool(capacity, 2 * s + a + 2),
        chain=Chain(jnp.zeros((cfg.batch, s)), jnp.zeros(cfg.batch, jnp.int32)),
        clock=zero,
    )


def fit_model(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """A step of maximum likelihood, until no member has improved for too many epochs; the last step settles."""
    del batch
    fit = state.fit._replace(steps=state.fit.steps + 1)
    now = when(fit.stale <= cfg.patience, likelihood_step, (state.model, fit), world, key, cfg)
    model, fit = when(fit.steps == cfg.model_steps, best_first, now, cfg)
    return state._replace(model=model, fit=fit), {"model_loss": fit.loss, "model_error": fit.error.mean()}


def elites_of(model: GaussianEnsemble, cfg: Config) -> GaussianEnsemble:
    return chosen_members(model, slice(0, cfg.elites))


def clone(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    del world, key
    actor, metrics = descend(state.actor, lambda net: clone_loss(net, batch), optax.adam(cfg.actor_rate))
    return state._replace(actor=actor), metrics


def _roll_out(pool: Pool, model: GaussianEnsemble, actor: MLP, world: World, key: jax.Array, cfg: Config) -> Pool:
    act = random_actions if cfg.random_rollouts else partial(drawn_actions, actor)
    return rollouts(pool, elites_of(model, cfg), act, world, key, cfg.rollouts, cfg.rollout_length)


def mixed(batch: Batch, pool: Pool, world: World, key: jax.Array, cfg: Config) -> Batch:
    """`real_ratio` of the batch as it is, in place of the rest imagined rows; these have the row number -1."""
    real = round(cfg.batch * cfg.real_ratio)
    rows = draw(pool, key, cfg.batch - real)
    made = Batch(jnp.full(cfg.batch - real, -1, batch.row.dtype), *world.rows.split(rows))
    return Batch(*(jnp.concatenate([own[:real], other]) for own, other in zip(batch, made, strict=True)))


def update_agent(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """Now and then rollouts; a step of critics, policy and entropy weight; the slow critics moved."""
    k_roll, k_mix, k_noise = jax.random.split(key, 3)
    noise = jax.random.normal(k_noise, (2, *batch.a.shape))
    due = state.clock % cfg.rollout_every == 0
    pool = when(due, _roll_out, state.pool, state.model.network, state.actor.network, world, k_roll, cfg)
    batch = mixed(batch, pool, world, k_mix, cfg)
    fast, slow = optax.adam(cfg.learning_rate), optax.adam(cfg.actor_rate)
    assert state.critic.target is not None
    log_alpha = state.temperature.network
    y = soft_target(state.critic.target, state.actor.network, log_alpha, batch, noise[0], cfg.discount)
    critic, metrics = descend(state.critic, lambda net: critic_loss(net, batch, y), fast)
    actor, more = descend(state.actor, lambda net: actor_loss(net, critic.network, log_alpha, batch, noise[1]), slow)
    temperature, last = descend(
        state.temperature, lambda weight: temperature_loss(weight, more["entropy"], batch.a.shape[-1]), slow
    )
    state = state._replace(
        actor=actor,
        critic=follow(critic, cfg.tau),
        temperature=temperature if cfg.tune_entropy else state.temperature,
        pool=pool,
        clock=state.clock + 1,
    )
    return state, metrics | more | last


def adversarial_loss(
    model: GaussianEnsemble, step: Imagined, x: jax.Array, y: jax.Array, cfg: Config
) -> tuple[jax.Array, Metrics]:
    """lambda mean A log p(r, s' | s, a) + the loss of the likelihood on rows x, y of the data.

    p is the mean density of the elites. A step that promises more than Q becomes less likely. Where lambda is 0 for a
    seed, nothing moves its model.
    """
    elites = elites_of(model, cfg)
    density = log_mixture(predicted(elites, jnp.broadcast_to(step.x, (cfg.elites, *step.x.shape))), step.y)
    against, likelihood = jnp.mean(step.advantage * density), likelihood_loss(model, x, y)
    loss = jnp.where(cfg.adversary > 0, cfg.adversary * against + likelihood, 0.0)
    return loss, {"against": against, "likelihood_loss": likelihood}


def update(state: State, batch: Batch, world: World, key: jax.Array, cfg: Config) -> tuple[State, Metrics]:
    """A step of the agent, then one of the adversary."""
    k_agent, k_step, k_rows = jax.random.split(key, 3)
    fresh = batch.s
    state, metrics = update_agent(state, batch, world, k_agent, cfg)
    s = jnp.where((state.chain.age == 0)[:, None], fresh, state.chain.s)
    elites, actor, critic = elites_of(state.model.network, cfg), state.actor.network, state.critic.network
    step = imagined_step(elites, actor, critic, s, world, k_step, cfg.discount)
    training = world.prepared.training
    x, y = fitting_rows(world, training[below(k_rows, (cfg.members, cfg.batch), len(training))])
    model, more = descend(
        state.model, lambda net: adversarial_loss(net, step, x, y, cfg), optax.adam(cfg.learning_rate)
    )
    age = jnp.where(step.over | (state.chain.age + 1 >= cfg.rollout_length), 0, state.chain.age + 1)
    return state._replace(model=model, chain=Chain(step.s_next, age)), metrics | more


def phases(cfg: Config) -> tuple[Phase, ...]:
    """The model; the cloned policy; both, or the agent alone where the adversary has no weight. The last is scored."""
    fitted = Phase(cfg.model_steps, (fit_model,), acts=False)
    cloned = (Phase(cfg.clone_steps, (clone,), acts=False),) if cfg.clone else ()
    last = update if np.any(np.asarray(cfg.adversary) > 0) else update_agent
    return (fitted, *cloned, Phase(cfg.steps, (last,)))


def policy(state: State, space: Space) -> Policy:
    """tanh of the mean: it acts without chance."""
    return tanh_policy(mean_network(state.actor.network), space)


def kept(state: State) -> State:
    """Policy and critics. Model and pool are large, and nobody is judged by them."""
    unread = ("model", "fit", "temperature", "pool", "chain", "clock")
    bare: State = stripped(state._replace(**dict.fromkeys(unread)))  # type: ignore[arg-type]
    return bare


def value(state: State, s: jax.Array, world: World, cfg: Config) -> jax.Array:
    """The value the critics give to acting by the policy's mean from s."""
    del world, cfg
    return member_values(state.critic.network, s, mean_action(state.actor.network, s)).min(axis=0)


# The settings of the authors' code. Cloning takes 50 passes over the data, whose size is the dataset's.
PUBLISHED: dict[str, Settings] = {
    "walker2d": {"adversary": 0.0},
    "hopper-random": {"rollout_length": 2},
    "hopper-medium-replay": {"rollout_length": 2, "clone_steps": 78_000},
    "hopper-medium-expert": {"clone_steps": 390_000},
    "walker2d-medium-replay": {"clone_steps": 59_000},
    "walker2d-medium-expert": {"rollout_length": 2, "adversary": 3e-4, "clone_steps": 390_000},
    "halfcheetah-random": {"adversary": 0.0},
    "halfcheetah-medium-replay": {"clone_steps": 39_000},
    "halfcheetah-medium-expert": {"clone_steps": 390_000},
    "antmaze": {"adversary": 0.0, "clone": False, "random_rollouts": True},
    "antmaze-umaze": {"adversary": 3e-4, "random_rollouts": False},
    "antmaze-umaze-diverse": {"adversary": 0.0, "random_rollouts": True},
    "antmaze-large-play": {"adversary": 3e-4},
}
SMALL: Settings = {
    "steps": 50_000,
    "model_steps": 20_000,
    "clone_steps": 10_000,
    "batch": 128,
    "hidden": (128, 128),
    "model_hidden": (128, 128),
    "members": 5,
    "elites": 3,
    "layer_norm": True,
    "rollouts": 500,
    "rollout_every": 100,
    "rounds_kept": 10,
    "entropy_weight": 0.02,
}
MAZE: Settings = {
    **SMALL,
    "steps": 10_000,
    "model_steps": 5_000,
    "clone_steps": 2_000,
    "hidden": (64, 64),
    "model_hidden": (64, 64),
    "rollouts": 200,
    "rollout_every": 50,
    "tau": 0.05,
    "learning_rate": 1e-3,
    "actor_rate": 1e-3,
    "entropy_weight": 0.05,
}
ALGORITHM = Algorithm(
    name="rambo",
    title="RAMBO",
    about="a policy learned from the data and from a model that is moved against it",
    Config=Config,
    init=init,
    phases=phases,
    policy=policy,
    value=value,
    kept=kept,
    needs=Needs(prepared=surroundings),
    shown=dict.fromkeys(("antmaze", "pointmaze"), Shown(reward_shift=-1.0)),
    published=PUBLISHED,
    small=SMALL,
    maze=MAZE,
    counts=("model_steps", "clone_steps", "steps"),
    calmed_by=("learning_rate", "actor_rate"),
)

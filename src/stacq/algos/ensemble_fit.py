"""RAMBO's model before the policy learns: fitted by likelihood, judged on rows held out, its best members kept."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from stacq.algos.algorithm import Metrics
from stacq.algos.imagined import fitting_rows
from stacq.algos.world import World
from stacq.nn.gaussian_ensemble import GaussianEnsemble, chosen_members, likelihood_loss, squared_errors
from stacq.nn.lanes import when
from stacq.nn.learner import Learner, descend, new_learner
from stacq.nn.pool import below

BETTER = 0.99  # a member's error must fall below this share of its best to count as better
UNJUDGED = 1e30  # an error before there is one: finite, as every number of a state


class Fit(NamedTuple):
    """How far the fitting of the model is."""

    steps: jax.Array
    stale: jax.Array  # epochs since any member was better
    error: jax.Array  # [M], the least of every member on the rows held out
    loss: jax.Array  # of the last step


def new_fit(members: int) -> Fit:
    zero = jnp.asarray(0, jnp.int32)
    return Fit(zero, zero, jnp.full(members, UNJUDGED, jnp.float32), jnp.asarray(0.0, jnp.float32))


Fitting = tuple[Learner[GaussianEnsemble], Fit]


def likelihood_step(now: Fitting, world: World, key: jax.Array, cfg: Any) -> Fitting:
    model, fit = now
    training = world.prepared.training.shape[0]
    rows = bootstrap_rows(key, fit.error.shape[0], cfg.batch, training)
    x, y = fitting_rows(world, world.prepared.training[rows])
    adam = optax.adam(cfg.learning_rate)
    model, told = descend(model, lambda net: _with_loss(likelihood_loss(net, x, y)), adam)
    epoch = max(training // cfg.batch, 1)
    due = ((fit.steps - 1) % epoch == 0) | (fit.steps == cfg.model_steps)
    return when(due, _judge, (model, fit._replace(loss=told["loss"])), world)


def _with_loss(loss: jax.Array) -> tuple[jax.Array, Metrics]:
    return loss, {"loss": loss}


def bootstrap_rows(key: jax.Array, members: int, count: int, total: int) -> jax.Array:
    """Places in every member's own resample of `total` rows, [M, B], as rows; resamples are the same for all seeds.

    A resample is not stored: its row at a place is the draw of the place's own key.
    """

    places = below(key, (members, count), total)
    owns = jax.vmap(lambda member: jax.random.fold_in(jax.random.key(0), member))(jnp.arange(members))
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)))(owns, places)
    return jax.vmap(jax.vmap(lambda each: below(each, (), total)))(keys)


def _judge(now: Fitting, world: World) -> Fitting:
    """Keep the members that are better on the rows held out than they ever were."""
    model, fit = now
    error = squared_errors(model.network, *fitting_rows(world, world.prepared.held_out))
    better = error < BETTER * fit.error
    best = best_members(better, model.network, model.target)
    stale = jnp.where(better.any(), 0, fit.stale + 1)
    return model._replace(target=best), fit._replace(stale=stale, error=jnp.where(better, error, fit.error))


def best_members(better: jax.Array, now: GaussianEnsemble, best: GaussianEnsemble | None) -> GaussianEnsemble:
    """The members that are better from `now`, the others from `best`; the bounds, which all share, are today's."""
    assert best is not None
    pick = lambda new, old: jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)  # noqa: E731
    weights, biases = jax.tree.map(pick, (now.weights, now.biases), (best.weights, best.biases))
    return now._replace(weights=weights, biases=biases)


def best_first(now: Fitting, cfg: Any) -> Fitting:
    """The best of every member, the elites first; the adversary begins with moments of its own."""
    model, fit = now
    assert model.target is not None
    order = jnp.argsort(fit.error)
    best = chosen_members(model.target, order)
    return new_learner(best, optax.adam(cfg.learning_rate)), fit._replace(error=fit.error[order])

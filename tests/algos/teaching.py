"""Who learns from whom: which networks the gradient of each network depends on, found by changing them one by one."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from algo_cases import batch_of, small_world

from stacq.nn.learner import Learner

ROWS = (0, 4, 6, 8, 9, 4)


def same(ours: Any, theirs: Any) -> bool:
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def strange(network: Any, rng: np.random.Generator) -> Any:
    """Other numbers of the same shapes."""
    return jax.tree.map(lambda each: jnp.asarray(rng.normal(0, 0.7, each.shape), jnp.float32), network)


def strange_state(state: Any, rng: np.random.Generator) -> Any:
    """Networks and slow copies that have nothing in common; what is no network stays."""
    return type(state)(
        **{
            whose: each._replace(
                network=strange(each.network, rng), target=None if each.target is None else strange(each.target, rng)
            )
            if isinstance(each, Learner)
            else each
            for whose, each in state._asdict().items()
        }
    )


def first_moments(moments: Any) -> list[Any]:
    """Adam's running mean of gradients, wherever in a chain of transformations it is."""
    nodes = jax.tree.leaves(moments, is_leaf=lambda node: hasattr(node, "mu"))
    return [leaf for node in nodes if hasattr(node, "mu") for leaf in jax.tree.leaves(node.mu)]


def gradients_of(update: Any, cfg: Any, state: Any, world: Any = None, rows: tuple[int, ...] = ROWS) -> dict[str, Any]:
    """What Adam saw of each network in one update from a fresh start: a tenth of its gradient."""
    world = small_world(sizes=[3] * 12) if world is None else world
    done, _ = jax.jit(update)(state, batch_of(world, rows), world, jax.random.key(7), cfg)
    learners = {whose: each for whose, each in done._asdict().items() if isinstance(each, Learner)}
    return {whose: first_moments(learner.moments) for whose, learner in learners.items()}


def taught_by(update: Any, cfg: Any, state: Any, world: Any = None) -> dict[str, set[str]]:
    """Of every learner of a state: the networks and slow copies that its gradient depends on, as "critic.target".

    `state` is one seed's, of `init`. Where an update moves one network before another learns from it, that counts for
    the one that moved: with `learning_rate=0` in `cfg` nothing moves.
    """
    rng = np.random.default_rng(5)
    state = strange_state(state, rng)
    before = gradients_of(update, cfg, state, world)
    depends: dict[str, set[str]] = {whose: set() for whose in before}
    for whose, learner in state._asdict().items():
        for part in ("network", "target") if isinstance(learner, Learner) else ():
            if getattr(learner, part) is not None:
                other = learner._replace(**{part: strange(getattr(learner, part), rng)})
                after = gradients_of(update, cfg, state._replace(**{whose: other}), world)
                for each in before:
                    if not same(before[each], after[each]):
                        depends[each].add(f"{whose}.{part}")
    return depends


def taught_by_moved(update: Any, cfg: Any, state: Any, world: Any = None, rate: float = 0.05) -> set[str]:
    """The learners whose gradient is taken at networks that others have just moved in the same update."""
    state = strange_state(state, np.random.default_rng(5))
    still, moved = (gradients_of(update, replace(cfg, learning_rate=each), state, world) for each in (0.0, rate))
    return {each for each in still if not same(still[each], moved[each])}

"""What every algorithm of the package promises, whatever it learns."""

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from teaching import same
from training_cases import made_task, options

from stacq import algos
from stacq.algos.world import draw_rows, gather
from stacq.policies import Policy
from stacq.training.evaluations import policies_of
from stacq.training.loop import Carry, advance, init_states, zero_sums
from stacq.training.task import Task

ROOT = Path(__file__).parents[2]
TURNS = 5
ADVANCE = jax.jit(advance, static_argnames="updates")
every = pytest.mark.parametrize("name", algos.BUILT_IN)


@cache
def task(name: str) -> Task:
    return made_task(options(name))


@cache
def trained(name: str, seeds: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """Every seed's state after chunks of so many turns in every phase, and the sums of all metrics."""
    made, numbers = task(name), jnp.asarray(seeds)
    state = init_states(made.algorithm, numbers, made.sizes, made.config)
    sums, step = dict[str, Any](), jnp.asarray(0, jnp.int32)
    for phase in made.phases:
        carry = Carry(state, zero_sums(phase.updates, state, made.world, numbers, made.config), step)
        for count in chunks:
            carry = ADVANCE(carry, made.world, numbers, made.config, updates=phase.updates, turns=count)
        state, sums, step = carry.state, {**sums, **carry.sums}, carry.step
    return state, sums


def of_seed(tree: Any, place: int) -> Any:
    return jax.tree.map(lambda each: np.asarray(each)[place], tree)


def policies(name: str, state: Any) -> list[Policy]:
    return policies_of(task(name).algorithm, jax.device_get(state), range(2), task(name).space)


@every
def test_a_run_is_decided_by_its_seed_alone(name: str) -> None:
    """Bit for bit: however it is cut into chunks, and whoever its companions are; every number stays finite."""
    ours = trained(name, (3, 5), (TURNS,))
    assert all(np.isfinite(each).all() for each in jax.tree.leaves(ours))
    assert same(ours, trained(name, (3, 5), (2, TURNS - 2)))
    assert same(of_seed(ours, 1), of_seed(trained(name, (5, 8), (TURNS,)), 0))
    assert not same(of_seed(ours[0], 0), of_seed(ours[0], 1))


@every
def test_updates_keep_shapes_and_types(name: str) -> None:
    """Nothing is computed: the state keeps every shape and type, metrics are single float32 numbers, values too."""
    made, key = task(name), jax.random.key(0)
    state = jax.eval_shape(lambda key: made.algorithm.init(key, made.sizes, made.config), key)
    batch = jax.eval_shape(lambda: gather(made.world.rows, draw_rows(made.world, key, made.config.batch)))
    for update in (each for phase in made.phases for each in phase.updates):
        after, metrics = jax.eval_shape(update, state, batch, made.world, key, made.config)
        assert jax.tree.map(form, after) == jax.tree.map(form, state)
        assert {form(each) for each in metrics.values()} == {((), "float32")}
    if made.algorithm.value is not None:
        seen = jax.eval_shape(lambda: jnp.zeros((7, made.sizes.state)))
        found = jax.eval_shape(made.algorithm.value, state, seen, made.world, made.config)
        assert form(found) == ((7,), "float32")


def form(array: Any) -> tuple[tuple[int, ...], str]:
    return tuple(array.shape), str(array.dtype)


@every
def test_policies_act_within_the_bounds_and_survive_their_files(name: str, tmp_path: Path) -> None:
    state, _ = trained(name, (3, 5), (TURNS,))
    low, high = task(name).space.action_low, task(name).space.action_high
    seen = np.random.default_rng(0).uniform(0, 6, (7, task(name).sizes.state))
    found = [policy(seen, np.random.default_rng(1)) for policy in policies(name, state)]
    for policy, actions in zip(policies(name, state), found, strict=True):
        assert actions.shape == (7, task(name).sizes.action) and actions.dtype == np.float32
        assert (actions >= low).all() and (actions <= high).all()
        policy.save(tmp_path / "policy.safetensors")
        again = Policy.load(tmp_path / "policy.safetensors")
        assert type(again) is type(policy) and np.array_equal(again(seen, np.random.default_rng(1)), actions)
        assert policy(seen[0], np.random.default_rng(1)).shape == (task(name).sizes.action,)
    assert not np.array_equal(found[0], found[1])


@every
def test_snapshots_keep_all_that_acting_and_judging_need(name: str) -> None:
    made, (state, _) = task(name), trained(name, (3, 5), (TURNS,))
    kept = made.algorithm.kept(state)
    assert sum(leaf.size for leaf in jax.tree.leaves(kept)) < sum(leaf.size for leaf in jax.tree.leaves(state))
    seen = np.random.default_rng(0).uniform(0, 6, (7, made.sizes.state))
    for ours, theirs in zip(policies(name, state), policies(name, kept), strict=True):
        assert np.array_equal(ours(seen, np.random.default_rng(1)), theirs(seen, np.random.default_rng(1)))
    if made.algorithm.value is not None:
        states = jnp.asarray(made.space.normaliser.apply(seen))
        values = [made.algorithm.value(of_seed(each, 0), states, made.world, made.config) for each in (state, kept)]
        assert values[0].shape == (7,) and np.isfinite(values[0]).all() and np.array_equal(values[0], values[1])


def _losses(module: ModuleType) -> list[str]:
    """Those that it defines itself."""
    own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [each for each in own if each.endswith("_loss")]


@every
def test_its_page_names_its_functions(name: str) -> None:
    """One page of documents, called after the file, that says where each equation is."""
    file = algos.BUILT_IN[name].rpartition(".")[2]
    page = (ROOT / "docs" / f"{file}.md").read_text(encoding="utf-8")
    module = importlib.import_module(algos.BUILT_IN[name])
    algorithm = algos.find(name)
    updates = algorithm.phases(algorithm.Config())[-1].updates
    losses = _losses(module) or _losses(importlib.import_module(updates[-1].__module__))
    assert losses and all(f"`{each}`" in page for each in losses)
    assert f"--algo {name}" in page or name == "stacq"
    assert all(f"`{variant}`" in page for variant in algos.find(name).variants if variant != "paper")

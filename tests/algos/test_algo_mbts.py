"""MBTS: its settings, what it clones, and that the stitched data is what it learns from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from algo_cases import S, batch_of, net, plain, policy, random_net, small_world
from teaching import taught_by
from training_cases import Told, dataset, made_task, options, plan, run_job

from stacq import InputError, load
from stacq.algos import find, mbts
from stacq.algos.algorithm import Sizes
from stacq.algos.settings import preset
from stacq.core.normaliser import Normaliser
from stacq.pipeline.stages import Work, with_data
from stacq.policies import Policy, Space
from stacq.stitch.stages import DATA, stitched_at

ALGORITHM = find("mbts")
CFG = mbts.Config(batch=6, hidden=(8,))
SIZES = Sizes(S, 2)


@pytest.mark.parametrize(("body", "radius"), [("hopper", 0.1), ("walker2d", 1.0), ("halfcheetah", 3.0)])
@pytest.mark.parametrize("kind", ["medium", "medium-replay", "medium-expert", "expert"])
def test_published_settings(body: str, radius: float, kind: str) -> None:
    found = preset(ALGORITHM, f"{body}-{kind}-v2")
    cfg: mbts.Config = found.config
    assert cfg == mbts.Config(radius=radius) and not found.shown.normalise
    assert (cfg.steps, cfg.batch, cfg.hidden, cfg.learning_rate) == (101_000, 256, (256, 256), 1e-3)
    assert (cfg.iterations, cfg.least_gain) == (5, 0.1)
    assert (cfg.forward_members, cfg.forward_elites, cfg.forward_hidden) == (7, 5, (200, 200, 200, 200))
    assert (cfg.forward_epochs, cfg.forward_patience, cfg.forward_rate) == (1000, 50, 3e-4)
    assert (cfg.value_fit_steps, cfg.value_hidden, cfg.value_rate) == (10**6, (256, 256), 3e-4)
    assert (cfg.discount, cfg.tau) == (0.99, 0.005)
    assert (cfg.inverse_fit_steps, cfg.inverse_rate) == (400_000, 1e-4)
    assert (cfg.reward_fit_steps, cfg.reward_hidden, cfg.reward_rate) == (500_000, (512, 512), 1e-4)
    other = preset(ALGORITHM, f"{body}-{kind}-v2", variant="between-episodes").config
    assert other == replace(cfg, between_only=True)
    small = preset(ALGORITHM, f"{body}-{kind}-v2", small=True).config
    assert small.radius == radius and small.steps < cfg.steps and small.value_fit_steps < cfg.value_fit_steps


def test_what_the_settings_come_to() -> None:
    found = mbts.stitching(replace(dataset(), name="walker2d-medium-v2"), mbts.Config(radius=1.0, data_seed=4))
    assert (found.iterations, found.radius, found.least_gain, found.limit, found.seed) == (5, 1.0, 0.1, 1000, 4)
    assert (found.forward.batch, found.forward.validation) == (256, 0.2)
    assert (found.value.batch, found.inverse.batch, found.reward.batch) == (256, 100, 256)
    assert found.inverse.hidden(900_000) == (750, 750) and found.inverse.hidden(899_999) == (128, 128)
    assert (found.forward.learning_rate, found.forward.max_epochs, found.forward.patience) == (3e-4, 1000, 50)
    assert (found.value.learning_rate, found.inverse.learning_rate, found.reward.learning_rate) == (3e-4, 1e-4, 1e-4)
    own = mbts.stitching(replace(dataset(), name="mine"), mbts.Config())
    assert own.limit == dataset().lengths.max()


def test_the_loss_equals_loops_over_single_numbers() -> None:
    world = small_world()
    batch, actor = batch_of(world, (0, 4, 6)), random_net(np.random.default_rng(1), (S, 8, 2))
    loss, metrics = mbts.cloning_loss(actor, batch)
    s, a = plain(batch.s, batch.a)
    errors = [
        (np.tanh(net(actor, s[row]))[place] - float(a[row, place])) ** 2 for row in range(3) for place in range(2)
    ]
    np.testing.assert_allclose(float(loss), np.mean(errors), rtol=1e-5)
    assert float(metrics["actor_loss"]) == float(loss)


def test_the_policy_learns_from_the_data_alone() -> None:
    state = mbts.init(jax.random.key(0), SIZES, CFG)
    assert taught_by(mbts.update, CFG, state) == {"actor": {"actor.network"}}


def test_the_policy_of_numpy_is_the_network(tmp_path: Path) -> None:
    state = mbts.init(jax.random.key(0), SIZES, CFG)
    space = Space(Normaliser.identity(S), np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
    acting = ALGORITHM.policy(state, space)
    seen = np.random.default_rng(2).normal(size=(5, S)).astype(np.float32)
    told = np.array([policy(state.actor.network, each) for each in seen])
    np.testing.assert_allclose(acting(seen), np.array([-2, 0]) + (told + 1) / 2 * np.array([4, 1]), atol=1e-5)
    acting.save(tmp_path / "policy.safetensors")
    assert np.array_equal(Policy.load(tmp_path / "policy.safetensors")(seen), acting(seen))


@pytest.mark.slow
def test_it_learns_from_stitched_rows_and_others_can_too(tmp_path: Path) -> None:
    """In a training the data keeps its name, so that scores are compared with those of other methods."""
    chosen, said = plan(options("mbts")), list[str]()
    work = with_data(Work(chosen, reporter=Told(said.append, None)))
    place = stitched_at(dataset(), mbts.stitching(dataset(), chosen.config), 2)
    stored = load(place / DATA)
    assert work.plan.dataset.fingerprint == stored.fingerprint != dataset().fingerprint
    assert work.plan.dataset.name == dataset().name
    assert work.plan.manifest() == chosen.manifest()  # so that a finished run is found without its data
    world = made_task(options("mbts")).world
    assert world.rows.table.shape[0] == len(stored) == len(world.anchors)
    assert len(make_other(stored)) == len(stored)
    assert [line.partition(":")[0] for line in said[-3:]] == ["stitching 1", "stitching 2", "stitched data"]
    assert said[-1] == f"stitched data: {place / DATA}"
    trained = run_job(chosen, out=tmp_path / "run")
    assert sorted(trained.policies) == [0, 1]


def make_other(stored: Any) -> Any:
    from stacq.pipeline.plan import make_plan
    from stacq.pipeline.stages import make_task

    return make_task(make_plan(stored, options("td3bc"))).world.rows.table


@pytest.mark.parametrize("setting", ["forward_elites=3", "iterations=5000"])
def test_wrong_settings_are_refused_before_anything_is_fitted(setting: str) -> None:
    chosen = options("mbts")
    wrong = plan(replace(chosen, settings=(*chosen.settings, setting)))
    with pytest.raises(InputError, match="elites" if "elites" in setting else "iterations"):
        with_data(Work(wrong))

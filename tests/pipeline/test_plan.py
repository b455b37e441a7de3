"""Options resolved against a dataset, and refused before anything long begins."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_cases import (
    dataset,
    models,
    options,
    plan,
    run_job,
)

import stacq as library
from stacq import Conventions, Dataset, from_arrays
from stacq.algos.pairs import pair_slots
from stacq.core.errors import InputError
from stacq.pipeline.options import Options
from stacq.pipeline.plan import make_plan, run_directory


def test_slots_follow_the_batch_that_was_asked_for() -> None:
    wide, set_by_hand = plan(options("stacq")), plan(options("stacq", settings=("batch=16", "hidden=8,8", "slots=5")))
    assert wide.config.slots == pair_slots(models()[1], 16) and set_by_hand.preset.config.slots == 5


def test_a_run_says_which_variant_was_recommended_for_its_data() -> None:
    mine = dataclasses.replace(dataset(), name="mine")
    maze, own = plan(options("stacq")), make_plan(mine, options("stacq")).with_models(*models())
    asked_for = make_plan(mine, options("stacq", variant="paper")).with_models(*models())
    assert [each.manifest()["variant"] for each in (maze, own, asked_for)] == ["maze", "robust", "paper"]
    labels = [each.manifest()["label"] for each in (maze, own, asked_for)]
    assert labels == ["StaCQ (maze)", "StaCQ (robust)", "StaCQ"]
    assert own.config.action_pull > 0 and asked_for.config.action_pull == 0
    assert run_directory(own) != run_directory(asked_for)


def test_sets_of_other_models_are_refused() -> None:
    dynamics, sets = models()
    for name in ("dynamics", "dataset"):
        foreign = dataclasses.replace(sets, parents={**sets.parents, name: "another"})
        with pytest.raises(InputError, match=f"made from another {name}"):
            make_plan(dataset(), options("stacq")).with_models(dynamics, foreign)


def test_the_same_options_have_the_same_directory() -> None:
    assert run_directory(plan(options("bc"))) == run_directory(plan(options("bc")))
    assert run_directory(plan(options("bc"))) != run_directory(plan(options("bc", steps=80)))


def test_a_run_knows_the_names_of_its_datas_dimensions() -> None:
    data = recorded("mine")
    names = tuple(f"joint {place}" for place in range(data.observation_size))
    named = make_plan(dataclasses.replace(data, observation_names=names), Options("bc", evaluate=False)).manifest()
    assert named["observation_names"] == list(names) and "action_names" not in named
    assert "observation_names" not in make_plan(data, Options("bc", evaluate=False)).manifest()


def test_data_of_one_body_is_not_scored_in_another() -> None:
    for name in ("walker2d-medium-v2", "walker2d-medium", "walker2d_medium-v2"):
        with pytest.raises(InputError, match="belongs to walker2d"):
            make_plan(recorded(name), Options("bc", env="HalfCheetah-v4"))


def recorded(name: str) -> Dataset:
    """Two short episodes of a body with 17 observations and 6 actions."""
    rng = np.random.default_rng(0)
    ends = np.arange(20) % 10 == 9
    return from_arrays(
        rng.normal(size=(20, 17)),
        rng.uniform(-1, 1, (20, 6)),
        np.zeros(20),
        np.zeros(20, dtype=bool),
        timeouts=ends,
        next_observations=rng.normal(size=(20, 17)),
        conventions=Conventions(name=name),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "0 seeds"),
        ({"first_seed": -1}, "whole numbers from 0"),
        ({"first_seed": 2**31 - 1}, "below 2,147,483,648"),
        ({"seeds": [0, 1]}, "`first_seed` says where from"),
        ({"seeds": 1.5}, "seeds is 1.5"),
        ({"steps": 2e2}, "steps is 200.0"),
        ({"eval_every": np.int64(20)}, "a plain whole number"),
        ({"episodes": "3"}, "episodes is '3'"),
        ({"top": "0.5"}, "top is '0.5'"),
        ({"own_only": True}, "no reachable sets to reduce"),
        ({"settings": "batch=16"}, "a dictionary such as"),
        ({"settings": {"batch": "many"}}, "batch='many'"),
        ({"steps": 0}, "0 steps"),
        ({"eval_every": 0}, "every 0"),
        ({"eval_every": 7}, "multiples of 2"),
        ({"episodes": 0}, "0 episodes"),
        ({"settings": ("alpah=1",)}, "alpah"),
        ({"settings": ("alpha=much",)}, "alpha"),
        ({"variant": "nobody"}, "no variant"),
        ({"env": "Hopper-v4"}, "observations of 2"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run_job(plan(options("td3bc", **changes)), out=tmp_path / "run", workers=1)
    assert not (tmp_path / "run" / "policies").exists()


def test_data_that_was_not_loaded_is_refused() -> None:
    with pytest.raises(InputError, match=r"what `stacq\.load"):
        make_plan("hopper.hdf5", options("bc"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"stacq\.Options"):
        library.train(dataset(), 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"stacq\.Stages"):
        library.train(dataset(), options("bc"), "small")  # type: ignore[arg-type]


def test_actions_that_the_environment_cannot_do_are_refused() -> None:
    wide = dataclasses.replace(recorded("mine"), action_high=np.full(6, 2.0, np.float32))
    with pytest.raises(InputError, match=r"to \[2.0(.|\n)*as Walker2d-v4 allows"):
        make_plan(wide, Options("bc", env="Walker2d-v4"))

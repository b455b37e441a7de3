"""Which policy is exported, and what the file knows about it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ship_cases import ACTIONS, SIZE, layers, mlp
from stacq import InputError, Policy
from stacq.core.files import write_json
from stacq.shipping.shipment import Shipment, shipment

FINAL = {"measure": "score", "final": [10.0, 30.0, 20.0], "best": [50.0] * 3, "last_ten": [1.0] * 3}
UNSCORED: dict[str, Any] = {"measure": None, "final": None, "best": None, "last_ten": None}
NOTHING: dict[str, None] = {"observation_names": None, "action_names": None}


def finished(result: dict[str, Any], seeds: tuple[int, ...] = (0, 1, 2), **config: Any) -> Path:
    """What `stacq train` leaves, as far as an export reads it; every seed's network is its own."""
    run = Path("run")
    for seed in seeds:
        Policy.from_mlp(*layers(SIZE, ACTIONS, seed=seed)).save(run / "policies" / f"seed-{seed}.safetensors")
    known = {"label": "StaCQ", "dataset": "logs", "env": None, "seeds": [0, 1, 2], "total_steps": 60}
    write_json(run / "config.json", known | config)
    write_json(run / "result.json", {"seeds": list(seeds), "lost": []} | result)
    return run


def taken(found: Shipment) -> int:
    (seed,) = (
        seed
        for seed in range(5)
        if (layers(SIZE, ACTIONS, seed=seed).weights[0] == found.policy.arrays()["weights.0"]).all()
    )
    assert found.facts["seed"] == seed
    return seed


def test_the_best_of_the_scored_seeds_is_taken_and_said() -> None:
    found = shipment(finished(FINAL), None, NOTHING)
    assert taken(found) == 1 and found.chosen == "seed 1: of 3 seeds the one with the best final score (30.0)"
    wanted = {"algorithm": "StaCQ", "dataset": "logs", "env": None, "steps": 60, "final_score": 30.0, "seeds_scored": 3}
    assert found.facts.items() >= wanted.items()


def test_without_scores_the_first_seed_is_taken_and_said() -> None:
    found = shipment(finished(UNSCORED), None, NOTHING)
    assert taken(found) == 0 and "no scores; --seed" in found.chosen
    assert not any(key.startswith("final") for key in found.facts)


def test_a_seed_may_be_named() -> None:
    found = shipment(finished(FINAL), 2, NOTHING)
    assert taken(found) == 2 and found.chosen == "" and found.facts["final_score"] == 20.0
    with pytest.raises(InputError, match=r"no policy of seed 7[\s\S]*one of 0, 1, 2"):
        shipment(Path("run"), 7, NOTHING)


def test_a_lost_seed_leaves_its_score_to_nobody() -> None:
    found = shipment(finished(FINAL | {"final": [10.0, 20.0]}, seeds=(0, 2)), None, NOTHING)
    assert taken(found) == 2


@pytest.mark.parametrize("seeds", [None, "x", [0.5, 1, 2], [], [9, 8, 7], {"0": 1}])
def test_odd_results_count_as_no_scores(seeds: Any) -> None:
    assert taken(shipment(finished(FINAL | {"seeds": seeds}), None, NOTHING)) == 0


def test_scores_that_are_no_numbers_do_not_win() -> None:
    run = finished(FINAL)
    text = json.dumps({**FINAL, "seeds": [0, 1, 2], "final": [1.0, float("nan"), float("inf")]})
    (run / "result.json").write_text(text)
    assert taken(shipment(run, None, NOTHING)) == 0


def test_names_come_from_the_run_or_from_the_caller() -> None:
    names = [f"joint {place}" for place in range(SIZE)]
    run = finished(FINAL, observation_names=names, action_names=[1, 2, 3])
    assert shipment(run, None, NOTHING).facts["observation_names"] == names
    assert "action_names" not in shipment(run, None, NOTHING).facts
    told = shipment(run, None, {**NOTHING, "observation_names": ("a", "b", "c", "d", "e")})
    assert told.facts["observation_names"] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(("key", "size"), [("observation_names", SIZE), ("action_names", ACTIONS)])
def test_names_that_are_too_few_are_refused(key: str, size: int) -> None:
    with pytest.raises(InputError, match=f"2 {key.replace('_', ' ')}[\\s\\S]*{size}, one for each"):
        shipment(mlp(), None, {**NOTHING, key: ["a", "b"]})


def test_a_file_has_no_seeds() -> None:
    mlp(8).save("policy.safetensors")
    assert shipment("policy.safetensors", None, NOTHING).facts["kind"] == "mlp"
    with pytest.raises(InputError, match="seed 0 was asked for"):
        shipment("policy.safetensors", 0, NOTHING)

"""Data recorded by any saved policy: the same bits on any number of workers, and no rows that nobody acted."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stacq import InputError, Policy, load, rollout
from stacq.cli import main
from stacq.core.workers import WorkerFailed
from stacq.data.behaviour import load_behaviour, read_actor
from stacq.data.generate import GROUP_ROWS, roll_out
from stacq.data.registry import recipe
from stacq.envs.gym import EnvFacts
from stacq.evaluation.recording import Recorded
from toys import Thruster, broken, idle

ROWS = 2 * GROUP_ROWS + 500


def actors(path: Path, **changes: Any) -> Path:
    """The shipped actor of the hopper in the form in which actors are read from elsewhere."""
    policy = load_behaviour("hopper", "medium")
    arrays = {f"mine/w{layer}": weight for layer, weight in enumerate(policy.weights)}
    arrays |= {f"mine/b{layer}": bias for layer, bias in enumerate(policy.biases)}
    np.savez(path, **{key: value for key, value in {**arrays, **changes}.items() if value is not None})
    return path


def test_an_actor_of_a_file_records_what_generate_does_on_any_number_of_workers(tmp_path: Path) -> None:
    source = f"{actors(tmp_path / 'theirs.npz')}:mine"
    command = ["data", "rollout", source, "--env", "Hopper-v4", "--rows", str(ROWS), "--seed", "3"]
    for workers in ("1", "3"):
        main([*command, "--workers", workers, "--out", str(tmp_path / f"{workers}.hdf5")])
    found, again = (load(tmp_path / f"{workers}.hdf5", infos=["qpos", "qvel"]) for workers in (1, 3))
    assert found.fingerprint == replace(again, name=found.name).fingerprint
    wanted = roll_out(recipe("hopper-medium", size=ROWS, seed=3), workers=2)
    assert found.fingerprint == replace(wanted, name=found.name).fingerprint
    np.testing.assert_array_equal(found.infos["qpos"], wanted.infos["qpos"])
    assert found.name == "rollout/1" and found.env_id == "Hopper-v4" and found.successor_known.all()
    assert found.provenance["policy"] == source and found.provenance["seed"] == "3"


def test_several_policies_share_the_rows_in_order() -> None:
    mine = rollout([load_behaviour("hopper", tag) for tag in ("medium", "expert")], "Hopper-v4", 900, workers=1)
    wanted = roll_out(recipe("hopper-medium-expert", size=900), workers=1)
    np.testing.assert_array_equal(mine.actions, wanted.actions)
    np.testing.assert_array_equal(mine.timeouts, wanted.timeouts)


def test_noise_and_seed_decide_and_a_file_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Policy.from_mlp([np.zeros((3, 1))], [np.full(1, 0.2)], bounds=(-2, 2)).save("policy.safetensors")
    command = ["data", "rollout", "policy.safetensors", "--env", "Pendulum-v1", "--rows", "1500", "--workers", "1"]
    main([*command, "--noise", "0.2"])
    made = Path("policy.safetensors-1500.hdf5")
    noisy, dataset = made.read_bytes(), load(made)
    assert dataset.actions.std() == pytest.approx(0.2 * 2, rel=0.1)  # of half the range, from -2 to 2
    assert dataset.actions.mean() == pytest.approx(2 * np.tanh(0.2), abs=0.05)
    assert dataset.provenance["noise"] == "0.2" and dataset.action_high.tolist() == [2.0]
    with pytest.raises(SystemExit, match="2"):
        main(command)
    assert "--force" in capsys.readouterr().err and made.read_bytes() == noisy
    main([*command, "--noise", "0.2", "--seed", "1", "--force"])
    assert made.read_bytes() != noisy
    main([*command, "--force"])
    np.testing.assert_allclose(load(made).actions, 2 * np.tanh(0.2), rtol=1e-5)


def test_noise_takes_the_place_of_a_stochastic_policys_own() -> None:
    policy, rng = load_behaviour("hopper", "medium"), np.random.default_rng(0)
    facts = EnvFacts("hopper", 11, 3, np.full(3, -1.0), np.full(3, 1.0), 1000)
    rows = rng.standard_normal((2000, 11))
    mean = policy.mode(rows)
    plain, pushed = (np.stack([Recorded(policy, facts, noise)(row, rng) for row in rows]) for noise in (0.0, 0.3))
    np.testing.assert_allclose(plain, mean, atol=1e-4)
    push = (pushed - mean)[np.abs(mean) < 0.1]
    assert push.std() == pytest.approx(0.3, rel=0.1) and np.abs(pushed).max() == 1.0


def test_any_environment_is_recorded_with_ends_apart() -> None:
    """Episodes of a toy end after its steps, by its own end or by its limit; it has no simulator's state."""
    falls, stops = (rollout(idle, env, 45, workers=1) for env in (Thruster, partial(Thruster, falls=False)))
    assert not falls.infos and falls.terminals.sum() == 4 and falls.timeouts.sum() == 1
    assert stops.terminals.sum() == 0 and stops.timeouts.sum() == 5
    assert falls.lengths.tolist() == stops.lengths.tolist() == [10, 10, 10, 10, 5]
    assert falls.action_high.tolist() == [2.0, 2.0] and falls.observation_size == 1


@pytest.mark.parametrize(
    ("changes", "tag", "words"),
    [
        ({}, "yours", "no actor 'yours'.*one of mine"),
        ({}, "", "no actor ''.*TAG"),
        ({"mine/b1": None}, "mine", "incomplete"),
        ({"mine/w1": np.zeros((3, 3), np.float32)}, "mine", "layer 1"),
        ({"mine/b2": np.full(6, np.nan, np.float32)}, "mine", "NaN"),
        ({"mine/w2": np.zeros((256, 5), np.float32), "mine/b2": np.zeros(5, np.float32)}, "mine", "even count"),
    ],
)
def test_files_that_hold_no_such_actor_are_refused(
    tmp_path: Path, changes: dict[str, Any], tag: str, words: str
) -> None:
    with pytest.raises(InputError, match=f"(?s){words}"):
        read_actor(actors(tmp_path / "a.npz", **changes), tag)


def test_files_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 nothing of the kind")
    with pytest.raises(InputError, match="not a readable NumPy archive"):
        read_actor(tmp_path / "a.npz", "mine")
    with pytest.raises(InputError, match="no such file"):
        read_actor(tmp_path / "b.npz", "mine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": 0}, "0 rows"),
        ({"noise": -1.0}, "noise of -1"),
        ({"noise": float("nan")}, "noise"),
        ({"seed": -1}, "seed"),
    ],
)
def test_numbers_that_make_no_data_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rollout(idle, Thruster, **{"rows": 10, **options})


def test_a_policy_that_does_not_fit_is_refused_and_one_that_fails_ends_the_work() -> None:
    with pytest.raises(InputError, match="17 and 6"):
        rollout(load_behaviour("hopper", "medium"), "Walker2d-v4", 10, workers=1)
    with pytest.raises(WorkerFailed, match="expected finite numbers"):
        rollout(broken, Thruster, 10, workers=1)
